"""Torques that move a robot along a curve."""

from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from dynamics_node.algorithms import first_closed
from dynamics_node.algorithms.rates import spread_rates
from dynamics_node.codegen.backends import BACKENDS
from dynamics_node.errors import ClosureError, InputError, NotConverged, TrajectoryError
from dynamics_node.functions import build_loop_solver
from dynamics_node.functions.checks import finite, numbers, positive
from dynamics_node.functions.choices import require_known
from dynamics_node.robot import Robot
from dynamics_node.robot.loops.newton import positions_of
from dynamics_node.robot.wrong_calls import explains_wrong_calls
from dynamics_node.trajectory.assembly import require_branch
from dynamics_node.trajectory.gauss_newton import BatchSolver
from dynamics_node.trajectory.graphs import inverse_graph
from dynamics_node.trajectory.systems import robot_system
from dynamics_node.trajectory.trajectory import Trajectory, located, trajectory_of
from dynamics_node.trajectory.trajectory_graph import Steps, prior

STDS = (1e-5, 1e-4, 1e-2)  # of q, qd, qdd of the curve, in its units
INTEGRATED = 1e-9  # of the trapezoids between steps: tight, so that a simulation reproduces the motion
_graph = lru_cache(maxsize=16)(inverse_graph)


@explains_wrong_calls
def inverse_trajectory(
    robot: Robot,
    time: ArrayLike,
    q: ArrayLike,
    qd: ArrayLike | None = None,
    qdd: ArrayLike | None = None,
    *,
    q0: ArrayLike | None = None,
    stds: tuple[float, float, float] = STDS,
    integrated: float = INTEGRATED,
    backend: str = "auto",
) -> Trajectory:
    """Compute the torques that move a robot along a curve, and the motion of all its joints.

    Positions, rates, accelerations and torques of all times are one least-squares problem. It starts from
    closed positions along the curve.

    Parameters
    ----------
    robot : Robot
        The robot, with or without closed loops.
    time : array_like (count,)
        Increasing times, s.
    q : array_like (count, nv) or (count, nq)
        Positions of the independent joints, or of all joints, rad or m.
    qd, qdd : array_like (count, nv), optional
        Rates and accelerations. By default they are those of a fifth-order spline through q, for joints with
        one coordinate.
    q0 : array_like (nq,), optional
        A closed position near the first one, on the intended branch of assembly.
    stds : (float, float, float)
        Standard deviations of q, qd and qdd of the curve. Curve and rule are balanced, because an exact
        rule would oscillate between samples.
    integrated : float
        Standard deviation of the trapezoidal rule between steps.
    backend : str
        'c' (compiled for this robot and cached), 'numpy', or 'auto': 'c' if it works.

    Returns
    -------
    Trajectory
        Its `tau` (count, nv) are the torques of the independent joints, N m or N.

    Raises
    ------
    InputError
        If an argument has a wrong shape or value.
    TrajectoryError
        If there is no solution: NotConverged, WrongBranch or SingularPosition. Its `solution` is the
        Trajectory so far, or None.

    See Also
    --------
    simulate : the motion for given torques.

    Examples
    --------
    >>> from dynamics_demo.robots import geared_chain
    >>> arm = dn.parse_robot(geared_chain(1))  # a link on a geared motor
    >>> time = np.linspace(0.0, 1.0, 11)
    >>> swing = dn.inverse_trajectory(arm, time, np.sin(time)[:, None], backend="numpy")
    >>> swing.tau[[0, -1], 0].round(2)  # N m at the start and at the end
    array([-1.46, -1.05])

    References
    ----------
    Blanco-Claraco, Leanza and Reina, A general framework for modeling and dynamic simulation of multibody
    systems using factor graphs, 2021: Fig. 4.
    """
    require_known("backend", backend, BACKENDS)
    deviations, integrated = finite("stds", stds, (3,)), positive("integrated", integrated)
    if not (deviations > 0).all():
        raise InputError(f"stds must be positive, not {stds}")
    system = robot_system(robot)
    times, *curve = _curve(robot, time, q, qd, qdd, q0)
    steps = _graph(system).steps(len(times))
    steps["dt"][:, 0] = np.diff(times, append=2 * times[-1] - times[-2])
    steps["q"][:] = _closed(robot, times, curve[0], backend)
    steps["qd"][:], steps["qdd"][:] = np.nan_to_num(spread_rates(robot, steps["q"], *curve[1:]))
    for name, values, std in zip(("q", "qd", "qdd"), curve, deviations, strict=True):
        wanted = steps[f"prior {name}"]
        wanted[:, slice(None) if name == "q" else list(system.independent)] = values
        steps.weigh(f"prior {name}", std**2)
    for name in ("trapezoidal q", "trapezoidal qd"):
        steps.weigh(name, integrated**2)
    try:
        solved = BatchSolver(steps.graph, backend).solve(steps, vague_prior(steps)).steps
    except TrajectoryError as error:
        last = getattr(error.solution, "steps", None)
        so_far = None if last is None else trajectory_of(system, times, last)
        raise located(error, system.name, so_far) from None
    motion = trajectory_of(system, times, solved)
    require_branch(system, motion)
    return motion


