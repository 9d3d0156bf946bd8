"""The reference trajectory."""

from typing import NamedTuple

import numpy as np

from dynamics_node.node.errors import BadMessage
from dynamics_node.node.state.joint_memory import LARGEST, impossible, possible, require_few, require_once
from dynamics_node.node.state.wire import doubles_of, points_in_slices, read_trajectory
from dynamics_node.robot import Robot

MAX_POINTS = 100_000
MAX_NUMBERS = 10_000_000  # points x joints: 80 MB a field
SLICE = 200  # points read at once: a millisecond
FIELDS = ("positions", "velocities", "accelerations", "effort")


class ReferenceSample(NamedTuple):
    """Values of all joints at one instant, NaN if the reference has none."""

    positions: np.ndarray
    velocities: np.ndarray
    accelerations: np.ndarray
    effort: np.ndarray


class Reference(NamedTuple):
    """times (k,) s after `stamp` (ns of ROS time); received: steady ns; values: (k, joints) arrays."""

    stamp: int
    received: int
    times: np.ndarray
    values: ReferenceSample

    def at(self, ros_now, steady_now, timeout):
        """The active sample, or None. One point is valid for `timeout` ns after its reception; several points
        are interpolated linearly at ros_now() - stamp."""
        if len(self.times) == 1:
            fresh = steady_now - self.received <= timeout
            return ReferenceSample(*(field[0] for field in self.values)) if fresh else None
        t = (ros_now() - self.stamp) * 1e-9
        if not self.times[0] <= t <= self.times[-1]:
            return None
        k = min(int(np.searchsorted(self.times, t, side="right")), len(self.times) - 1)
        weight = (t - self.times[k - 1]) / (self.times[k] - self.times[k - 1])
        return ReferenceSample(*((1 - weight) * field[k - 1] + weight * field[k] for field in self.values))


class BaseAcceleration(NamedTuple):
    """Reference of a floating base. values (6,): the rates of its twist, angular first, in its axes;
    received: steady ns."""

    values: np.ndarray
    received: int


def read_base_acceleration(model: Robot, values, link, received) -> BaseAcceleration:
    """BaseAcceleration of numbers; link: the floating link, or ''. Raises BadMessage."""
    name = model.tree.bodies[0].name
    if link not in ("", name):
        raise BadMessage(f"frame_id {link!r} is not the floating link {name!r}")
    values = np.array(values, dtype=float)
    if not possible(values).all():
        raise BadMessage(f"acceleration of the base is not finite, or above {LARGEST:g}")
    return BaseAcceleration(values, received)


def read_reference(joint_names, names, points, stamp, now):
    """Reference from the fields of a JointTrajectory.

    points: objects with positions, velocities, accelerations, effort and time_from_start. Unknown joints
    are ignored. Raises BadMessage.
    """
    source, target = _columns(joint_names, names)
    times, table = read_points(names, points, source)
    _require_rising(times)
    shape = (len(points), len(joint_names))
    values = [_nothing(shape) if not entries.size else _spread(shape, target, entries) for entries in table]
    return Reference(stamp, now, times, ReferenceSample(*values))


def reading(joint_names, data: bytes, ros_now: int, now: int):
    """Generator that reads a serialized JointTrajectory and returns the Reference. It yields None after every
    SLICE points, so that the caller can do other work. Raises BadMessage."""
    trajectory = read_trajectory(data, MAX_POINTS)
    _require_points(trajectory.points)
    source, target = _columns(joint_names, trajectory.names)
    shape = (trajectory.points, len(joint_names))
    _require_room(*shape)
    times, numbers = np.empty(trajectory.points), doubles_of(data)
    values = [_nothing(shape)] * len(FIELDS)
    first = 0
    for points in points_in_slices(trajectory, SLICE):
        if first:
            yield
        rows = slice(first, first + len(points.times))
        times[rows] = points.times
        for k, (field, counts, starts) in enumerate(zip(FIELDS, points.counts, points.starts, strict=True)):
            _require_lengths(field, counts, len(trajectory.names), first)
            filled = np.flatnonzero(counts)
            entries = numbers[starts[filled, None] + source]
            _require_finite(field, entries, filled + first, joint_names, target)
            values[k] = _with_rows(values[k], rows, filled, target, entries)
        first = rows.stop
    _require_rising(times)
    return Reference(trajectory.stamp or ros_now, now, times, ReferenceSample(*values))


def _with_rows(values, rows, filled, target, entries):
    """Values with these rows; memory is allocated at the first point with entries."""
    if not values.flags.writeable:
        if not filled.size:
            return values
        values = np.empty(values.shape)
        values[: rows.start] = np.nan
    values[rows] = np.nan
    values[(rows.start + filled)[:, None], target] = entries
    return values


def read_points(names, points, columns=slice(None)):
    """times (k,) s and one array (k, columns) per field, NaN for points without it; columns: indices of the
    wanted names. A field that no point has is (k, 0). Raises BadMessage."""
    _require_points(len(points))
    require_few(names)
    require_once(names)
    wanted = np.array(names, dtype=object)[columns]
    _require_room(len(points), len(wanted))
    times = np.array([p.time_from_start.sec + 1e-9 * p.time_from_start.nanosec for p in points])
    return times, [_table(field, len(names), wanted, columns, points) for field in FIELDS]


def _table(field, count, wanted, columns, points):
    rows = [getattr(point, field) for point in points]
    if not any(len(row) for row in rows):
        return np.empty((len(points), 0))
    _require_lengths(field, np.array([len(row) for row in rows]), count, 0)
    table = np.full((len(points), len(wanted)), np.nan)
    for k, row in enumerate(rows):
        if len(row):
            table[k] = np.asarray(row, dtype=float)[columns]
    filled = np.array([len(row) > 0 for row in rows])
    _require_finite(field, table[filled], np.flatnonzero(filled), wanted, np.arange(len(wanted)))
    return table


def _columns(joint_names, names):
    """Indices of known joints among the names, and their indices in joint_names."""
    require_once(names)
    number = {name: k for k, name in enumerate(joint_names)}
    source = np.array([k for k, name in enumerate(names) if name in number], dtype=int)
    return source, np.array([number[names[k]] for k in source], dtype=int)


def _nothing(shape):
    """NaN everywhere, without allocated memory."""
    return np.broadcast_to(np.nan, shape)


def _spread(shape, target, entries):
    values = np.full(shape, np.nan)
    values[:, target] = entries
    return values


def _require_points(count):
    if not count:
        raise BadMessage("the trajectory has no points")
    if count > MAX_POINTS:
        raise BadMessage(f"the trajectory has {count} points; the limit is {MAX_POINTS}")


def _require_room(points, joints):
    if points * joints > MAX_NUMBERS:
        raise BadMessage(f"{points} points of {joints} joints; the limit is {MAX_NUMBERS} numbers per field")


def _require_lengths(field, counts, count, first):
    wrong = np.flatnonzero((counts != 0) & (counts != count))
    if wrong.size:
        k = wrong[0]
        raise BadMessage(f"point {first + k}: {count} names but {counts[k]} entries in {field}")


def _require_finite(field, entries, numbers, joint_names, target):
    """given (k, joints): entries of the points `numbers`."""
    if not possible(entries).all():
        row, column = np.argwhere(~possible(entries))[0]
        name, value = joint_names[target[column]], entries[row, column]
        raise BadMessage(f"point {numbers[row]}: {field} of {name!r} is {impossible(value)}")


def _require_rising(times):
    late = np.flatnonzero(np.diff(times) <= 0)
    if late.size:
        raise BadMessage(f"time_from_start of point {late[0] + 1} is not after the previous point")
