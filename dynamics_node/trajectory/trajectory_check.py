"""Whether a trajectory can be executed: limits, margins and loads of the motors."""

from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dynamics_node.algorithms.rates import spread_rates
from dynamics_node.display import titled
from dynamics_node.errors import InfeasibleError, InputError
from dynamics_node.functions import Backend
from dynamics_node.functions.checks import finite, positive
from dynamics_node.io.motion_files import JointLimits
from dynamics_node.robot import Robot
from dynamics_node.robot.wrong_calls import explains_wrong_calls
from dynamics_node.trajectory.check_functions import (
    CheckFunctions,
    Slowdown,
    closed_samples,
    largest_mass,
)
from dynamics_node.trajectory.effort_windows import rms_efforts
from dynamics_node.trajectory.joint_trajectory import JointTrajectory
from dynamics_node.trajectory.motion_limits import Margin, described, joint_limits, margins_of, scalar_joints
from dynamics_node.trajectory.segments import LINE, Samples
from dynamics_node.trajectory.slowdown import TOLERANCE
from dynamics_node.trajectory.systems import units_of
from dynamics_node.trajectory.trajectory import KINDS, Curve
from dynamics_node.trajectory.trajectory_messages import (
    in_order,
    joint_trajectory_of,
    message_of,
    require_joints,
)

RATE = 100.0  # Hz: samples between points are at most this far apart
WINDOW = 10.0  # s: of the thermal RMS
MOST_NUMBERS = 50_000_000  # samples times joints: 400 MB an array
STEP = 1e-5  # s: of differences
CONTRADICTS = 1e-3  # rad or m: a smaller difference is rounding
JUMP = 1e-6  # of the largest value: a smaller one is rounding
LEAST_STEP = 1.001  # of a slowdown, after the first one


