"""Joint bounds for the search, from the description, arguments and `joint_limits` files.

These files have the format of MoveIt and ros2_control.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dynamics_node.errors import InputError
from dynamics_node.robot import Robot
from dynamics_node.robot.safe_files import composed, plain, read_regular_file

REACH = {"rad": np.pi, "m": 0.25}  # to either side of zero, for a joint without position limits
SPEED = {"rad": 1.0, "m": 0.25}  # per second, for a joint without a velocity limit
RISE = 1 / 3  # s from rest to the highest velocity: default acceleration limit
NARROW = 1e-6  # rad or m: joints with a smaller range cannot move
ENDLESS = 1e4  # rad or m, or per second: larger limits, as written by simulators, are ignored
FACTOR = 0.9  # fraction of every limit: available to the motion


@dataclass(frozen=True, eq=False)
class Bounds:
    """|q - center| <= half, |qd| <= velocity, |qdd| <= acceleration, |tau| <= effort, each (nv,); effort is
    infinite if unlimited. notes: assumed limits, with joint names."""

    center: np.ndarray
    half: np.ndarray
    velocity: np.ndarray
    acceleration: np.ndarray
    effort: np.ndarray
    notes: tuple[str, ...] = ()


def joint_bounds(robot: Robot, factor=FACTOR, velocity=None, acceleration=None, limits=None) -> Bounds:
    """The fraction `factor` of the limits in the description of a tree whose joints have one coordinate each.
    Limits of mimic joints restrict the joint that they follow.

    velocity, acceleration: additional limits of all joints, rad/s or m/s and rad/s^2 or m/s^2; limits:
    additional limits of some joints, {joint: {"max_velocity": number, ...}} as from `read_limits`. The
    tightest limit is used. Raises ValueError with the joint name.
    """
    if not 0 < factor <= 1:
        raise InputError(f"the factor of limits must be above 0 and at most 1, not {factor:g}")
    units = ["rad" if joint.type.turns else "m" for joint in robot.independent_joints]
    own = _described_limits(robot, limits or {})
    notes = own.notes + _fill_positions(robot, units, own.lower, own.upper)
    speed = np.minimum(own.velocity, _upper_bound(velocity, "velocity"))
    notes += _fill_speeds(robot, units, speed)
    acceleration_limits = np.minimum(own.acceleration, _upper_bound(acceleration, "acceleration"))
    assumption = f"assuming {RISE:.2g} s to reach the highest velocity"
    notes += _notes(robot, np.isinf(acceleration_limits), "no acceleration limit", assumption)
    notes += _notes(robot, np.isinf(own.effort), "no effort limit", "torques are not limited")
    return Bounds(
        (own.lower + own.upper) / 2,
        factor * (own.upper - own.lower) / 2,
        factor * speed,
        factor * np.where(np.isinf(acceleration_limits), speed / RISE, acceleration_limits),
        factor * own.effort,
        tuple(notes),
    )


def _upper_bound(value, name):
    if value is None:
        return np.inf
    if not (np.isfinite(value) and value > 0):
        raise InputError(f"the highest {name} must be positive, not {value:g}")
    return value


class _Limits(NamedTuple):
    """Limits (nv,) each, infinite if unspecified."""

    lower: np.ndarray
    upper: np.ndarray
    velocity: np.ndarray
    acceleration: np.ndarray
    effort: np.ndarray
    notes: list[str]


def _described_limits(robot, limits):
    """Limits of each joint and of the mimic joints that follow it alone, from the description and
    `limits`."""
    joints = [(body.joint, *_one_master(body.joint)) for body in robot.bodies]
    joints = [(joint, at, m) for joint, at, m in joints if m]
    unused = sorted(set(limits) - {joint.name for joint, *_ in joints})
    notes = [f"{', '.join(unused)}: limits are not used, no such movable joint"] if unused else []
    if several := [j.name for j in robot.explicit_joints if len(j.masters.names) > 1]:
        notes.append(f"{', '.join(several)}: limits are not used, each follows several joints")
    upper, speed, acceleration = np.full((3, robot.nv), np.inf)
    combined = _Limits(-upper, upper, speed, acceleration, np.array(robot.effort_limits), notes)
    for joint, at, m in joints:
        more = limits.get(joint.name, {})
        lower, upper = more.get("min_position", -np.inf), more.get("max_position", np.inf)
        if joint.type.bounded:
            lower, upper = max(lower, joint.limits.lower), min(upper, joint.limits.upper)
        ends = ((lower - joint.offset) / m, (upper - joint.offset) / m)[:: 1 if m > 0 else -1]
        combined.lower[at], combined.upper[at] = (
            max(combined.lower[at], ends[0]),
            min(combined.upper[at], ends[1]),
        )
        for rows, own in (
            (combined.velocity, joint.limits.velocity or np.inf),
            (combined.velocity, more.get("max_velocity", np.inf)),
            (combined.acceleration, joint.limits.acceleration or np.inf),
            (combined.acceleration, joint.limits.deceleration or np.inf),
            (combined.acceleration, more.get("max_acceleration", np.inf)),
            (combined.acceleration, more.get("max_deceleration", np.inf)),
        ):
            rows[at] = min(rows[at], own / abs(m))
        if joint.masters is None:
            combined.effort[at] = min(combined.effort[at], more.get("max_effort", np.inf))
    combined.lower[combined.lower < -ENDLESS] = -np.inf
    for rows in (combined.upper, combined.velocity):
        rows[rows > ENDLESS] = np.inf
    return combined


def _one_master(joint):
    """(coordinate, multiplier) of a joint that moves with one coordinate; the multiplier is 0 if it follows
    several."""
    if joint.masters is None:
        return joint.v.start, 1.0
    return joint.masters.v[0], joint.masters.weights[0] if len(joint.masters.v) == 1 else 0.0


def _fill_positions(robot, units, lower, upper):
    """Fill in missing limits; returns notes about them."""
    reach = np.array([REACH[unit] for unit in units])
    endless = np.isinf(lower) & np.isinf(upper)
    lower[endless], upper[endless] = -reach[endless], reach[endless]
    below, above = np.isinf(lower), np.isinf(upper)
    lower[below], upper[above] = (upper - 2 * reach)[below], (lower + 2 * reach)[above]
    for k in np.flatnonzero(upper - lower < NARROW):
        message = f"{robot.v_names[k]} has no range between its limits {lower[k]:g} and {upper[k]:g}"
        raise InputError(f"{message}: exclude it by listing the others in --joints")
    notes = []
    for unit in REACH:
        own = (endless | below | above) & (np.array(units) == unit)
        notes += _notes(robot, own, "no position limits", f"assuming a range of {2 * REACH[unit]:.4g} {unit}")
    return notes


def _fill_speeds(robot, units, speed):
    missing = np.isinf(speed)
    speed[missing] = np.array([SPEED[unit] for unit in units])[missing]
    return [
        note
        for unit in SPEED
        for note in _notes(
            robot,
            missing & (np.array(units) == unit),
            "no velocity limit",
            f"assuming {SPEED[unit]:g} {unit}/s",
        )
    ]


def _notes(robot, which, missing, assumption):
    names = [name for name, own in zip(robot.v_names, which, strict=True) if own]
    return [f"{', '.join(names)}: {missing}, {assumption}"] if names else []


LIMIT_KEYS = (
    "min_position", "max_position", "max_velocity", "max_acceleration", "max_deceleration", "max_jerk",
    "max_effort", "max_effort_rate",
)  # fmt: skip
MAX_BYTES = 1_000_000
_FALSE = ("false", "no", "off")
_SIGNED = ("min_position", "max_position")


def read_limits(path) -> dict[str, dict[str, float]]:
    """{joint: {one of LIMIT_KEYS: value in rad or m, s, N m or N}} from a YAML file

        joint_limits:
          joint1: {has_velocity_limits: true, max_velocity: 2.0, max_acceleration: 5.0}

    Numbers whose has_..._limits is false and other keys are ignored. Raises OSError, or ValueError with the
    file and joint.
    """
    content = plain(composed(read_regular_file(path, MAX_BYTES), "limits", ValueError))
    joints = content.get("joint_limits") if isinstance(content, dict) else None
    if not isinstance(joints, dict) or not joints:
        raise InputError(f"{path}: no mapping joint_limits")
    return {joint: _numbers(path, joint, own) for joint, own in joints.items()}


def _numbers(path, joint, own):
    if not isinstance(own, dict):
        raise InputError(f"{path}: {joint} has no mapping of limits")
    numbers = {}
    for key in LIMIT_KEYS:
        kind = key.partition("_")[2]
        if key in own and str(own.get(f"has_{kind}_limits")).lower() not in _FALSE:
            numbers[key] = _number(path, joint, key, own[key])
    return numbers


def _number(path, joint, key, text):
    try:
        value = float(text)
    except (TypeError, ValueError):
        value = math.nan
    if not math.isfinite(value) or (value <= 0 and key not in _SIGNED):
        kind = "a number" if key in _SIGNED else "a positive number"
        raise InputError(f"{path}: {key} of {joint} is not {kind}")
    return value
