"""Elimination of the factor graph at every call, run by NumPy."""

from dataclasses import dataclass, replace
from functools import reduce

import numpy as np

from dynamics_node.graph.elimination import Plan, eliminate, plan_elimination
from dynamics_node.graph.factor_graph import joint_values
from dynamics_node.graph.generic import filled, generic_graph, plan_ordering, stacked
from dynamics_node.graph.ordering import Ordering
from dynamics_node.graph.robot_graph import build_graph, rows_kept_at
from dynamics_node.graph.variables import Variable
from dynamics_node.graph.watch import weakest_pivot
from dynamics_node.robot import Problem, Robot
from dynamics_node.robot.inertial_parameters import generic_parameters

REFINEMENTS = 4
CONVERGED = 1e-8
AXES = (1, 1, 1, 1, 2, 1)  # of one state's q, qd, qdd, tau, f_ext and gravity


@dataclass(frozen=True, eq=False)
class Elimination:
    """The Plan of one Ordering; iterative refinement where a pivot may be weak. blocks: the variables of
    every factor in the graph that was planned for, when parameters of the model may become zero."""

    model: Robot
    problem: Problem
    ordering: Ordering
    plan: Plan
    blocks: tuple[tuple[Variable, ...], ...] = ()

    def with_inertias(self, model):
        """The elimination for a Robot that differs in inertias or rotor inertias only."""
        return replace(self, model=model)

    @property
    def description(self):
        return self.ordering.name

    def __call__(self, q, qd, qdd=None, tau=None, gravity=None, f_ext=None):
        """{'qdd', 'tau'}, both complete."""
        zero = np.zeros_like(qd)
        qdd, tau = zero if qdd is None else qdd, zero if tau is None else tau
        found = self._at_regular(q, qd, qdd, tau, f_ext, gravity)
        return dict(zip(("qdd", "tau"), found, strict=True))

    def _planned(self, q, qd, qdd, tau, f_ext, gravity):
        graph = build_graph(self.model, self.problem, q, qd, qdd, tau, f_ext, gravity)
        graph = filled(graph, self.blocks)

        def solve(graph):
            return eliminate(graph, self.plan).solve()

        try:
            values = solve(graph) if self.plan.safe else refined(graph, solve)
        except np.linalg.LinAlgError:
            weakest = weakest_pivot(graph, self.plan)
            which = "a pivot" if weakest is None else f"the pivot of {weakest}"
            name = self.ordering.name
            raise np.linalg.LinAlgError(f"{which} vanishes here in ordering {name}: choose another") from None
        return joint_values(self.model, values, qdd, tau)

    def _at_regular(self, *state):
        """qdd and tau (count, nv) at regular states. Where a pivot of the plan vanishes, which was made once
        for most positions, another is chosen there. Raises LinAlgError where a tree has none."""
        try:
            return self._planned(*state)
        except np.linalg.LinAlgError as reason:
            count = len(state[0])
            if count == 1:
                found = self._planned_here(*state)
                if np.isnan(found).any() and not self.model.constrained:
                    raise reason from None
                return found
            one_by_one = (
                [_state_of(a, k, axes) for a, axes in zip(state, AXES, strict=True)] for k in range(count)
            )
            found = [self._at_regular(*one) for one in one_by_one]
            return [np.concatenate(parts) for parts in zip(*found, strict=True)]

    def _planned_here(self, q, qd, qdd, tau, f_ext, gravity):
        """qdd and tau (1, nv) by pivots, and equations of the constraints, chosen at this very state; NaN
        where there are none."""
        graph = self._graph_here(q, qd, qdd, tau, f_ext, gravity)
        at = {(x.kind, x.body): k for k, x in enumerate(self.ordering.variables)}
        order = sorted(graph.variables, key=lambda x: at.get((x.kind, x.body), len(at)))
        try:
            plan = plan_elimination(graph, order)
            values = refined(graph, lambda own: eliminate(own, plan).solve())
        except (ValueError, np.linalg.LinAlgError):
            return np.full((2, 1, self.model.nv), np.nan)
        return joint_values(self.model, values, qdd, tau)

    def _graph_here(self, q, qd, qdd, tau, f_ext, gravity):
        state = (self.model, self.problem, q, qd, qdd, tau, f_ext, gravity)
        return build_graph(*state, rows_kept_at(self.model, q[0]))


def _state_of(array, k, axes):
    """State k, on a leading axis, of an array over all states, or of one for all; axes: of one state."""
    return array if array is None or array.ndim == axes else array[k : k + 1]


def refined(graph, solve):
    """The values {variable: array} that `solve` finds for a graph, corrected until a correction is small at
    every state, so that the next would be lost in rounding. Raises LinAlgError where that never happens: a
    pivot vanishes."""
    values = solve(graph)
    for _ in range(REFINEMENTS):
        correction = solve(graph.residuals(values))
        values = {x: value + correction[x] for x, value in values.items()}
        if np.all(_largest(correction) <= CONVERGED * np.maximum(_largest(values), 1e-6)):
            return values
    raise np.linalg.LinAlgError("a pivot vanishes here")


def _largest(values):
    """The largest entry of all variables, at every state."""
    return reduce(np.maximum, (np.abs(value).max(axis=-1, initial=0.0) for value in values.values()))


def elimination(model, problem, ordering, parameters=()):
    """That of an ordering (a name, 'best' or variable names). Raises as `plan_ordering`.

    parameters: of 'inertia' and 'armature', what `with_inertias` may change; the plan counts on no zero there
    and on no pivot that this Robot lacks.
    """
    if not parameters:
        return Elimination(model, problem, *plan_ordering(model, problem, ordering))
    models = (model.with_tree(generic_parameters(model.tree, parameters)), model)
    graph = stacked(*(generic_graph(each, problem) for each in models))
    blocks = tuple(tuple(factor.blocks) for factor in graph.factors)
    return Elimination(model, problem, *plan_ordering(model, problem, ordering, graph), blocks)
