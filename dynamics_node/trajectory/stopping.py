"""Stops that the motors can do, and how far the robot moves meanwhile."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dynamics_node.display import titled
from dynamics_node.errors import InfeasibleError, InputError
from dynamics_node.functions import Backend, evaluate
from dynamics_node.functions.checks import finite, positive
from dynamics_node.io.motion_files import JointLimits
from dynamics_node.robot import Robot
from dynamics_node.robot.wrong_calls import explains_wrong_calls
from dynamics_node.text import listed
from dynamics_node.trajectory.check_functions import CheckFunctions
from dynamics_node.trajectory.joint_trajectory import JointTrajectory
from dynamics_node.trajectory.motion_limits import Margin, described, joint_limits, without
from dynamics_node.trajectory.path_stop import INSTEAD, braked, remainder
from dynamics_node.trajectory.slowdown import TOLERANCE
from dynamics_node.trajectory.stop_search import LEAST, SAMPLES, MotionState, Stops
from dynamics_node.trajectory.trajectory_check import RATE, CheckOptions, TrajectoryCheck, checked
from dynamics_node.trajectory.trajectory_messages import joint_trajectory_of

LONGEST, MOST = 10.0, 100.0  # s: of a stop, and of what may be requested
LONGER, TRIES = 1e-3, 8  # of a stop whose limits are exceeded between the samples of the search; doubled
BINDS = 0.98  # used fraction of the limit that prevents a shorter stop on a path
BRAKING = ("acceleration", "deceleration", "jerk", "effort", "effort_rate")
LASTING = "max_continuous_effort"  # of longer times than a stop


class LinkTravel(NamedTuple):
    """How far the origin of a link moves.

    Attributes
    ----------
    path : float
        Length of its path, m.
    displacement : ndarray (3,)
        From its start to its end, in axes of the base, m.

    Examples
    --------
    >>> dn.LinkTravel(0.05, np.array([0.03, 0.0, 0.04])).path
    0.05
    """

    path: float
    displacement: np.ndarray


@dataclass(frozen=True, eq=False, repr=False)
class StoppingTrajectory:
    """A motion to rest within all limits.

    `stopping_trajectory` returns it.

    Attributes
    ----------
    trajectory : JointTrajectory
        From the state to rest; one point if the robot rests already.
    distance : dict
        {joint: length of its way, rad or m} of the independent joints.
    links : dict
        {link: LinkTravel} of the requested links.
    limit : Margin or None
        The limit that prevents a shorter stop, as the stop uses it; None if the stop is the shortest
        considered.
    check : TrajectoryCheck
        Margins and loads of the trajectory.

    Examples
    --------
    >>> q, qd = [0.0, -0.5, 0.0, -2.0, 0.0, 1.6, 0.8], [1.5, 0.5, 0.0, 0.0, 0.0, 0.0, 0.0]
    >>> stop = dn.stopping_trajectory(robot, q, qd, backend="numpy")
    >>> stop.limit.joint, stop.limit.quantity
    ('panda_joint3', 'effort')
    """

    trajectory: JointTrajectory
    distance: dict[str, float]
    links: dict[str, LinkTravel]
    limit: Margin | None
    check: TrajectoryCheck

    @property
    def time(self) -> float:
        """Duration, s."""
        return float(self.trajectory.time[-1])

    def __repr__(self):
        far = {name: f"{way:.4g}" for name, way in self.distance.items()}
        links = {name: f"{travel.path:.4g} m" for name, travel in self.links.items()}
        return titled(
            f"StoppingTrajectory of {self.check.robot.name!r}: {self.time:.4g} s",
            limit=self.limit and described(self.limit),
            distance=listed([f"{name} {way}" for name, way in far.items()]),
            links=listed([f"{name} {path}" for name, path in links.items()]) or None,
        )


class StopOptions(NamedTuple):
    """Limits as in `check_trajectory`; links: of LinkTravel; longest: stop, s; smooth: without jumps of the
    accelerations, also without limits that need it."""

    limits: JointLimits = {}
    links: Sequence[str] = ()
    longest: float = LONGEST
    smooth: bool = False


@explains_wrong_calls
def stopping_trajectory(
    robot: Robot,
    q: ArrayLike,
    qd: ArrayLike,
    *,
    qdd: ArrayLike | None = None,
    limits: JointLimits | None = None,
    links: Sequence[str] = (),
    longest: float = LONGEST,
    friction: bool = True,
    gravity: ArrayLike | None = None,
    backend: Backend = "auto",
) -> StoppingTrajectory:
    """Stop all joints together in the shortest time that efforts and other limits permit.

    The velocities of all joints fall by one profile: linearly, with constant decelerations, as
    joint_trajectory_controller stops when a goal is canceled. With `qdd`, or limits of jerk or of effort
    rates, accelerations do not jump. Every velocity is then a cubic to rest without acceleration.

    Parameters
    ----------
    robot : Robot
        The robot, for example with its payload, see `with_payload`.
    q : array_like (nq,)
        Positions, rad or m; those of implicit joints of loops are start values.
    qd : array_like (nv,)
        Velocities of the independent joints, rad/s or m/s. A floating base rests.
    qdd : array_like (nv,), optional
        Their accelerations, from which the stop continues. By default zero, if they count.
    limits : mapping, optional
        As in `check_trajectory`; max_continuous_effort does not count.
    links : sequence of str
        Links whose travel is computed.
    longest : float
        Longest stop, s, at most 100. A stop takes at least 1 ms.
    friction : bool
        Whether damping, dry friction, springs and offsets of the joints count; friction helps to stop.
    gravity, backend
        As in `check_trajectory`.

    Returns
    -------
    StoppingTrajectory
        The motion, its time and distances, and the limit that prevents a shorter one. `check_trajectory`
        has verified it, and the efforts at rest after it. Limits of position or velocity that the state
        already exceeds are not exceeded further.

    Raises
    ------
    InfeasibleError
        If no stop keeps the limits; with the joint, the value and the limit.
    InputError
        For wrong arguments, and if no limit bounds decelerations.
    ClosureError
        If a loop cannot be closed.

    Examples
    --------
    >>> q, qd = [0.0, -0.5, 0.0, -2.0, 0.0, 1.6, 0.8], [1.5, 0.5, 0.0, 0.0, 0.0, 0.0, 0.0]
    >>> stop = dn.stopping_trajectory(robot, q, qd, links=["panda_hand"], backend="numpy")
    >>> stop.check.feasible, round(stop.distance["panda_joint1"] / stop.time, 3)
    (True, 0.75)
    >>> limits = {name: {"max_acceleration": 5.0} for name in robot.v_names}
    >>> round(dn.stopping_trajectory(robot, q, qd, limits=limits, backend="numpy").time, 2)
    0.3
    """
    functions = CheckFunctions.of(robot, backend, gravity=gravity, friction=friction)
    zero = np.zeros(robot.nv) if qdd is None else finite("qdd", qdd, (robot.nv,))
    state = MotionState(finite("q", q, (robot.nq,)), finite("qd", qd, (robot.nv,)), zero)
    options = StopOptions({} if limits is None else limits, links, longest, qdd is not None)
    return stopped(functions, state, options)


def stopped(functions: CheckFunctions, state: MotionState, options: StopOptions) -> StoppingTrajectory:
    """The StoppingTrajectory of a state. Raises as `stopping_trajectory`."""
    robot, bounds = functions.robot, joint_limits(functions.robot, options.limits)
    longest, links = _longest(options.longest), _known(robot, options.links)
    _require_stoppable(robot, state)
    closed = functions.closed(state.q[None], _implicit(robot), np.zeros(1))
    state = state if closed is None else state._replace(q=closed[0])
    stops = Stops(functions, state, bounds, _smooth(options, bounds))
    verify = _Verifier(functions, CheckOptions(state.q, without(options.limits, LASTING)))
    if not state.qd.any() and not state.qdd.any():
        return _at_rest(verify, stops.trajectory(0.0), links)
    _require_bounds(bounds)
    count = SAMPLES if robot.constrained else 2  # loops close from point to point
    found = stops.search(longest)
    check, over = verify(stops.trajectory(found.time, count))
    time, longer = found.time, LONGER
    while found.feasible and over is not None and longer < LONGER * 2**TRIES:
        time, longer = min(time * (1 + longer), longest), 2 * longer
        check, over = verify(stops.trajectory(time, count))
    if over is None:
        return _result(check, links, found.limit)
    raise InfeasibleError(
        f"no stop of at most {longest:g} s keeps the limits: {described(over)}, in the one of "
        f"{found.time:.4g} s that exceeds them least"
    )


@explains_wrong_calls
def stop_on_path(
    robot: Robot,
    trajectory: Any,
    time: float,
    *,
    q0: ArrayLike | None = None,
    limits: JointLimits | None = None,
    links: Sequence[str] = (),
    longest: float = LONGEST,
    friction: bool = True,
    gravity: ArrayLike | None = None,
    backend: Backend = "auto",
) -> StoppingTrajectory:
    """Stop on the path of a trajectory in the shortest time that efforts and other limits permit.

    The robot follows the path forward, from its state in the trajectory at a time. At no place is it faster
    than the trajectory.

    Parameters
    ----------
    robot : Robot
        The robot, for example with its payload, see `with_payload`.
    trajectory : JointTrajectory
        As in `check_trajectory`, with velocities at its points.
    time : float
        When the stop begins, s, in the times of the trajectory.
    q0, limits
        As in `check_trajectory`. With limits of jerk or of effort rates, linear programs find a stop that
        continues the acceleration of the trajectory and ends without one.
    links : sequence of str
        Links whose travel is computed.
    longest : float
        Longest stop, s, at most 100. A stop ends at least 1 ms of the trajectory later.
    friction : bool
        Whether damping, dry friction, springs and offsets of the joints count; friction helps to stop.
    gravity, backend
        As in `check_trajectory`.

    Returns
    -------
    StoppingTrajectory
        The motion, its time and distances, and the limit that it uses most. `check_trajectory` has verified
        it, and the efforts at rest after it.

    Raises
    ------
    InfeasibleError
        If no stop on the path keeps the limits, or the path ends before; with the joint, the value and the
        limit. `stopping_trajectory` may find a stop that leaves the path.
    InputError
        For wrong arguments, points without velocities, and if no limit bounds decelerations.
    ClosureError
        If a loop cannot be closed.
    ImportError
        Without toppra.

    See Also
    --------
    stopping_trajectory : stop all joints together, along a line in joint space.
    scale_trajectory : with the references of the algorithms.

    Examples
    --------
    >>> still = np.zeros((2, 7))
    >>> q = np.array([[0.0, -0.5, 0.0, -2.0, 0.0, 1.6, 0.8], [1.0, 0.5, 0.0, -1.0, 0.0, 1.6, 0.8]])
    >>> points = dn.JointTrajectory(robot.v_names, np.array([0.0, 2.0]), q, still, still)
    >>> stop = dn.stop_on_path(robot, points, 1.0, backend="numpy")
    >>> stop.check.feasible, stop.limit.quantity, bool(stop.time < 0.1)
    (True, 'effort', True)
    """
    points = joint_trajectory_of(trajectory)
    functions = CheckFunctions.of(robot, backend, gravity=gravity, friction=friction)
    q0 = robot.neutral() if q0 is None else finite("q0", q0, (robot.nq,))
    options = StopOptions({} if limits is None else limits, links, longest)
    return stopped_on_path(functions, points, float(finite("time", time, ())), q0, options)


def stopped_on_path(
    functions: CheckFunctions, points: JointTrajectory, time: float, q0: np.ndarray, options: StopOptions
) -> StoppingTrajectory:
    """The StoppingTrajectory on a path. Raises as `stop_on_path`."""
    robot, bounds = functions.robot, joint_limits(functions.robot, options.limits)
    longest, links = _longest(options.longest), _known(robot, options.links)
    rest = remainder(points, time, longest)
    limits = without(options.limits, LASTING)
    verify = _Verifier(functions, CheckOptions(q0, limits))
    if len(rest.points) == 1:
        return _at_rest(verify, rest.points, links)
    _require_bounds(bounds)
    check = checked(functions, rest.points, CheckOptions(q0, limits))
    stop = braked(check, limits, rest.rests, _smooth(options, bounds), verify)
    if stop.time[-1] > longest:
        raise InfeasibleError(
            f"the shortest stop on the path takes {stop.time[-1]:.4g} s, more than {longest:g} s: {INSTEAD}"
        )
    binding = next((own for own in stop.margins if own.quantity in BRAKING and own.used > BINDS), None)
    return _result(stop, links, binding and (binding.joint, binding.quantity))


def _longest(longest):
    """The longest stop, s. Raises InputError."""
    longest = positive("longest", longest, "seconds")
    if not LEAST < longest <= MOST:
        raise InputError(f"longest is {longest:g} s, not above {LEAST:g} s and at most {MOST:g} s")
    return longest


def _smooth(options, bounds):
    """Whether accelerations must not jump."""
    return options.smooth or any(np.isfinite(limit).any() for limit in (bounds.jerk, bounds.effort_rate))


def _require_bounds(bounds):
    """Raise InputError without a limit of decelerations."""
    others = (getattr(bounds, kind) for kind in BRAKING if kind != "effort")
    if not (len(bounds.effort.joint) or any(np.isfinite(limit).any() for limit in others)):
        raise InputError("no limit of effort, acceleration or jerk bounds the stop: add one")


def _at_rest(verify, points, links):
    """The StoppingTrajectory of one point. Raises InfeasibleError."""
    check, over = verify(points)
    if over is not None:
        raise InfeasibleError(f"the robot rests, but not within its limits: {described(over)}")
    return _result(check, links, None)


class _Verifier:
    """Checks of stops, and of the rest after them."""

    def __init__(self, functions, options):
        self._functions, self._options = functions, options

    def __call__(self, points) -> tuple[TrajectoryCheck, Margin | None]:
        """The TrajectoryCheck of the points of a stop, and the Margin of the limit that it exceeds most."""
        points, time = points.rounded(), points.time[-1]
        rate = max(RATE, SAMPLES / time) if time > 0 else RATE
        check = checked(self._functions, points, self._options._replace(rate=rate))
        held = self._at(points, -1, check.q[-1])
        exceeded = [margin for margin in (*check.margins, *held.margins) if margin.used > 1 + TOLERANCE]
        if not exceeded:
            return check, None
        start = {(m.joint, m.quantity): m.used for m in self._at(points, 0, self._options.q0).margins}
        exceeded = [margin for margin in exceeded if margin.used > _allowed(margin, start) + TOLERANCE]
        return check, max(exceeded, key=lambda margin: margin.used, default=None)

    def _at(self, points, k, q0):
        """The TrajectoryCheck of one point, without accelerations."""
        rows = slice(k, k + 1 or None)
        still = np.zeros((1, len(points.names)))
        one = JointTrajectory(points.names, points.time[rows], points.q[rows], points.qd[rows], still)
        return checked(self._functions, one, self._options._replace(q0=q0))


def _allowed(margin, start):
    """How much of a limit may be used: positions and velocities as much as by the state."""
    known = margin.quantity in ("position", "velocity")
    return max(1.0, start.get((margin.joint, margin.quantity), 1.0)) if known else 1.0


def _known(robot, links):
    """Names of links. Raises InputError."""
    if isinstance(links, str) or not isinstance(links, Sequence):
        raise InputError(f"links must be a list of names, not {links!r}")
    if unknown := [name for name in links if not isinstance(name, str) or name not in robot.frames]:
        raise InputError(f"links: the robot has no link {unknown[0]!r}; it has {listed(robot.frames, 12)}")
    return list(links)


def _implicit(robot):
    """Places in q of joints that follow others by loops."""
    joints = [joint for joint in robot.tree.independent_joints if joint.type.is_scalar]
    return [joint.q.start for joint in joints if joint.name not in robot.v_names]


def _require_stoppable(robot, state):
    """Raise InputError for coordinates that a trajectory cannot have, and that move."""
    scalar = {joint.name for joint in robot.tree.independent_joints if joint.type.is_scalar}
    if not any(name in scalar for name in robot.v_names):
        raise InputError("the robot has no joint that a trajectory can stop")
    for name, rate, acceleration in zip(robot.v_names, state.qd, state.qdd, strict=True):
        if name not in scalar and (rate or acceleration):
            raise InputError(f"{name} moves, and a trajectory cannot stop it: set its velocity to zero")


def _result(check, links, limit) -> StoppingTrajectory:
    """The StoppingTrajectory of a check. limit: joint and quantity of the one that binds, or None."""
    points, robot = check.trajectory, check.robot
    columns = [robot.v_names.index(name) for name in points.names]
    ways = 0.5 * np.diff(check.time) @ (np.abs(check.qd[1:]) + np.abs(check.qd[:-1]))
    binding = [margin for margin in check.margins if (margin.joint, margin.quantity) == limit]
    return StoppingTrajectory(
        trajectory=points,
        distance={name: float(ways[v]) for name, v in zip(points.names, columns, strict=True)},
        links=_travels(robot, links, check.q),
        limit=binding[0] if binding else None,
        check=check,
    )


def _travels(robot, links, q):
    """{link: LinkTravel} along samples q (s, nq)."""
    if not links:
        return {}
    positions = evaluate(robot, "frame_poses", q, links=links, backend="numpy").positions
    ways = np.linalg.norm(np.diff(positions, axis=0), axis=2).sum(axis=0)
    moved = positions[-1] - positions[0]
    return {name: LinkTravel(float(ways[k]), moved[k]) for k, name in enumerate(links)}
