"""Inverse dynamics: the recursive Newton-Euler algorithm, RBDA Table 5.1 and paper 1 eqs. (4)-(7).

The unknown of its outward sweep is the classical acceleration of a body's origin, not the spatial one: the
equations are the same, but no linear velocity appears. The acceleration of the point r of a body is a + U r
in body axes, with U = wd^ + w^ w^. Luh, Walker, Paul 1980; Khalil and Dombre 2002, sec. 9.5.
"""

from typing import NamedTuple

import numpy as np

from dynamics_node.algorithms.recursion import inward, joint_forces, joint_motions, rotor_torques
from dynamics_node.robot.transforms import joint_transforms
from dynamics_node.symbolic import matvec, pseudo_inertia, skew


class Motion(NamedTuple):
    """Motion of a body in its own axes: angular velocity w and its derivative wd (..., 3), U (..., 3, 3), and
    the acceleration a (..., 3) of its origin, m/s^2."""

    w: np.ndarray
    wd: np.ndarray
    U: np.ndarray
    a: np.ndarray


def body_motions(robot, X_up, qd, qdd, gravity=None) -> list[Motion]:
    """The Motions of all bodies at rates qd, qdd (..., nv)."""
    rates, changes = joint_motions(robot, qd), joint_motions(robot, qdd)
    root = root_motion(robot.gravity if gravity is None else gravity)
    motions: list[Motion] = []
    for i, parent in enumerate(robot.parents):
        before = root if parent < 0 else motions[parent]
        motions.append(next_motion(X_up, i, before, rates[..., i, :], changes[..., i, :]))
    return motions


def root_motion(gravity) -> Motion:
    """Motion of the root: gravity (..., 3) enters as the fictitious acceleration -g (RBDA 5.3)."""
    still = np.zeros_like(gravity)
    return Motion(still, still, np.zeros((*gravity.shape, 3), still.dtype), -gravity)


def next_motion(X_up, i, before: Motion, rates, changes) -> Motion:
    """The Motion of body i from that of its parent; rates, changes (..., 6): S qd and S qdd of its joint."""
    turning, sliding = rates[..., :3], rates[..., 3:]
    w_before = X_up.vector(i, before.w)
    w = w_before + turning
    wd = X_up.vector(i, before.wd) + (changes[..., :3] + _cross(w_before, turning))
    velocity_product = _cross(w_before + w, sliding)
    a = X_up.vector(i, before.a + matvec(before.U, X_up.origin(i))) + (changes[..., 3:] + velocity_product)
    return Motion(w, wd, skew(wd) + _squared(w), a)


def body_wrenches(robot, motions):
    """f (..., nbodies, 6): the wrench for every body's motion, about its origin in its axes."""
    if not motions:
        return np.zeros((0, 6))
    U = np.stack([motion.U for motion in motions], axis=-3)
    a = np.stack([motion.a for motion in motions], axis=-2)
    return body_wrench(U, a, pseudo_inertia(robot.inertias))


def body_wrench(U, a, J):
    """f (..., 6) for the motion of bodies with pseudo-inertias J (..., 4, 4)."""
    sigma, ms, mass = J[..., :3, :3], J[..., :3, 3], J[..., 3, 3:]
    moment = _moment(U, sigma) + _cross(ms, a)
    return np.concatenate([moment, matvec(U, ms) + mass * a], axis=-1)


def _moment(U, sigma):
    """The integral of r x U r dm; sigma is that of r r^T dm."""
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


def rnea(robot, q, qd, qdd, f_ext=None, gravity=None):
    """tau (..., nv) in N m or N that produces qdd.

    q (..., nq), qd, qdd (..., nv); f_ext (..., nbodies, 6): wrench of the environment ON every body,
    moment first, body axes, at the body origin; gravity (..., 3) in place of the robot's.
    """
    X_up = joint_transforms(robot, q)
    f = body_wrenches(robot, body_motions(robot, X_up, qd, qdd, gravity))
    if f_ext is not None:
        f = f - f_ext
    return joint_forces(robot, inward(robot, X_up, f)) + rotor_torques(robot, qdd)


def nonlinear_effects(robot, q, qd, f_ext=None, gravity=None):
    """h (..., nv) of M qdd + h = tau: gravity, Coriolis and centrifugal terms, external wrenches."""
    return rnea(robot, q, qd, np.zeros_like(qd), f_ext, gravity)
