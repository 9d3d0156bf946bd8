"""Elimination of the factor graph at every call, run by numpy."""

from dataclasses import dataclass, replace

import numpy as np

from dynamics_node.graph import Ordering, Plan, eliminate, plan_ordering, problem_graph
from dynamics_node.graph.variables import JOINT_ACCELERATION, TORQUE
from dynamics_node.model import Model
from dynamics_node.model.parameters import generic_parameters
from dynamics_node.problem import Problem

REFINEMENTS = 4
CONVERGED = 1e-8


@dataclass(frozen=True, eq=False)
class NumericElimination:
    """The Plan of one Ordering; iterative refinement where a pivot may be weak."""

    model: Model
    problem: Problem
    ordering: Ordering
    plan: Plan
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
        values = eliminate(graph, self.plan).solve()
        if not self.plan.safe:
            values = self._refined(graph, values)
        return joint_values(self.model, values, qdd, tau)

    def _refined(self, graph, values):
        """Corrections until one is small, so that the next would be lost in rounding."""
        for _ in range(REFINEMENTS):
            correction = eliminate(graph.residuals(values), self.plan).solve()
            values = {x: value + correction[x] for x, value in values.items()}
            if _relative_size(correction, values) < CONVERGED:
                return values
        raise np.linalg.LinAlgError(f"a pivot of ordering {self.ordering.name} vanishes here; choose another")


def _relative_size(correction, values):
    """Largest correction beside the largest value, over all variables and states."""
    largest = max(np.abs(value).max(initial=0.0) for value in values.values())
    return max(np.abs(change).max(initial=0.0) for change in correction.values()) / max(largest, 1e-6)


def numeric_elimination(model, problem, ordering, parameters=()):
    """Engine for an ordering (a name, 'best' or variable names). Raises as `plan_ordering`.

    parameters: of 'inertia' and 'armature', what `with_model` may change; the plan counts on no zero there.
    """
    planned = generic_parameters(model, parameters) if parameters else model
    return NumericElimination(model, problem, *plan_ordering(planned, problem, ordering))


def joint_values(model, values, qdd, tau):
    """qdd and tau completed by the solved variables."""
    qdd, tau = np.array(qdd), np.array(tau)
    at = {joint.name: joint.v for joint in model.independent_joints}
    for variable, value in values.items():
        if variable.kind in (TORQUE, JOINT_ACCELERATION):
            name = model.bodies[variable.body].joint.name
            if name in at:  # dependent joints of a Mechanism have no place there
                (tau if variable.kind == TORQUE else qdd)[..., at[name]] = value
    return qdd, tau