def vague_prior(steps: Steps):
    """No information about the first step: the curve determines it like all others."""
    return prior(steps.graph, {v.name: steps[v.name][0] for v in steps.graph.variables}, {})


# --- the curve ----------------------------------------------------------------------------------------------


def _curve(robot, time, q, qd, qdd, q0):
    """time (count,), q (count, nq), qd and qdd (count, nv)."""
    time, q = numbers("time", time), numbers("q", q)
    qd, qdd = (None if rates is None else numbers(name, rates) for name, rates in (("qd", qd), ("qdd", qdd)))
    nq, nv = robot.nq, robot.nv
    if time.ndim != 1 or len(time) < 2 or not (np.diff(time) > 0).all() or not np.isfinite(time).all():
        raise InputError("time must be two or more finite, increasing numbers")
    if q.shape not in ((len(time), nv), (len(time), nq)) or not np.isfinite(q).all():
        raise InputError(f"q must be finite, ({len(time)}, {nv}) or ({len(time)}, {nq}), not {q.shape}")
    places = [joint.q.start for joint in robot.independent_joints if joint.type.is_scalar]
    if len(places) < nv and (q.shape[1] != nq or qd is None or qdd is None):
        raise InputError(
            f"{robot.name} has joints with several coordinates: give q of all joints, qd and qdd"
        )
    if q.shape[1] != nq:
        first = finite("q0", robot.neutral() if q0 is None else q0, (nq,)).copy()
        first[places] = q[0]
        q, independent = np.tile(first_closed(robot, first), (len(time), 1)), q
        q[:, places] = independent
    if qd is None or qdd is None:
        qd, qdd = _derivatives(time, q[:, places], qd)
    for name, rates in (("qd", qd), ("qdd", qdd)):
        if rates.shape != (len(time), nv) or not np.isfinite(rates).all():
            raise InputError(f"{name} must be finite, ({len(time)}, {nv}), not {rates.shape}")
    return time, q, qd, qdd


def _closed(robot, time, q, backend):
    """Closed positions (count, nq), each on the branch of the previous one."""
    if not robot.constrained:
        return q
    solver, closed = build_loop_solver(robot, backend), q.copy()
    dependent = positions_of(robot.tree, robot_system(robot).dependent)
    try:
        for k in range(len(q)):
            if k:
                closed[k, dependent] = closed[k - 1, dependent]
            closed[k], _ = solver(closed[k])
    except ClosureError as error:
        raise NotConverged(f"{robot.name}: {time[k] - time[0]:.6g} s after the start, {error}") from None
    return closed


def _derivatives(time, q, qd):
    """qd and qdd (count, nv) of a fifth-order spline through q, or through qd if given."""
    from scipy.interpolate import make_interp_spline  # takes 1 s to import

    degree = min(5, len(time) - 1)
    if qd is not None:
        return qd, make_interp_spline(time, qd, k=min(degree, 4))(time, 1)
    spline = make_interp_spline(time, q, k=degree)
    return spline(time, 1), spline(time, 2)
