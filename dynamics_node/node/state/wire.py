"""Readers of serialized messages that create no Python object per element.

rclpy creates a Python object for every name, number array and trajectory point, which takes 10 us each,
before their number can be checked. The readers check counts first, return views of numbers, and compare known
names as bytes. The encoding is CDR, see OMG DDS-XTypes 1.3, 7.4.1: numbers are aligned to their size,
relative to the fourth byte. Transit estimates the transport delay of a message.
"""

from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

import numpy as np

from dynamics_node.node.errors import BadMessage
from dynamics_node.node.state.joint_memory import MAX_NAMES

PLAIN = b"\x00\x01"  # CDR version 1, little endian: the encoding of every ROS 2 middleware on common machines
HEAD = 4  # bytes of the encoding header
LAYOUTS = 8  # publishers of joint states whose names are cached
POINT_BYTES = 24  # size of a trajectory point without numbers
FIELDS = 4  # number arrays of a trajectory point

_count = Struct("<I").unpack_from
_time = Struct("<iI").unpack_from


class States(NamedTuple):
    """Names, numbers (views of the message, empty if absent) and stamp (s, ns) of joint states."""

    names: tuple[str, ...]
    position: np.ndarray
    velocity: np.ndarray
    effort: np.ndarray
    stamp: tuple[int, int]


class SerializedTrajectory(NamedTuple):
    """Stamp (ns), joint names, number of points and their offset in `data`."""

    stamp: int
    names: tuple[str, ...]
    points: int
    start: int
    data: bytes


class Points(NamedTuple):
    """Times (k,) s of k points; for each field the counts of numbers (k,) and their start indices (k,) in the
    doubles of the message."""

    times: np.ndarray
    counts: np.ndarray
    starts: np.ndarray


def is_plain(data: bytes) -> bool:
    """Whether a message has the encoding of these readers."""
    return data[:2] == PLAIN


class StateReader:
    """Reads sensor_msgs/JointState with a cache of names."""

    def __init__(self):
        self._known: list[tuple[bytes, tuple[str, ...]]] = []

    def read(self, data: bytes) -> States:
        """Read a message. Raises BadMessage if it has more than MAX_NAMES or is truncated."""
        if len(data) < 12:
            raise BadMessage("the message is truncated")
        block, names = self._names(data)
        at = 12 + len(block)
        numbers = []
        for _ in range(3):
            count, at = _checked_count(data, at, 8)
            begin = _aligned(at) if count else at
            at = begin + 8 * count
            if at > len(data):
                raise BadMessage("the message is truncated")
            numbers.append(np.frombuffer(data, "<f8", count, begin))
        position, velocity, effort = numbers
        return States(names, position, velocity, effort, _time(data, HEAD))

    def _names(self, data):
        """The bytes of frame_id and names, and the names."""
        for known in self._known:
            if data.startswith(known[0], 12):
                return known
        names, end = _read_names(data)
        known = (data[12:end], names)
        self._known = [known, *self._known[: LAYOUTS - 1]]
        return known


def read_trajectory(data: bytes, most: int) -> SerializedTrajectory:
    """The header of a trajectory_msgs/JointTrajectory. Raises BadMessage if it has more than `most` points,
    more than MAX_NAMES names or is truncated."""
    names, at = _read_names(data)
    count, at = _checked_count(data, at, 0)
    if count > most:
        raise BadMessage(f"the trajectory has {count} points; the limit is {most}")
    if count * POINT_BYTES > len(data) - at + POINT_BYTES:
        raise BadMessage("the message is truncated")
    seconds, rest = _time(data, HEAD)
    return SerializedTrajectory(seconds * 1_000_000_000 + rest, names, count, at, data)


def points_in_slices(trajectory: SerializedTrajectory, size: int) -> Iterator[Points]:
    """The points of a trajectory, `size` at a time. Raises BadMessage if the message is truncated."""
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
                raise BadMessage("the message is truncated")
            seconds, rest = _time(data, at)
            times[k] = seconds + 1e-9 * rest
            at += 8
        yield Points(times, counts, starts)


def doubles_of(data: bytes) -> np.ndarray:
    """The doubles that Points.starts indexes."""
    return np.frombuffer(data, "<f8", (len(data) - HEAD) // 8, HEAD)


def _read_names(data):
    """Names after stamp and frame_id, and the offset of their end."""
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
    """A string, without its terminating zero, and the offset of its end."""
    size, at = _checked_count(data, at, 1)
    return data[at : at + max(size - 1, 0)].decode(errors="replace"), at + size


def _checked_count(data, at, size):
    """A count of elements of `size` bytes, checked against the length of the message, and its end offset."""
    at = HEAD + (at - HEAD + 3) // 4 * 4
    if at + 4 > len(data):
        raise BadMessage("the message is truncated")
    (count,) = _count(data, at)
    if count * size > len(data) - at - 4:
        raise BadMessage("the message is truncated")
    return count, at + 4


def _aligned(at):
    return HEAD + (at - HEAD + 7) // 8 * 8


BUCKET = 1_000_000_000  # ns; the usual delay is the largest of the last two buckets
JITTER = 50_000_000  # ns above the usual delay that are not jitter


class Transit:
    """Transport delay from a publisher to the middleware, from the stamps of publication and reception.

    If a process is stopped, messages wait outside it; the middleware receives them later and stamps them as
    new. Clocks of two machines differ, so only the delay in excess of the usual delay is meaningful. A
    lasting change means that a clock was set, and becomes the usual delay.
    """

    def __init__(self):
        self._largest = self._previous = 0  # ns: largest delays of the current and the previous bucket
        self._begun = 0
        self._delayed = (0, 0)  # ns: start and last time of a series of late messages

    def waited(self, published, received, now) -> int:
        """Delay in excess of the usual one, ns; 0 for jitter or without stamps. published, received: on the
        clocks of both sides; now: on a steady clock, all ns."""
        if published <= 0 or received <= 0:
            return 0
        delay = received - published
        if not self._begun:
            self._largest = self._previous = delay
        usual = max(self._largest, self._previous)
        if delay - usual > JITTER:
            since, last = self._delayed
            self._delayed = (now if now - last > BUCKET else since, now)
            if now - self._delayed[0] < BUCKET:
                return delay - usual
        if now - self._begun >= BUCKET:
            self._previous, self._largest, self._begun = self._largest, delay, now
        elif delay > self._largest:
            self._largest = delay
        return 0
