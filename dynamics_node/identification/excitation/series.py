"""Periodic motions as finite Fourier series that start and end at rest.

q(t) = c + sum_k a_k sin(k w t) + b_k cos(k w t), k = 1 ... N, w = 2 pi / period (Swevers et al., Optimal
robot excitation and identification, IEEE T-RA 1997). Velocity and acceleration are zero at the start, and so
at every end: sum_k k a_k = 0 and sum_k k^2 b_k = 0. The coefficients that obey this are combinations of a few
curves, of which q is a sum without further conditions.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

DENSE = 100  # samples of the shortest period
LEAST = 2  # harmonics: with one, what starts at rest does not move
MOST = 50  # the search takes the cube of their number


@dataclass(frozen=True, eq=False)
class Series:
    """period: s. start (nv,): the positions at time 0, or None where they are free."""

    period: float
    harmonics: int
    start: np.ndarray | None = None

    def __post_init__(self):
        if not (np.isfinite(self.period) and self.period > 0):
            raise ValueError(f"the period must be positive, not {self.period:g} s")
        if self.harmonics < LEAST:
            raise ValueError(f"there must be at least {LEAST} harmonics, not {self.harmonics}")
        if self.harmonics > MOST:
            raise ValueError(f"there may be at most {MOST} harmonics, not {self.harmonics}")

    @property
    def size(self):
        """How many coefficients a joint has."""
        return 2 * self.harmonics - (2 if self.start is not None else 1)

    def times(self, count):
        """(count,) s, of one period without its end."""
        return self.period * np.arange(count) / count

    @property
    def dense(self):
        """Times at which extremes of curves are found."""
        return self.times(DENSE * self.harmonics)

    def curves(self, time):
        """Positions, velocities and accelerations, each (times, size), of the curves at times (times,)."""
        k = np.arange(1, self.harmonics + 1)
        w = 2 * np.pi / self.period * k
        s, c = np.sin(np.outer(time, w)), np.cos(np.outer(time, w))
        found = [part @ self._combinations for part in _derivatives(s, c, w)]
        if self.start is None:
            return tuple(np.column_stack([ones, part]) for ones, part in zip(_one(time), found, strict=True))
        at_start = np.concatenate([np.zeros(self.harmonics), np.ones(self.harmonics)]) @ self._combinations
        return found[0] - at_start, found[1], found[2]

    @cached_property
    def _combinations(self):
        """(2 N, 2 N - 2): coefficients a, b of curves that are at rest at the start."""
        from scipy.linalg import null_space

        k = np.arange(1, self.harmonics + 1)
        zero = np.zeros(self.harmonics)
        return null_space(np.array([[*k, *zero], [*zero, *k**2]]) / self.harmonics)


def _derivatives(s, c, w):
    return np.hstack([s, c]), np.hstack([w * c, -w * s]), np.hstack([-(w**2) * s, -(w**2) * c])


def _one(time):
    zero = np.zeros(len(time))
    return zero + 1.0, zero, zero
