"""Elementary transforms, of which every X_up is a product: a turn in a plane, any turn, a shift.

Each carries motions, forces and inertias with few scalar operations; on symbols that is what counts.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from dynamics_node.symbolic.algebra import congruence, matvec, skew, symmetric, transpose
from dynamics_node.symbolic.transform import motion_transform, rotation_transform


@dataclass(frozen=True, eq=False)
class Turn:
    """Axes turned by the rotation E (..., 3, 3), which takes old coordinates to new ones."""

    E: Any

    def vector(self, x):
        """x (..., 3) in the new axes."""
        return matvec(self.E, x)

    def vector_back(self, x):
        """x (..., 3) in the old axes."""
        return matvec(transpose(self.E), x)

    def point_back(self, p):
        """A point (..., 3) in the old frame."""
        return self.vector_back(p)

    def matrix(self):
        """X of motion vectors (..., 6, 6)."""
        return rotation_transform(self.E)

    def motion(self, v):
        """A motion vector (..., 6) in the new axes: X v."""
        return _halves(self.vector, v)

    def force(self, f):
        """A force vector (..., 6) in the old axes: X^T f."""
        return _halves(self.vector_back, f)

    def inertia(self, inertia):
        """A symmetric (..., 6, 6) in the old axes: X^T I X."""
        return congruence(self.matrix(), inertia)


@dataclass(frozen=True, eq=False)
class PlaneTurn(Turn):
    """Axes turned about coordinate axis k by an angle of cosine c and sine s: the plane (i, j) turns."""

    axis: int
    c: Any
    s: Any

    def inertia(self, inertia):
        blocks = _blocks(inertia)
        A, H, M = (self._turned_back(block) for block in blocks)
        return _joined(symmetric(A), H, symmetric(M))

    def _turned_back(self, B):
        """E^T B E of a block (3, 3). In the plane it differs from B by a matrix without trace, which turns by
        twice the angle; `turning` carries all of it."""
        i, j, k = (self.axis + 1) % 3, (self.axis + 2) % 3, self.axis
        a, b, e, d = B[i, i], B[i, j], B[j, i], B[j, j]
        turning = self.c * (b + e) + self.s * (a - d)
        out = np.empty((3, 3), dtype=object)
        out[k, :], out[:, k] = self.vector_back(B[k, :]), self.vector_back(B[:, k])
        out[i, i], out[i, j] = a - self.s * turning, self.c * turning - e
        out[j, i], out[j, j] = self.c * turning - b, d + self.s * turning
        return out


def plane_turn(axis, c, s) -> Turn:
    """The turn about a coordinate axis by an angle of cosine c and sine s."""
    i, j = (axis + 1) % 3, (axis + 2) % 3
    E = np.eye(3, dtype=object)
    E[i, i], E[i, j], E[j, i], E[j, j] = c, s, -s, c
    if any(isinstance(x, float) and x == round(x) for x in (c, s)):
        return Turn(E)  # a quarter turn permutes axes: nothing is cheaper than its matrix
    return PlaneTurn(E, axis, c, s)


@dataclass(frozen=True, eq=False)
class Shift:
    """The origin moved to r (..., 3)."""

    r: Any

    @property
    def _cross(self):
        """The matrix of r x, of objects also where r is constant: NumPy multiplies these in one order."""
        return skew(self.r).astype(object)

    def point_back(self, p):
        return p + self.r

    def matrix(self):
        return motion_transform(np.broadcast_to(np.eye(3), (*self.r.shape[:-1], 3, 3)), self.r)

    def motion(self, v):
        return np.concatenate([v[..., :3], v[..., 3:] - matvec(self._cross, v[..., :3])], axis=-1)

    def force(self, f):
        return np.concatenate([f[..., :3] + matvec(self._cross, f[..., 3:]), f[..., 3:]], axis=-1)

    def inertia(self, inertia):
        A, H, M = _blocks(inertia)
        moved = H + self._cross @ M
        return _joined(symmetric(A - H @ self._cross + self._cross @ transpose(moved)), moved, M)


def _blocks(inertia):
    """A, H, M of the symmetric [A H; H^T M]."""
    return inertia[..., :3, :3], inertia[..., :3, 3:], inertia[..., 3:, 3:]


def _joined(A, H, M):
    top = np.concatenate([A, H], axis=-1)
    return np.concatenate([top, np.concatenate([transpose(H), M], axis=-1)], axis=-2)


def _halves(turn, x):
    return np.concatenate([turn(x[..., :3]), turn(x[..., 3:])], axis=-1)
