"""Variables of a step of a trajectory, factors between it and the next step, and robust losses.

Robust losses (Zhang 1997, Parameter estimation techniques: a tutorial with application to conic fitting, sec.
9.4) are rational functions, which a Program supports: no comparisons, no roots.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache, partial
from operator import add, sub

import numpy as np

from dynamics_node.errors import InputError
from dynamics_node.robot import Robot, Shapes
from dynamics_node.robot.state_arrays import tangent_map
from dynamics_node.symbolic import Program, derivative_name, interpret, jacobian, trace

# --- variables ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class TrajectoryVariable:
    """A variable of every step: `size` numbers, changed along `tangent` directions.

    names (tangent,): display names of the directions. moved: x (..., size), step (..., tangent) -> x after
    the step, exact to first order; difference: to, start -> the step by which `moved` takes start to `to`;
    tangent_map: x -> (..., size, tangent), the Jacobian of x by its directions. All accept floats or symbols.
    rate: the variable that is its time derivative; neutral (size,): an initial value.
    """

    name: str
    names: tuple[str, ...]
    neutral: np.ndarray
    moved: Callable
    difference: Callable
    tangent_map: Callable
    rate: str = ""

    @property
    def size(self):
        return len(self.neutral)

    @property
    def tangent(self):
        return len(self.names)


def vector(name, names, rate="") -> TrajectoryVariable:
    """A TrajectoryVariable in a vector space."""
    names = tuple(names)
    return TrajectoryVariable(name, names, np.zeros(len(names)), add, sub, _unchanged, rate)


def positions(tree: Robot, name="q", rate="qd") -> TrajectoryVariable:
    """The positions q (nq,) of a tree, which change along its velocities."""
    joints = tree.independent_joints

    def moved(q, step):
        parts = [joint.type.moved(q[..., joint.q], step[..., joint.v]) for joint in joints]
        return np.concatenate(parts, axis=-1) if parts else q

    def difference(to, start):
        parts = [joint.type.difference(to[..., joint.q], start[..., joint.q]) for joint in joints]
        return np.concatenate(parts, axis=-1) if parts else to - start

    return TrajectoryVariable(
        name, tree.v_names, tree.neutral(), moved, difference, partial(tangent_map, tree), rate
    )


def _unchanged(x):
    return np.broadcast_to(np.eye(x.shape[-1]), (*x.shape, x.shape[-1]))


# --- losses -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Loss:
    """threshold: in standard deviations; larger errors lose their weight. weight: s -> derivative of the cost
    by s, of floats or symbols; cost: s -> the cost that replaces s."""

    name: str
    threshold: float
    weight: Callable
    cost: Callable

    def __post_init__(self):
        if not self.threshold > 0:
            raise InputError(f"threshold of loss {self.name!r} must be positive, not {self.threshold}")


def cauchy(threshold=2.385) -> Loss:
    """c^2 log(1 + s / c^2): 95 % efficiency relative to least squares without outliers."""
    square = threshold * threshold
    return Loss(
        "cauchy",
        threshold,
        lambda s: 1.0 / (1.0 + s * (1.0 / square)),
        lambda s: square * np.log1p(s / square),
    )


def geman_mcclure(threshold=3.0) -> Loss:
    """s / (1 + s / c^2): an outlier costs at most c^2, and its weight vanishes."""
    square = threshold * threshold

    def weight(s):
        share = 1.0 / (1.0 + s * (1.0 / square))
        return share * share

    return Loss("geman_mcclure", threshold, weight, lambda s: s / (1.0 + s / square))


# --- factors ------------------------------------------------------------------------------------------------


NEXT = "_next"


@dataclass(frozen=True, eq=False, kw_only=True)
class TrajectoryFactor:
    """An error that is near zero, or exactly zero, at every step of a trajectory.

    residual: function of named arrays of symbols -> (rows,): the variables `now` of a step by their names,
    those of the next step, `after`, with `_next` appended to the name, and `data`, {name: shape}, numbers
    given at every step (factors with the same data names share them). rows: display names of the rows.
    determines: for an exact factor, the direction (variable, number) of its own step that each row determines
    given all others; empty: the factor has a variance at every step. definite: the Jacobian by the determined
    directions is symmetric and positive definite, like a mass matrix. loss: of outliers.
    """

    name: str
    residual: Callable
    rows: tuple[str, ...]
    now: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    data: Shapes = field(default_factory=dict)
    determines: tuple[tuple[str, int], ...] = ()
    definite: bool = False
    loss: Loss | None = None

    def __post_init__(self):
        if self.exact and len(self.determines) != len(self.rows):
            raise InputError(
                f"factor {self.name!r}: {len(self.rows)} rows determine {len(self.determines)} directions"
            )
        if self.exact and (self.after or self.loss):
            raise InputError(f"factor {self.name!r}: an exact factor spans one step and has no loss")

    @property
    def exact(self):
        return bool(self.determines)

    @property
    def variables(self):
        """(name of the variable, 0 of its step or 1 of the next one, name of the argument)"""
        return (
            *((name, 0, name) for name in self.now),
            *((name, 1, name + NEXT) for name in self.after),
        )


def _places(factor, variables):
    """{argument of the residual: its variable}"""
    known = {variable.name: variable for variable in variables}
    return {argument: known[name] for name, _, argument in factor.variables}


@lru_cache(maxsize=512)
def residual_program(factor: TrajectoryFactor, variables: tuple[TrajectoryVariable, ...]) -> Program:
    """The arguments of `residual` -> residual (rows,). variables: those of the factor, in any order."""
    shapes = {name: (variable.size,) for name, variable in _places(factor, variables).items()} | factor.data
    program = trace(lambda **arrays: {"residual": factor.residual(**arrays)}, shapes)
    if program.outputs["residual"].shape != (len(factor.rows),):
        raise InputError(
            f"factor {factor.name!r}: {program.outputs['residual'].shape} rows, not {factor.rows}"
        )
    return program


@lru_cache(maxsize=512)
def factor_program(factor: TrajectoryFactor, variables: tuple[TrajectoryVariable, ...]) -> Program:
    """`residual_program` with, for every variable, the Jacobian of the residual, (rows, tangent), an output
    `by ARGUMENT`."""
    places, value = _places(factor, variables), residual_program(factor, variables)
    derived = jacobian(value, ["residual"], list(places))

    def function(**arrays):
        outputs = {"residual": interpret(value, **arrays)["residual"]}
        by = interpret(derived, **arrays)
        for argument, variable in places.items():
            J = by[derivative_name("residual", argument)]
            outputs[f"by {argument}"] = J @ variable.tangent_map(arrays[argument]) + np.zeros(1)
        return outputs

    return trace(function, value.inputs)
