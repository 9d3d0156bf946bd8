"""Files of motions and their limits: JointTrajectory messages in the YAML that `ros2 topic pub` accepts, and
`joint_limits` of MoveIt and ros2_control."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import yaml

from dynamics_node.errors import InputError
from dynamics_node.functions.checks import numbers
from dynamics_node.functions.effort_limits import SIDES, TABLES, lines
from dynamics_node.robot.safe_files import composed, plain, read_regular_file


def trajectory_message(names, time, fields: Mapping[str, np.ndarray]) -> dict:
    """The message as dictionaries and lists. names: of the joints; time (count,) s; fields: {name: (count,
    joints)}, without the rows that begin with NaN."""
    points = []
    for k, seconds in enumerate(time.tolist()):
        sec, nanosec = divmod(round(seconds * 1e9), 10**9)
        point: dict = {
            name: rows[k].tolist() for name, rows in fields.items() if not np.isnan(rows[k, :1]).any()
        }
        points.append(point | {"time_from_start": {"sec": sec, "nanosec": nanosec}})
    return {"joint_names": list(names), "points": points}


def message_text(message) -> str:
    """YAML with one point per line. Names are quoted if necessary."""
    return yaml.safe_dump(message, sort_keys=False, default_flow_style=None, width=10**6)


LIMIT_KEYS = (
    "min_position", "max_position", "max_velocity", "max_acceleration", "max_deceleration", "max_jerk",
    "max_effort", "max_effort_rate", "max_continuous_effort", "min_effort", *TABLES,
)  # fmt: skip
MAX_BYTES = 1_000_000
_FALSE = ("false", "no", "off")
SIGNED = ("min_position", "max_position")
JointLimits = Mapping[str, Mapping[str, Any]]  # {joint: {one of LIMIT_KEYS: number or table}}


def require_limits(limits: JointLimits) -> None:
    """Raise InputError for anything but {joint: {one of LIMIT_KEYS: number}}; tables pass."""
    for entry in (limits, *(limits.values() if isinstance(limits, Mapping) else ())):
        if not isinstance(entry, Mapping):
            raise InputError(f"limits must be {{joint: {{'max_effort': number, ...}}}}, not {limits!r}")
    for name, bounds in limits.items():
        for key, value in bounds.items():
            if key not in LIMIT_KEYS:
                raise InputError(f"limits of {name!r}: unknown {key!r}; known: {', '.join(LIMIT_KEYS)}")
            if key not in TABLES:
                _require_number(f"limits: {key} of {name!r}", key, value)


def _require_number(label, key, value):
    number, sign = numbers(label, value), 0.0 if key in SIGNED else SIDES.get(key, 1.0)
    if isinstance(value, str) or number.ndim or np.isnan(number) or (sign and not number * sign > 0):
        kind = {0.0: "a number", 1.0: "positive", -1.0: "negative"}[sign]
        raise InputError(f"{label} must be {kind}, not {value!r}")


def read_limits(path) -> dict[str, dict[str, Any]]:
    """{joint: {one of LIMIT_KEYS: value in rad or m, s, N m or N}} from a YAML file

        joint_limits:
          joint1: {has_velocity_limits: true, max_velocity: 2.0, max_acceleration: 5.0}
          joint2: {max_effort: 87, max_effort_at_velocity: [[0, 120], [2.6, 0]], max_continuous_effort: 30}

    Entries whose has_..._limits is false and other keys are ignored. Raises OSError, or ValueError with the
    file and joint.
    """
    content = plain(composed(read_regular_file(path, MAX_BYTES), "limits", ValueError))
    joints = content.get("joint_limits") if isinstance(content, dict) else None
    if not isinstance(joints, dict) or not joints:
        raise InputError(f"{path}: no mapping joint_limits")
    return {joint: _numbers(path, joint, entries) for joint, entries in joints.items()}


def _numbers(path, joint, entries):
    if not isinstance(entries, dict):
        raise InputError(f"{path}: {joint} has no mapping of limits")
    numbers = {}
    for key in LIMIT_KEYS:
        kind = key.partition("_")[2].removesuffix("_at_velocity")
        if key in entries and str(entries.get(f"has_{kind}_limits")).lower() not in _FALSE:
            read = _corners if key in TABLES else _number
            numbers[key] = read(path, joint, key, entries[key])
    return numbers


def _corners(path, joint, key, table):
    lines(f"{path}: {key} of {joint}", table, TABLES[key])
    return [[float(text) for text in corner] for corner in table]


def _number(path, joint, key, text):
    try:
        value = float(text)
    except (TypeError, ValueError):
        value = math.nan
    sign = 0.0 if key in SIGNED else SIDES.get(key, 1.0)
    if not math.isfinite(value) or (sign and value * sign <= 0):
        kind = {0.0: "a number", 1.0: "a positive number", -1.0: "a negative number"}[sign]
        raise InputError(f"{path}: {key} of {joint} is not {kind}")
    return value
