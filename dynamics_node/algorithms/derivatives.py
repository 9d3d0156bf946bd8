"""Derivatives of inverse dynamics by composite bodies, of one body or velocity coordinate at a time.

Singh, Russo and Wensing 2022, Efficient analytical derivatives of rigid-body dynamics using spatial vector
algebra. Velocity terms are written here with moments of mass and momentum: for the points r of a body, which
move at r', the sums of m, m r, m r r^T, m r' and m r' r^T, in place of the 36 numbers of a matrix B.
All vectors are in one inertial frame: motions (w, v) and wrenches (n, f) about its origin; gravity is part of
the accelerations.
"""

from typing import NamedTuple

import numpy as np

from dynamics_node.robot.transforms import joint_transforms
from dynamics_node.symbolic import cross_force, cross_motion, matvec, skew, symmetric, transpose


class Inertia(NamedTuple):
    """mass (..., 1), first (..., 3) and second (..., 3, 3) moments."""

    mass: np.ndarray
    first: np.ndarray
    second: np.ndarray


class Momentum(NamedTuple):
    """sum m r' (..., 3) and sum m r' r^T (..., 3, 3)."""

    linear: np.ndarray
    turning: np.ndarray


class Column(NamedTuple):
    """The motion of a velocity coordinate: S, at rate 1; first and second, its derivatives as moved by the
    body before; both, that plus its change with its own body. All (..., 6)."""

    S: np.ndarray
    first: np.ndarray
    second: np.ndarray
    both: np.ndarray


class Load(NamedTuple):
    """For the subtree of a coordinate: the wrenches (..., 6) for a change of its acceleration, velocity and
    position, and the moment (..., 3) by which velocities before it act on it."""

    acceleration: np.ndarray
    velocity: np.ndarray
    position: np.ndarray
    moment: np.ndarray


def frames(robot, q, gravity):
    """For all bodies of one state, in the frame of the root body above them: axes R (nbodies, 3, 3) and
    origins p (nbodies, 3); for root bodies also the acceleration (nbodies, 3) equivalent to gravity."""
    X_up = joint_transforms(robot, q)
    R = np.zeros((robot.nbodies, 3, 3), dtype=q.dtype)
    p, fall = np.zeros((robot.nbodies, 3), dtype=q.dtype), np.zeros((robot.nbodies, 3), dtype=q.dtype)
    for i, parent in enumerate(robot.parents):
        if parent < 0:
            R[i], fall[i] = np.eye(3), -X_up.vector(i, gravity)
        else:
            R[i] = np.stack([X_up.vector(i, row) for row in R[parent]])
            p[i] = p[parent] + R[parent] @ X_up.origin(i)
    return R, p, fall


# --- a body -------------------------------------------------------------------------------------------------


def placed_motion(R, p, S):
    """A motion S (..., 6) in the axes R (..., 3, 3) and about the origin p (..., 3) of a body, in the common
    frame."""
    turning = matvec(R, S[..., :3])
    return np.concatenate([turning, matvec(R, S[..., 3:]) + _cross(p, turning)], axis=-1)


def placed_wrench(R, p, f):
    """A wrench in the common frame."""
    force = matvec(R, f[..., 3:])
    return np.concatenate([matvec(R, f[..., :3]) + _cross(p, force), force], axis=-1)


def placed_inertia(R, p, J) -> Inertia:
    """The Inertia of a pseudo-inertia J (..., 4, 4) in the common frame."""
    moment, mass = matvec(R, J[..., :3, 3]), J[..., 3, 3:]
    first = moment + mass * p
    turned = symmetric(R @ J[..., :3, :3] @ transpose(R))
    return Inertia(mass, first, symmetric(turned + _outer(moment, p) + _outer(p, first)))


def momentum(inertia: Inertia, v) -> Momentum:
    """The Momentum of a body with velocity v (..., 6)."""
    spin = skew(v[..., :3])
    linear = matvec(spin, inertia.first) + inertia.mass * v[..., 3:]
    return Momentum(linear, spin @ inertia.second + _outer(v[..., 3:], inertia.first))


def inertia_times(inertia: Inertia, x):
    """The wrench (..., 6) for the acceleration x (..., 6)."""
    moment = _about(inertia.second, x[..., :3]) + _cross(inertia.first, x[..., 3:])
    force = inertia.mass * x[..., 3:] + _cross(x[..., :3], inertia.first)
    return np.concatenate([moment, force], axis=-1)


def twisted(momentum: Momentum, w):
    """The wrench (..., 6) of forces m w x r' at all points."""
    return np.concatenate([_about(momentum.turning, w), _cross(w, momentum.linear)], axis=-1)


def _about(N, w):
    """The sum of r x (w x y), N the sum of y r^T: w tr N - N w."""
    i, j, k = N[..., 0, 0], N[..., 1, 1], N[..., 2, 2]
    return np.stack([j + k, k + i, i + j], axis=-1) * w - matvec(N * (1.0 - np.eye(3)), w)


# --- a coordinate -------------------------------------------------------------------------------------------


def first_rates(S, v_before, v_joint):
    """`first` and `both` of a Column; v_before (..., 6): velocity of the body before; v_joint: of the joint,
    zero if it has no other coordinate."""
    first = cross_motion(v_before, S)
    return first, 2.0 * first + cross_motion(v_joint, S)


def second_rates(S, first, v_before, a_before):
    """`second` of a Column; a_before (..., 6): acceleration of the body before."""
    return cross_motion(a_before, S) + cross_motion(v_before, first)


def load(column: Column, inertia: Inertia, momentum: Momentum, wrench, acceleration) -> Load:
    """The Load of a Column: inertia, momentum and wrench (..., 6) of its subtree; acceleration: the inertia
    times S."""
    S, twice = column.S, Momentum(2.0 * momentum.linear, 2.0 * momentum.turning)
    velocity = inertia_times(inertia, column.both) + twisted(twice, S[..., :3])
    position = inertia_times(inertia, column.second) + twisted(twice, column.first[..., :3])
    moment = _about(transpose(twice.turning), S[..., :3]) + _cross(twice.linear, S[..., 3:])
    return Load(acceleration, velocity, position + cross_force(S, wrench), moment)


def torques_above(load: Load, column: Column):
    """Torque of a Column by position and velocity of a coordinate in its subtree."""
    return dot(column.S, load.position), dot(column.S, load.velocity)


def torques_below(load: Load, column: Column):
    """Torque of a coordinate in the subtree by position and velocity of the Column."""
    by_position = dot(load.acceleration, column.second) + dot(load.moment, column.first[..., :3])
    return by_position, dot(load.acceleration, column.both) + dot(load.moment, column.S[..., :3])


def dot(x, y):
    """Products of vectors (..., n)."""
    return (x * y).sum(axis=-1)


def _cross(x, y):
    return matvec(skew(x), y)


def _outer(x, y):
    return x[..., :, None] * y[..., None, :]
