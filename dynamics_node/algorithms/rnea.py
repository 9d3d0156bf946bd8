"""Inverse dynamics: the recursive Newton-Euler algorithm, RBDA Table 5.1 and paper 1 eqs. (4)-(7)."""

import numpy as np

from dynamics_node.algorithms.accelerations import body_motions, body_wrenches
from dynamics_node.algorithms.recursion import inward, joint_forces, rotor_torques
from dynamics_node.algorithms.transforms import joint_transforms


def rnea(model, q, qd, qdd, f_ext=None, gravity=None):
    """tau (..., nv) in N m or N that produces qdd.

    q (..., nq), qd, qdd (..., nv); f_ext (..., nbodies, 6): wrench of the environment ON every body,
    moment first, body axes, at the body origin; gravity (..., 3) in place of the model's.
    """
    X_up = joint_transforms(model, q)
    f = body_wrenches(model, body_motions(model, X_up, qd, qdd, gravity))
    if f_ext is not None:
        f = f - f_ext
    return joint_forces(model, inward(model, X_up, f)) + rotor_torques(model, qdd)


def nonlinear_effects(model, q, qd, f_ext=None, gravity=None):
    """h (..., nv) of M qdd + h = tau: gravity, Coriolis and centrifugal terms, external wrenches."""
    return rnea(model, q, qd, np.zeros_like(qd), f_ext, gravity)
