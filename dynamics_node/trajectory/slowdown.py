"""The smallest uniform slowdown that satisfies limits, by roots of polynomials.

If all times of a motion are multiplied by s, torques are c + b x + a x^2 with x = 1/s. Gravity, springs and
dry friction stay; viscous friction scales with the velocity, inertial and Coriolis torques with its square.
Rates of torques have one power more. Velocities scale with x, accelerations with x^2, jerks with x^3.
"""

import numpy as np

TOLERANCE = 1e-6  # of a limit: messages round times to nanoseconds
WORST = 16  # entries whose roots a step compares


def largest_speed(coefficients, lower, upper):
    """The largest x in (0, 1] at which polynomials are within limits, 0 if there is none; and the index of
    the one that bounds it, -1 if x = 1. coefficients (degree + 1, n): from the constant on; lower < 0 < upper
    (n,)."""
    x, last = 1.0, -1
    while x > 0:  # every step ends at the next root of a polynomial: a handful suffices
        value = np.zeros_like(upper)
        for coefficient in coefficients[::-1]:
            value = value * x + coefficient
        limit = np.where(value > 0, upper, lower)
        used = value / limit
        over = np.flatnonzero(used > 1 + TOLERANCE)
        if not over.size:
            return x, last
        over = over[np.argsort(used[over])[-WORST:]]
        roots = [_largest_root(coefficients[:, k], limit[k], x) for k in over]
        worst = int(np.argmin(roots))
        x, last = float(roots[worst]), int(over[worst])
    return 0.0, last


def _largest_root(coefficients, limit, below):
    """The largest x in (0, below) with the value `limit`; 0 without one."""
    shifted = coefficients.astype(float)
    shifted[0] -= limit
    roots = np.roots(shifted[::-1] * below ** np.arange(len(shifted))[::-1])  # in terms of `below`
    real = roots.real[np.abs(roots.imag) <= 1e-9]
    return below * real[(real > 0) & (real < 1)].max(initial=0.0)
