"""Spatial inertia as the second moment of homogeneous points: J = integral of (r, 1)(r, 1)^T dm.

J (4, 4) = [Sigma ms; ms^T m] holds the ten parameters linearly. A frame moved by the homogeneous transform
T sees T J T^T. Wensing, Kim, Slotine: Linear matrix inequalities for physically consistent inertial parameter
identification, RA-L 2018, eqs. (10)-(13).
"""

import numpy as np

from dynamics_node.symbolic.algebra import skew, transpose


def pseudo_inertia(inertia):
    """J (..., 4, 4) of a spatial inertia (..., 6, 6) about the same origin."""
    rotational, moment = inertia[..., :3, :3], inertia[..., :3, 3:]
    x, y, z = (rotational[..., k, k] for k in range(3))
    sigma = _with_diagonal(-rotational, 0.5 * (y + z - x), 0.5 * (z + x - y), 0.5 * (x + y - z))
    ms = np.stack([moment[..., 2, 1], moment[..., 0, 2], moment[..., 1, 0]], axis=-1)[..., None]
    return _block(sigma, ms, transpose(ms), inertia[..., 5:6, 5:6])


def inertia_of_pseudo(J):
    """Spatial inertia (..., 6, 6) of J (..., 4, 4): the inverse of `pseudo_inertia`; zeros in J come
    back as zeros."""
    sigma, ms, mass = J[..., :3, :3], skew(J[..., :3, 3]), J[..., 3:, 3:]
    x, y, z = (sigma[..., k, k] for k in range(3))
    return _block(_with_diagonal(-sigma, y + z, z + x, x + y), ms, transpose(ms), mass * np.eye(3))


def _with_diagonal(matrix, *diagonal):
    matrix = np.array(matrix)
    for k, entry in enumerate(diagonal):
        matrix[..., k, k] = entry
    return matrix


def _block(a, b, c, d):
    top, bottom = np.concatenate([a, b], axis=-1), np.concatenate([c, d], axis=-1)
    return np.concatenate([top, bottom], axis=-2)
