"""Periodic motions with their criterion and constraints as functions of coefficients, with exact derivatives.

Motions are finite Fourier series that begin and end at rest: q(t) = c + sum_k a_k sin(k w t) + b_k cos(k w t)
with k = 1 ... N, w = 2 pi / period (Swevers et al., Optimal robot excitation and identification, IEEE T-RA
1997). Velocity and acceleration are zero at the start and therefore at every end: sum_k k a_k = 0 and sum_k
k^2 b_k = 0. Coefficients that satisfy this are combinations of a few basis curves, so that q is an
unconstrained sum of these.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dynamics_node.errors import InputError
from dynamics_node.identification.excitation.bounds import Bounds
from dynamics_node.identification.excitation.information import Regressor
from dynamics_node.identification.excitation.limits_along_motion import JointRows

DENSE = 100  # samples per shortest period
LEAST_HARMONICS = 2  # harmonics: a single one cannot start at rest
MOST_HARMONICS = 50  # the time of the search grows with the cube of the number


@dataclass(frozen=True, eq=False)
class Series:
    """period: s. start (nv,): positions at time 0, or None if free."""

    period: float
    harmonics: int
    start: np.ndarray | None = None

    def __post_init__(self):
        if not (np.isfinite(self.period) and self.period > 0):
            raise InputError(f"the period must be positive, not {self.period:g} s")
        if self.harmonics < LEAST_HARMONICS:
            raise InputError(f"there must be at least {LEAST_HARMONICS} harmonics, not {self.harmonics}")
        if self.harmonics > MOST_HARMONICS:
            raise InputError(f"there may be at most {MOST_HARMONICS} harmonics, not {self.harmonics}")

    @property
    def size(self):
        """Number of coefficients per joint."""
        return 2 * self.harmonics - (2 if self.start is not None else 1)

    def times(self, count):
        """Times (count,) in s of one period without its end."""
        return self.period * np.arange(count) / count

    @property
    def dense(self):
        """Times for locating extremes of curves."""
        return self.times(DENSE * self.harmonics)

    def curves(self, time):
        """Positions, velocities and accelerations, each (times, size), of the curves at times (times,)."""
        k = np.arange(1, self.harmonics + 1)
        w = 2 * np.pi / self.period * k
        s, c = np.sin(np.outer(time, w)), np.cos(np.outer(time, w))
        parts = [part @ self._combinations for part in _derivatives(s, c, w)]
        if self.start is None:
            return tuple(np.column_stack([ones, part]) for ones, part in zip(_one(time), parts, strict=True))
        at_start = np.concatenate([np.zeros(self.harmonics), np.ones(self.harmonics)]) @ self._combinations
        return parts[0] - at_start, parts[1], parts[2]

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


SAMPLES = 20  # per shortest period
FINER = 10  # factor of the grid on which limits are verified


class Curves:
    """Motions of a robot's joints at given times: the center plus a sum of curves. Each curve is scaled so
    that alone it just reaches the bounds of its joint."""

    def __init__(self, series: Series, bounds: Bounds, time):
        parts = series.curves(time)
        limits = (bounds.half, bounds.velocity, bounds.acceleration)
        pairs = zip(series.curves(series.dense), limits, strict=True)
        reach = [np.abs(part).max(axis=0) / limit[:, None] for part, limit in pairs]
        self.scale = 1.0 / np.max(reach, axis=0)  # (nv, size)
        self._parts = [part * self.scale[:, None, :] for part in parts]  # each (nv, times, size)
        self._middle = bounds.center if series.start is None else series.start

    def states(self, x):
        """q, qd, qdd, each (times, nv), for coefficients x (nv, size)."""
        q, qd, qdd = (np.ascontiguousarray((part @ x[..., None])[..., 0].T) for part in self._parts)
        return q + self._middle, qd, qdd

    def pulled(self, slopes):
        """Derivatives (..., nv, size) from derivatives (times, ..., nv) by q, qd and qdd."""
        pairs = zip(slopes, self._parts, strict=True)
        return sum(np.einsum("t...j,jtm->...jm", slope, part) for slope, part in pairs)

    def joint_pulled(self, kind, slopes):
        """(nv, size) from derivatives (times, nv) of one quantity of every joint by its own `kind`."""
        return np.einsum("tj,jtm->jm", slopes, self._parts[kind])


class ExcitationProblem:
    """The optimization problem: coefficients x (nv, size) of a Series, in the units of Curves. nonlinear:
    constraint rows in addition to those of joints."""

    def __init__(self, series: Series, bounds: Bounds, regressor: Regressor, nonlinear):
        self.series, self.bounds, self.regressor = series, bounds, regressor
        self.joints, self.nonlinear = JointRows(regressor.linear.robot.v_names, bounds), tuple(nonlinear)
        self.count = SAMPLES * series.harmonics
        self.curves = self.curves_at(series.times(self.count))
        self.shape = self.curves.scale.shape
        parts = (self.joints, *self.nonlinear)
        self.names = tuple(name for part in parts for name in part.names)
        self.two_sided = np.concatenate([part.two_sided for part in parts])

    @cached_property
    def fine(self):
        """The curves on the verification grid."""
        return self.curves_at(self.series.times(FINER * self.count))

    def curves_at(self, time):
        """The curves at other times (times,), s."""
        return Curves(self.series, self.bounds, time)

    # --- criterion ------------------------------------------------------------------------------------------

    def criterion(self, x, of):
        """Value of the criterion `of` at the mean information of the samples, and its derivative (nv,
        size)."""
        states = self.curves.states(x)
        W = self.regressor.matrix(*states)
        rows = W.reshape(-1, W.shape[-1])
        value, slope = of(rows.T @ rows / len(W))
        weights = (rows @ (2.0 / len(W) * slope)).reshape(W.shape)
        return value, self.curves.pulled(self.regressor.pulled(weights, *states))

    def information(self, x):
        """Information (r, r) of one sample of every torque, averaged over the period."""
        return self.regressor.information(*self.fine.states(x))

    # --- constraints ----------------------------------------------------------------------------------------

    def rows(self, states):
        """Constraint rows (states, rows) in units of their limits."""
        return np.concatenate([part.values(*states) for part in (self.joints, *self.nonlinear)], axis=1)

    def used(self, x, curves=None):
        """Largest used fraction (rows,) of every limit."""
        values = self.rows((curves or self.curves).states(x))
        return np.where(self.two_sided, np.abs(values), values).max(axis=0)

    def smooth_used(self, x, sharpness):
        """Smooth upper bound (rows,) of `used`, a log-sum-exp (Kreisselmeier and Steinhauser 1979), and its
        derivative (rows, nv, size)."""
        states = self.curves.states(x)
        values = self.rows(states)
        most, weights = _smooth_largest(values, self.two_sided, sharpness)
        slopes, nv, start = [], self.shape[0], 3 * self.shape[0]
        for kind, limit in enumerate(self.joints.limits):
            slopes_of_kind = self.curves.joint_pulled(kind, weights[:, kind * nv : (kind + 1) * nv] / limit)
            slopes.append(np.eye(nv)[..., None] * slopes_of_kind)
        for part in self.nonlinear:
            stop = start + len(part.names)
            slopes_of_kind = weights[:, start:stop, None]
            slopes.append(self.curves.pulled([slopes_of_kind * slope for slope in part.slopes(*states)]))
            start = stop
        return most, np.concatenate(slopes)


def condition(information):
    """Condition of a regressor from its information (r, r)."""
    return float(np.sqrt(np.linalg.cond(information)))


def _smooth_largest(values, two_sided, sharpness):
    """Smooth maxima (rows,) of values (states, rows), and their derivatives."""
    shift = np.where(two_sided, np.abs(values), values).max(axis=0)
    up = np.exp(sharpness * (values - shift))
    down = np.where(two_sided, np.exp(-sharpness * (values + shift)), 0.0)
    total = (up + down).sum(axis=0)
    return shift + np.log(total) / sharpness, (up - down) / total


SHRINKS = 8  # reductions at most
SHRINK = 0.8
TOUCHING = 0.999  # fraction of a limit: avoids rounding errors above it


def random_motion(problem: ExcitationProblem, random: np.random.Generator):
    """Random coefficients (nv, size): every joint reaches one of its own limits. If torques or boxes are then
    exceeded, all joints move less, at most SHRINKS times."""
    x = _within_joint_limits(problem, random)
    for _ in range(SHRINKS):
        if problem.used(x, problem.fine).max() <= 1.0:
            break
        x = np.where(_moving(problem), SHRINK * x, x)
    return x


def _moving(problem):
    """Mask of the coefficients of curves that move."""
    moving = np.ones(problem.shape[1], dtype=bool)
    moving[0] = problem.series.start is not None
    return moving


def _within_joint_limits(problem, random):
    x = np.where(_moving(problem), random.normal(size=problem.shape), 0.0)
    q, qd, qdd = problem.fine.states(x)
    bounds, fixed = problem.bounds, problem.series.start is not None
    low, high = q.min(axis=0), q.max(axis=0)
    used = [np.abs(qd).max(axis=0) / bounds.velocity, np.abs(qdd).max(axis=0) / bounds.acceleration]
    if fixed:
        start = problem.series.start
        room = bounds.half - np.abs(start - bounds.center)
        used.append(np.maximum(high - start, start - low) / room)
    else:
        used.append((high - low) / (2 * bounds.half))
    x = TOUCHING * x / np.max(used, axis=0)[:, None]
    if not fixed:
        q = problem.fine.states(x)[0]
        low, high = q.min(axis=0), q.max(axis=0)
        down, up = bounds.center - bounds.half - low, bounds.center + bounds.half - high
        x[:, 0] = (down + random.uniform(size=len(down)) * (up - down)) / problem.curves.scale[:, 0]
    return x
