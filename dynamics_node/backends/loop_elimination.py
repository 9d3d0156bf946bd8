"""The factor graph of a Mechanism, eliminated at every call: NumPy or GTSAM, any ordering."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from dynamics_node.backends.gtsam_elimination import gtsam_elimination
from dynamics_node.backends.numeric_elimination import (
    NumericElimination,
    joint_values,
    numeric_elimination,
    refined,
)
from dynamics_node.graph import eliminate, plan_elimination
from dynamics_node.graph.mechanism import build_mechanism_graph, rows_kept_at
from dynamics_node.loops.mechanism import Mechanism
from dynamics_node.loops.pivots import singular, weak_coordinates
from dynamics_node.loops.programs import HEALTHY, health_program
from dynamics_node.problem import Problem
from dynamics_node.program import interpret


@dataclass(frozen=True, eq=False)
class LoopElimination:
    """elimination: the engine, which sees closed and regular positions only."""

    model: Mechanism
    problem: Problem
    elimination: Any

    @property
    def description(self):
        return self.elimination.description

    def prepare(self, batches):
        """Nothing is left to do."""

    def with_model(self, model):
        """The same for a Mechanism of other inertias or rotor inertias."""
        return replace(self, model=model, elimination=self.elimination.with_model(model))

    @cached_property
    def _health(self):
        return health_program(self.model)

    @cached_property
    def _weak(self):
        return weak_coordinates(self.model, self.problem.forward)

    def _is_good(self, q):
        good = (interpret(self._health, q=q)["health"] <= HEALTHY).all(axis=-1)
        if self._weak.any():
            forward = np.array(self.problem.forward, dtype=bool)
            good = good & ~singular(self.model, q, forward, self._weak).any(axis=-1)
        return good

    def __call__(self, q, qd, qdd, tau, f_ext, gravity):
        """NaN where the loops are open or singular, or the mass matrix is."""
        batch, nv = q.shape[:-1], self.model.nv
        good = np.broadcast_to(self._is_good(q), batch)
        arrays = [(a, axes) for a, axes in ((q, 1), (qd, 1), (qdd, 1), (tau, 1), (f_ext, 2), (gravity, 1))]
        chosen = [None if a is None else _chosen(a, axes, batch, good) for a, axes in arrays]
        results = np.full((2, *batch, nv), np.nan)
        if good.any():
            for result, found in zip(results, self._solved(chosen), strict=True):
                result[good] = found
        return results[0], results[1]

    def _solved(self, states):
        """qdd and tau (count, nv) at regular states. Where a pivot of the plan vanishes, which was made once
        for most positions, another is made there. GTSAM chooses its own."""
        try:
            return self.elimination(*states)
        except np.linalg.LinAlgError:
            if not isinstance(self.elimination, NumericElimination):
                raise
            count = len(states[0])
            if count == 1:
                return self._planned_here([None if a is None else a[0] for a in states])
            one_by_one = [[None if a is None else a[k : k + 1] for a in states] for k in range(count)]
            return [np.concatenate(found) for found in zip(*map(self._solved, one_by_one), strict=True)]

    def _planned_here(self, state):
        """qdd and tau (1, nv) by pivots, and equations of the constraints, chosen at this very state; NaN
        where there are none."""
        q, qd, qdd, tau, f_ext, gravity = (None if a is None else a[None] for a in state)
        kept = rows_kept_at(self.model, state[0])
        graph = build_mechanism_graph(self.model, self.problem, q, qd, qdd, tau, f_ext, gravity, kept)
        ordering = self.elimination.ordering
        try:
            plan = plan_elimination(graph, ordering.variables)
            values = refined(graph, lambda own: eliminate(own, plan).solve(), ordering)
        except (ValueError, np.linalg.LinAlgError):
            return np.full((2, 1, self.model.nv), np.nan)
        return joint_values(self.model, values, qdd, tau)


def _chosen(array, axes, batch, good):
    """The array at the good states, one leading axis."""
    return np.broadcast_to(array, (*batch, *array.shape[array.ndim - axes :]))[good]


def loop_elimination(mechanism, problem, ordering, backend) -> LoopElimination:
    """Engine for an ordering and backend numpy or gtsam. Raises as `plan_ordering`."""
    eliminate = gtsam_elimination if backend == "gtsam" else numeric_elimination
    return LoopElimination(mechanism, problem, eliminate(mechanism, problem, ordering))
