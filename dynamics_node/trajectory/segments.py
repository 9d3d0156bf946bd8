"""The polynomials between the points of a trajectory: samples, and their extremes.

Every segment is a polynomial of fifth degree, of which lines and cubics are special cases. Its Bernstein
coefficients c give sum of C(n, i) u^i (1 - u)^(n - i) c_i, with u from 0 at its start to 1 at its end. The
polynomial stays between the smallest and the largest of them, and halves of it are closer to theirs: so the
extremes of a whole trajectory need the roots of no segment but the few that can hold them.
"""

from math import comb
from typing import Any, NamedTuple

import numpy as np

LINE, CUBIC, QUINTIC = 1, 3, 5
LEAST_PARTS = 2  # of every segment
MORE_PARTS = 5  # of a quintic whose acceleration is far from linear: from rest to rest it peaks at 0.21
LINEAR = 0.05  # deviation / largest acceleration at a point
CHUNK = 2048  # samples: their arrays fit into the cache
PRECISION = 1e-8  # of extremes, in terms of the largest value
MOST_HALVINGS = 40
DIGITS = 6  # of u
WAITING = 8192  # polynomials that are halved together


class Samples(NamedTuple):
    """time (s,); q, qd, qdd, jerk (s, joints); jerk: None if it is not computed."""

    time: np.ndarray
    q: np.ndarray
    qd: np.ndarray
    qdd: np.ndarray
    jerk: np.ndarray | None


class Segments(NamedTuple):
    """Bernstein coefficients (degree + 1, segments, joints) of degrees 5, 4, 3 and 2, or 3, 2, 1 and 0 if all
    are cubics; jerk: None if it is not computed."""

    q: np.ndarray
    qd: np.ndarray
    qdd: np.ndarray
    jerk: np.ndarray | None

    def at(self, segment, u, jerk=True):
        """Positions and derivatives (s, joints) in segments (s,) at u (s,)."""
        return [None if c is None else _values(c, segment, u) for c in self[: 4 if jerk else 3]]


def segments_of(points, degrees, begin, jerk=True) -> Segments:
    """The Segments from `begin` on of a JointTrajectory; degrees (k,): theirs."""
    end = begin + len(degrees)
    here, there = slice(begin, end), slice(begin + 1, end + 1)
    T = np.diff(points.time[begin : end + 1])[:, None]
    p, d, v, w, a, b = (
        values[part] for values in (points.q, points.qd, points.qdd) for part in (here, there)
    )
    speed = (d - p) / T
    if (degrees == CUBIC).all():
        middle = 3 * speed - v - w
        q, qd = np.stack([p, p + T * v / 3, d - T * w / 3, d]), np.stack([v, middle, w])
        qdd = 2 * np.diff(qd, axis=0) / T
        return Segments(q, qd, qdd, np.diff(qdd, axis=0) / T if jerk else None)
    if (degrees < QUINTIC).any():
        lines, quintics = degrees[:, None] == LINE, degrees[:, None] == QUINTIC
        v, w = (np.where(lines, speed, rate) for rate in (v, w))
        middle = np.where(lines, speed, 3 * speed - v - w)
        a = np.where(quintics, a, 2 * (middle - v) / T)
        b = np.where(quintics, b, 2 * (w - middle) / T)
    q, qd, qdd = (np.empty((count, *p.shape)) for count in (6, 5, 4))
    q[0], q[1], q[4], q[5] = p, p + T * v / 5, d - T * w / 5, d
    q[2], q[3] = p + T * (0.4 * v + T * a / 20), d - T * (0.4 * w - T * b / 20)
    qd[0], qd[1], qd[3], qd[4] = v, v + 0.25 * T * a, w - 0.25 * T * b, w
    qd[2] = 5 * speed - 2 * (v + w) + 0.25 * T * (b - a)
    qdd[0], qdd[3] = a, b
    qdd[1], qdd[2] = 4 * (qd[2] - qd[1]) / T, 4 * (qd[3] - qd[2]) / T
    if (lines := degrees == LINE).any():  # without rounding
        qd[:, lines], qdd[:, lines] = speed[lines], 0.0
    return Segments(q, qd, qdd, 3 * np.diff(qdd, axis=0) / T if jerk else None)


def _values(c, segment, u):
    """The polynomials c (degree + 1, segments, n) in segments (s,) at u (s,)."""
    n, v, result = len(c) - 1, 1 - u, 0.0
    for k in range(n + 1):
        result = result + (comb(n, k) * u**k * v ** (n - k))[:, None] * c[k, segment]
    return result


