"""Limits of joints, and how much of them a motion uses."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from dynamics_node.algorithms.rates import sampled_rates
from dynamics_node.errors import InputError
from dynamics_node.functions.checks import numbers
from dynamics_node.io.motion_files import LIMIT_KEYS, SIGNED
from dynamics_node.robot import Joint, Robot
from dynamics_node.robot.robot import cached_on_robot

ORDERS = {"velocity": 1, "acceleration": 2, "jerk": 3}  # powers of the speed of a motion


class Margin(NamedTuple):
    """The largest use of one limit of a joint.

    Attributes
    ----------
    joint : str
        Name of the joint.
    quantity : str
        'position', 'velocity', 'acceleration', 'jerk', 'effort' or 'effort_rate'.
    time : float
        When the limit is used most, s.
    value : float
        The quantity at this time, in rad or m, s, N m or N; infinite for the rate of an effort that jumps.
    limit : float
        The limit, with the sign of its side.
    used : float
        Used fraction of the limit; above 1 it is violated. For a position it is the distance from the middle
        of the range, as a fraction of half the range.

    Examples
    --------
    >>> dn.Margin("joint1", "effort", 0.5, -60.0, -87.0, 60 / 87).margin
    27.0
    """

    joint: str
    quantity: str
    time: float
    value: float
    limit: float
    used: float

    @property
    def margin(self) -> float:
        """Distance from the limit in the unit of the quantity, negative beyond it."""
        return abs(self.limit - self.value) * (1 if self.used <= 1 else -1)


def described(margin: Margin) -> str:
    """A limit in words."""
    return (
        f"{margin.quantity} of {margin.joint} at {margin.time:.4g} s is {margin.value:.4g}, limit "
        f"{margin.limit:.4g}"
    )


class MotionLimits(NamedTuple):
    """Limits of the scalar joints of all bodies, effort and its rate of the independent coordinates; infinite
    if there is none. In the order of LIMIT_KEYS."""

    lower: np.ndarray
    upper: np.ndarray
    velocity: np.ndarray
    acceleration: np.ndarray
    deceleration: np.ndarray
    jerk: np.ndarray
    effort: np.ndarray
    effort_rate: np.ndarray


def joint_limits(robot: Robot, more: Mapping[str, Mapping[str, float]]) -> MotionLimits:
    """Limits of the description, and more of some joints. Raises InputError."""
    joints, names = scalar_joints(robot), [joint.name for joint in scalar_joints(robot)]
    none = np.inf
    rows = [
        (
            joint.limits.lower if joint.type.bounded else -none,
            joint.limits.upper if joint.type.bounded else none,
            *(getattr(joint.limits, kind) or none for kind in MotionLimits._fields[2:6]),
        )
        for joint in joints
    ]
    kinds = list(np.array(rows).T) if rows else [np.zeros(0)] * 6
    limits = MotionLimits._make((*kinds, np.array(robot.effort_limits), np.full(robot.nv, none)))
    for entry in (more, *(more.values() if isinstance(more, Mapping) else ())):
        if not isinstance(entry, Mapping):
            raise InputError(f"limits must be {{joint: {{'max_effort': number, ...}}}}, not {more!r}")
    fixed = {frame.fixed_joint for frame in robot.frames.values()}
    for name, bounds in more.items():
        if name in fixed:
            continue
        if name not in names:
            raise InputError(f"limits of unknown joint {name!r}; the robot has {', '.join(names)}")
        for key, value in bounds.items():
            if key not in LIMIT_KEYS:
                raise InputError(f"limits of {name!r}: unknown {key!r}; known: {', '.join(LIMIT_KEYS)}")
            value = numbers(f"limits: {key} of {name!r}", value)
            _tighten(limits, robot, names, name, key, value)
    return limits


def _tighten(limits, robot, names, name, key, value):
    kind, signed = MotionLimits._fields[LIMIT_KEYS.index(key)], key in SIGNED
    if value.ndim or np.isnan(value) or (value <= 0 and not signed):
        wanted = "a number" if signed else "positive"
        raise InputError(f"limits: {key} of {name!r} must be {wanted}, not {value}")
    array = getattr(limits, kind)
    if kind in ("effort", "effort_rate"):
        if name not in robot.v_names:
            raise InputError(f"limit {key} of {name!r}: the joint is not independent, it has no effort")
        k = robot.v_names.index(name)
    else:
        k = names.index(name)
    array[k] = max(array[k], value) if kind == "lower" else min(array[k], value)
    if kind == "acceleration":
        limits.deceleration[k] = min(limits.deceleration[k], value)


@cached_on_robot
def scalar_joints(robot) -> tuple[Joint, ...]:
    """The joints of all bodies that have one coordinate."""
    return tuple(body.joint for body in robot.bodies if body.joint.type.is_scalar)


def margins_of(robot, named, limits, time, q, qd, qdd, jerk, tau, effort_rate=None):
    """The Margins of all limits, the most used one first. named: joints of the trajectory; positions of
    others count if they move. jerk (s, nv of the tree), effort_rate (s, nv): None if they have no limit."""
    joints = scalar_joints(robot)
    spread = sampled_rates(robot, q, qd)
    rates, accelerations = spread.qd, spread.accelerations(qdd)
    found = []
    for k, joint in enumerate(joints):
        positions = joint.position(q)[:, 0]
        if joint.name in named or positions.min() < positions.max():  # others rest where they are
            found += _position_margin(joint.name, time, limits.lower[k], limits.upper[k], positions)
        for kind, values in (("velocity", rates), ("jerk", jerk)):
            if np.isfinite(limit := getattr(limits, kind)[k]):
                found.append(_rate_margin(joint.name, kind, time, joint.rate(values)[:, 0], limit))
        up, down = limits.acceleration[k], limits.deceleration[k]
        if np.isfinite(min(up, down)):
            values = joint.rate(accelerations)[:, 0]
            bound = up if up == down else np.where(values * joint.rate(rates)[:, 0] < 0, down, up)
            found.append(_rate_margin(joint.name, "acceleration", time, values, bound))
    for kind, values in (("effort", tau), ("effort_rate", effort_rate)):
        limit = getattr(limits, kind)
        for v in np.flatnonzero(np.isfinite(limit)).tolist():
            found.append(_rate_margin(robot.v_names[v], kind, time, values[:, v], limit[v]))
    return tuple(sorted(found, key=lambda margin: -margin.used))


def _rate_margin(name, quantity, time, values, limit):
    """limit: a number, or one for every sample."""
    use = values if np.ndim(limit) == 0 else values / limit
    low, high = int(use.argmin()), int(use.argmax())
    worst = low if -use[low] > use[high] else high
    value, bound = float(values[worst]), float(np.broadcast_to(limit, values.shape)[worst])
    return Margin(
        name, quantity, float(time[worst]), value, float(np.copysign(bound, value)), abs(value) / bound
    )


def _position_margin(name, time, lower, upper, values):
    if not (np.isfinite(lower) or np.isfinite(upper)):
        return []
    half = 0.5 * (upper - lower) if np.isfinite(upper - lower) else 1.0
    low, high = int(values.argmin()), int(values.argmax())
    is_upper = values[high] - upper >= lower - values[low]
    worst, limit = (high, upper) if is_upper else (low, lower)
    over = values[worst] - upper if is_upper else lower - values[worst]
    used = 1 + over / half if half > 0 else (np.inf if over > 0 else 1.0)
    return [Margin(name, "position", float(time[worst]), float(values[worst]), float(limit), float(used))]
