"""Limits of joints beside a description: the `joint_limits` of MoveIt and ros2_control."""

import math

from dynamics_node.robot.files import read_regular_file
from dynamics_node.robot.plain_yaml import composed, plain

KEYS = ("min_position", "max_position", "max_velocity", "max_acceleration", "max_effort")
MAX_BYTES = 1_000_000
_FALSE = ("false", "no", "off")
_SIGNED = ("min_position", "max_position")


def read_limits(path) -> dict[str, dict[str, float]]:
    """{joint: {one of KEYS: rad or m, a second, a second more, N m or N}} of a YAML file

        joint_limits:
          joint1: {has_velocity_limits: true, max_velocity: 2.0, max_acceleration: 5.0}

    Numbers whose has_..._limits is false are left out, and so is what is none of KEYS. Raises OSError, and
    ValueError, file and joint by name.
    """
    content = plain(composed(read_regular_file(path, MAX_BYTES), "limits", ValueError))
    joints = content.get("joint_limits") if isinstance(content, dict) else None
    if not isinstance(joints, dict) or not joints:
        raise ValueError(f"{path}: no mapping joint_limits")
    return {joint: _numbers(path, joint, own) for joint, own in joints.items()}


def _numbers(path, joint, own):
    if not isinstance(own, dict):
        raise ValueError(f"{path}: {joint} has no mapping of limits")
    found = {}
    for key in KEYS:
        kind = key.partition("_")[2]
        if key in own and str(own.get(f"has_{kind}_limits")).lower() not in _FALSE:
            found[key] = _number(path, joint, key, own[key])
    return found


def _number(path, joint, key, text):
    try:
        value = float(text)
    except (TypeError, ValueError):
        value = math.nan
    if not math.isfinite(value) or (value <= 0 and key not in _SIGNED):
        wanted = "a number" if key in _SIGNED else "a positive number"
        raise ValueError(f"{path}: {key} of {joint} is not {wanted}")
    return value