def _middles(c):
    """The polynomials c (degree + 1, segments, n) at u = 0.5."""
    weights = [comb(len(c) - 1, k) / 2 ** (len(c) - 1) for k in range(len(c))]
    return sum(weight * coefficient for weight, coefficient in zip(weights, c, strict=True))


# --- samples ------------------------------------------------------------------------------------------------


class Sampling:
    """Times of samples: both ends of every segment where accelerations, or jerks if they are computed, may
    jump, times in between at most 1 / rate apart, and those of the extremes of every joint."""

    def __init__(self, points, rate, jerk):
        self._points, self._jerk, self._degrees = points, jerk, points.degrees()
        scan = _Scan(points, self._degrees, jerk)
        more = np.maximum(MORE_PARTS, 2 * parts_of(points, rate))
        self._parts = np.where(scan.uneven, more, parts_of(points, rate)).astype(int)
        ends = differs_from_next(points, jerk).astype(int)
        self._segment, self._u = scan.between(self._parts)
        more = np.bincount(self._segment, minlength=len(ends))
        self._first = np.concatenate([[0], np.cumsum(self._parts + ends + more)])
        self._ends, self._more = ends, more
        self.count = int(self._first[-1])

    def samples(self):
        """Iterator of Samples, some segments at a time."""
        begin, last = 0, len(self._parts)
        while begin < last:
            end = int(np.searchsorted(self._first, self._first[begin] + CHUNK, side="right")) - 1
            end = min(max(end, begin + 1), last)
            plain = self._parts[begin:end].max() == LEAST_PARTS and not self._more[begin:end].any()
            alike = self._ends[begin:end].min() == self._ends[begin:end].max()
            yield self._thirds(begin, end) if plain and alike else self._chunk(begin, end)
            begin = end

    def _thirds(self, begin, end):
        """Samples at the start, the middle and perhaps the end of segments."""
        time, has_end = self._points.time, self._ends[begin]
        times = [time[begin:end], 0.5 * (time[begin:end] + time[begin + 1 : end + 1])]
        segments = segments_of(self._points, self._degrees[begin:end], begin, self._jerk)
        values: Any = [None if c is None else [c[0], _middles(c)] + [c[-1]] * has_end for c in segments]
        times += [time[begin + 1 : end + 1]] * has_end
        q, qd, qdd, jerk = (x and np.stack(x, axis=1).reshape(-1, x[0].shape[1]) for x in values)
        return Samples(np.stack(times, axis=1).ravel(), q, qd, qdd, jerk)

    def _chunk(self, begin, end):
        """Samples of any segments."""
        time, parts = self._points.time, self._parts[begin:end]
        counts = parts + self._ends[begin:end]
        segment = np.repeat(np.arange(end - begin), counts)
        number = np.arange(len(segment)) - np.repeat(np.cumsum(counts) - counts, counts)
        u = number / parts[segment]
        extreme = (self._segment >= begin) & (self._segment < end)
        segment = np.concatenate([segment, self._segment[extreme] - begin])
        u = np.concatenate([u, self._u[extreme]])
        order = np.lexsort((u, segment))
        segment, u = segment[order], u[order]
        start, stop = time[begin + segment], time[begin + segment + 1]
        times = np.where(u == 1, stop, start + u * (stop - start))
        segments = segments_of(self._points, self._degrees[begin:end], begin, self._jerk)
        return Samples(times, *segments.at(segment, u, self._jerk), *([] if self._jerk else [None]))


def parts_of(points, rate):
    """Least number of intervals between the samples of every segment, as floats, which do not overflow."""
    return np.maximum(LEAST_PARTS, np.ceil(np.diff(points.time) * rate - 1e-9))


def differs_from_next(points, jerk):
    """Which segments end with another acceleration, or jerk, than the next one begins with."""
    degrees = points.degrees()
    smooth = (degrees[:-1] == QUINTIC) & (degrees[1:] == QUINTIC) & (not jerk)
    return np.append(~smooth, True)


# --- extremes -----------------------------------------------------------------------------------------------


