"""The reference trajectory: what the robot is asked to do."""

from typing import NamedTuple

import numpy as np

from dynamics_node.node.errors import BadMessage
from dynamics_node.node.state.joint_memory import require_few, require_once
from dynamics_node.node.state.wire import doubles_of, points_in_slices, read_trajectory

MAX_POINTS = 100_000
MAX_NUMBERS = 10_000_000  # points x joints: 80 MB a field
SLICE = 200  # points read at once: a millisecond
FIELDS = ("positions", "velocities", "accelerations", "effort")


class Sample(NamedTuple):
    """Values at one instant over all joints of the model; NaN where the reference says nothing."""

    positions: np.ndarray
    velocities: np.ndarray
    accelerations: np.ndarray
    effort: np.ndarray


class Reference(NamedTuple):
    """times (k,) s after `stamp` (ns of ROS time); received: steady ns; values: (k, joints) arrays."""

    stamp: int
    received: int
    times: np.ndarray
    values: Sample

    def at(self, ros_now, steady_now, timeout):
        """The Sample in force, or None: one point holds for `timeout` ns after its reception, several
        are interpolated linearly at ros_now() - stamp."""
        if len(self.times) == 1:
            fresh = steady_now - self.received <= timeout
            return Sample(*(field[0] for field in self.values)) if fresh else None
        t = (ros_now() - self.stamp) * 1e-9
        if not self.times[0] <= t <= self.times[-1]:
            return None
        k = min(int(np.searchsorted(self.times, t, side="right")), len(self.times) - 1)
        weight = (t - self.times[k - 1]) / (self.times[k] - self.times[k - 1])
        return Sample(*((1 - weight) * field[k - 1] + weight * field[k] for field in self.values))


def read_reference(joint_names, names, points, stamp, now):
    """Reference from the fields of a JointTrajectory.

    points: objects with positions, velocities, accelerations, effort and time_from_start. Joints that
    the model does not have are skipped. Raises BadMessage.
    """
    source, target = _columns(joint_names, names)
    times, table = read_points(names, points, source)
    _require_rising(times)
    shape = (len(points), len(joint_names))
    values = [_nothing(shape) if not given.size else _spread(shape, target, given) for given in table]
    return Reference(stamp, now, times, Sample(*values))


def reading(joint_names, data: bytes, ros_now: int, now: int):
    """Generator that reads a JointTrajectory as it came over the wire: it yields None between SLICE points
    and the next, so that the caller can do something else, and returns the Reference. Raises BadMessage."""
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
            said = np.flatnonzero(counts)
            given = numbers[starts[said, None] + source]
            _require_finite(field, given, said + first, joint_names, target)
            values[k] = _filled(values[k], rows, said, target, given)
        first = rows.stop
    _require_rising(times)
    return Reference(trajectory.stamp or ros_now, now, times, Sample(*values))


def _filled(values, rows, said, target, given):
    """Values with these rows; they get memory of their own, page by page, once a point says something."""
    if not values.flags.writeable:
        if not said.size:
            return values
        values = np.empty(values.shape)
        values[: rows.start] = np.nan
    values[rows] = np.nan
    values[(rows.start + said)[:, None], target] = given
    return values


def read_points(names, points, columns=slice(None)):
    """times (k,) s and one array (k, columns) a field, NaN where a field is empty; columns: indices of the
    names that are wanted. A field that no point has is (k, 0). Raises BadMessage."""
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
    said = np.array([len(row) > 0 for row in rows])
    _require_finite(field, table[said], np.flatnonzero(said), wanted, np.arange(len(wanted)))
    return table


def _columns(joint_names, names):
    """Where joints of the model stand among the names, and their numbers."""
    require_once(names)
    number = {name: k for k, name in enumerate(joint_names)}
    source = np.array([k for k, name in enumerate(names) if name in number], dtype=int)
    return source, np.array([number[names[k]] for k in source], dtype=int)


def _nothing(shape):
    """NaN everywhere, without memory."""
    return np.broadcast_to(np.nan, shape)


def _spread(shape, target, given):
    values = np.full(shape, np.nan)
    values[:, target] = given
    return values


def _require_points(count):
    if not count:
        raise BadMessage("trajectory without points")
    if count > MAX_POINTS:
        raise BadMessage(f"trajectory of {count} points; the limit is {MAX_POINTS}")


def _require_room(points, joints):
    if points * joints > MAX_NUMBERS:
        raise BadMessage(f"{points} points of {joints} joints; the limit is {MAX_NUMBERS} numbers a field")


def _require_lengths(field, counts, count, first):
    wrong = np.flatnonzero((counts != 0) & (counts != count))
    if wrong.size:
        k = wrong[0]
        raise BadMessage(f"point {first + k}: {count} names but {counts[k]} entries in {field}")


def _require_finite(field, given, numbers, joint_names, target):
    """given (k, joints) of the points with these numbers."""
    if not np.isfinite(given).all():
        row, column = np.argwhere(~np.isfinite(given))[0]
        name, value = joint_names[target[column]], given[row, column]
        raise BadMessage(f"point {numbers[row]}: {field} of {name!r} is {value}")


def _require_rising(times):
    late = np.flatnonzero(np.diff(times) <= 0)
    if late.size:
        raise BadMessage(f"time_from_start of point {late[0] + 1} is not after the point before")
