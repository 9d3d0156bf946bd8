"""Spatial inertia as the second moment of homogeneous points: J = integral of (r, 1)(r, 1)^T dm.

J (4, 4) = [Sigma ms; ms^T m] holds the ten parameters linearly. A frame moved by the homogeneous transform
T sees T J T^T. Wensing, Kim, Slotine: Linear matrix inequalities for physically consistent inertial parameter
identification, RA-L 2018, eqs. (10)-(13).
"""

import numpy as np

from dynamics_node.spatial.algebra import skew, transpose


def pseudo_inertia(inertia):
    """J (..., 4, 4) of a spatial inertia (..., 6, 6) about the same origin."""
    rotational, moment = inertia[..., :3, :3], inertia[..., :3, 3:]
    half_trace = 0.5 * (rotational[..., 0, 0] + rotational[..., 1, 1] + rotational[..., 2, 2])
    sigma = half_trace[..., None, None] * np.eye(3) - rotational
    ms = np.stack([moment[..., 2, 1], moment[..., 0, 2], moment[..., 1, 0]], axis=-1)[..., None]
    return _block(sigma, ms, transpose(ms), inertia[..., 5:6, 5:6])


def inertia_of_pseudo(J):
    """Spatial inertia (..., 6, 6) of J (..., 4, 4): the inverse of `pseudo_inertia`."""
    sigma, ms, mass = J[..., :3, :3], skew(J[..., :3, 3]), J[..., 3:, 3:]
    trace = np.asarray(sigma[..., 0, 0] + sigma[..., 1, 1] + sigma[..., 2, 2])[..., None, None]
    return _block(trace * np.eye(3) - sigma, ms, transpose(ms), mass * np.eye(3))


def _block(a, b, c, d):
    top, bottom = np.concatenate([a, b], axis=-1), np.concatenate([c, d], axis=-1)
    return np.concatenate([top, bottom], axis=-2)
