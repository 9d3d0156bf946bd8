"""Spatial algebra: motion and force vectors, Plucker transforms, spatial inertias (RBDA chapter 2).

A transform X (6, 6) of motion vectors from frame A to frame B is [E 0; -E r^ E]: E takes A coordinates to B
coordinates, r is the origin of B in A coordinates (RBDA 2.24). X^T takes forces from B to A. The transform
X_up of a joint is a product of elementary transforms, turns and shifts. Each transforms motions, forces and
inertias with few scalar operations, which matters for symbols.

A spatial inertia is also the second moment of homogeneous points, the pseudo-inertia J (4, 4) = integral of
(r, 1)(r, 1)^T dm = [Sigma ms; ms^T m], linear in the ten parameters. In a frame moved by the
homogeneous transform T it is T J T^T. Wensing, Kim, Slotine: Linear matrix inequalities for physically
consistent inertial parameter identification, RA-L 2018, eqs. (10)-(13).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from dynamics_node.symbolic.linear_algebra import matvec, product, symmetric, transpose

ROUNDING = 1e-14  # of an entry of an inertia


def congruence(X, inertia):
    """X^T I X of a symmetric I (..., 6, 6): an inertia seen from the parent, RBDA (2.66)."""
    return symmetric(transpose(X) @ inertia @ X)


def skew(v, xp=np):
    """The matrix of v x: (..., 3) -> (..., 3, 3). xp: array module of v."""
    x, y, z = v[..., 0], v[..., 1], v[..., 2]
    out = xp.zeros((*v.shape, 3), v.dtype)
    out[..., 0, 1], out[..., 0, 2] = -z, y
    out[..., 1, 0], out[..., 1, 2] = z, -x
    out[..., 2, 0], out[..., 2, 1] = -y, x
    return out


def _generators():
    """(6, 36): row k is the matrix of e_k x, flattened. RBDA (2.31): v x = [w^ 0; v^ w^]."""
    unit = skew(np.eye(3))
    motion = np.zeros((6, 6, 6))
    motion[:3, :3, :3] = motion[:3, 3:, 3:] = motion[3:, 3:, :3] = unit
    return motion.reshape(6, 36)


GENERATORS = _generators()


def cross_matrix(v):
    """The matrix (..., 6, 6) of v x on motion vectors: linear in v (..., 6)."""
    return (v @ GENERATORS).reshape(*v.shape[:-1], 6, 6)


def cross_motion(v, m):
    """v x m of two motion vectors (..., 6): RBDA (2.31)."""
    return matvec(cross_matrix(v), m)


def cross_force(v, f):
    """v x* f = -(v x)^T f of a motion vector and a force vector (..., 6): RBDA (2.32)."""
    return -matvec(transpose(cross_matrix(v)), f)


def spatial_inertia(mass, com, inertia_com):
    """Spatial inertia (..., 6, 6) about the frame origin: RBDA (2.63).

    mass (...) kg; com (..., 3) m, in the frame; inertia_com (..., 3, 3) kg m^2 about the center of mass, in
    the frame's axes.
    """
    mass = np.asarray(mass)[..., None, None]
    c = skew(np.asarray(com))
    top = np.concatenate([inertia_com + mass * product(c, transpose(c)), mass * c], axis=-1)
    bottom = np.concatenate([mass * transpose(c), mass * np.eye(3)], axis=-1)
    return np.concatenate([top, bottom], axis=-2)


def _block(a, b, c, d):
    top = np.concatenate([a, b], axis=-1)
    return np.concatenate([top, np.concatenate([c, d], axis=-1)], axis=-2)


def motion_transform(E, r):
    """X of a rotation E (..., 3, 3) and an origin r (..., 3)."""
    x, y, z = (r[..., k, None] for k in range(3))
    columns = (E[..., 2] * y - E[..., 1] * z, E[..., 0] * z - E[..., 2] * x, E[..., 1] * x - E[..., 0] * y)
    return _block(E, np.zeros_like(E), np.stack(columns, axis=-1), E)


def rotation_transform(E):
    """X of a rotation alone; E need not be orthonormal: it may be a part of a rotation."""
    zero = np.zeros_like(E)
    return _block(E, zero, zero, E)


def transform_rotation(X):
    """E of X."""
    return X[..., :3, :3]


def transform_origin(X):
    """r of X: the origin of frame B in A coordinates."""
    r = np.empty((*X.shape[:-2], 3), X.dtype)
    for k, (i, j) in enumerate(((2, 1), (0, 2), (1, 0))):
        terms = X[..., :3, i] * X[..., 3:, j]
        r[..., k] = -(terms[..., 0] + terms[..., 1] + terms[..., 2])
    return r


def inverse_motion_transform(X):
    """X from B to A: the same blocks, each transposed."""
    E, zero = X[..., :3, :3], np.zeros_like(X[..., :3, :3])
    return _block(transpose(E), zero, transpose(X[..., 3:, :3]), transpose(E))


@dataclass(frozen=True, eq=False)
class Rotation:
    """A rotation of axes: E (..., 3, 3) takes old coordinates to new ones."""

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
class AxisRotation(Rotation):
    """A rotation about coordinate axis k by an angle of cosine c and sine s, in the plane (i, j)."""

    axis: int
    c: Any
    s: Any

    def inertia(self, inertia):
        blocks = _blocks(inertia)
        A, H, M = (self._turned_back(block) for block in blocks)
        return _joined(symmetric(A), H, symmetric(M))

    def _turned_back(self, B):
        """E^T B E of a block (3, 3). In the plane the result minus B is traceless and turns by twice the
        angle; `turning` holds that part."""
        i, j, k = (self.axis + 1) % 3, (self.axis + 2) % 3, self.axis
        a, b, e, d = B[i, i], B[i, j], B[j, i], B[j, j]
        turning = self.c * (b + e) + self.s * (a - d)
        out = np.empty((3, 3), dtype=object)
        out[k, :], out[:, k] = self.vector_back(B[k, :]), self.vector_back(B[:, k])
        out[i, i], out[i, j] = a - self.s * turning, self.c * turning - e
        out[j, i], out[j, j] = self.c * turning - b, d + self.s * turning
        return out


def axis_rotation(axis, c, s) -> Rotation:
    """The rotation about a coordinate axis by an angle of cosine c and sine s."""
    i, j = (axis + 1) % 3, (axis + 2) % 3
    E = np.eye(3, dtype=object)
    E[i, i], E[i, j], E[j, i], E[j, j] = c, s, -s, c
    if any(isinstance(x, float) and x == round(x) for x in (c, s)):
        return Rotation(E)  # a quarter turn permutes axes: nothing is cheaper than its matrix
    return AxisRotation(E, axis, c, s)


@dataclass(frozen=True, eq=False)
class Translation:
    """The origin moved to r (..., 3)."""

    r: Any

    @property
    def _cross(self):
        """The matrix of r x, always of objects: NumPy multiplies those in a fixed order."""
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
    return _block(A, H, transpose(H), M)


def _halves(turn, x):
    return np.concatenate([turn(x[..., :3]), turn(x[..., 3:])], axis=-1)


def pseudo_inertia(inertia):
    """J (..., 4, 4) of a spatial inertia (..., 6, 6) about the same origin."""
    rotational, moment = inertia[..., :3, :3], inertia[..., :3, 3:]
    x, y, z = (rotational[..., k, k] for k in range(3))
    sigma = _with_diagonal(-rotational, 0.5 * (y + z - x), 0.5 * (z + x - y), 0.5 * (x + y - z))
    ms = np.stack([moment[..., 2, 1], moment[..., 0, 2], moment[..., 1, 0]], axis=-1)[..., None]
    return _block(sigma, ms, transpose(ms), inertia[..., 5:6, 5:6])


def without_rounding(inertia):
    """A spatial inertia (..., 6, 6) or a pseudo-inertia (..., 4, 4), with zeros for entries below ROUNDING of
    what its mass and its second moments permit; as it is if entries are Expressions."""
    if inertia.dtype == object:
        return inertia
    second = np.sqrt(np.abs(np.trace(inertia[..., :3, :3], axis1=-2, axis2=-1)))
    first = np.sqrt(np.abs(inertia[..., -1, -1]))
    size = np.stack(3 * [second] + (inertia.shape[-1] - 3) * [first], axis=-1)
    return np.where(np.abs(inertia) < ROUNDING * size[..., :, None] * size[..., None, :], 0.0, inertia)


def inertia_of_pseudo(J):
    """Spatial inertia (..., 6, 6) of J (..., 4, 4): the inverse of `pseudo_inertia`. Zeros in J remain
    zeros."""
    sigma, ms, mass = J[..., :3, :3], skew(J[..., :3, 3]), J[..., 3:, 3:]
    x, y, z = (sigma[..., k, k] for k in range(3))
    return _block(_with_diagonal(-sigma, y + z, z + x, x + y), ms, transpose(ms), mass * np.eye(3))


def _with_diagonal(matrix, *diagonal):
    matrix = np.array(matrix)
    for k, entry in enumerate(diagonal):
        matrix[..., k, k] = entry
    return matrix
