"""The smallest uniform slowdown that satisfies limits, in closed form.

If all times of a motion are multiplied by s, torques are c + b x + a x^2 with x = 1/s. Gravity, springs and
dry friction stay; viscous friction scales with the velocity, inertial and Coriolis torques with its square.
Velocities scale with x, accelerations with x^2, jerks with x^3.
"""

import numpy as np

TOLERANCE = 1e-6  # of a limit: messages round times to nanoseconds


def largest_speed(constant, linear, square, limit):
    """The largest x in (0, 1] with |constant + linear x + square x^2| <= limit for all entries, 0 if there is
    none; and the index of the entry that bounds it, -1 if x = 1. All arrays (n,)."""
    bound = limit * (1 + TOLERANCE)
    x, last = 1.0, -1
    while x > 0:  # every step ends at the next root of an entry: a handful suffices
        value = constant + x * (linear + x * square)
        over = np.flatnonzero(np.abs(value) > bound)
        if not over.size:
            return x, last
        c, b, a, sign = constant[over], linear[over], square[over], np.sign(value[over])
        roots = _largest_root(sign * a, sign * b, sign * c - limit[over], x)
        worst = int(np.argmin(roots))
        x, last = float(roots[worst]), int(over[worst])
    return 0.0, last


def _largest_root(a, b, c, below):
    """The largest root in (0, below) of a x^2 + b x + c (n,), which is positive at `below`; 0 without one."""
    with np.errstate(all="ignore"):
        half = np.sqrt(b * b - 4 * a * c)
        stable = -0.5 * (b + np.where(b < 0, -half, half))
        roots = np.stack([stable / a, c / stable])
    return np.where((roots > 0) & (roots < below), roots, 0.0).max(axis=0)
