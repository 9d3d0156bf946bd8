"""Elimination of the factor graph at every call, run by numpy."""

from dataclasses import dataclass

import numpy as np

from dynamics_node.graph import Ordering, Plan, build_graph, eliminate, plan_ordering
from dynamics_node.graph.variables import TORQUE
from dynamics_node.model import Model
from dynamics_node.problem import Problem


@dataclass(frozen=True, eq=False)
class NumericElimination:
    """The Plan of one Ordering; one refinement step where a pivot may be weak."""

    model: Model
    problem: Problem
    ordering: Ordering
    plan: Plan

    @property
    def description(self):
        return self.ordering.name

    def __call__(self, q, qd, qdd, tau, f_ext, gravity):
        graph = build_graph(self.model, self.problem, q, qd, qdd, tau, f_ext, gravity)
        values = eliminate(graph, self.plan).solve()
        if not self.plan.safe:
            correction = eliminate(graph.residuals(values), self.plan).solve()
            _require_small(correction, values, self.ordering.name)
            values = {x: value + correction[x] for x, value in values.items()}
        return joint_values(self.model, values, qdd, tau)


def _require_small(correction, values, ordering):
    """A refinement that changes much did not converge: a pivot of this ordering vanishes here."""
    for x, value in values.items():
        if not np.all(np.abs(correction[x]) <= 1e-3 * max(1.0, np.abs(value).max(initial=0.0))):
            raise np.linalg.LinAlgError(f"ordering {ordering} is singular at this state at {x}; choose another")


def numeric_elimination(model, problem, ordering):
    """Engine for an ordering (a name, 'best' or variable names). Raises as `plan_ordering`."""
    return NumericElimination(model, problem, *plan_ordering(model, problem, ordering))


def joint_values(model, values, qdd, tau):
    """qdd and tau completed by the solved variables."""
    qdd, tau = np.array(qdd), np.array(tau)
    for variable, value in values.items():
        at = model.bodies[variable.body].joint.v
        if variable.kind == TORQUE:
            tau[..., at] = value
        elif variable.kind == "qdd":
            qdd[..., at] = value
    return qdd, tau