@dataclass(frozen=True, eq=False, repr=False)
class TrajectoryCheck:
    """Whether a robot can execute a trajectory, with margins, loads and remedies.

    `check_trajectory` returns it.

    Attributes
    ----------
    robot : Robot
        The robot.
    trajectory : JointTrajectory
        Its points.
    time : ndarray (samples,)
        Times of the samples, s; twice for points at which accelerations jump.
    q : ndarray (samples, nq)
        Positions of all joints, closed, rad or m.
    qd, qdd, tau : ndarray (samples, nv)
        Rates, accelerations and torques of the independent joints; torques include friction if requested.
    margins : tuple of Margin
        One for every limit of every joint, the most used one first.
    options : CheckOptions
        Limits, window of `thermal_effort` and rate of the samples.
    notes : tuple of str
        Parts of the trajectory that are not checked.
    functions : CheckFunctions
        Inverse dynamics and friction of the check.
    effort_rates : ndarray (3, samples, nv) or None
        Derivatives of the torques by time along the splines, N m/s or N/s, without dry friction. They are
        those of torques at rest, of viscous friction and of the motion. Infinite where torques jump. None
        without a limit.

    Examples
    --------
    >>> still = np.zeros((2, 7))
    >>> path = np.array([[0.0] * 7, [0.5] * 7])
    >>> points = dn.JointTrajectory(robot.v_names, np.array([0.0, 2.0]), path, still, still)
    >>> check = dn.check_trajectory(robot, points, backend="numpy")
    >>> check.feasible, check.worst.joint, check.worst.quantity
    (False, 'panda_joint4', 'position')
    """

    robot: Robot
    trajectory: JointTrajectory
    time: np.ndarray
    q: np.ndarray
    qd: np.ndarray
    qdd: np.ndarray
    tau: np.ndarray
    margins: tuple[Margin, ...]
    options: "CheckOptions"
    notes: tuple[str, ...]
    functions: CheckFunctions
    effort_rates: np.ndarray | None
    _columns: "_Columns"

    def __repr__(self):
        worst, span = self.worst, f"{self.time[0]:.6g} to {self.time[-1]:.6g} s"
        return titled(
            f"TrajectoryCheck of {self.robot.name!r}: {'feasible' if self.feasible else 'infeasible'}",
            points=f"{len(self.trajectory)}, {span}, {len(self.time)} samples",
            worst=worst and f"{described(worst)}, {100 * worst.used:.1f} % used",
            notes=list(self.notes) or None,
        )

    @property
    def feasible(self) -> bool:
        """Whether all limits hold."""
        return self.worst is None or self.worst.used <= 1 + TOLERANCE

    @property
    def worst(self) -> Margin | None:
        """The most used limit; None without limits."""
        return self.margins[0] if self.margins else None

    @property
    def peak_effort(self) -> np.ndarray:
        """Largest magnitude (nv,) of every torque, N m or N."""
        return np.abs(self.tau).max(axis=0)

    @cached_property
    def rms_effort(self) -> np.ndarray:
        """Root mean square (nv,) of every torque over the whole trajectory, N m or N."""
        return rms_efforts(self.time, self.tau, np.inf)[1][0]

    @cached_property
    def thermal_effort(self) -> np.ndarray:
        """Largest root mean square (nv,) of every torque over any time of the length of the window, N m or N.

        For a shorter trajectory it is `rms_effort`.
        """
        return rms_efforts(self.time, self.tau, self.options.thermal_window)[1].max(axis=0)

    @cached_property
    def _power(self):
        return self.tau * self.qd

    @property
    def peak_power(self) -> np.ndarray:
        """Largest magnitude (nv,) of the mechanical power of every joint, W."""
        return np.abs(self._power).max(axis=0)

    @property
    def peak_total_power(self) -> float:
        """Largest power that all joints draw together, W; those that brake return theirs."""
        return float(self._power.sum(axis=1).max())

    @property
    def energy(self) -> np.ndarray:
        """Work (nv,) of every joint while it drives, J: energy of braking is not recovered."""
        drawn = np.maximum(self._power, 0.0)
        return 0.5 * np.diff(self.time) @ (drawn[1:] + drawn[:-1])

    @property
    def efforts(self) -> np.ndarray:
        """Torques (points, nv) at the points, N m or N; where accelerations jump, those after the jump."""
        at = np.searchsorted(self.time, self.trajectory.time, side="right") - 1
        return self.tau[np.clip(at, 0, len(self.time) - 1)]

    def curves(self) -> list[Curve]:
        """Curves of the independent joints, for plots.

        Returns
        -------
        list of Curve
            Position, velocity, acceleration and torque of every joint with one coordinate.
        """
        robot, units = self.robot, units_of(self.robot)
        at = {name: k for k, name in enumerate(robot.v_names) if name in robot.q_names}
        found = []
        for kind in ("q", "qd", "qdd", "tau"):
            values = getattr(self, kind)
            for name, k in at.items():
                column = robot.q_names.index(name) if kind == "q" else k
                found.append(Curve(name, KINDS[kind], units[kind][column], values[:, column]))
        return found

    def message(self) -> dict:
        """The trajectory with efforts, as fields of a trajectory_msgs/JointTrajectory.

        Returns
        -------
        dict
            The joints and points of the trajectory, each point with its effort.
        """
        return message_of(self.trajectory, in_order(self, self.trajectory.names))

    @cached_property
    def slowdown(self) -> Slowdown:
        """The smallest uniform slowdown that makes the trajectory feasible, in closed form.

        Gravity, springs and dry friction stay, viscous friction scales with the velocity, inertial torques
        with its square.
        """
        return self.functions.slowdown(self)

    def slowed(self) -> "TrajectoryCheck":
        """Slow the trajectory down until it is feasible.

        Returns
        -------
        TrajectoryCheck
            Of the slower `trajectory`. Its factor may exceed that of `slowdown` slightly: a slower motion has
            more samples, and dry friction changes its sign in a range of velocities.

        Raises
        ------
        ValueError
            If no slowdown makes it feasible.
        """
        check, factor = self, 1.0
        while not check.feasible:
            slowdown = check.slowdown
            if slowdown.limit is not None and not slowdown.possible:
                raise InfeasibleError(
                    f"no slowdown makes the trajectory feasible: {described(slowdown.limit)}"
                )
            factor *= max(slowdown.factor, 1.0 if check is self else LEAST_STEP)
            check = self.retimed(self.trajectory.slowed(factor).rounded())
        return check

    @explains_wrong_calls
    def retimed(self, trajectory: JointTrajectory, limits: JointLimits | None = None) -> "TrajectoryCheck":
        """Check another trajectory of the same joints with the same options.

        Parameters
        ----------
        trajectory : JointTrajectory
            Its points.
        limits : mapping, optional
            In place of those of this check.

        Returns
        -------
        TrajectoryCheck
            Of this trajectory.
        """
        options = self.options if limits is None else self.options._replace(limits=limits)
        return checked(self.functions, joint_trajectory_of(trajectory), options)

    def states(self, q: np.ndarray, *rates: np.ndarray) -> tuple[np.ndarray, ...]:
        """States of the robot at positions of the trajectory's joints.

        Parameters
        ----------
        q : ndarray (k, joints)
            Positions of successive points, rad or m.
        *rates : ndarray (k, joints)
            Velocities, or accelerations.

        Returns
        -------
        tuple of ndarray
            Closed positions (k, nq) of all joints, and the rates (k, nv) of the independent ones.

        Raises
        ------
        ClosureError
            If a loop cannot be closed.
        """
        columns, nothing = self._columns, np.full(len(q), np.nan)
        whole = columns.positions(q)
        closed = self.functions.closed(whole, columns.dependent, nothing)
        return whole if closed is None else closed, *map(columns.rates, rates)

    @explains_wrong_calls
    def largest_payload(self, link: str, com: ArrayLike = (0.0, 0.0, 0.0)) -> float:
        """The largest point mass on a link with which the trajectory stays feasible.

        Parameters
        ----------
        link : str
            The link, which may be fixed to another one.
        com : array_like (3,)
            Position of the mass in link axes, m.

        Returns
        -------
        float
            Mass in addition to that of the robot, kg. 0 for an infeasible trajectory, infinite if no limit of
            efforts or of their rates bounds it.

        Raises
        ------
        KeyError
            For an unknown link.
        """
        loaded = self.functions.loaded(link, com)
        if not self.feasible:
            return 0.0
        return largest_mass(self, checked(loaded, self.trajectory, self.options))


