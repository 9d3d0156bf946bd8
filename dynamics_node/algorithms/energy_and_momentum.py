"""Momenta, energies and center of mass. The root and everything fixed to it do not count: they do not
move."""

import numpy as np

from dynamics_node.algorithms.crba import composite_inertias
from dynamics_node.algorithms.recursion import (
    inward,
    joint_forces,
    joint_motions,
    outward,
    root_acceleration,
    rotor_torques,
)
from dynamics_node.algorithms.rnea import body_motions, body_wrenches
from dynamics_node.robot.transforms import joint_transforms
from dynamics_node.symbolic import cross_force, matvec, pseudo_inertia, skew


def generalized_momentum(robot, q, qd, gravity=None):
    """p (..., nv) = M(q) qd and rate (..., nv), with dp/dt = tau + rate, exactly, for every kind of joint.

    rate = (dM/dt) qd - h with the nonlinear effects h. No Coriolis matrix and no derivative is formed. S_i is
    constant in body axes, so p_i = S_i^T H_i with the momentum H_i of the subtree of body i. H_i changes by
    the wrenches on it and, since these axes move with v_i, by -v_i x* H_i (RBDA ch. 2). Joint wrenches give
    tau, so rate_i = S_i^T (weight_i - v_i x* H_i). For the angle of a joint this is dT/dq - dU/dq of
    Lagrange's equations (De Luca and Mattone 2003, Actuator failure detection and isolation using generalized
    momenta). It also holds for the rates of balls and floating bases, which are no derivatives of
    coordinates.

    q (..., nq), qd (..., nv), gravity (..., 3) in place of the robot's. Units: N m s or N s; N m or N.
    """
    X_up = joint_transforms(robot, q)
    v = outward(robot, X_up, joint_motions(robot, qd))
    H = inward(robot, X_up, matvec(robot.inertias, v))
    fall = outward(robot, X_up, np.zeros_like(v), -root_acceleration(robot, gravity))
    weights = inward(robot, X_up, matvec(robot.inertias, fall))
    change = weights - cross_force(v, H)
    return joint_forces(robot, H) + rotor_torques(robot, qd), joint_forces(robot, change)


_NO_GRAVITY = np.zeros(3)


def kinetic_energy(robot, q, qd):
    """(...) J, including rotors: qd M qd / 2. q (..., nq), qd (..., nv)."""
    p, _ = generalized_momentum(robot, q, qd, _NO_GRAVITY)
    return 0.5 * (p * qd).sum(axis=-1)


def potential_energy(robot, q, gravity=None):
    """(...) J of the moving bodies, zero with their center of mass at the origin of the root."""
    g = robot.gravity if gravity is None else gravity
    return -(g * _first_moment(robot, joint_transforms(robot, q))).sum(axis=-1)


def spatial_momentum(robot, q, qd):
    """h (..., 6), angular first, about the origin of the root in its axes, N m s and N s. Rotors do not
    count."""
    return _momentum(robot, joint_transforms(robot, q), qd)


def spatial_momentum_matrix(robot, q):
    """A (..., 6, nv): spatial momentum is A qd."""
    return np.stack(_momentum_columns(robot, joint_transforms(robot, q), q), axis=-1)


def centroidal_momentum(robot, q, qd):
    """`spatial_momentum` about the center of mass (Orin, Goswami, Lee 2013)."""
    X_up = joint_transforms(robot, q)
    return _about(_momentum(robot, X_up, qd), _center(robot, X_up))


def centroidal_momentum_matrix(robot, q):
    """A (..., 6, nv): centroidal momentum is A qd."""
    X_up = joint_transforms(robot, q)
    columns, center = _momentum_columns(robot, X_up, q), _center(robot, X_up)
    return np.stack([_about(column, center) for column in columns], axis=-1)


def center_of_mass(robot, q):
    """c (..., 3), m, in the root frame, and its Jacobian (..., 3, nv)."""
    X_up = joint_transforms(robot, q)
    columns = _momentum_columns(robot, X_up, q)
    return _center(robot, X_up), np.stack([column[..., 3:] for column in columns], axis=-1) / _mass(robot)


def center_of_mass_motion(robot, q, qd, qdd):
    """c, its velocity and acceleration (..., 3) in the root frame, m, m/s, m/s^2."""
    X_up = joint_transforms(robot, q)
    momenta = matvec(robot.inertias, outward(robot, X_up, joint_motions(robot, qd)))
    forces = body_wrenches(robot, body_motions(robot, X_up, qd, qdd, _NO_GRAVITY))
    total = [_at_root(robot, X_up, inward(robot, X_up, f))[..., 3:] / _mass(robot) for f in (momenta, forces)]
    return _center(robot, X_up), *total


def _mass(robot):
    return sum(robot.inertias[..., 5, 5])


def _center(robot, X_up):
    return _first_moment(robot, X_up) / _mass(robot)


def _first_moment(robot, X_up):
    """(..., 3): sum of m c in the root frame, kg m."""
    J = pseudo_inertia(robot.inertias)
    moments, masses = list(J[:, :3, 3]), list(J[:, 3, 3])
    total = np.zeros(3)
    for i in reversed(range(robot.nbodies)):
        parent = robot.parents[i]
        moment = X_up.force(i, np.concatenate([np.zeros_like(moments[i]), moments[i]], axis=-1))[..., 3:]
        moment = moment + masses[i] * X_up.origin(i)
        if parent >= 0:
            moments[parent] = moments[parent] + moment
            masses[parent] = masses[parent] + masses[i]
        else:
            total = total + moment
    return total


def _momentum(robot, X_up, qd):
    """(..., 6) of the moving bodies, about the origin of the root."""
    momenta = matvec(robot.inertias, outward(robot, X_up, joint_motions(robot, qd)))
    return _at_root(robot, X_up, inward(robot, X_up, momenta))


def _at_root(robot, X_up, wrenches):
    """Sum (..., 6) of the wrenches at the first bodies, about the origin of the root."""
    first = [i for i, parent in enumerate(robot.parents) if parent < 0]
    return sum((X_up.force(i, wrenches[..., i, :]) for i in first), np.zeros(6))


def _momentum_columns(robot, X_up, q):
    """[(..., 6)]: the momentum, about the origin of the root, for rate 1 of each coordinate."""
    columns = [np.zeros((*q.shape[:-1], 6))] * robot.nv
    for i, inertia in enumerate(composite_inertias(robot, X_up)):
        joint = robot.bodies[i].joint
        for column, weights in zip(joint.subspace.T, joint.weights, strict=True):
            h, above = matvec(inertia, column), i
            while above >= 0:
                h, above = X_up.force(above, h), robot.parents[above]
            for k in np.flatnonzero(weights):
                v = joint.v.start + k
                columns[v] = columns[v] + (h if weights[k] == 1.0 else weights[k] * h)
    return columns


def _about(h, point):
    """A momentum h (..., 6) about a point (..., 3) instead of the origin."""
    angular, linear = h[..., :3], h[..., 3:]
    return np.concatenate([angular - matvec(skew(point), linear), linear], axis=-1)
