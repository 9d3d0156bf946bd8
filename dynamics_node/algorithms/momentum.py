"""Generalised momentum p = M qd, and what changes it beside the torques."""

import numpy as np

from dynamics_node.algorithms.recursion import (
    inward,
    joint_forces,
    joint_motions,
    outward,
    root_acceleration,
    rotor_torques,
)
from dynamics_node.algorithms.transforms import joint_transforms
from dynamics_node.symbolic import cross_force, matvec


def generalized_momentum(model, q, qd, gravity=None):
    """p (..., nv) = M(q) qd and rate (..., nv), with dp/dt = tau + rate, exactly, for every kind of joint.

    rate = (dM/dt) qd - h, h being the bias. No Coriolis matrix and no derivative is formed: S_i is constant
    in body axes, there p_i = S_i^T H_i, where H_i is the momentum of all that body i carries, and H_i changes
    by the wrenches on it and, since these axes move with v_i, by -v_i x* H_i (RBDA ch. 2). What joints
    transmit gives tau, so rate_i = S_i^T (weight_i - v_i x* H_i). In the angle of a joint this is
    dT/dq - dU/dq of Lagrange's equations (De Luca and Mattone 2003, Actuator failure detection and isolation
    using generalized momenta); it holds for the rates of balls and floating bases, too, which are no
    derivatives of coordinates.

    q (..., nq), qd (..., nv), gravity (..., 3) in place of the model's. Units: N m s or N s; N m or N.
    """
    X_up = joint_transforms(model, q)
    v = outward(model, X_up, joint_motions(model, qd))
    H = inward(model, X_up, matvec(model.inertias, v))
    fall = outward(model, X_up, np.zeros_like(v), -root_acceleration(model, gravity))
    weights = inward(model, X_up, matvec(model.inertias, fall))
    change = weights - cross_force(v, H)
    return joint_forces(model, H) + rotor_torques(model, qd), joint_forces(model, change)
