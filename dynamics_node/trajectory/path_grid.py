"""Grids along the path of a trajectory, whatever its times.

The path coordinate is the length of the path in the space of its joints. So directions have a length of one,
also next to points where the given motion rests. Between two stops, where the path rests or turns back, the
motion is from rest to rest.
"""

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from dynamics_node.errors import InputError
from dynamics_node.trajectory.segments import segments_of

DENSE, MOST_DENSE = 32, 20_000  # samples a segment to find stops and lengths; of all segments
AT_REST = 1e-6  # of the largest velocity
BESIDE = 1e-4  # of a segment: where the direction at a stop is read
SHORTEST = 1e-9  # of the whole length: a shorter part is no motion
MOST_STOPS = 1000
TURN = 0.1  # rad between points
HALVINGS = 50
NODES, WEIGHTS = np.polynomial.legendre.leggauss(8)


class PathGrid(NamedTuple):
    """Points of a part. s (k + 1,): times of the given trajectory; q, qs (k + 1, joints): positions and
    directions at them; rows: q, qs, qss (2 k, joints) at both ends of every interval; lengths (k,)."""

    s: np.ndarray
    q: np.ndarray
    qs: np.ndarray
    rows: tuple[np.ndarray, ...]
    lengths: np.ndarray

    def until(self, point):
        """The part up to a point."""
        s, q, qs = (whole[: point + 1] for whole in self[:3])
        return PathGrid(s, q, qs, tuple(row[: 2 * point] for row in self.rows), self.lengths[:point])


class Path:
    """parts: pairs of stops, as times of the given trajectory."""

    def __init__(self, points):
        self._points = points
        self._segments = segments_of(points, points.degrees(), 0, jerk=False)
        each = max(2, min(DENSE, MOST_DENSE // (len(points) - 1)))
        steps = np.arange(each) / each
        s = (points.time[:-1, None] + np.diff(points.time)[:, None] * steps).ravel()
        self._s = np.append(s, points.time[-1])
        qd = self._at(self._s)[1]
        speed = np.linalg.norm(qd, axis=1)
        self._fastest = speed.max()
        if not self._fastest:
            raise InputError("the trajectory does not move: it has no times to change")
        self._length = np.append(0.0, np.cumsum(0.5 * np.diff(self._s) * (speed[1:] + speed[:-1])))
        direction = qd / np.maximum(speed, AT_REST * self._fastest)[:, None]
        turns = np.linalg.norm(np.diff(direction, axis=0), axis=1)
        turns[(speed[1:] <= AT_REST * self._fastest) | (speed[:-1] <= AT_REST * self._fastest)] = 0.0
        self._turned = np.append(0.0, np.cumsum(turns))
        resting = np.linalg.norm(points.qd, axis=1) <= AT_REST * self._fastest
        turns = np.flatnonzero((qd[1:] * qd[:-1]).sum(axis=1) < 0)
        turns = [self._turn(*self._s[k : k + 2]) for k in turns]
        stops = np.unique(np.concatenate([points.time[[0, -1]], points.time[resting], turns]))
        at = np.interp(stops, self._s, self._length)
        moving = np.diff(at) > SHORTEST * self._length[-1]
        self.parts = [pair for pair, moves in zip(pairwise(stops), moving, strict=True) if moves]
        if len(self.parts) > MOST_STOPS:
            raise InputError(
                f"the trajectory stops {len(self.parts) - 1} times on its way, more than {MOST_STOPS}: use "
                "velocities other than zero at points between stops, or scale parts of the trajectory"
            )

    def _at(self, s, left=False):
        """q, qd, qdd (k, joints) at times (k,); at points of the trajectory those of the earlier segment if
        `left`, of the later one otherwise."""
        time = self._points.time
        segment = np.searchsorted(time, s, side="left" if left else "right") - 1
        segment = np.clip(segment, 0, len(time) - 2)
        return self._segments.at(segment, (s - time[segment]) / np.diff(time)[segment], jerk=False)[:3]

    def _turn(self, begin, end):
        """The time between two others at which the path is slowest: there it turns back."""
        for _ in range(HALVINGS):
            middle = 0.5 * (begin + end)
            _, qd, qdd = self._at(np.array([middle]))
            begin, end = (middle, end) if (qd * qdd).sum() < 0 else (begin, middle)
        return 0.5 * (begin + end)

    def first(self, part, count) -> PathGrid:
        """About `count` points of a part, denser next to its stops."""
        within = (self._s > part[0]) & (self._s < part[1])
        s = np.concatenate([part[:1], self._s[within], part[1:]])
        length = np.interp(s, self._s, self._length)
        share = (length - length[0]) / (length[-1] - length[0])
        return self.spaced(s, np.arccos(np.clip(1 - 2 * share, -1, 1)), np.pi / count)

    def spaced(self, s, progress, spacing) -> PathGrid:
        """Points from s[0] to s[-1], at most `spacing` apart in the progress (k,) at times s (k,), and TURN
        in direction. Those of the trajectory are among them, unless there are more of them."""
        given, dense = (times[(times > s[0]) & (times < s[-1])] for times in (self._points.time, self._s))
        dense = np.unique(np.concatenate([s, dense]))
        progress = np.interp(dense, s, progress) / spacing + np.interp(dense, self._s, self._turned) / TURN
        count = np.ceil(progress[-1] - progress[0])
        ends = np.concatenate([s[:1], given if len(given) <= count else [], s[-1:]])
        marks, places = np.interp(ends, dense, progress), [ends[:1]]
        for (a, b), (low, high) in zip(pairwise(marks), pairwise(ends), strict=True):
            parts = max(1, int(np.ceil(b - a)))
            inner = np.interp(np.linspace(a, b, parts + 1)[1:-1], progress, dense)
            places += [inner[(inner > low) & (inner < high)], np.array([high])]
        return self.grid(np.unique(np.concatenate(places)))

    def grid(self, s) -> PathGrid:
        """Points at increasing times s (k + 1,) of a part."""
        steps = np.diff(s)
        nodes = s[:-1, None] + 0.5 * steps[:, None] * (NODES + 1)
        speed = np.linalg.norm(self._at(nodes.ravel())[1], axis=1).reshape(nodes.shape)
        lengths = 0.5 * steps * (speed * WEIGHTS).sum(axis=1)
        ends = self._side(s[:-1], False, s[0], steps), self._side(s[1:], True, s[-1], steps)
        rows = tuple(np.stack(pair, axis=1).reshape(-1, pair[0].shape[1]) for pair in zip(*ends, strict=True))
        q = np.concatenate([rows[0][::2], rows[0][-1:]])
        return PathGrid(s, q, np.concatenate([rows[1][::2], rows[1][-1:]]), rows, lengths)

    def _side(self, s, left, stop, steps):
        """q and its derivatives by the length at times s (k,), from one side; at a stop the direction beside
        it."""
        q, qd, qdd = self._at(s, left)
        at = (s == stop) & (np.linalg.norm(qd, axis=1) <= AT_REST * self._fastest)
        beside = s[at] + BESIDE * (-steps[-1] if left else steps[0])
        qd[at], qdd[at] = self._at(beside)[1], 0.0
        speed = np.linalg.norm(qd, axis=1, keepdims=True)
        qs = qd / speed
        return q, qs, (qdd - qs * (qs * qdd).sum(axis=1, keepdims=True)) / speed**2