@explains_wrong_calls
def check_trajectory(
    robot: Robot,
    trajectory: Any,
    *,
    q0: ArrayLike | None = None,
    limits: JointLimits | None = None,
    friction: bool = True,
    gravity: ArrayLike | None = None,
    thermal_window: float = WINDOW,
    rate: float = RATE,
    backend: Backend = "auto",
) -> TrajectoryCheck:
    """Check whether a robot can execute a trajectory.

    Between points, joints move along the splines of joint_trajectory_controller: lines, with velocities at
    both points cubics, with accelerations as well polynomials of fifth degree.

    Parameters
    ----------
    robot : Robot
        The robot, for example with its payload, see `with_payload`.
    trajectory : JointTrajectory
        A trajectory_msgs/JointTrajectory, its fields as dictionaries and lists, or a `Trajectory`.
    q0 : array_like (nq,), optional
        Positions of joints that the trajectory does not name; they rest. For a robot with loops also start
        values of its implicit joints. By default `Robot.neutral`.
    limits : mapping, optional
        Limits of some joints in addition to those of the description, {joint: {'max_effort': number, ...}}.
        Keys: min_position, max_position, max_velocity, max_acceleration, max_deceleration, max_jerk,
        max_effort, max_effort_rate (N m/s or N/s), max_continuous_effort. The tightest limit counts.

        max_effort counts for both signs, unless there is a min_effort, below zero. max_effort_at_velocity
        and min_effort_at_velocity are concave and convex curves: corners [velocity, effort], such as
        [[0.0, stall_torque], [no_load_speed, 0.0]], with lines between and beyond them. Without the second
        one, the first counts for both directions. max_continuous_effort bounds `thermal_effort`.
    friction : bool
        Whether the motors overcome damping, dry friction, springs and offsets of the joints.
    gravity : array_like (3,), optional
        In place of the robot's, m/s^2.
    thermal_window : float
        Window of the root mean square of the torques, `TrajectoryCheck.thermal_effort`, s.
    rate : float
        Samples between points are at most 1 / rate apart, Hz.
    backend : str
        As in `build`.

    Returns
    -------
    TrajectoryCheck
        Margins, loads, the efforts of the points, the smallest slowdown and the largest payload.

    Raises
    ------
    InputError
        For unknown joints, times that do not increase, and numbers that are not finite.
    ClosureError
        If a loop cannot be closed on the way.

    Examples
    --------
    >>> names, rest = robot.v_names, [0.0, -0.5, 0.0, -2.0, 0.0, 1.6, 0.8]
    >>> points = [
    ...     {"time_from_start": t, "positions": [a, *rest[1:]], "velocities": [0.0] * 7}
    ...     for t, a in ((0.0, -1.0), (0.5, 1.0))
    ... ]
    >>> check = dn.check_trajectory(robot, {"joint_names": names, "points": points}, backend="numpy")
    >>> check.worst.quantity, check.worst.joint, round(check.worst.used, 2)
    ('velocity', 'panda_joint1', 2.76)
    >>> round(check.slowdown.factor, 2)
    2.76
    >>> check.slowed().feasible
    True
    """
    points = joint_trajectory_of(trajectory)
    q0 = robot.neutral() if q0 is None else finite("q0", q0, (robot.nq,))
    functions = CheckFunctions.of(robot, backend, gravity=gravity, friction=friction)
    limits = {} if limits is None else limits
    return checked(functions, points, CheckOptions(q0, limits, thermal_window, rate))


