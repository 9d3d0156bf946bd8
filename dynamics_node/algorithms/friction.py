"""Joint friction: viscous and Coulomb, smoothed where the joint hardly moves."""

import numpy as np

SMOOTHING = 0.01  # rad/s or m/s


def friction_torque(qd, viscous, coulomb, smoothing=SMOOTHING):
    """What it takes to overcome friction (..., nv) in N m or N: viscous qd + coulomb tanh(qd / smoothing).

    qd (..., nv); viscous (nv,) N m s/rad or N s/m and coulomb (nv,) N m or N, of the URDF's <dynamics
    damping friction> in Model.damping and Model.friction.
    """
    return viscous * qd + coulomb * np.tanh(qd / smoothing)
