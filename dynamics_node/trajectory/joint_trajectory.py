"""Points of a trajectory_msgs/JointTrajectory, and the splines that joint_trajectory_controller executes.

Between two points a joint moves along a line, with velocities at both points along a cubic, with
accelerations as well along a polynomial of fifth degree. The controller chooses by the fields of both points.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, NamedTuple

import numpy as np

from dynamics_node.functions import InputError
from dynamics_node.functions.checks import numbers, positive

FIELDS = ("positions", "velocities", "accelerations")
LINE, CUBIC, QUINTIC = 1, 3, 5


class Samples(NamedTuple):
    """time (s,); q, qd, qdd, jerk (s, joints); jerk: None if it is not computed."""

    time: np.ndarray
    q: np.ndarray
    qd: np.ndarray
    qdd: np.ndarray
    jerk: np.ndarray | None


@dataclass(frozen=True, eq=False)
class JointTrajectory:
    """The points of a trajectory, as arrays.

    Attributes
    ----------
    names : tuple of str
        Names of the joints (n).
    time : ndarray (points,)
        Increasing times, s.
    q : ndarray (points, n)
        Positions, rad or m.
    qd, qdd : ndarray (points, n)
        Velocities and accelerations; NaN in rows of points without them.

    Raises
    ------
    InputError
        For wrong shapes, times that do not increase, numbers that are not finite, and accelerations without
        velocities.

    Examples
    --------
    >>> time, q = np.array([0.0, 1.0]), np.array([[0.0], [0.5]])
    >>> still = np.zeros((2, 1))
    >>> dn.JointTrajectory(("joint1",), time, q, still, still).degrees()
    array([5])
    """

    names: tuple[str, ...]
    time: np.ndarray
    q: np.ndarray
    qd: np.ndarray
    qdd: np.ndarray

    def __post_init__(self):
        self._convert()
        shape = (len(self.time), len(self.names))
        if len(set(self.names)) < len(self.names):
            raise InputError("the trajectory names a joint twice")
        if not all(shape):
            raise InputError(f"the trajectory has {shape[0]} points of {shape[1]} joints")
        for name, field in zip(("q", "qd", "qdd"), FIELDS, strict=True):
            array = getattr(self, name)
            if array.shape != shape:
                raise InputError(f"{name} of the trajectory has shape {array.shape}, not {shape}")
            wrong = ~np.isfinite(array)
            if field != "positions":
                wrong &= ~np.isnan(array).all(axis=1)[:, None]
            if wrong.any():
                point, joint = np.argwhere(wrong)[0]
                raise InputError(
                    f"point {point}: {field} of {self.names[joint]!r} is {array[point, joint]}; "
                    "joint_trajectory_controller needs a number"
                )
        if not np.isfinite(self.time).all() or (np.diff(self.time) <= 0).any():
            point = int(np.argmin(np.diff(self.time, prepend=-np.inf) > 0))
            raise InputError(f"time_from_start of point {point} is not after the previous point")
        if (self._has(self.qdd) & ~self._has(self.qd)).any():
            point = int(np.argmax(self._has(self.qdd) & ~self._has(self.qd)))
            raise InputError(
                f"point {point} has accelerations without velocities: joint_trajectory_controller cannot "
                "interpolate them; add velocities"
            )

    def _convert(self):
        """Names as a tuple, numbers as arrays."""
        names = list(self.names) if isinstance(self.names, Sequence) else [None]
        if isinstance(self.names, str) or not all(isinstance(name, str) for name in names):
            raise InputError(f"names of the trajectory must be those of joints, not {self.names!r}")
        object.__setattr__(self, "names", tuple(names))
        for field in ("time", "q", "qd", "qdd"):
            object.__setattr__(self, field, numbers(f"{field} of the trajectory", getattr(self, field)))
        if self.time.ndim != 1:
            raise InputError(f"time of the trajectory has shape {self.time.shape}, not (points,)")

    def __len__(self):
        return len(self.time)

    @staticmethod
    def _has(rates):
        return ~np.isnan(rates[:, 0])

    def degrees(self) -> np.ndarray:
        """Degrees of the polynomials between points.

        Returns
        -------
        ndarray (points - 1,)
            1, 3 or 5.
        """
        velocity, acceleration = (own[1:] & own[:-1] for own in (self._has(self.qd), self._has(self.qdd)))
        return np.where(velocity, np.where(acceleration, QUINTIC, CUBIC), LINE)

    def slowed(self, factor: float) -> "JointTrajectory":
        """The same path with all times multiplied by a factor.

        Parameters
        ----------
        factor : float
            Above 1 for a slower motion.

        Returns
        -------
        JointTrajectory
            The slower motion.
        """
        factor = positive("factor", factor)
        return replace(self, time=self.time * factor, qd=self.qd / factor, qdd=self.qdd / factor**2)

    def at(self, time) -> tuple[np.ndarray, np.ndarray]:
        """Positions and velocities at some times.

        Parameters
        ----------
        time : ndarray (count,)
            Times between the first and the last point, s; at a point those of the later segment.

        Returns
        -------
        q, qd : ndarray (count, n)
            rad or m, per second.
        """
        time = np.atleast_1d(numbers("time", time))
        segment = np.clip(np.searchsorted(self.time, time, side="right") - 1, 0, len(self) - 2)
        c = self._coefficients(slice(0, len(self) - 1), self.degrees())[:, segment]
        q, qd, *_ = _values(c, (time - self.time[segment])[:, None], 2)
        return q, qd

    def sampled(self, rate: float, jerk: bool = True):
        """Samples, some segments at a time.

        Parameters
        ----------
        rate : float
            Samples are at most 1 / rate apart, Hz.
        jerk : bool
            Whether to compute it.

        Returns
        -------
        iterator of Samples
            Both ends of every segment where accelerations, or jerks if they are computed, may jump, and times
            in between.
        """
        if len(self) == 1:
            rest = np.zeros_like(self.q)
            yield Samples(self.time, self.q, np.nan_to_num(self.qd), np.nan_to_num(self.qdd), rest)
            return
        degrees, parts = self.degrees(), self.parts(rate)
        counts = parts + self._has_own_end(degrees, jerk)
        first = np.concatenate([[0], np.cumsum(counts)])
        for begin, end in _chunks(first):
            if not jerk and (counts[begin:end] == 1).all():  # points with accelerations, dense as samples
                here = slice(begin, end)
                yield Samples(self.time[here], self.q[here], self.qd[here], self.qdd[here], None)
                continue
            if not jerk and (parts[begin:end] == 1).all() and (degrees[begin:end] == CUBIC).all():
                yield self._ends_of_cubics(slice(begin, end))
                continue
            c = self._coefficients(slice(begin, end), degrees[begin:end])
            segment = np.repeat(np.arange(end - begin), counts[begin:end])
            number = np.arange(first[begin], first[end]) - first[begin + segment]
            spans = np.diff(self.time[begin : end + 1])
            t = (number / parts[begin + segment] * spans[segment])[:, None]
            c = c if len(segment) == end - begin else c[:, segment]
            ends = number == parts[begin + segment]
            time = np.where(ends, self.time[begin + segment + 1], self.time[begin + segment] + t[:, 0])
            yield Samples(time, *_values(c, t, 4 if jerk else 3))

    def parts(self, rate: float) -> np.ndarray:
        """Number of intervals between the samples of every segment.

        Parameters
        ----------
        rate : float
            Samples are at most 1 / rate apart, Hz.

        Returns
        -------
        ndarray (points - 1,)
            At least 1.
        """
        return self._parts(rate).astype(int)

    def _parts(self, rate):
        """As floats, which do not overflow."""
        return np.maximum(1.0, np.ceil(np.diff(self.time) * positive("rate", rate, "hertz") - 1e-9))

    def _has_own_end(self, degrees, jerk):
        """Which segments end with another acceleration, or jerk, than the next one begins with: 0 or 1."""
        smooth = (degrees[:-1] == QUINTIC) & (degrees[1:] == QUINTIC) & (not jerk)
        return np.append(~smooth, True).astype(int)

    def count(self, rate: float, jerk: bool = False) -> int:
        """Number of samples.

        Parameters
        ----------
        rate : float
            Samples are at most 1 / rate apart, Hz.
        jerk : bool
            Whether it is computed.

        Returns
        -------
        int
            Of all segments.
        """
        if len(self) == 1:
            return 1
        return int(self._parts(rate).sum() + self._has_own_end(self.degrees(), jerk).sum())

    def _ends_of_cubics(self, part):
        """Samples at both ends of segments."""
        here, there = part, slice(part.start + 1, part.stop + 1)
        T = (self.time[there] - self.time[here])[:, None]
        p, v, d, w = self.q[here], self.qd[here], self.q[there], self.qd[there]
        speed = (d - p) / T
        accelerations = (6 * speed - 4 * v - 2 * w) / T, (2 * v + 4 * w - 6 * speed) / T
        pairs = (self.time[here], self.time[there]), (p, d), (v, w), accelerations
        time, q, qd, qdd = (np.stack(pair, axis=1).reshape(-1, *pair[0].shape[1:]) for pair in pairs)
        return Samples(time, q, qd, qdd, None)

    def _coefficients(self, part, degrees):
        """(degree + 1, segments, n): of powers of the time since the start of a segment."""
        here, there = slice(part.start, part.stop), slice(part.start + 1, part.stop + 1)
        T = np.diff(self.time[part.start : part.stop + 1])[:, None]
        p, v, a = (own[here] for own in (self.q, self.qd, self.qdd))
        d, w, b = (own[there] for own in (self.q, self.qd, self.qdd))
        c = np.zeros((degrees.max() + 1, *p.shape))
        c[0], speed = p, (d - p) / T
        for degree in (LINE, CUBIC, QUINTIC):
            own: Any = degrees == degree
            if own.all():
                own = slice(None)
            elif not own.any():
                continue
            if degree == LINE:
                c[1, own] = speed[own]
            elif degree == CUBIC:
                c[1, own] = v[own]
                c[2, own] = (3 * speed - 2 * v - w)[own] / T[own]
                c[3, own] = (v + w - 2 * speed)[own] / T[own] ** 2
            else:
                c[1, own], c[2, own] = v[own], 0.5 * a[own]
                c[3, own] = ((20 * speed - 8 * w - 12 * v) / T - 3 * a + b)[own] / (2 * T[own])
                c[4, own] = ((14 * w + 16 * v - 30 * speed) / T + 3 * a - 2 * b)[own] / (2 * T[own] ** 2)
                c[5, own] = ((12 * speed - 6 * w - 6 * v) / T + b - a)[own] / (2 * T[own] ** 3)
        return c


CHUNK = 2048  # samples: their arrays fit into the cache


def _chunks(first):
    """(begin, end) of successive segments with about CHUNK samples."""
    begin, last = 0, len(first) - 1
    while begin < last:
        end = int(np.searchsorted(first, first[begin] + CHUNK, side="right")) - 1
        end = min(max(end, begin + 1), last)
        yield begin, end
        begin = end


def _values(c, t, orders):
    """(s, n) each: the polynomial with coefficients c (degree + 1, s, n) at times t (s, 1), and derivatives
    up to orders - 1; None for later ones."""
    results: list = [None] * 4
    for order in range(orders):
        value = np.zeros_like(c[0])
        for k in range(len(c) - 1, order - 1, -1):
            value *= t
            value += prod(range(k - order + 1, k + 1)) * c[k]
        results[order] = value
    return results
