"""Joint friction: viscous and Coulomb, smoothed where the joint hardly moves."""

import numpy as np

SMOOTHING = 0.01  # rad/s or m/s
CREEP = 0.1  # rad/s or m/s within which friction of lubricated gears grows


def friction_torque(qd, viscous, coulomb, smoothing=SMOOTHING, creep=None):
    """What it takes to overcome friction (..., nv) in N m or N: viscous qd + coulomb tanh(qd / smoothing) +
    creep tanh(qd / 0.1).

    qd (..., nv); viscous (nv,) N m s/rad or N s/m and coulomb (nv,) N m or N, of the URDF's <dynamics
    damping friction> in Robot.damping and Robot.friction.
    """
    tau = viscous * qd + coulomb * np.tanh(qd / smoothing)
    return tau if creep is None else tau + creep * np.tanh(qd / CREEP)
