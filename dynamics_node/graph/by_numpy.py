"""Elimination of the factor graph on arrays of NumPy, with a plan that suits the state.

It refines states at which a pivot of a Program is near zero.
"""

from dataclasses import dataclass
from functools import reduce

import numpy as np

from dynamics_node.graph.contact_factors import ContactState, forces_of_contacts, leaning_wheels, touched
from dynamics_node.graph.elimination import Plan, eliminate, plan_elimination, weakest_pivot
from dynamics_node.graph.factor_graph import FactorGraph, joint_values
from dynamics_node.graph.factors import CONTACT_FORCE, Variable
from dynamics_node.graph.ordering import Ordering, filled, generic_graph, plan_ordering, stacked
from dynamics_node.graph.robot_graph import build_graph, rows_selected_at
from dynamics_node.robot import Problem, Robot
from dynamics_node.robot.inertial_parameters import generic_parameters

REFINEMENTS = 4
CONVERGED = 1e-8
AXES = {"f_ext": 2}  # for one state; 1 for other names


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

    def __call__(self, q, qd, **arrays):
        """{'qdd', 'tau'}, both complete; with contacts 'contact_forces'. arrays: as in `graph_at`."""
        return self._at_regular({"q": q, "qd": qd, **arrays})

    def _planned(self, state):
        graph = filled(graph_at(self.robot, self.problem, **state), self.blocks)

        def solve(graph):
            return eliminate(graph, self.plan).solve()

        try:
            values = solve(graph) if self.plan.safe else refined(graph, solve)
        except np.linalg.LinAlgError:
            weakest = weakest_pivot(graph, self.plan)
            which = "a pivot" if weakest is None else f"the pivot of {weakest}"
            name = self.ordering.name
            raise np.linalg.LinAlgError(f"{which} vanishes here in ordering {name}: choose another") from None
        return results_at(self.robot, self.problem, values, **state)

    def _at_regular(self, state):
        """The results at regular states. The plan suits most positions; if one of its pivots vanishes,
        another is chosen at that state. Raises LinAlgError if a tree has none."""
        try:
            return self._planned(state)
        except np.linalg.LinAlgError as reason:
            count = len(state["q"])
            if count == 1:
                solution = self._planned_here(state)
                if solution is None and not self.robot.constrained:
                    raise reason from None
                return self._none() if solution is None else solution
            solutions = [self._at_regular(_state_of(state, k)) for k in range(count)]
            return {name: np.concatenate([each[name] for each in solutions]) for name in solutions[0]}

    def _planned_here(self, state):
        """The results at one state, by pivots and equations of the constraints chosen there, forces of
        contacts last; None if there are no pivots."""
        selected = rows_selected_at(self.robot, state["q"][0])
        graph = graph_at(self.robot, self.problem, **state, selected=selected)
        at = {(x.kind, x.body): k for k, x in enumerate(self.ordering.variables)}
        order = sorted(
            graph.variables, key=lambda x: (x.kind == CONTACT_FORCE, at.get((x.kind, x.body), len(at)))
        )
        try:
            plan = plan_elimination(graph, order)
            values = refined(graph, lambda own: eliminate(own, plan).solve())
        except (ValueError, np.linalg.LinAlgError):
            return None
        return results_at(self.robot, self.problem, values, **state)

    def _none(self):
        shapes = dict.fromkeys(("qdd", "tau"), (self.robot.nv,)) | self.problem.returns(self.robot)
        return {name: np.full((1, *shape), np.nan) for name, shape in shapes.items()}


def graph_at(
    robot,
    problem,
    q,
    qd,
    qdd=None,
    tau=None,
    gravity=None,
    f_ext=None,
    active=None,
    contact_accelerations=None,
    selected=None,
) -> FactorGraph:
    """`build_graph` from the arrays that a Problem reads; None where it reads none."""
    zero = np.zeros_like(qd)
    known = zero if qdd is None else qdd, zero if tau is None else tau
    contacts = ContactState(active, contact_accelerations) if problem.contacts else None
    return build_graph(robot, problem, q, qd, *known, f_ext, gravity, contacts, selected)


def results_at(robot, problem, values, q, qd, qdd=None, tau=None, active=None, **_):
    """{'qdd', 'tau'}, complete, and with contacts 'contact_forces', from {variable: value} and a state; NaN
    where an active wheel leans too much."""
    zero = np.zeros_like(qd)
    known = zero if qdd is None else qdd, zero if tau is None else tau
    results = dict(zip(("qdd", "tau"), joint_values(robot, values, *known), strict=True))
    if problem.contacts:
        results["contact_forces"] = forces_of_contacts(robot.tree, problem, values, q)
        leaning = leaning_wheels(touched(robot.tree, problem.contacts, q), active)[..., None]
        results = {name: np.where(leaning, np.nan, array) for name, array in results.items()}
    return results


def _state_of(state, k):
    """State k, on a leading axis, of arrays over all states, or shared by all."""
    return {
        name: array if array is None or array.ndim == AXES.get(name, 1) else array[k : k + 1]
        for name, array in state.items()
    }


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


def by_states(function, q, **arrays):
    """function(q=, **arrays) -> {name: array} of one state, for every state of a batch q (count, nq). An
    array with the axes of one state is shared by all; None is left out."""
    arrays = {name: array for name, array in arrays.items() if array is not None}
    results = [
        function(q=one, **{n: a if a.ndim == AXES.get(n, 1) else a[k] for n, a in arrays.items()})
        for k, one in enumerate(q)
    ]
    return {name: np.stack([np.asarray(r[name], dtype=float) for r in results]) for name in results[0]}
