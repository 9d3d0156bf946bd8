"""Smoothing of a whole recording with the model of `joint_smoother`: `smooth`."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from dynamics_node.algorithms import first_closed
from dynamics_node.codegen.backends import BACKENDS
from dynamics_node.errors import ClosureError, InconsistentStart, InputError, TrajectoryError
from dynamics_node.functions.checks import finite, numbers
from dynamics_node.functions.choices import require_known
from dynamics_node.robot import Robot
from dynamics_node.robot.robot import cached_on_robot
from dynamics_node.robot.sensors import Sensor
from dynamics_node.robot.wrong_calls import explains_wrong_calls
from dynamics_node.trajectory.fixed_lag import FixedLag, require_lag
from dynamics_node.trajectory.gauss_newton import BatchSolver
from dynamics_node.trajectory.joint_graph import VARIABLES, known_start, walk_variances
from dynamics_node.trajectory.joint_smoother import (
    FIRST,
    TOLERANCE,
    Smoothed,
    SmootherOptions,
)
from dynamics_node.trajectory.trajectory import SolvedSteps, Trajectory, located
from dynamics_node.trajectory.trajectory_graph import CHANGE, DAMPING, LINKED, Steps, weights_of

AHEAD = 10  # window of the initial fixed-lag pass
SETTLED = 1e-9  # largest last relative change of a variable, for a whole recording


@explains_wrong_calls
def smooth(
    robot: Robot,
    time: ArrayLike,
    readings: Mapping[str, ArrayLike],
    sensors: Iterable[Sensor] = (),
    *,
    options: SmootherOptions | None = None,
    lag_steps: int | None = None,
    q0: ArrayLike | None = None,
    backend: str = "auto",
    progress: Callable[[int], object] | None = None,
) -> Trajectory:
    """Estimate the most likely trajectory of a recording, with standard deviations and covariances.

    Parameters
    ----------
    robot : Robot
        The robot, with or without closed loops.
    time : array_like (count,)
        Increasing times, s; three or more.
    readings : mapping of str to array_like
        'q': positions (count, nq), or (count, nv) of the independent joints, rad or m.
        'tau': torques (count, nv) of the motors as commanded or measured, N m or N. External torques require
        them.
        NAME of a sensor: its readings (count, rows).
        NaN marks missing readings.
    sensors : iterable of Imu, Gyro, Accelerometer
        Records of `dynamics_node.sensors`, for readings other than 'q' and 'tau'.
    options : SmootherOptions, optional
        The noise. Its period and window are not used: steps follow `time`.
    lag_steps : int, optional
        Steps of a fixed lag, as in the node; by default all readings count at all steps.
    q0 : array_like (nq,), optional
        A position near the first one, if the first reading does not determine the branch of assembly.
    backend : str
        'c' (compiled for this robot and cached), 'numpy', or 'auto': 'c' if it works.
    progress : callable, optional
        Called after every step with the number of steps.

    Returns
    -------
    Trajectory
        Its `std` and `covariance` are those of the estimates. With torques, `external_torque` (count, nv) is
        that of the environment at the independent joints, N m or N.

    Raises
    ------
    InputError
        If readings have a wrong shape.
    SensorError
        If a sensor is not supported.
    TrajectoryError
        If there is no solution; its `solution` is the Trajectory so far.

    Examples
    --------
    >>> from dynamics_demo.robots import geared_chain
    >>> arm = dn.parse_robot(geared_chain(1))  # a link on a geared motor
    >>> weight = dn.evaluate(arm, "inverse_dynamics", [0.0], [0.0], [0.0], backend="numpy")
    >>> readings = {"q": np.zeros((11, 1)), "tau": np.tile(weight + 0.3, (11, 1))}  # at rest, under a push
    >>> estimate = dn.smooth(arm, np.linspace(0.0, 0.02, 11), readings, backend="numpy")
    >>> estimate.external_torque[5].round(2), estimate.std["external_torque"][5].round(1)  # N m
    (array([-0.3]), array([0.7]))

    References
    ----------
    Blanco-Claraco, Leanza and Reina, A general framework for modeling and dynamic simulation of multibody
    systems using factor graphs, 2021: sec. 5.

    Bar-Shalom, Li and Kirubarajan, Estimation with applications to tracking and navigation, 2001: sec. 6.2.3.
    """
    require_known("backend", backend, BACKENDS)
    if not isinstance(readings, Mapping):
        raise InputError(f"readings must be {{'q': positions, ...}}, not {type(readings).__name__}")
    require_lag(lag_steps)
    options = SmootherOptions() if options is None else options
    if not isinstance(options, SmootherOptions):
        raise TypeError(f"options must be SmootherOptions, not {type(options).__name__}")
    smoothed = _smoothed(robot, tuple(sensors), backend)
    steps = recorded_steps(smoothed, numbers("time", time), readings, options)
    first = first_position(robot, smoothed, steps, q0)
    known, columns = known_start(smoothed.graph, options, first), len(smoothed.graph.column_names)
    solved, P = SolvedSteps(steps), np.full((len(steps), columns, columns), np.nan)
    ahead = min(AHEAD if lag_steps is None else lag_steps, len(steps))
    lag = FixedLag(smoothed.graph, ahead, known, smoothed.backend, tolerance=TOLERANCE)
    try:
        _solve_along(solved, lag, P if lag_steps is not None else None, progress)
        if lag_steps is None:
            solver = BatchSolver(smoothed.graph, smoothed.backend)
            solved.improve(solver, known, tolerance=SETTLED)
            P = solver.covariance(solved.steps, known)
    except TrajectoryError as error:
        place = f"{robot.name}, {solved.done} of {len(steps)} steps done"
        raise located(error, place, _trajectory(smoothed, solved, P, time, "tau" in readings)) from None
    return _trajectory(smoothed, solved, P, time, "tau" in readings)


@cached_on_robot
def _smoothed(robot, sensors, backend):
    return Smoothed(robot, sensors, backend)


# --- the search ---------------------------------------------------------------------------------------------


def _solve_along(solved, lag, P, progress):
    """Solve step by step. P (steps, columns, columns): their covariances, if wanted."""
    graph = lag.graph
    written = {*(variable.name for variable in graph.variables), CHANGE, LINKED, DAMPING}
    given = [name for name in graph.row if name not in written]
    for k in range(len(solved.steps)):
        lag.extend(**{name: solved.steps[name][k] for name in given})
        if k + 1 >= FIRST:
            part = solved.take(lag, k, lag.solve())
            if P is not None:
                P[part] = lag.covariance()
        if progress:
            progress(k + 1)


def _trajectory(smoothed: Smoothed, solved: SolvedSteps, P, time, with_torques) -> Trajectory:
    """P (steps, columns, columns): covariances of the steps."""
    system, graph, P = smoothed.system, smoothed.graph, P[: solved.done]
    independent = np.array(system.independent)
    places = {name: graph.columns[name].start + independent for name in VARIABLES[:3]}
    if with_torques:
        places["external_torque"] = np.arange(P.shape[1])[graph.columns["external_torque"]]
    covariance = {name: P[:, at][:, :, at] for name, at in places.items()}
    std = {name: np.sqrt(np.diagonal(block, axis1=1, axis2=2)) for name, block in covariance.items()}
    std["q"] = np.sqrt(np.diagonal(P, axis1=1, axis2=2)[:, graph.columns["q"]])
    motion = solved.trajectory(system, np.array(time), std=std, covariance=covariance)
    return motion if with_torques else replace(motion, external_torque=None)


# --- readings -> steps --------------------------------------------------------------------------------------


def recorded_steps(smoothed: Smoothed, time, readings, options) -> Steps:
    """All data and weights. Raises InputError."""
    if time.ndim != 1 or len(time) < FIRST or not (np.diff(time) > 0).all() or not np.isfinite(time).all():
        raise InputError(f"time must be {FIRST} or more finite, increasing numbers")
    unknown = set(readings) - {"q", "tau", *smoothed.deviations}
    if unknown:
        raise InputError(
            f"readings of {sorted(unknown)[0]!r}: there are q, tau, {', '.join(smoothed.deviations)}"
        )
    steps = smoothed.graph.steps(len(time))
    spans = np.diff(time, append=2 * time[-1] - time[-2])
    steps["dt"][:, 0] = spans
    for k, span in enumerate(spans):
        for name, variance in walk_variances(replace(options, period=span)).items():
            steps[weights_of(name)][k] = 1.0 / variance
    nv = len(smoothed.independent)
    _read(steps, "encoder", "reading encoder", _positions(smoothed, readings.get("q")), options.encoder_std)
    torques = readings.get("tau", np.full((len(time), nv), np.nan))
    _read(steps, "torque", "reading torque", torques, options.torque_std)
    for name, std in smoothed.deviations.items():
        _read(steps, name, f"reading {name}", readings.get(name, np.full((1, len(std)), np.nan)), std)
    return steps


def _read(steps, factor, data, values, std):
    """Write the readings of a factor; nonfinite values have zero weight."""
    values, shape = numbers(f"readings of {factor!r}", values), steps[data].shape
    if values.ndim != 2 or values.shape[1] != shape[1] or len(values) not in (1, shape[0]):
        raise InputError(f"readings of {factor!r} must be {shape}, not {values.shape}")
    finite = np.isfinite(values)
    steps[data][:] = np.where(finite, values, 0.0)
    steps[weights_of(factor)][:] = np.where(finite, 1.0 / np.square(std), 0.0)


def _positions(smoothed: Smoothed, q):
    """(count, joints with a position): NaN for missing dependent joints; angles unwrapped."""
    system, count = smoothed.system, len(smoothed.scalars)
    if q is None:
        return np.full((1, count), np.nan)
    q = numbers("q", q).copy()
    if q.ndim == 2 and q.shape[1] == len(system.independent) < count:
        whole = np.full((len(q), count), np.nan)
        whole[:, [smoothed.scalars.index(k) for k in system.independent]] = q
        q = whole
    if q.ndim != 2 or q.shape[1] != count:
        raise InputError(f"q must be (count, {count}) or (count, {len(system.independent)}), not {q.shape}")
    joints = smoothed.robot.tree.independent_joints
    for k in (k for k, joint in enumerate(joints) if joint.type.wraps):
        finite = np.isfinite(q[:, k])
        q[finite, k] = np.unwrap(q[finite, k])
    return q


def first_position(robot, smoothed: Smoothed, steps, q0):
    """The closed position (nq,) of the first readings."""
    read, known = steps["reading encoder"], steps[weights_of("encoder")] > 0
    neutral = smoothed.system.q.neutral
    first = neutral.copy() if q0 is None else finite("q0", q0, neutral.shape).copy()
    for k, direction in enumerate(smoothed.scalars):
        rows = np.flatnonzero(known[:, k])
        if len(rows):
            first[smoothed.system.scalars[direction]] = read[rows[0], k]
    try:
        return first_closed(robot, first)
    except ClosureError as error:
        raise InconsistentStart(f"{robot.name}: the first readings do not close the loops: {error}") from None
