"""Elimination of the factor graph at every call, run by numpy."""

from dataclasses import dataclass, replace
from functools import reduce

import numpy as np

from dynamics_node.graph import (
    FactorGraph,
    Ordering,
    Plan,
    eliminate,
    generic_graph,
    plan_ordering,
    problem_graph,
    stacked,
)
from dynamics_node.graph.variables import JOINT_ACCELERATION, TORQUE, Variable
from dynamics_node.loops.mechanism import tree_of
from dynamics_node.model import Model
from dynamics_node.model.parameters import generic_parameters
from dynamics_node.problem import Problem

REFINEMENTS = 4
CONVERGED = 1e-8


@dataclass(frozen=True, eq=False)
class NumericElimination:
    """The Plan of one Ordering; iterative refinement where a pivot may be weak. blocks: the variables of
    every factor in the graph that was planned for, when parameters of the model may become zero."""

    model: Model
    problem: Problem
    ordering: Ordering
    plan: Plan
    blocks: tuple[tuple[Variable, ...], ...] = ()
    regroups = False  # inertias of bodies may be pivots

    def with_model(self, model):
        """The same for a Model of other inertias or rotor inertias."""
        return replace(self, model=model)

    def prepare(self, batches):
        """Nothing is left to do."""

    @property
    def straight_line(self):
        """False where results are refined until they converge, or loops may be open or singular: that is
        decided at run time."""
        return self.plan.safe and isinstance(self.model, Model)

    @property
    def description(self):
        return self.ordering.name

    def __call__(self, q, qd, qdd, tau, f_ext, gravity):
        graph = problem_graph(self.model, self.problem, q, qd, qdd, tau, f_ext, gravity)
        graph = _with_blocks(graph, self.blocks)

        def solve(graph):
            return eliminate(graph, self.plan).solve()

        values = solve(graph) if self.plan.safe else refined(graph, solve, self.ordering)
        return joint_values(self.model, values, qdd, tau)


def refined(graph, solve, ordering):
    """The values {variable: array} that `solve` finds for a graph, corrected until a correction is small at
    every state, so that the next would be lost in rounding. Raises LinAlgError where that never happens."""
    values = solve(graph)
    for _ in range(REFINEMENTS):
        correction = solve(graph.residuals(values))
        values = {x: value + correction[x] for x, value in values.items()}
        if np.all(_largest(correction) <= CONVERGED * np.maximum(_largest(values), 1e-6)):
            return values
    raise np.linalg.LinAlgError(f"a pivot of ordering {ordering.name} vanishes here; choose another")


def _largest(values):
    """The largest entry of all variables, at every state."""
    return reduce(np.maximum, (np.abs(value).max(axis=-1, initial=0.0) for value in values.values()))


def _with_blocks(graph, blocks):
    """The graph with zeros where the one that was planned for has a block and this one none."""
    if not blocks:
        return graph
    factors = [
        replace(factor, blocks={x: np.zeros((factor.rows, x.dim)) for x in wanted} | factor.blocks)
        for factor, wanted in zip(graph.factors, blocks, strict=True)
    ]
    return FactorGraph(tuple(factors))


def numeric_elimination(model, problem, ordering, parameters=()):
    """Engine for an ordering (a name, 'best' or variable names). Raises as `plan_ordering`.

    parameters: of 'inertia' and 'armature', what `with_model` may change; the plan counts on no zero there
    and on no pivot that this Model lacks.
    """
    if not parameters:
        return NumericElimination(model, problem, *plan_ordering(model, problem, ordering))
    models = (generic_parameters(model, parameters), model)
    graph = stacked(*(generic_graph(each, problem) for each in models))
    blocks = tuple(tuple(factor.blocks) for factor in graph.factors)
    return NumericElimination(model, problem, *plan_ordering(model, problem, ordering, graph), blocks)


def joint_values(model, values, qdd, tau):
    """qdd and tau completed by the solved variables."""
    qdd, tau = np.array(qdd), np.array(tau)
    names, place = tree_of(model).v_names, {name: k for k, name in enumerate(model.v_names)}
    for variable, value in values.items():
        if variable.kind in (TORQUE, JOINT_ACCELERATION):
            own = names[model.bodies[variable.body].joint.v]
            columns = [k for k, name in enumerate(own) if name in place]  # no dependent ones of a Mechanism
            found = tau if variable.kind == TORQUE else qdd
            found[..., [place[own[k]] for k in columns]] = value[..., columns]
    return qdd, tau