class _Scan:
    """The extremes of positions, velocities, accelerations and jerks of every joint inside of segments.

    uneven (segments,) bool: whose accelerations are far from linear.
    """

    def __init__(self, points, degrees, jerk):
        count = len(degrees)
        most = np.abs(np.nan_to_num(points.qdd)).max(axis=0)
        self.uneven = np.zeros(count, dtype=bool)
        known = [points.q, points.qd if (degrees > LINE).all() else None]
        known += [points.qdd if (degrees == QUINTIC).all() else None, None]
        best = [
            [_Best(sign, values, len(points.names)) for sign in (1, -1)]
            for values in known[: 4 if jerk else 3]
        ]
        for begin in range(0, count, CHUNK // 4):
            part = slice(begin, begin + CHUNK // 4)
            segments = segments_of(points, degrees[part], begin, jerk)
            if (degrees[part] == QUINTIC).any():
                self.uneven[part] = _uneven(segments.qdd, most)
            for c, pair in zip(segments, best, strict=False):
                for one in pair:
                    one.find(c, begin)
        inner = [one.inner() for pair in best for one in pair]
        self._segment, self._u = (np.concatenate(parts) for parts in zip(*inner, strict=True))

    def between(self, parts):
        """segment and u (m,) of the extremes, without those at multiples of 1 / parts."""
        places = np.round(self._u, DIGITS)  # a value near an extreme differs by the square
        segment, u = np.unique(np.stack([self._segment, places]), axis=1)
        segment, rest = segment.astype(int), (u * parts[segment.astype(int)]) % 1
        inner = (rest > 10.0**-DIGITS) & (rest < 1 - 10.0**-DIGITS)
        return segment[inner], u[inner]


def _uneven(qdd, most):
    first = np.abs(qdd[1] - (2 * qdd[0] + qdd[3]) / 3)
    second = np.abs(qdd[2] - (qdd[0] + 2 * qdd[3]) / 3)
    return (np.maximum(first, second) > LINEAR * most).any(axis=1)


class _Best:
    """The largest value of every joint, or with a sign of -1 the smallest, and where it is. ends (points,
    joints): the values at all ends of segments, None if they are not known."""

    def __init__(self, sign, ends, joints):
        self._sign, self._known = sign, ends is not None
        self._value = (sign * ends).max(axis=0) if self._known else np.full(joints, -np.inf)
        self._waiting: list = []
        self._count = 0
        self._segment, self._u = np.zeros(joints, dtype=int), np.zeros(joints)

    def inner(self):
        """segment and u of the values inside of segments."""
        self._decide()
        inside = (self._u > 0) & (self._u < 1)
        return self._segment[inside], self._u[inside]

    def find(self, c, begin):
        """Add polynomials c (degree + 1, segments, joints) whose largest coefficient exceeds the value."""
        if not self._known:
            ends = (self._sign * c[[0, -1]]).max(axis=(0, 1))
            self._u[ends > self._value] = 0.0
            self._value = np.maximum(self._value, ends)
        if len(c) < 3:  # largest at an end
            return
        inner = c[1:-1].max(axis=0) if self._sign > 0 else -c[1:-1].min(axis=0)
        segment, joint = np.nonzero(inner > self._limit())
        if len(segment):
            self._waiting.append((self._sign * c[:, segment, joint], joint, segment + begin))
            self._count += len(segment)
            if self._count > WAITING:
                self._decide()

    def _decide(self):
        if self._waiting:
            self._halve(*(np.concatenate(parts, axis=-1) for parts in zip(*self._waiting, strict=True)))
            self._waiting, self._count = [], 0

    def _limit(self):
        return self._value + PRECISION * np.abs(self._value)

    def _halve(self, c, joint, segment):
        """Raise the values, by halving polynomials c (degree + 1, m) whose coefficients exceed them."""
        u, width = np.zeros(len(segment)), 1.0
        for _ in range(MOST_HALVINGS):
            c, width = _halves(c), 0.5 * width
            segment, joint, u = np.tile(segment, 2), np.tile(joint, 2), np.concatenate([u, u + width])
            better = np.flatnonzero(c[0] > self._value[joint])
            better = better[np.argsort(c[0, better])]  # of several, the last one stays
            at = joint[better]
            self._value[at], self._segment[at], self._u[at] = c[0, better], segment[better], u[better]
            high = c.max(axis=0) > self._limit()[joint]
            c, segment, joint, u = c[:, high], segment[high], joint[high], u[high]
            if not len(segment):
                break


def _halves(c):
    """Coefficients (degree + 1, 2 m) of the first and of the second halves of polynomials (degree + 1, m)."""
    left, right, row = np.empty_like(c), np.empty_like(c), c
    for k in range(len(c)):
        left[k], right[-1 - k] = row[0], row[-1]
        row = 0.5 * (row[1:] + row[:-1])
    return np.concatenate([left, right], axis=1)
