"""Products of spatial vectors, and spatial inertia."""

import numpy as np


def matvec(matrix, vector):
    """Matrix times vector over leading axes: (..., m, n), (..., n) -> (..., m)."""
    if matrix.ndim == 2:
        return vector @ matrix.T
    return (matrix @ vector[..., None])[..., 0]


def transpose(matrix):
    """Swap the last two axes."""
    return np.swapaxes(matrix, -1, -2)


def _cross(a, b):
    """3-D cross product over the last axis; np.cross is slower and knows floats only."""
    ax, ay, az = a[..., 0], a[..., 1], a[..., 2]
    bx, by, bz = b[..., 0], b[..., 1], b[..., 2]
    return np.stack([ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx], axis=-1)


def skew(v):
    """The matrix of v x: (..., 3) -> (..., 3, 3)."""
    x, y, z = v[..., 0], v[..., 1], v[..., 2]
    o = np.zeros_like(x)
    rows = [np.stack(r, axis=-1) for r in ([o, -z, y], [z, o, -x], [-y, x, o])]
    return np.stack(rows, axis=-2)


def cross_motion(v, m):
    """v x m of two motion vectors (..., 6): RBDA (2.31)."""
    w, wm = v[..., :3], m[..., :3]
    linear = _cross(w, m[..., 3:]) + _cross(v[..., 3:], wm)
    return np.concatenate([_cross(w, wm), linear], axis=-1)


def cross_force(v, f):
    """v x* f of a motion vector and a force vector (..., 6): RBDA (2.32)."""
    w, linear = v[..., :3], f[..., 3:]
    angular = _cross(w, f[..., :3]) + _cross(v[..., 3:], linear)
    return np.concatenate([angular, _cross(w, linear)], axis=-1)


def spatial_inertia(mass, com, inertia_com):
    """Spatial inertia (..., 6, 6) about the frame origin: RBDA (2.63).

    mass (...) kg; com (..., 3) m, in the frame; inertia_com (..., 3, 3) kg m^2 about the centre of
    mass, in the frame's axes.
    """
    mass = np.asarray(mass)[..., None, None]
    c = skew(np.asarray(com))
    top = np.concatenate([inertia_com + mass * (c @ transpose(c)), mass * c], axis=-1)
    bottom = np.concatenate([mass * transpose(c), mass * np.eye(3)], axis=-1)
    return np.concatenate([top, bottom], axis=-2)
