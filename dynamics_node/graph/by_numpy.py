"""Elimination of the factor graph on arrays of NumPy, with a plan that suits the state.

It refines states at which a pivot of a Program is near zero.
"""

from dataclasses import dataclass
from functools import reduce

import numpy as np

from dynamics_node.graph.elimination import Plan, eliminate, plan_elimination, weakest_pivot
from dynamics_node.graph.factor_graph import joint_values
from dynamics_node.graph.factors import Variable
from dynamics_node.graph.ordering import Ordering, filled, generic_graph, plan_ordering, stacked
from dynamics_node.graph.robot_graph import build_graph, rows_selected_at
from dynamics_node.robot import Problem, Robot, state_shapes
from dynamics_node.robot.inertial_parameters import generic_parameters

REFINEMENTS = 4
CONVERGED = 1e-8
STATE_AXES = (1, 1, 1, 1, 2, 1)  # number of axes of one state's q, qd, qdd, tau, f_ext and gravity


@dataclass(frozen=True, eq=False)
class Elimination:
    """The Plan of one Ordering, with iterative refinement if a pivot may be weak. blocks: the variables of
    every factor of the planned graph, if parameters of the model may become zero."""

    robot: Robot
    problem: Problem
    ordering: Ordering
    plan: Plan
    blocks: tuple[tuple[Variable, ...], ...] = ()

    @property
    def description(self):
        return self.ordering.name

    def __call__(self, q, qd, qdd=None, tau=None, gravity=None, f_ext=None):
        """{'qdd', 'tau'}, both complete."""
        zero = np.zeros_like(qd)
        qdd, tau = zero if qdd is None else qdd, zero if tau is None else tau
        solution = self._at_regular(q, qd, qdd, tau, f_ext, gravity)
        return dict(zip(("qdd", "tau"), solution, strict=True))

    def _planned(self, q, qd, qdd, tau, f_ext, gravity):
        graph = build_graph(self.robot, self.problem, q, qd, qdd, tau, f_ext, gravity)
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
        return joint_values(self.robot, values, qdd, tau)

    def _at_regular(self, *state):
        """qdd and tau (count, nv) at regular states. The plan suits most positions; if one of its pivots
        vanishes, another is chosen at that state. Raises LinAlgError if a tree has none."""
        try:
            return self._planned(*state)
        except np.linalg.LinAlgError as reason:
            count = len(state[0])
            if count == 1:
                solution = self._planned_here(*state)
                if np.isnan(solution).any() and not self.robot.constrained:
                    raise reason from None
                return solution
            one_by_one = (
                [_state_of(a, k, axes) for a, axes in zip(state, STATE_AXES, strict=True)]
                for k in range(count)
            )
            solutions = [self._at_regular(*one) for one in one_by_one]
            return [np.concatenate(parts) for parts in zip(*solutions, strict=True)]

    def _planned_here(self, q, qd, qdd, tau, f_ext, gravity):
        """qdd and tau (1, nv), by pivots and equations of the constraints chosen at this state; NaN if there
        are none."""
        graph = self._graph_here(q, qd, qdd, tau, f_ext, gravity)
        at = {(x.kind, x.body): k for k, x in enumerate(self.ordering.variables)}
        order = sorted(graph.variables, key=lambda x: at.get((x.kind, x.body), len(at)))
        try:
            plan = plan_elimination(graph, order)
            values = refined(graph, lambda own: eliminate(own, plan).solve())
        except (ValueError, np.linalg.LinAlgError):
            return np.full((2, 1, self.robot.nv), np.nan)
        return joint_values(self.robot, values, qdd, tau)

    def _graph_here(self, q, qd, qdd, tau, f_ext, gravity):
        state = (self.robot, self.problem, q, qd, qdd, tau, f_ext, gravity)
        return build_graph(*state, rows_selected_at(self.robot, q[0]))


def _state_of(array, k, axes):
    """State k, on a leading axis, of an array over all states, or of one shared by all; axes: number of axes
    of one state."""
    return array if array is None or array.ndim == axes else array[k : k + 1]


def refined(graph, solve):
    """The values {variable: array} of `solve` for a graph, corrected until the correction is small at every
    state and the next would be lost in rounding. Raises LinAlgError without convergence: a pivot vanishes."""
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


def elimination(robot, problem, ordering, parameters=()):
    """The elimination in an ordering (a name, 'best' or variable names). Raises as in `plan_ordering`.

    parameters: those of 'inertia' and 'armature' that `with_inertias` may change. The plan then depends on no
    zero of them, and on no pivot that this Robot lacks.
    """
    if not parameters:
        return Elimination(robot, problem, *plan_ordering(robot, problem, ordering))
    models = (robot.with_tree(generic_parameters(robot.tree, parameters)), robot)
    graph = stacked(*(generic_graph(each, problem) for each in models))
    blocks = tuple(tuple(factor.blocks) for factor in graph.factors)
    return Elimination(robot, problem, *plan_ordering(robot, problem, ordering, graph), blocks)


def by_states(function, robot, q, **arrays):
    """function(q=, **arrays) -> {name: array} of one state, for every state of a batch q (count, nq). An
    array with the axes of one state is shared by all; None is left out."""
    arrays = {name: array for name, array in arrays.items() if array is not None}
    shapes = state_shapes(robot, arrays)
    results = [
        function(q=one, **{n: a if a.ndim == len(shapes[n]) else a[k] for n, a in arrays.items()})
        for k, one in enumerate(q)
    ]
    return {name: np.stack([np.asarray(r[name], dtype=float) for r in results]) for name in results[0]}
