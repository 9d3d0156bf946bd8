"""Results where they are any: where the mass matrix is regular, where loops are closed and regular."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from dynamics_node.algorithms.pivots import singular, weak_coordinates
from dynamics_node.loops import pivots as loops_pivots
from dynamics_node.loops.health import HEALTHY, health_program
from dynamics_node.program import interpret

AXES = {"f_ext": 2}  # of one state; of others 1


@dataclass(frozen=True, eq=False)
class _Around:
    """algorithm: what computes; forward (nv,): where torques are known and accelerations asked."""

    algorithm: Any
    forward: tuple[bool, ...]

    @property
    def description(self):
        return self.algorithm.description

    def with_model(self, model):
        """The algorithm for a robot that differs in inertias or rotor inertias only."""
        return replace(self, algorithm=self.algorithm.with_model(model))


class Watched(_Around):
    """An algorithm of a Model; its results are NaN where a pivot of the mass matrix vanishes that can, of the
    coordinates where `forward` is true."""

    @cached_property
    def _weak(self):
        return weak_coordinates(self.algorithm.model, self.forward)

    def __call__(self, q, **arrays):
        """See the package."""
        found = self.algorithm(q=q, **arrays)
        if not self._weak.any():
            return found
        bad = singular(self.algorithm.model, q, self.forward, self._weak).any(axis=-1)
        for name, array in found.items():
            found[name] = np.array(array)
            found[name][bad] = np.nan
        return found


@dataclass(frozen=True, eq=False)
class ClosedOnly(_Around):
    """An algorithm of a Mechanism that sees positions only at which loops are closed and regular, and no
    pivot of the mass matrix vanishes, of the coordinates where `forward` is true. Elsewhere results are NaN.
    returns: {name: shape} of them."""

    returns: dict

    @cached_property
    def _weak(self):
        return loops_pivots.weak_coordinates(self.algorithm.model, self.forward)

    def _is_good(self, q):
        mechanism = self.algorithm.model
        good = (interpret(health_program(mechanism), q=q)["health"] <= HEALTHY).all(axis=-1)
        if self._weak.any():
            forward = np.array(self.forward, dtype=bool)
            good = good & ~loops_pivots.singular(mechanism, q, forward, self._weak).any(axis=-1)
        return good

    def __call__(self, q, **arrays):
        """See the package."""
        batch = q.shape[:-1]
        good = np.broadcast_to(self._is_good(q), batch)
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
