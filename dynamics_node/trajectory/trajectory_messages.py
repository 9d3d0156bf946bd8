"""Trajectories of planners: ROS messages, their fields as dictionaries and lists, and files of them.

A message is a trajectory_msgs/JointTrajectory, or one that contains it: moveit_msgs/RobotTrajectory,
moveit_msgs/DisplayTrajectory, or a goal of FollowJointTrajectory or ExecuteTrajectory.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from dynamics_node.errors import InputError
from dynamics_node.functions.checks import numbers
from dynamics_node.io.motion_files import trajectory_message
from dynamics_node.robot.safe_files import documents, plain, read_regular_file
from dynamics_node.text import listed
from dynamics_node.trajectory.joint_trajectory import FIELDS, JointTrajectory
from dynamics_node.trajectory.trajectory import Trajectory

MAX_BYTES = 64 * 1024 * 1024
TRAJECTORY = ("header", "joint_names", "points")
POINT = (*FIELDS, "effort", "time_from_start")
MEMBERS = ("joint_trajectory", "trajectory", "goal")  # that contain a trajectory
OTHER_JOINTS = ("multi_dof_joint_trajectory", "multi_dof_trajectory")
TOLERANCES = (
    "path_tolerance", "component_path_tolerance", "goal_tolerance", "component_goal_tolerance",
    "goal_time_tolerance",
)  # fmt: skip
OTHERS = ("header", "goal_id", "model_id", "trajectory_start", "controller_names")
BESIDE = (*MEMBERS, *OTHER_JOINTS, *OTHERS, *TOLERANCES)
NEEDED = "a trajectory needs joint_names and points, as in trajectory_msgs/JointTrajectory"
SECONDS = (("sec", "nanosec"), ("secs", "nsecs"))  # of ROS 2 and of ROS 1


def joint_trajectory_of(source: Any) -> JointTrajectory:
    """The JointTrajectory of a message, of its fields as dictionaries and lists, or of a Trajectory. Raises
    InputError."""
    if isinstance(source, JointTrajectory):
        return source
    if isinstance(source, Trajectory):
        columns = [list(source.q_names).index(name) for name in source.v_names if name in source.q_names]
        scalar = [k for k, name in enumerate(source.v_names) if name in source.q_names]
        names = tuple(source.v_names[k] for k in scalar)
        return JointTrajectory(
            names, source.time, source.q[:, columns], source.qd[:, scalar], source.qdd[:, scalar]
        )
    source = _contained(source)
    names, points = _field(source, "joint_names"), _field(source, "points")
    if not _is_list(names) or not _is_list(points) or not len(points):
        raise InputError(NEEDED)
    names = tuple(map(str, names))
    for number, point in enumerate(points):
        if isinstance(point, str):
            raise InputError(f"point {number} is {point!r}: ros2 topic echo needs --full-length")
        _require_known(point, POINT, f"point {number}")
    time = np.array([_seconds(point, number) for number, point in enumerate(points)])
    return JointTrajectory(names, time, *(_rows(points, field, len(names)) for field in FIELDS))


def _contained(source):
    """The JointTrajectory in a message. Raises InputError."""
    while _field(source, "joint_names") is None:
        member = next((name for name in MEMBERS if _field(source, name) is not None), None)
        if member is None:
            given = f"; there are {listed(map(str, source))}" if isinstance(source, Mapping) else ""
            raise InputError(f"{NEEDED}, or a message that contains one{given}")
        _require_known(source, BESIDE, f"beside {member}")
        for other in OTHER_JOINTS:
            if _is_list(names := _field(_field(source, other), "joint_names")) and len(names):
                raise InputError(f"{other} has joint {listed(names)}: joints with one coordinate are checked")
        source = _field(source, member)
        if _is_list(source):  # of a DisplayTrajectory
            if len(source) != 1:
                raise InputError(f"the message has {len(source)} trajectories: check them one by one")
            source = source[0]
    _require_known(source, TRAJECTORY, "the trajectory")
    return source


def _field(source, name):
    return source.get(name) if isinstance(source, Mapping) else getattr(source, name, None)


def _is_list(value):
    return isinstance(value, Sequence | np.ndarray) and not isinstance(value, str | bytes)


def _require_known(source, fields, what):
    if isinstance(source, Mapping) and (unknown := [str(name) for name in source if name not in fields]):
        raise InputError(f"{what}: unknown field {listed(unknown)}; the fields are {', '.join(fields)}")


def _seconds(point, number):
    """time_from_start in s: a Duration, a mapping of its fields, or a number."""
    stamp = _field(point, "time_from_start")
    try:
        for whole, rest in SECONDS:
            if isinstance(stamp, Mapping) and stamp and set(stamp) <= {whole, rest}:
                return float(stamp.get(whole, 0)) + 1e-9 * float(stamp.get(rest, 0))
            if hasattr(stamp, whole):
                return float(getattr(stamp, whole) + 1e-9 * getattr(stamp, rest))
        return float(stamp)
    except (TypeError, ValueError):
        raise InputError(
            f"point {number} needs time_from_start: seconds, or {{sec: 0, nanosec: 100000000}}"
        ) from None


def _rows(points, field, count):
    """(k, count) of one field, NaN in rows of points without it."""
    rows = np.full((len(points), count), np.nan)
    for number, point in enumerate(points):
        values = _field(point, field)
        if values is None or (_is_list(values) and not len(values)):
            if field == "positions":
                raise InputError(f"point {number} has no positions")
            continue
        row = numbers(f"point {number}: {field}", values)
        if row.shape != (count,):
            raise InputError(f"point {number}: {field} must be {count} numbers, one for each joint")
        rows[number] = row
    return rows


def in_order(check, names) -> np.ndarray:
    """Efforts (k, names) of a TrajectoryCheck at its points, for these joints; 0 for those without effort."""
    known, efforts = check.robot.v_names, check.efforts
    ordered = np.zeros((len(efforts), len(names)))
    at = [k for k, name in enumerate(names) if name in known]
    ordered[:, at] = efforts[:, [known.index(names[k]) for k in at]]
    return ordered


def message_of(trajectory: JointTrajectory, efforts) -> dict:
    """The fields of a trajectory_msgs/JointTrajectory with efforts (k, n)."""
    fields = dict(zip(FIELDS, (trajectory.q, trajectory.qd, trajectory.qdd), strict=True))
    return trajectory_message(trajectory.names, trajectory.time, fields | {"effort": efforts})


class TrajectoryFile(NamedTuple):
    """The points of a file, and the positions of all joints at their start, {joint: rad or m}, empty if the
    file has none."""

    points: JointTrajectory
    start: dict[str, float]


def read_joint_trajectory(path) -> TrajectoryFile:
    """The TrajectoryFile of a message in YAML or JSON, as `ros2 topic pub` takes it and `ros2 topic echo`
    prints it. Raises OSError, and InputError with the file's name."""
    text = read_regular_file(path, MAX_BYTES)
    try:
        messages = [plain(node) for node in documents(text, "points", InputError)]
        if len(messages) > 1:
            raise InputError(f"there are {len(messages)} messages: keep one of them")
        if not messages or not isinstance(messages[0], Mapping):
            raise InputError(NEEDED)
        return TrajectoryFile(joint_trajectory_of(messages[0]), _start(messages[0]))
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def _start(message):
    """The positions of the joints in trajectory_start, a moveit_msgs/RobotState."""
    state = _field(_field(message, "trajectory_start"), "joint_state")
    names, positions = (_field(state, name) or () for name in ("name", "position"))
    try:
        return {str(name): float(value) for name, value in zip(names, positions, strict=True)}
    except (TypeError, ValueError):
        raise InputError("trajectory_start needs as many positions as names of joints") from None


def require_joints(trajectory: JointTrajectory, known) -> None:
    """Raise InputError for unknown joints."""
    if unknown := [name for name in trajectory.names if name not in known]:
        raise InputError(f"the trajectory has unknown joint {listed(unknown)}; the robot has {listed(known)}")
