"""Decelerations with which a robot stops wherever it is: numbers for joint_trajectory_controller."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import yaml
from numpy.typing import ArrayLike

from dynamics_node.display import titled
from dynamics_node.errors import InfeasibleError, InputError
from dynamics_node.functions import Backend
from dynamics_node.functions.checks import finite, numbers, positive
from dynamics_node.io.motion_files import JointLimits
from dynamics_node.robot import Robot
from dynamics_node.robot.inertial_parameters import with_payload
from dynamics_node.robot.wrong_calls import explains_wrong_calls
from dynamics_node.trajectory.check_functions import CheckFunctions, changeable_inverse
from dynamics_node.trajectory.motion_limits import joint_limits, scalar_joints
from dynamics_node.trajectory.slowdown import TOLERANCE
from dynamics_node.trajectory.stop_search import LEAST, MotionState, Stops, used_positions
from dynamics_node.trajectory.stopping import LONGEST

POSITIONS, MOST_POSITIONS = 300, 100_000  # random ones
TOGETHER = 4  # stops of all joints at a position, with random signs
GRID, HALVINGS = 64, 8  # times, and bisections between two of them
BATCH = 256  # stops
REDUCED, TRIES = 0.95, 60  # of decelerations that exceed a limit in a longer stop
SHORTER = 0.97  # of a time, whose most used limit is the one that binds
UNBOUNDED = np.pi  # rad or m: range of joints without limits


class Deceleration(NamedTuple):
    """How fast a joint can always stop.

    Attributes
    ----------
    joint : str
        Name of the joint.
    speed : float
        Its largest speed, rad/s or m/s.
    deceleration : float
        Guaranteed at all positions, also if all joints stop, rad/s^2 or m/s^2.
    alone : float
        The same if no other joint moves.
    position : ndarray (nq,)
        Position of the robot that limits `alone`.
    limit : tuple of str or None
        Joint and quantity of the limit there; None if stops of 1 ms, the shortest considered, are possible.

    Examples
    --------
    >>> dn.Deceleration("joint1", 2.0, 4.0, 5.0, np.zeros(1), ("joint1", "effort")).distance
    0.5
    """

    joint: str
    speed: float
    deceleration: float
    alone: float
    position: np.ndarray
    limit: tuple[str, str] | None

    @property
    def distance(self) -> float:
        """Length of the way from the largest speed to rest, rad or m."""
        return self.speed**2 / (2 * self.deceleration)


@dataclass(frozen=True, eq=False, repr=False)
class StoppingTable:
    """Decelerations of all joints.

    `stopping_table` returns it.

    Attributes
    ----------
    rows : tuple of Deceleration
        One for every joint.
    position : ndarray (nq,) or None
        Position that limits a stop of all joints; None if it permits the decelerations of single joints.
    stops : int
        Number of stops that were computed.
    excluded : int
        Stops among them that do not count. They begin beyond limits of positions, need more than the limits
        of effort at constant speeds, or no deceleration stops them.

    Examples
    --------
    >>> table = dn.stopping_table(robot, positions=20, backend="numpy")
    >>> len(table.rows), table.excluded
    (7, 0)
    """

    rows: tuple[Deceleration, ...]
    position: np.ndarray | None
    stops: int
    excluded: int

    def __repr__(self):
        rows = {row.joint: f"{row.deceleration:.4g} (alone {row.alone:.4g})" for row in self.rows}
        return titled(f"StoppingTable of {self.stops} stops, {self.excluded} excluded", **rows)

    def yaml(self) -> str:
        """The `constraints` of joint_trajectory_controller.

        Returns
        -------
        str
            Text with `decelerate_on_cancel` and the `max_deceleration_on_cancel` of every joint, rounded down
            to four digits.
        """
        rows = {row.joint: {"max_deceleration_on_cancel": _down(row.deceleration)} for row in self.rows}
        return yaml.safe_dump({"constraints": {"decelerate_on_cancel": True, **rows}}, sort_keys=False)


@explains_wrong_calls
def stopping_table(
    robot: Robot,
    *,
    qd: ArrayLike | None = None,
    positions: int | ArrayLike = POSITIONS,
    payloads: Sequence[tuple[str, float, ArrayLike]] = (),
    limits: JointLimits | None = None,
    longest: float = LONGEST,
    friction: bool = True,
    gravity: ArrayLike | None = None,
    seed: int = 0,
    backend: Backend = "auto",
) -> StoppingTable:
    """Compute decelerations with which all joints can stop at all positions.

    Stops are those of joint_trajectory_controller: constant decelerations, and all joints stop together with
    the slowest one. At every position each joint stops alone, both ways, and all stop together four times,
    from speeds with random signs. Efforts count as far as positions are within their limits.

    Parameters
    ----------
    robot : Robot
        A robot whose joints have one coordinate.
    qd : array_like (nv,), optional
        Largest speeds, rad/s or m/s. By default the limits of velocity.
    positions : int or array_like (k, nq)
        Number of random positions within the limits, or closed positions, such as those of a trajectory.
    payloads : sequence of (str, float, array_like (3,))
        Link, mass in kg and center of mass in link axes, m. The table holds with each, and without them.
    limits : mapping, optional
        As in `check_trajectory`. Those of velocities, jerks, effort rates and continuous efforts do not
        count.
    longest : float
        Longest stop, s.
    friction : bool
        Whether friction and springs of the joints count.
    gravity : array_like (3,), optional
        In place of the robot's, m/s^2.
    seed : int
        Seed of the random positions and signs.
    backend : str
        As in `build`.

    Returns
    -------
    StoppingTable
        Decelerations that keep the limits at the computed stops, and the positions that limit them.

    Raises
    ------
    InfeasibleError
        If a joint can stop nowhere, or no common factor of the decelerations keeps the limits.
    InputError
        For wrong arguments, joints without speed, and robots with loops without positions.

    Examples
    --------
    >>> print(dn.stopping_table(robot, positions=20, backend="numpy").yaml().splitlines()[1])
      decelerate_on_cancel: true
    """
    _require_joints(robot)
    speeds = robot.velocity_limits if qd is None else finite("qd", qd, (robot.nv,))
    _require_speeds(robot, speeds)
    longest = positive("longest", longest, "seconds")
    if longest <= LEAST:
        raise InputError(f"longest is {longest:g} s: a stop takes more than {LEAST:g} s")
    if not isinstance(seed, int | np.integer) or seed < 0:
        raise InputError(f"seed must be an integer from 0 on, not {seed!r}")
    random = np.random.default_rng(seed)
    bounds = _bounds(robot, {} if limits is None else limits)
    q = _positions(robot, positions, bounds, random)
    states = _states(q, speeds, random)
    every = _functions(robot, payloads, gravity, friction, backend)
    times = np.array([_shortest(functions, bounds, states, longest) for functions in every])
    return _table(every, bounds, states, times, speeds)


def _table(every, bounds, states, times, speeds):
    """The StoppingTable of the shortest times (robots, stops), infinite where there is none."""
    (q, qd), robot = states, every[0].robot
    slowest = np.where(np.isfinite(times), times, 0.0).max(axis=0)
    alone, worst = np.empty(robot.nv), np.empty(robot.nv, dtype=int)
    single = (qd != 0).sum(axis=1) == 1
    for v in range(robot.nv):
        own = np.flatnonzero(single & (qd[:, v] != 0)) if robot.nv > 1 else np.arange(len(qd))
        worst[v] = own[slowest[own].argmax()]
        if slowest[worst[v]] == 0:
            raise InfeasibleError(f"{robot.v_names[v]} can stop at no position within the limits")
        alone[v] = speeds[v] / slowest[worst[v]]
    ratio = (np.abs(qd) / alone).max(axis=1) / np.maximum(slowest, LEAST)
    together = int(ratio.argmin())
    decelerations = alone * min(1.0, ratio[together])
    decelerations = _verified(every, bounds, states, np.isfinite(times), decelerations)
    limits = [_binding(every, bounds, MotionState(q[k], qd[k], 0 * qd[k]), times[:, k]) for k in worst]
    numbers = zip(speeds.tolist(), decelerations.tolist(), alone.tolist(), q[worst], limits, strict=True)
    rows = [Deceleration(name, *own) for name, own in zip(robot.v_names, numbers, strict=True)]
    limited = (decelerations < alone).any()
    return StoppingTable(
        tuple(rows), q[together] if limited else None, times.size, int((~np.isfinite(times)).sum())
    )


def _verified(every, bounds, states, possible, decelerations):
    """Decelerations, reduced until all possible stops keep the limits. Raises InfeasibleError."""
    q, qd = states
    for _ in range(TRIES):
        time = (np.abs(qd) / decelerations).max(axis=1)
        good = [
            _used(functions, bounds, q[rows], qd[rows], time[rows]) <= 1 + TOLERANCE
            for functions, rows in zip(every, possible, strict=True)
        ]
        if all(each.all() for each in good):
            return decelerations
        decelerations = decelerations * REDUCED
    raise InfeasibleError(
        "no common factor of the decelerations keeps the limits at all positions: reduce speeds, payloads or "
        "positions"
    )


def _shortest(functions, bounds, states, longest):
    """The shortest times (k,) of stops; infinite if there is none, if motors cannot sustain the speeds, and
    from positions beyond their limits."""
    q, qd = states
    low, high = np.zeros(len(q)), np.full(len(q), np.inf)
    sustained = bounds.effort.used(functions.inverse(q, qd, 0 * qd) + sum(functions.friction(q, qd)), qd) <= 1
    inside = used_positions(functions.robot, bounds, q) <= 1 + TOLERANCE
    open_ = np.flatnonzero(sustained.all(axis=1) & inside.all(axis=1))
    for time in np.geomspace(LEAST, longest, GRID):
        good = _used(functions, bounds, q[open_], qd[open_], np.full(len(open_), time)) <= 1
        high[open_[good]] = time
        open_ = open_[~good]
        low[open_] = time
    found = np.flatnonzero(np.isfinite(high) & (low > 0))
    for _ in range(HALVINGS):
        middle = 0.5 * (low[found] + high[found])
        good = _used(functions, bounds, q[found], qd[found], middle) <= 1
        high[found[good]], low[found[~good]] = middle[good], middle[~good]
    return high


def _used(functions, bounds, q, qd, times):
    """The largest used fractions (k,) of limits in stops of states (k, n)."""
    parts = [slice(k, k + BATCH) for k in range(0, len(q), BATCH)]
    used = [
        Stops(functions, MotionState(q[rows], qd[rows], 0 * qd[rows]), bounds, False, True)
        .used(times[rows])
        .max(axis=1)
        for rows in parts
    ]
    return np.concatenate(used) if used else np.zeros(0)


def _binding(every, bounds, state, times):
    """Joint and quantity of the limit that prevents a shorter stop; None for the shortest considered."""
    slowest = int(np.where(np.isfinite(times), times, 0.0).argmax())
    if times[slowest] <= LEAST:
        return None
    stops = Stops(every[slowest], state, bounds, False, True)
    return stops.limits[int(stops.used(SHORTER * times[slowest : slowest + 1])[0].argmax())]


def _states(q, speeds, random):
    """q, qd of all stops: of each joint both ways, and of all together."""
    rates = [sign * np.diag(speeds)[v] for v in range(len(speeds)) for sign in (1.0, -1.0)]
    single = np.tile(np.array(rates), (len(q), 1))
    signs = random.choice([-1.0, 1.0], (len(q) * TOGETHER, len(speeds)))
    every = np.concatenate([np.repeat(q, len(rates), axis=0), np.repeat(q, TOGETHER, axis=0)])
    return every, np.concatenate([single, signs * speeds])


def _functions(robot, payloads, gravity, friction, backend):
    """CheckFunctions without and with each payload."""
    if not isinstance(payloads, Sequence) or any(
        not isinstance(own, Sequence) or isinstance(own, str) or len(own) != 3 for own in payloads
    ):
        raise InputError("payloads must be a list of (link, mass, center of mass)")
    inverse = changeable_inverse(robot, backend)
    loaded = [with_payload(robot, link, mass, finite("com", com, (3,))) for link, mass, com in payloads]
    return [
        CheckFunctions(own, inverse.with_inertias(own), gravity=gravity, friction=friction)
        for own in (robot, *loaded)
    ]


def _bounds(robot, limits):
    """MotionLimits of positions, efforts and accelerations."""
    bounds = joint_limits(robot, limits)
    none = np.full_like(bounds.lower, np.inf)
    bounds = bounds._replace(velocity=none, jerk=none, effort_rate=np.full(robot.nv, np.inf))
    accelerations = bounds.acceleration, bounds.deceleration
    if not (len(bounds.effort.joint) or any(np.isfinite(own).any() for own in accelerations)):
        raise InputError("no limit of effort or acceleration bounds the stops: add one")
    return bounds


def _positions(robot, positions, bounds, random):
    """Positions (k, nq)."""
    if not isinstance(positions, int | np.integer):
        q = np.atleast_2d(numbers("positions", positions))
        if q.ndim != 2 or q.shape[1] != robot.nq or not len(q) or not np.isfinite(q).all():
            raise InputError(f"positions must be finite, of shape (k, {robot.nq}), not {positions}")
        return q
    if isinstance(positions, bool) or not 1 <= positions <= MOST_POSITIONS:
        raise InputError(f"positions must be from 1 to {MOST_POSITIONS}, or an array, not {positions!r}")
    if robot.constrained:
        raise InputError("a robot with loops needs positions (k, nq) that are closed")
    low, high = np.empty((2, robot.nq))
    for k, joint in enumerate(scalar_joints(robot)):
        if joint.masters is None:
            low[joint.q], high[joint.q] = bounds.lower[k] - joint.offset, bounds.upper[k] - joint.offset
    low, high = np.where(np.isfinite(low), low, -UNBOUNDED), np.where(np.isfinite(high), high, UNBOUNDED)
    return random.uniform(low, high, (positions, robot.nq))


def _require_joints(robot):
    """Raise InputError for joints with several coordinates."""
    scalar = {joint.name for joint in robot.tree.independent_joints if joint.type.is_scalar}
    if several := [name for name in robot.v_names if name not in scalar]:
        raise InputError(f"{several[0]} belongs to a joint with several coordinates: they are not supported")


def _require_speeds(robot, speeds):
    """Raise InputError for joints without a finite speed above zero."""
    for name, speed in zip(robot.v_names, speeds, strict=True):
        if not 0 < speed < np.inf:
            raise InputError(f"the largest speed of {name} is {speed:g}: give positive speeds as qd")


def _down(value):
    """The value, rounded down to four digits."""
    step = 10.0 ** (np.floor(np.log10(value)) - 3)
    return float(f"{np.floor(value / step) * step:.4g}")