# --- the check ----------------------------------------------------------------------------------------------


class CheckOptions(NamedTuple):
    """q0 (nq,): positions of joints that a trajectory does not name; limits as in `check_trajectory`;
    thermal_window, s; rate, Hz; most: samples times joints."""

    q0: np.ndarray
    limits: JointLimits = {}
    thermal_window: float = WINDOW
    rate: float = RATE
    most: int = MOST_NUMBERS


def checked(functions: CheckFunctions, points: JointTrajectory, options: CheckOptions) -> TrajectoryCheck:
    """The TrajectoryCheck of points. Raises as `check_trajectory`."""
    window = positive("thermal_window", options.thermal_window, "seconds")
    options = options._replace(thermal_window=window, rate=positive("rate", options.rate, "hertz"))
    robot, bounds = functions.robot, joint_limits(functions.robot, options.limits)
    with_rates, with_jerks = (bool(np.isfinite(limit).any()) for limit in (bounds.effort_rate, bounds.jerk))
    derived = with_rates or with_jerks
    require_few_samples(points.count(options.rate, derived), robot, options.most)
    columns = _Columns(robot, points, options.q0)
    closed = functions.closed(columns.positions(points.q), columns.dependent, points.time)
    count, parts = _samples(points, options.rate, derived)
    time, q = np.empty(count), np.empty((count, robot.nq))
    qd, qdd, tau = np.empty((3, count, robot.nv))
    jerk = np.empty((count, robot.tree.nv)) if with_jerks else None
    effort_rates = np.empty((count, 3, robot.nv)) if with_rates else None
    done = 0
    for part in parts:
        rows = slice(done, done + len(part.time))
        done = rows.stop
        values = _sampled(functions, columns, points, closed, part, with_rates, with_jerks)
        for whole, values_of_part in zip((time, q, qd, qdd, tau, jerk, effort_rates), values, strict=True):
            if whole is not None:
                whole[rows] = values_of_part
    total = None
    if effort_rates is not None:
        effort_rates = _with_jumps(effort_rates.swapaxes(0, 1), time, qd, tau)
        total = effort_rates.sum(axis=0)
    margins = margins_of(robot, points.names, bounds, time, q, qd, qdd, jerk, tau, total, window)
    notes = _notes(robot, points, columns.positions(points.q) if closed is None else closed)
    return TrajectoryCheck(
        robot, points, time, q, qd, qdd, tau, margins, options, notes, functions, effort_rates, columns
    )


def _sampled(functions, columns, points, closed, samples, with_rates, with_jerks):
    """time, q, qd, qdd and tau of Samples; on request the jerks of all joints, and `effort_rates`. closed
    (points, nq): positions at the points of a robot with loops."""
    robot, q = functions.robot, columns.positions(samples.q)
    qd, qdd = columns.rates(samples.qd), columns.rates(samples.qdd)
    if closed is not None:
        for k in columns.dependent:
            q[:, k] = np.interp(samples.time, points.time, closed[:, k])
        q = closed_samples(robot, q, samples.time)
    tau = functions.inverse(q, qd, qdd)
    tau += sum(functions.friction(q, qd))
    jerk = effort_rates = None
    if with_rates:
        effort_rates = _rates_of(functions.effort_parts, robot, columns, samples, q).swapaxes(0, 1)
    if with_jerks and robot.constrained:  # also of the implicit joints
        jerk = _rates_of(partial(_accelerations, robot), robot, columns, samples, q)
    elif with_jerks:
        jerk = columns.rates(samples.jerk)
    return samples.time, q, qd, qdd, tau, jerk, effort_rates


def _samples(points, rate, jerk):
    """The number of samples, and an iterator of Samples; one point is a state at rest."""
    if len(points) == 1:
        rest = np.zeros_like(points.q)
        return 1, [Samples(points.time, points.q, np.nan_to_num(points.qd), np.nan_to_num(points.qdd), rest)]
    sampling = points.sampling(rate, jerk)
    return sampling.count, sampling.samples()


def require_few_samples(count, robot, most):
    """Raise InputError for too many samples times joints."""
    if count * robot.nv > most:
        raise InputError(
            f"{count} samples of {robot.nv} joints exceed {most} numbers: use a lower rate, or parts of the "
            "trajectory"
        )


