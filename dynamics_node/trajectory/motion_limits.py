"""Limits of joints, and how much of them a motion uses."""

from typing import NamedTuple

import numpy as np

from dynamics_node.algorithms.rates import sampled_rates
from dynamics_node.errors import InputError
from dynamics_node.functions.effort_limits import EFFORT_KEYS, EffortLimits, effort_limits
from dynamics_node.io.motion_files import JointLimits, require_limits
from dynamics_node.robot import Joint, Robot
from dynamics_node.robot.robot import cached_on_robot
from dynamics_node.trajectory.effort_windows import rms_efforts

ORDERS = {"velocity": 1, "acceleration": 2, "jerk": 3}  # powers of the speed of a motion


class Margin(NamedTuple):
    """The largest use of one limit of a joint.

    Attributes
    ----------
    joint : str
        Name of the joint.
    quantity : str
        'position', 'velocity', 'acceleration', 'jerk', 'effort', 'effort_rate' or 'continuous_effort'.
    time : float
        When the limit is used most, s; the end of the window of a continuous effort.
    value : float
        The quantity at this time, in rad or m, s, N m or N; infinite for the rate of an effort that jumps.
    limit : float
        The limit, with the sign of its side; of an effort that at the velocity.
    used : float
        Used fraction of the limit; above 1 it is violated. For a position it is the distance from the middle
        of the range, as a fraction of half the range. For an effort whose limit depends on velocity, effort
        and velocity, both divided by it, are at the limit.

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
    """Limits of the scalar joints of all bodies, those of efforts of the independent coordinates; infinite if
    there is none."""

    lower: np.ndarray
    upper: np.ndarray
    velocity: np.ndarray
    acceleration: np.ndarray
    deceleration: np.ndarray
    jerk: np.ndarray
    effort: EffortLimits
    effort_rate: np.ndarray
    continuous_effort: np.ndarray


POSITIONS = {"min_position": "lower", "max_position": "upper"}


def joint_limits(robot: Robot, more: JointLimits) -> MotionLimits:
    """Limits of the description, and more of some joints. Raises InputError."""
    joints, none = scalar_joints(robot), np.inf
    names = {joint.name: k for k, joint in enumerate(joints)}
    require_limits(more)
    more = dict(_entries(robot, more, names))
    rows = [
        (
            joint.limits.lower if joint.type.bounded else -none,
            joint.limits.upper if joint.type.bounded else none,
            *(getattr(joint.limits, kind) or none for kind in MotionLimits._fields[2:6]),
        )
        for joint in joints
    ]
    kinds = list(np.array(rows).T) if rows else [np.zeros(0)] * 6
    unlimited = np.full((2, robot.nv), none)
    efforts = effort_limits_of(robot.effort_limits, robot.v_names, more)
    limits = MotionLimits._make((*kinds, efforts, *unlimited))
    places = {name: k for k, name in enumerate(robot.v_names)}
    for name, bounds in more.items():
        motors = [key for key in bounds if "effort" in key]
        if motors and name not in places:
            raise InputError(f"limit {motors[0]} of {name!r}: the joint is not independent, it has no effort")
        for key in (key for key in bounds if key not in EFFORT_KEYS):
            _tighten(limits, (places if key in motors else names)[name], key, bounds[key])
    for k in np.flatnonzero(limits.lower > limits.upper)[:1]:
        raise InputError(
            f"limits of {joints[k].name!r}: the lowest position, {limits.lower[k]:g}, is above the highest, "
            f"{limits.upper[k]:g}"
        )
    return limits


def effort_limits_of(most, names, more: JointLimits) -> EffortLimits:
    """EffortLimits of joints: magnitudes `most`, infinite without a limit, and more. Raises InputError."""
    entries = {}
    for place, name in enumerate(names):
        if motor := {key: value for key, value in more.get(name, {}).items() if key in EFFORT_KEYS}:
            entries[place] = name, motor
    return effort_limits(most, entries)


def without(limits: JointLimits, *keys) -> JointLimits:
    """The limits without those of some LIMIT_KEYS."""
    return {name: {k: bounds[k] for k in bounds if k not in keys} for name, bounds in limits.items()}


def _entries(robot, more, names):
    """Pairs of a joint and its limits, without fixed joints. Raises InputError."""
    fixed = {frame.fixed_joint for frame in robot.frames.values()}
    for name, bounds in more.items():
        if name in fixed:
            continue
        if name not in names:
            raise InputError(f"limits of unknown joint {name!r}; the robot has {', '.join(names)}")
        yield name, bounds


def _tighten(limits, k, key, value):
    """k: place of the joint in the limits."""
    kind = POSITIONS.get(key, key.removeprefix("max_"))
    array = getattr(limits, kind)
    array[k] = max(array[k], value) if kind == "lower" else min(array[k], value)
    if kind == "acceleration":
        limits.deceleration[k] = min(limits.deceleration[k], value)


@cached_on_robot
def scalar_joints(robot) -> tuple[Joint, ...]:
    """The joints of all bodies that have one coordinate."""
    return tuple(body.joint for body in robot.bodies if body.joint.type.is_scalar)


def margins_of(robot, named, limits, time, q, qd, qdd, jerk, tau, effort_rate=None, window=np.inf):
    """The Margins of all limits, the most used one first. named: joints of the trajectory; positions of
    others count if they move. jerk (s, nv of the tree), effort_rate (s, nv): None if they have no limit.
    window: of continuous efforts, s."""
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
    found += _effort_margins(robot.v_names, limits.effort, time, qd, tau)
    for v in np.flatnonzero(np.isfinite(limits.effort_rate)).tolist():
        name, limit = robot.v_names[v], limits.effort_rate[v]
        found.append(_rate_margin(name, "effort_rate", time, effort_rate[:, v], limit))
    limited = np.flatnonzero(np.isfinite(limits.continuous_effort))
    if limited.size:
        ends, loads = rms_efforts(time, tau[:, limited], window)
        for v, load in zip(limited.tolist(), loads.T, strict=True):
            name, limit = robot.v_names[v], limits.continuous_effort[v]
            found.append(_rate_margin(name, "continuous_effort", ends, load, limit))
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


def _effort_margins(names, limits, time, qd, tau):
    fractions, ranges = limits.fractions(tau, qd), limits.ranges(qd)
    for v in limits.limited.tolist():
        used = fractions[:, limits.joint == v]
        low, high = used.min(axis=1), used.max(axis=1)
        side = int(high.max() >= -low.min())
        k = int((low.argmin(), high.argmax())[side])
        values = time[k], tau[k, v], ranges[side][k, v], (-low, high)[side][k]
        yield Margin(names[v], "effort", *map(float, values))


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
