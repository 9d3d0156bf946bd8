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
from dynamics_node.algorithms.transforms import joint_transforms
from dynamics_node.symbolic import cross_force, matvec, pseudo_inertia, skew


def generalized_momentum(model, q, qd, gravity=None):
    """p (..., nv) = M(q) qd and rate (..., nv), with dp/dt = tau + rate, exactly, for every kind of joint.

    rate = (dM/dt) qd - h with the nonlinear effects h. No Coriolis matrix and no derivative is formed. S_i is
    constant in body axes, so p_i = S_i^T H_i with the momentum H_i of the subtree of body i. H_i changes by
    the wrenches on it and, since these axes move with v_i, by -v_i x* H_i (RBDA ch. 2). Joint wrenches give
    tau, so rate_i = S_i^T (weight_i - v_i x* H_i). For the angle of a joint this is dT/dq - dU/dq of
    Lagrange's equations (De Luca and Mattone 2003, Actuator failure detection and isolation using generalized
    momenta). It also holds for the rates of balls and floating bases, which are no derivatives of
    coordinates.

    q (..., nq), qd (..., nv), gravity (..., 3) in place of the model's. Units: N m s or N s; N m or N.
    """
    X_up = joint_transforms(model, q)
    v = outward(model, X_up, joint_motions(model, qd))
    H = inward(model, X_up, matvec(model.inertias, v))
    fall = outward(model, X_up, np.zeros_like(v), -root_acceleration(model, gravity))
    weights = inward(model, X_up, matvec(model.inertias, fall))
    change = weights - cross_force(v, H)
    return joint_forces(model, H) + rotor_torques(model, qd), joint_forces(model, change)


_NO_GRAVITY = np.zeros(3)


def kinetic_energy(model, q, qd):
    """(...) J, including rotors: qd M qd / 2. q (..., nq), qd (..., nv)."""
    p, _ = generalized_momentum(model, q, qd, _NO_GRAVITY)
    return 0.5 * (p * qd).sum(axis=-1)


def potential_energy(model, q, gravity=None):
    """(...) J of the moving bodies, zero with their center of mass at the origin of the root."""
    g = model.gravity if gravity is None else gravity
    return -(g * _first_moment(model, joint_transforms(model, q))).sum(axis=-1)


def spatial_momentum(model, q, qd):
    """h (..., 6), angular first, about the origin of the root in its axes, N m s and N s. Rotors do not
    count."""
    return _momentum(model, joint_transforms(model, q), qd)


def spatial_momentum_matrix(model, q):
    """A (..., 6, nv): spatial momentum is A qd."""
    return np.stack(_momentum_columns(model, joint_transforms(model, q), q), axis=-1)


def centroidal_momentum(model, q, qd):
    """`spatial_momentum` about the center of mass (Orin, Goswami, Lee 2013)."""
    X_up = joint_transforms(model, q)
    return _about(_momentum(model, X_up, qd), _center(model, X_up))


def centroidal_momentum_matrix(model, q):
    """A (..., 6, nv): centroidal momentum is A qd."""
    X_up = joint_transforms(model, q)
    columns, center = _momentum_columns(model, X_up, q), _center(model, X_up)
    return np.stack([_about(column, center) for column in columns], axis=-1)


def center_of_mass(model, q):
    """c (..., 3), m, in the root frame, and its Jacobian (..., 3, nv)."""
    X_up = joint_transforms(model, q)
    columns = _momentum_columns(model, X_up, q)
    return _center(model, X_up), np.stack([column[..., 3:] for column in columns], axis=-1) / _mass(model)


def center_of_mass_motion(model, q, qd, qdd):
    """c, its velocity and acceleration (..., 3) in the root frame, m, m/s, m/s^2."""
    X_up = joint_transforms(model, q)
    momenta = matvec(model.inertias, outward(model, X_up, joint_motions(model, qd)))
    forces = body_wrenches(model, body_motions(model, X_up, qd, qdd, _NO_GRAVITY))
    total = [_at_root(model, X_up, inward(model, X_up, f))[..., 3:] / _mass(model) for f in (momenta, forces)]
    return _center(model, X_up), *total


def _mass(model):
    return sum(model.inertias[..., 5, 5])


def _center(model, X_up):
    return _first_moment(model, X_up) / _mass(model)


def _first_moment(model, X_up):
    """(..., 3): sum of m c in the root frame, kg m."""
    J = pseudo_inertia(model.inertias)
    moments, masses = list(J[:, :3, 3]), list(J[:, 3, 3])
    total = np.zeros(3)
    for i in reversed(range(model.nbodies)):
        parent = model.parents[i]
        moment = X_up.force(i, np.concatenate([np.zeros_like(moments[i]), moments[i]], axis=-1))[..., 3:]
        moment = moment + masses[i] * X_up.origin(i)
        if parent >= 0:
            moments[parent] = moments[parent] + moment
            masses[parent] = masses[parent] + masses[i]
        else:
            total = total + moment
    return total


def _momentum(model, X_up, qd):
    """(..., 6) of the moving bodies, about the origin of the root."""
    momenta = matvec(model.inertias, outward(model, X_up, joint_motions(model, qd)))
    return _at_root(model, X_up, inward(model, X_up, momenta))


def _at_root(model, X_up, wrenches):
    """Sum (..., 6) of the wrenches at the first bodies, about the origin of the root."""
    first = [i for i, parent in enumerate(model.parents) if parent < 0]
    return sum((X_up.force(i, wrenches[..., i, :]) for i in first), np.zeros(6))


def _momentum_columns(model, X_up, q):
    """[(..., 6)]: the momentum, about the origin of the root, for rate 1 of each coordinate."""
    columns = [np.zeros((*q.shape[:-1], 6))] * model.nv
    for i, inertia in enumerate(composite_inertias(model, X_up)):
        joint = model.bodies[i].joint
        for own, weights in zip(joint.subspace.T, joint.weights, strict=True):
            h, above = matvec(inertia, own), i
            while above >= 0:
                h, above = X_up.force(above, h), model.parents[above]
            for k in np.flatnonzero(weights):
                v = joint.v.start + k
                columns[v] = columns[v] + (h if weights[k] == 1.0 else weights[k] * h)
    return columns


def _about(h, point):
    """A momentum h (..., 6) about a point (..., 3) instead of the origin."""
    angular, linear = h[..., :3], h[..., 3:]
    return np.concatenate([angular - matvec(skew(point), linear), linear], axis=-1)
