"""Results where they are any: where loops are closed and regular, and the mass matrix is regular."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from dynamics_node.algorithms.health import HEALTHY, health_program
from dynamics_node.algorithms.pivots import singular, weak_coordinates
from dynamics_node.symbolic import interpret

AXES = {"f_ext": 2}  # of one state; of others 1


@dataclass(frozen=True, eq=False)
class Watched:
    """An algorithm whose results are NaN at positions where loops are open or singular, or where a pivot of
    the mass matrix vanishes, of the coordinates where `forward` is true.

    algorithm: what computes; it sees no such positions. forward (nv,): where torques are known and
    accelerations asked; returns: {name: shape} of the results.
    """

    algorithm: Any
    forward: tuple[bool, ...]
    returns: dict

    @property
    def description(self):
        return self.algorithm.description

    def with_inertias(self, model):
        """The algorithm for a robot that differs in inertias or rotor inertias only."""
        return replace(self, algorithm=self.algorithm.with_inertias(model))

    @cached_property
    def _weak(self):
        return weak_coordinates(self.algorithm.model, self.forward)

    def _is_good(self, q):
        robot, good = self.algorithm.model, np.ones(q.shape[:-1], dtype=bool)
        if robot.constrained:
            good = (interpret(health_program(robot), q=q)["health"] <= HEALTHY).all(axis=-1)
        if self._weak.any():
            forward = np.array(self.forward, dtype=bool)
            good = good & ~singular(robot, q, forward, self._weak).any(axis=-1)
        return good

    def __call__(self, q, **arrays):
        """See the package."""
        batch = q.shape[:-1]
        good = np.broadcast_to(self._is_good(q), batch)
        if good.all():
            return self.algorithm(q=q, **arrays)
        results = {name: np.full((*batch, *shape), np.nan) for name, shape in self.returns.items()}
        if good.any():
            given = {"q": q, **arrays}
            chosen = {name: _chosen(a, AXES.get(name, 1), batch, good) for name, a in given.items()}
            found = self.algorithm(**chosen)
            for name, result in results.items():
                result[good] = found[name]
        return results


def _chosen(array, axes, batch, good):
    """The array at the good states, one leading axis."""
    return np.broadcast_to(array, (*batch, *array.shape[array.ndim - axes :]))[good]
