"""Joint bounds for the search, from the description and arguments."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dynamics_node.errors import InputError
from dynamics_node.io.motion_files import require_limits
from dynamics_node.robot import Robot

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
    limits = {} if limits is None else limits
    require_limits(limits)
    tightest, notes = _described_limits(robot, limits)
    notes += _fill_positions(robot, units, tightest.lower, tightest.upper)
    speed = np.minimum(tightest.velocity, _upper_bound(velocity, "velocity"))
    notes += _fill_speeds(robot, units, speed)
    acceleration_limits = np.minimum(tightest.acceleration, _upper_bound(acceleration, "acceleration"))
    assumption = f"assuming {RISE:.2g} s to reach the highest velocity"
    notes += _notes(robot, np.isinf(acceleration_limits), "no acceleration limit", assumption)
    notes += _notes(robot, np.isinf(tightest.effort), "no effort limit", "torques are not limited")
    return Bounds(
        (tightest.lower + tightest.upper) / 2,
        factor * (tightest.upper - tightest.lower) / 2,
        factor * speed,
        factor * np.where(np.isinf(acceleration_limits), speed / RISE, acceleration_limits),
        factor * tightest.effort,
        tuple(notes),
    )


def _upper_bound(value, name):
    if value is None:
        return np.inf
    if not (np.isfinite(value) and value > 0):
        raise InputError(f"the highest {name} must be positive, not {value:g}")
    return value


UNREAD = ("min_effort", "max_effort_at_velocity", "min_effort_at_velocity", "max_continuous_effort")
UNUSED = ("max_jerk", "max_effort_rate")


class _Limits(NamedTuple):
    """Limits of one coordinate, or (nv,) of all; infinite if unspecified."""

    lower: float | np.ndarray
    upper: float | np.ndarray
    velocity: float | np.ndarray
    acceleration: float | np.ndarray
    effort: float | np.ndarray


def _described_limits(robot, limits):
    """Limits of each coordinate: the tightest of its joint and of the mimic joints that follow it alone, from
    the description and `limits`; and notes about limits without effect."""
    for name, entries in limits.items():
        if unread := [key for key in UNREAD if key in entries]:
            raise InputError(f"limits of {name!r}: an excitation does not read {unread[0]}: use max_effort")
    found = [[_Limits(-np.inf, np.inf, np.inf, np.inf, effort)] for effort in robot.effort_limits]
    several, used = [], set()
    for joint in (body.joint for body in robot.bodies):
        masters = joint.masters
        if masters is not None and len(masters.v) > 1:
            several.append(joint.name)
            continue
        at, multiplier = (joint.v.start, 1.0) if masters is None else (masters.v[0], masters.weights[0])
        if multiplier:
            used.add(joint.name)
            found[at].append(_joint_limits(joint, limits.get(joint.name, {}), multiplier))
    notes = [f"{', '.join(several)}: limits are not used, each follows several joints"] if several else []
    for key in UNUSED:
        if names := [name for name, entries in limits.items() if name in used and key in entries]:
            notes.append(f"{', '.join(names)}: {key} is not used, check the motion with check_trajectory")
    if unused := sorted(set(limits) - used):
        notes.insert(0, f"{', '.join(unused)}: limits are not used, no such movable joint")
    return _Limits(*np.array([_tightest(limits_of_one) for limits_of_one in found]).reshape(-1, 5).T), notes


def _joint_limits(joint, more, multiplier) -> _Limits:
    """Limits of the coordinate that a joint follows with this multiplier. more: of the joint, as from
    `read_limits`."""
    described, none = joint.limits, np.inf
    lower, upper = (described.lower, described.upper) if joint.type.bounded else (-none, none)
    ends = max(lower, more.get("min_position", -none)), min(upper, more.get("max_position", none))
    lower, upper = ((end - joint.offset) / multiplier for end in ends[:: 1 if multiplier > 0 else -1])
    velocity = min(described.velocity or none, more.get("max_velocity", none))
    accelerations = [described.acceleration or none, described.deceleration or none]
    accelerations += [more.get(f"max_{kind}", none) for kind in ("acceleration", "deceleration")]
    effort = more.get("max_effort", none) if joint.masters is None else none
    return _Limits(lower, upper, velocity / abs(multiplier), min(accelerations) / abs(multiplier), effort)


def _tightest(limits) -> _Limits:
    """The tightest of several limits; those above ENDLESS are ignored."""
    lower, *others = zip(*limits, strict=True)
    low, high, velocity, acceleration, effort = max(lower), *map(min, others)
    return _Limits(
        low if low >= -ENDLESS else -np.inf,
        high if high <= ENDLESS else np.inf,
        velocity if velocity <= ENDLESS else np.inf,
        acceleration,
        effort,
    )


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
        assumed = (endless | below | above) & (np.array(units) == unit)
        notes += _notes(
            robot, assumed, "no position limits", f"assuming a range of {2 * REACH[unit]:.4g} {unit}"
        )
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
    names = [name for name, is_missing in zip(robot.v_names, which, strict=True) if is_missing]
    return [f"{', '.join(names)}: {missing}, {assumption}"] if names else []
