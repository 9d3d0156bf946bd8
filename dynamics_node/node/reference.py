"""The reference trajectory: what the robot is asked to do."""

from typing import NamedTuple

import numpy as np

from dynamics_node.node.joint_memory import BadMessage

MAX_POINTS = 100_000
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
    times, table = read_points(names, points)
    values = [np.full((len(points), len(joint_names)), np.nan) for _ in FIELDS]
    number = {name: k for k, name in enumerate(joint_names)}
    source = [k for k, name in enumerate(names) if name in number]
    target = [number[names[k]] for k in source]
    for own, given in zip(values, table, strict=True):
        own[:, target] = given[:, source]
    return Reference(stamp, now, times, Sample(*values))


def read_points(names, points):
    """times (k,) s and one (k, names) array a field, NaN where a field is empty. Raises BadMessage."""
    if not points:
        raise BadMessage("trajectory without points")
    if len(points) > MAX_POINTS:
        raise BadMessage(f"trajectory of {len(points)} points; the limit is {MAX_POINTS}")
    if len(set(names)) != len(names):
        twice = next(name for name in names if list(names).count(name) > 1)
        raise BadMessage(f"joint {twice!r} is named twice")
    times = np.array([p.time_from_start.sec + 1e-9 * p.time_from_start.nanosec for p in points])
    if np.any(np.diff(times) <= 0):
        at = int(np.flatnonzero(np.diff(times) <= 0)[0]) + 1
        raise BadMessage(f"time_from_start of point {at} is not after the point before")
    return times, [_table(field, names, points) for field in FIELDS]


def _table(field, names, points):
    table = np.full((len(points), len(names)), np.nan)
    for k, point in enumerate(points):
        row = getattr(point, field)
        if not len(row):
            continue
        if len(row) != len(names):
            raise BadMessage(f"point {k}: {len(names)} names but {len(row)} entries in {field}")
        table[k] = row
        if not np.isfinite(table[k]).all():
            at = int(np.flatnonzero(~np.isfinite(table[k]))[0])
            raise BadMessage(f"point {k}: {field} of {names[at]!r} is {table[k, at]}")
    return table
