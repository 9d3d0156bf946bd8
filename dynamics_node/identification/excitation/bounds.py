"""Bounds of joints for the search: those of the description, of arguments, and `joint_limits` files.

Such files are those of MoveIt and ros2_control.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dynamics_node.robot import Robot
from dynamics_node.robot.safe_files import composed, plain, read_regular_file

REACH = {"rad": np.pi, "m": 0.25}  # to either side of zero, of a joint whose positions have no limits
SPEED = {"rad": 1.0, "m": 0.25}  # a second, of a joint whose velocity has no limit
RISE = 1 / 3  # s from rest to the highest velocity: limits of accelerations where nobody tells them
NARROW = 1e-6  # rad or m: a joint with less room does not move
ENDLESS = 1e4  # rad or m, and a second: limits beyond, as simulators write them, are none
FACTOR = 0.9  # of every limit that a motion uses


@dataclass(frozen=True, eq=False)
class Bounds:
    """|q - centre| <= half, |qd| <= velocity, |qdd| <= acceleration, |tau| <= effort, each (nv,); effort is
    infinite where nothing limits it. notes: what is taken for limits that nobody tells, joints by name."""

    centre: np.ndarray
    half: np.ndarray
    velocity: np.ndarray
    acceleration: np.ndarray
    effort: np.ndarray
    notes: tuple[str, ...] = ()


def joint_bounds(model: Robot, factor=FACTOR, velocity=None, acceleration=None, limits=None) -> Bounds:
    """`factor` of the limits in a description of a tree whose joints have one coordinate each; explicit
    joints limit the one that they follow.

    velocity, acceleration: at most of every joint, rad/s or m/s and a second more; limits: more limits of
    some joints, {joint: {"max_velocity": number, ...}} as of `read_limits`. The tightest counts. Raises
    ValueError, joints by name.
    """
    if not 0 < factor <= 1:
        raise ValueError(f"the factor of limits must be above 0 and at most 1, not {factor:g}")
    units = ["rad" if joint.type.turns else "m" for joint in model.independent_joints]
    own = _given(model, limits or {})
    notes = own.notes + _fill_positions(model, units, own.lower, own.upper)
    speed = np.minimum(own.velocity, _most(velocity, "velocity"))
    notes += _fill_speeds(model, units, speed)
    most = np.minimum(own.acceleration, _most(acceleration, "acceleration"))
    told = f"the highest velocity takes {RISE:.2g} s to reach"
    notes += _told(model, np.isinf(most), "no limit of acceleration", told)
    notes += _told(model, np.isinf(own.effort), "no limit of effort", "torques are not limited")
    return Bounds(
        (own.lower + own.upper) / 2,
        factor * (own.upper - own.lower) / 2,
        factor * speed,
        factor * np.where(np.isinf(most), speed / RISE, most),
        factor * own.effort,
        tuple(notes),
    )


def _most(value, name):
    if value is None:
        return np.inf
    if not (np.isfinite(value) and value > 0):
        raise ValueError(f"the highest {name} must be positive, not {value:g}")
    return value


class _Given(NamedTuple):
    """(nv,) each: what is told, infinite where nobody tells."""

    lower: np.ndarray
    upper: np.ndarray
    velocity: np.ndarray
    acceleration: np.ndarray
    effort: np.ndarray
    notes: list[str]


def _given(model, limits):
    """What a joint and the explicit ones that follow it alone allow, by description and `limits`."""
    joints = [(body.joint, *_one_master(body.joint)) for body in model.bodies]
    joints = [(joint, at, m) for joint, at, m in joints if m]
    unused = sorted(set(limits) - {joint.name for joint, *_ in joints})
    notes = [f"{', '.join(unused)}: limits are not used, no joint that moves"] if unused else []
    if several := [j.name for j in model.explicit_joints if len(j.masters.names) > 1]:
        notes.append(f"{', '.join(several)}: limits are not used, each follows several joints")
    upper, speed, most = np.full((3, model.nv), np.inf)
    found = _Given(-upper, upper, speed, most, np.array(model.effort_limits), notes)
    for joint, at, m in joints:
        more = limits.get(joint.name, {})
        lower, upper = more.get("min_position", -np.inf), more.get("max_position", np.inf)
        if joint.type.bounded:
            lower, upper = max(lower, joint.limits.lower), min(upper, joint.limits.upper)
        ends = ((lower - joint.offset) / m, (upper - joint.offset) / m)[:: 1 if m > 0 else -1]
        found.lower[at], found.upper[at] = max(found.lower[at], ends[0]), min(found.upper[at], ends[1])
        for rows, own in (
            (found.velocity, joint.limits.velocity or np.inf),
            (found.velocity, more.get("max_velocity", np.inf)),
            (found.acceleration, more.get("max_acceleration", np.inf)),
        ):
            rows[at] = min(rows[at], own / abs(m))
        if joint.masters is None:
            found.effort[at] = min(found.effort[at], more.get("max_effort", np.inf))
    found.lower[found.lower < -ENDLESS] = -np.inf
    for rows in (found.upper, found.velocity):
        rows[rows > ENDLESS] = np.inf
    return found


def _one_master(joint):
    """(coordinate, multiplier) of a joint that moves with one coordinate; multiplier 0 of one that moves with
    several."""
    if joint.masters is None:
        return joint.v.start, 1.0
    return joint.masters.v[0], joint.masters.weights[0] if len(joint.masters.v) == 1 else 0.0


def _fill_positions(model, units, lower, upper):
    """Put limits where none are; notes about it."""
    reach = np.array([REACH[unit] for unit in units])
    endless = np.isinf(lower) & np.isinf(upper)
    lower[endless], upper[endless] = -reach[endless], reach[endless]
    below, above = np.isinf(lower), np.isinf(upper)
    lower[below], upper[above] = (upper - 2 * reach)[below], (lower + 2 * reach)[above]
    for k in np.flatnonzero(upper - lower < NARROW):
        told = f"{model.v_names[k]} has no room between its limits {lower[k]:g} and {upper[k]:g}"
        raise ValueError(f"{told}: leave it out, by --joints with those that move")
    found = []
    for unit in REACH:
        own = (endless | below | above) & (np.array(units) == unit)
        found += _told(model, own, "no limits of position", f"a range of {2 * REACH[unit]:.4g} {unit}")
    return found


def _fill_speeds(model, units, speed):
    missing = np.isinf(speed)
    speed[missing] = np.array([SPEED[unit] for unit in units])[missing]
    return [
        note
        for unit in SPEED
        for note in _told(
            model, missing & (np.array(units) == unit), "no limit of velocity", f"{SPEED[unit]:g} {unit}/s"
        )
    ]


def _told(model, which, lack, taken):
    names = [name for name, own in zip(model.v_names, which, strict=True) if own]
    return [f"{', '.join(names)}: {lack}, {taken}"] if names else []


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
