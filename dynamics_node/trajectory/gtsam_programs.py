"""Programs of factors whose variables are moved by steps in the tangent, for GTSAM."""

from functools import lru_cache

import numpy as np

from dynamics_node.codegen import make
from dynamics_node.robot import Shapes
from dynamics_node.symbolic import Program, derivative_name, interpret, jacobian, trace
from dynamics_node.trajectory.factor import Factor
from dynamics_node.trajectory.graph import TrajectoryGraph
from dynamics_node.trajectory.variables import Variable


def factor_variables(factor: Factor, variables):
    """Those that a factor names."""
    return tuple(v for v in variables if v.name in (*factor.now, *factor.after))


@lru_cache(maxsize=64)  # of the graphs at hand
def difference_factor(graph: TrajectoryGraph) -> Factor:
    """By how much all variables of a step differ from data, 'at NAME'."""

    def residual(**arrays):
        return np.concatenate([v.difference(arrays[v.name], arrays[f"at {v.name}"]) for v in graph.variables])

    names = tuple(variable.name for variable in graph.variables)
    data: Shapes = {f"at {variable.name}": (variable.size,) for variable in graph.variables}
    return Factor(name="first step", residual=residual, rows=graph.column_names, now=names, data=data)


@lru_cache(maxsize=512)
def moving_program(factor: Factor, variables: tuple[Variable, ...]) -> Program:
    """The arguments of the residual, a step in the tangent from each variable, the data -> the residual
    (rows,) after these steps, and its Jacobian (rows, tangent) by each of them."""
    known = {variable.name: variable for variable in variables}
    places = {argument: known[name] for name, _, argument in factor.variables}
    steps = {f"step {argument}": (variable.tangent,) for argument, variable in places.items()}
    shapes = {argument: (variable.size,) for argument, variable in places.items()} | steps | factor.data

    def residual(**arrays):
        moved = {name: x.moved(arrays[name], arrays[f"step {name}"]) for name, x in places.items()}
        return {"residual": factor.residual(**moved, **{name: arrays[name] for name in factor.data})}

    value = trace(residual, shapes)
    derived = jacobian(value, ["residual"], list(steps))

    def function(**arrays):
        found = interpret(derived, **arrays)
        by = {name: found[derivative_name("residual", name)] for name in steps}
        return interpret(value, **arrays) | by

    return trace(function, shapes)


@lru_cache(maxsize=512)
def compiled(factor: Factor, variables: tuple[Variable, ...]):
    """Calls `moving_program` at one state: arrays -> [residual, Jacobians], None where one is not finite."""
    runner = make(moving_program(factor, variables))
    shapes = list(runner.outputs.values())

    def call(*arrays):
        found = [np.empty(shape) for shape in shapes]
        if runner.solve(*arrays, *found) is None:
            return found
        many, good = runner.run(1, [np.ascontiguousarray(array)[None] for array in arrays])
        return [array[0] for array in many] if good else None

    return call
