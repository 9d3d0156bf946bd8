"""Plucker transforms of motion vectors, (6, 6).

X from frame A to frame B is [E 0; -E r^ E]: E turns A coordinates into B coordinates, r is the
origin of B in A coordinates (RBDA 2.24). Forces go the other way with the transpose of X.
"""

import numpy as np

from dynamics_node.symbolic.algebra import transpose


def _block(a, b, c, d):
    top = np.concatenate([a, b], axis=-1)
    return np.concatenate([top, np.concatenate([c, d], axis=-1)], axis=-2)


def motion_transform(E, r):
    """X of a rotation E (..., 3, 3) and an origin r (..., 3)."""
    x, y, z = (r[..., k, None] for k in range(3))
    columns = (E[..., 2] * y - E[..., 1] * z, E[..., 0] * z - E[..., 2] * x, E[..., 1] * x - E[..., 0] * y)
    return _block(E, np.zeros_like(E), np.stack(columns, axis=-1), E)


def rotation_transform(E):
    """X of a rotation alone; E need not be orthonormal, so the parts of a rotation fit as well."""
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