def _rates_of(values, robot, columns, samples, q):
    """The derivative by time of values(q, qd, qdd) along the spline: differences over 2 STEP."""
    ends = []
    for step in (STEP, -STEP):
        ahead = columns.positions(samples.q + step * (samples.qd + 0.5 * step * samples.qdd))
        qd = columns.rates(samples.qd + step * (samples.qdd + 0.5 * step * samples.jerk))
        if robot.constrained:
            ahead[:, columns.dependent] = q[:, columns.dependent]
            ahead = closed_samples(robot, ahead, samples.time)
        ends.append(values(ahead, qd, columns.rates(samples.qdd + step * samples.jerk)))
    return (ends[0] - ends[1]) / (2 * STEP)


def _accelerations(robot, q, qd, qdd):
    """Those (s, nv of the tree) of all joints."""
    return spread_rates(robot, q, qd, qdd)[1]


def _with_jumps(effort_rates, time, qd, tau):
    """The effort_rates, infinite where torques or velocities jump between two samples at one time."""
    twice = np.flatnonzero(np.diff(time) == 0)
    for values in (qd, tau):
        jumps = np.abs(values[twice + 1] - values[twice]) > JUMP * np.abs(values).max(axis=0)
        effort_rates[2, twice] = np.where(jumps, np.inf, effort_rates[2, twice])
    return effort_rates


def _notes(robot, points, q):
    """q (points, nq): closed positions at the points."""
    notes = [*_contradicted(robot, points, q)]
    if robot.floating_base:
        notes.append("the base rests at its pose, and what holds it there is not checked")
    if points.time[0] > 0:
        notes.append(
            f"the motion to the first point, at {points.time[0]:g} s, is not checked: it depends on the "
            "state of the robot"
        )
    if lines := int((points.degrees() == LINE).sum()):
        notes.append(
            f"{lines} of {len(points) - 1} segments are lines, because points have no velocities: velocities "
            "jump at their ends, where efforts are not checked"
        )
    return tuple(notes)


def _contradicted(robot, points, q):
    """Notes about joints that follow others, and are elsewhere in the trajectory."""
    for joint in (joint for joint in scalar_joints(robot) if joint.name not in robot.v_names):
        if joint.name in points.names:
            off = points.q[:, points.names.index(joint.name)] - joint.position(q)[:, 0]
            off = np.abs((off + np.pi) % (2 * np.pi) - np.pi if joint.type.wraps else off)
            if (most := float(off.max())) > CONTRADICTS:
                unit, time = "rad" if joint.type.turns else "m", points.time[off.argmax()]
                yield (
                    f"{joint.name} follows other joints: its positions in the trajectory are not used, "
                    f"{most:.3g} {unit} off at {time:.4g} s"
                )


class _Columns:
    """Places of the trajectory's joints in q and qd. q0 (nq,): positions of the other joints."""

    def __init__(self, robot, points, q0):
        scalar = {joint.name: joint for joint in robot.tree.independent_joints if joint.type.is_scalar}
        independent = {name: k for k, name in enumerate(robot.v_names)}
        require_joints(points, [body.joint.name for body in robot.bodies])
        self._q0, self._nv = q0, robot.nv
        named = [(k, scalar[name]) for k, name in enumerate(points.names) if name in scalar]
        self._named = [k for k, _ in named]
        self._q = [joint.q.start for _, joint in named]
        self._offset = np.array([joint.offset for _, joint in named])
        moving = [(k, independent[name]) for k, name in enumerate(points.names) if name in independent]
        if not moving:
            raise InputError(f"the trajectory moves no joint of {', '.join(robot.v_names)}")
        self._moving, self._v = (list(part) for part in zip(*moving, strict=True))
        self.dependent = [joint.q.start for name, joint in scalar.items() if name not in independent]
        self._has_rates = self._v == list(range(robot.nv)) == self._moving
        self._has_positions = self._q == list(range(robot.nq)) == self._named

    def positions(self, values):
        """q (s, nq) of positions (s, joints)."""
        if self._has_positions:
            return values - self._offset
        q = np.tile(self._q0, (len(values), 1))
        q[:, self._q] = values[:, self._named] - self._offset
        return q

    def rates(self, values):
        """Rates (s, nv) of the independent joints, of those (s, joints) of the trajectory."""
        if self._has_rates:
            return values
        rates = np.zeros((len(values), self._nv))
        rates[:, self._v] = values[:, self._moving]
        return rates
