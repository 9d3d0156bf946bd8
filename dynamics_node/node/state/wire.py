"""Messages as they come over the wire, read without making Python objects of them.

rclpy makes a Python object of every name, number array and trajectory point, 10 us each and all at once,
before anybody can ask how many there are. Here the counts come first, numbers stay where they are, and names
that were seen before are compared as bytes. The encoding is CDR as of OMG DDS-XTypes 1.3, 7.4.1: numbers are
aligned to their size, counted from the fourth byte. Transit estimates how long a message waited on its way.
"""

from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

import numpy as np

from dynamics_node.node.errors import BadMessage
from dynamics_node.node.state.joint_memory import MAX_NAMES

PLAIN = b"\x00\x01"  # CDR of version 1, little endian: what every ROS 2 middleware writes on usual machines
HEAD = 4  # bytes that say so
LAYOUTS = 8  # senders of joint states whose names are remembered
POINT_BYTES = 24  # of a trajectory point without numbers
FIELDS = 4  # number arrays of a trajectory point

_count = Struct("<I").unpack_from
_time = Struct("<iI").unpack_from


class States(NamedTuple):
    """Names, numbers (views of the message, empty where it has none) and stamp (s, ns) of joint states."""

    names: tuple[str, ...]
    position: np.ndarray
    velocity: np.ndarray
    effort: np.ndarray
    stamp: tuple[int, int]


class Trajectory(NamedTuple):
    """Stamp (ns), joint names, number of points and the place where they begin in `data`."""

    stamp: int
    names: tuple[str, ...]
    points: int
    start: int
    data: bytes


class Points(NamedTuple):
    """Of k points: times (k,) s, and of each field the count of numbers (k,) and where they begin (k,), as an
    index into the doubles of the message."""

    times: np.ndarray
    counts: np.ndarray
    starts: np.ndarray


def is_plain(data: bytes) -> bool:
    """Whether a message has the encoding that is read here."""
    return data[:2] == PLAIN


class StateReader:
    """Reads sensor_msgs/JointState; remembers the names of its senders."""

    def __init__(self):
        self._known: list[tuple[bytes, tuple[str, ...]]] = []

    def read(self, data: bytes) -> States:
        """Raises BadMessage when there are more than MAX_NAMES or the message ends early."""
        if len(data) < 12:
            raise BadMessage("the message ends early")
        block, names = self._names(data)
        at = 12 + len(block)
        numbers = []
        for _ in range(3):
            count, at = _checked_count(data, at, 8)
            begin = _aligned(at) if count else at
            at = begin + 8 * count
            if at > len(data):
                raise BadMessage("the message ends early")
            numbers.append(np.frombuffer(data, "<f8", count, begin))
        position, velocity, effort = numbers
        return States(names, position, velocity, effort, _time(data, HEAD))

    def _names(self, data):
        """frame_id and names as they stand in the message, and the names."""
        for known in self._known:
            if data.startswith(known[0], 12):
                return known
        names, end = _read_names(data)
        known = (data[12:end], names)
        self._known = [known, *self._known[: LAYOUTS - 1]]
        return known


def read_trajectory(data: bytes, most: int) -> Trajectory:
    """The beginning of a trajectory_msgs/JointTrajectory. Raises BadMessage when it has more than `most`
    points, more than MAX_NAMES names or ends early."""
    names, at = _read_names(data)
    count, at = _checked_count(data, at, 0)
    if count > most:
        raise BadMessage(f"trajectory of {count} points; the limit is {most}")
    if count * POINT_BYTES > len(data) - at + POINT_BYTES:
        raise BadMessage("the message ends early")
    seconds, rest = _time(data, HEAD)
    return Trajectory(seconds * 1_000_000_000 + rest, names, count, at, data)


def points_in_slices(trajectory: Trajectory, size: int) -> Iterator[Points]:
    """Its points, `size` at a time. Raises BadMessage when the message ends early."""
    data, at = trajectory.data, trajectory.start
    for first in range(0, trajectory.points, size):
        points = min(size, trajectory.points - first)
        times = np.empty(points)
        counts, starts = np.zeros((2, FIELDS, points), dtype=np.int64)
        for k in range(points):
            for field in range(FIELDS):
                count, at = _checked_count(data, at, 8)
                counts[field, k] = count
                if count:
                    at = _aligned(at)
                    starts[field, k] = (at - HEAD) // 8
                    at += 8 * count
            at = HEAD + (at - HEAD + 3) // 4 * 4
            if at + 8 > len(data):
                raise BadMessage("the message ends early")
            seconds, rest = _time(data, at)
            times[k] = seconds + 1e-9 * rest
            at += 8
        yield Points(times, counts, starts)


def doubles_of(data: bytes) -> np.ndarray:
    """What Points.starts counts."""
    return np.frombuffer(data, "<f8", (len(data) - HEAD) // 8, HEAD)


def _read_names(data):
    """Names behind stamp and frame_id, and where they end."""
    _, at = _string(data, 12)
    count, at = _checked_count(data, at, 4)
    if count > MAX_NAMES:
        raise BadMessage(f"{count} names; the limit is {MAX_NAMES}")
    names = []
    for _ in range(count):
        name, at = _string(data, at)
        names.append(name)
    return tuple(names), at


def _string(data, at):
    """A string, which has a zero behind it, and where it ends."""
    size, at = _checked_count(data, at, 1)
    return data[at : at + max(size - 1, 0)].decode(errors="replace"), at + size


def _checked_count(data, at, size):
    """A count of things of `size` bytes that are in the message, and the place behind it."""
    at = HEAD + (at - HEAD + 3) // 4 * 4
    if at + 4 > len(data):
        raise BadMessage("the message ends early")
    (count,) = _count(data, at)
    if count * size > len(data) - at - 4:
        raise BadMessage("the message ends early")
    return count, at + 4


def _aligned(at):
    return HEAD + (at - HEAD + 7) // 8 * 8


BUCKET = 1_000_000_000  # ns in which the slowest way counts as usual, twice
ENOUGH = 50_000_000  # ns beyond the slowest usual way that are no jitter


class Transit:
    """The way from publishers to the middleware, by its two stamps: when a message was published, and when it
    was received.

    While a process is stopped, messages wait in front of it; the middleware receives them when it goes on
    and calls them new. Clocks of two machines differ, so only how much longer than usual a message took
    says anything; where all take longer from one moment on, a clock was set, and they are usual soon.
    """

    def __init__(self):
        self._slowest: list[int | None] = [None, None]  # of this bucket and of the one before
        self._begun = 0
        self._refused = (0, 0)  # ns: since when, again and again, and when last

    def waited(self, published, received, now) -> int:
        """ns that a message took longer than usual, 0 for jitter or without stamps. published, received: of
        the clocks of both sides; now: of a steady one, all ns."""
        if published <= 0 or received <= 0:
            return 0
        took = received - published
        usual = max((slowest for slowest in self._slowest if slowest is not None), default=took)
        if took - usual > ENOUGH:
            since, last = self._refused
            self._refused = (now if now - last > BUCKET else since, now)
            if now - self._refused[0] < BUCKET:
                return took - usual
        self._note(took, now)
        return 0

    def _note(self, took, now):
        if now - self._begun >= BUCKET:
            self._slowest, self._begun = [None, self._slowest[0]], now
        slowest = self._slowest[0]
        self._slowest[0] = took if slowest is None else max(slowest, took)
