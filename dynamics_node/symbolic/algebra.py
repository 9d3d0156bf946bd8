"""Products of spatial vectors, and spatial inertia."""

import numpy as np

from dynamics_node.symbolic.fixed_order import product


def matvec(matrix, vector):
    """Matrix times vector over leading axes: (..., m, n), (..., n) -> (..., m)."""
    if matrix.ndim == 2:
        return vector @ matrix.T
    return (matrix @ vector[..., None])[..., 0]


def transpose(matrix):
    """Swap the last two axes."""
    return np.swapaxes(matrix, -1, -2)


def symmetric(matrix):
    """A matrix (..., n, n) known to be symmetric. Of symbols the lower triangle is the upper one's, so
    that a trace computes every entry once; floats are left as they are."""
    if matrix.dtype != object:
        return matrix
    upper = np.triu(np.ones(matrix.shape[-2:], dtype=bool))
    return np.where(upper, matrix, transpose(matrix))


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

    mass (...) kg; com (..., 3) m, in the frame; inertia_com (..., 3, 3) kg m^2 about the centre of
    mass, in the frame's axes.
    """
    mass = np.asarray(mass)[..., None, None]
    c = skew(np.asarray(com))
    top = np.concatenate([inertia_com + mass * product(c, transpose(c)), mass * c], axis=-1)
    bottom = np.concatenate([mass * transpose(c), mass * np.eye(3)], axis=-1)
    return np.concatenate([top, bottom], axis=-2)
