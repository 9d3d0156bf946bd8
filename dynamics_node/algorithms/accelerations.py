"""Accelerations of the bodies and the wrenches that cause them.

The unknown is the classical acceleration of a body's origin, not the spatial one: the equations are the same,
but no linear velocity appears. The acceleration of the point r of a body is a + U r in body axes, with
U = wd^ + w^ w^. Luh, Walker, Paul 1980; Khalil and Dombre 2002, sec. 9.5.
"""

from typing import NamedTuple

import numpy as np

from dynamics_node.algorithms.recursion import joint_motions
from dynamics_node.spatial import matvec, pseudo_inertia, skew


class Accelerations(NamedTuple):
    """U (..., nbodies, 3, 3) and a (..., nbodies, 3), m/s^2, of all bodies in their own axes."""

    U: np.ndarray
    a: np.ndarray


def body_accelerations(model, X_up, qd, qdd, gravity=None) -> Accelerations:
    """Accelerations at rates qd, qdd (..., nv); the root accelerates by -gravity, to the same effect."""
    rates, changes = joint_motions(model, qd), joint_motions(model, qdd)
    turning, sliding = rates[..., :3], rates[..., 3:]
    w_before = _angular_velocity_before(model, X_up, turning)
    w = [before + turning[..., i, :] for i, before in enumerate(w_before)]
    wd: list[np.ndarray] = []
    U: list[np.ndarray] = []
    a: list[np.ndarray] = []
    for i, parent in enumerate(model.parents):
        own = changes[..., i, :3] + _cross(w_before[i], turning[..., i, :])
        wd.append(own if parent < 0 else own + X_up.vector(i, wd[parent]))
        U.append(skew(wd[i]) + _squared(w[i]))
        root = -(model.gravity if gravity is None else gravity)
        before = root if parent < 0 else a[parent] + matvec(U[parent], X_up.origin(i))
        velocity_product = _cross(w_before[i] + w[i], sliding[..., i, :])
        a.append(X_up.vector(i, before) + (changes[..., i, 3:] + velocity_product))
    batch = qd.shape[:-1]
    return Accelerations(_over_bodies(U, batch, (3, 3)), _over_bodies(a, batch, (3,)))


def _over_bodies(arrays, batch, shape):
    """Arrays (*batch, *shape), one a body, as one (*batch, nbodies, *shape)."""
    return np.stack(arrays, axis=len(batch)) if arrays else np.zeros((*batch, 0, *shape))


def _angular_velocity_before(model, X_up, turning):
    """Of every body the angular velocity of its parent, in the body's axes."""
    w_before: list[np.ndarray] = []
    for i, parent in enumerate(model.parents):
        if parent < 0:
            w_before.append(np.zeros_like(turning[..., i, :]))
        else:
            w_before.append(X_up.vector(i, w_before[parent] + turning[..., parent, :]))
    return w_before


def body_wrenches(model, accelerations: Accelerations):
    """f (..., nbodies, 6): what accelerates every body so, about its origin in its axes."""
    U, a = accelerations
    J = pseudo_inertia(model.inertias)
    sigma, ms, mass = J[:, :3, :3], J[:, :3, 3], J[:, 3, 3:]
    moment = _moment(U, sigma) + _cross(ms, a)
    return np.concatenate([moment, matvec(U, ms) + mass * a], axis=-1)


def _moment(U, sigma):
    """The integral of r x U r dm, sigma being that of r r^T dm."""
    sums = []
    for i, j, k in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
        sums.append(
            U[..., k, j] * sigma[..., j, j]
            - U[..., j, k] * sigma[..., k, k]
            + (U[..., k, k] - U[..., j, j]) * sigma[..., j, k]
            + U[..., k, i] * sigma[..., i, j]
            - U[..., j, i] * sigma[..., i, k]
        )
    return np.stack(sums, axis=-1)


def _cross(x, y):
    return matvec(skew(x), y)


def _squared(w):
    """w^ w^."""
    cross = skew(w)
    return cross @ cross
