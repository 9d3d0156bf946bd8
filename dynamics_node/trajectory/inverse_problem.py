"""Torques that move a robot along a curve, in the four stages of the paper."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dynamics_node.algorithms import first_closed
from dynamics_node.codegen.backends import BACKENDS
from dynamics_node.errors import InputError, NotConverged, TrajectoryError
from dynamics_node.functions.checks import finite, numbers, positive
from dynamics_node.functions.choices import require_known
from dynamics_node.trajectory.assembly import OPEN, require_branch
from dynamics_node.trajectory.fixed_lag import FixedLag
from dynamics_node.trajectory.gauss_newton import Batch
from dynamics_node.trajectory.systems import System
from dynamics_node.trajectory.trajectory import (
    RobotOrSystem,
    Trajectory,
    graph_of,
    located,
    residuals,
    system_of,
    trajectory_of,
)
from dynamics_node.trajectory.trajectory_graph import Steps, prior

STDS = (1e-5, 1e-4, 1e-2)  # of q, qd, qdd of the curve, in its units
INTEGRATED = 1e-9  # of the trapezoids between steps: tight, so that a simulation reproduces the motion
DIFFERENCES = (1e-1, 1e1)  # of qd, qdd of dependent joints in stage 2, from position differences
LOOSE_TOLERANCE = 1e-3  # tolerance of the stages before the last one


def inverse_trajectory(
    robot: RobotOrSystem,
    time: ArrayLike,
    q: ArrayLike,
    qd: ArrayLike | None = None,
    qdd: ArrayLike | None = None,
    *,
    start: ArrayLike | None = None,
    stds: tuple[float, float, float] = STDS,
    integrated: float = INTEGRATED,
    equality: float = np.inf,
    backend: str = "auto",
    progress: Callable[[int], object] | None = None,
) -> Trajectory:
    """Compute the torques that move a robot along a curve, and the motion of all its joints.

    Loops are solved in four stages, each started from the previous one: positions; rates and integrators;
    rate constraints; torques. A tree needs only the last one.

    Parameters
    ----------
    robot : Robot or System
        The robot, with or without closed loops; or your own equations of motion.
    time : array_like (count,)
        Increasing times, s.
    q : array_like (count, nv) or (count, nq)
        Positions of the independent joints, or of all joints, rad or m.
    qd, qdd : array_like (count, nv), optional
        Rates and accelerations. By default they are those of a fifth-order spline through q, for joints with
        one coordinate.
    start : array_like (nq,), optional
        A closed position near the first one, on the intended branch of assembly.
    stds : (float, float, float)
        Standard deviations of q, qd and qdd of the curve. Curve and rule are balanced, because an exact
        rule would oscillate between samples.
    integrated : float
        Standard deviation of the trapezoidal rule between steps.
    equality : float
        Variance of the paper's soft factor between positions of consecutive steps; default none.
    backend : str
        'c' (compiled for this robot and cached), 'numpy', or 'auto': 'c' if it works.
    progress : callable, optional
        Called after every stage with its number.

    Returns
    -------
    Trajectory
        Its `tau` (count, nv) are the torques of the independent joints, N m or N.

    Raises
    ------
    InputError
        If an argument has a wrong shape or value.
    TrajectoryError
        If a stage has no solution: NotConverged, WrongBranch or SingularPosition. Its `solution` is the
        Trajectory of the last stage, or None.

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
    system = system_of(robot)
    require_known("backend", backend, BACKENDS)
    deviations, integrated = finite("stds", stds, (3,)), positive("integrated", integrated)
    damping = numbers("equality", equality)
    if damping.ndim or not damping > 0 or not (deviations > 0).all():
        raise InputError(f"stds and equality must be positive, not {stds} and {equality}")
    time, q, qd, qdd = _curve(system, time, q, qd, qdd, start)
    steps: Any = None
    stages = (1, 2, 3, 4) if system.dependent else (4,)
    for stage in stages:
        steps = _prepared(system, stage, time, (q, qd, qdd), deviations, integrated, damping, steps)
        try:
            steps = _along(steps, backend) if stage == 1 else _at_once(steps, backend)
        except TrajectoryError as error:
            last_steps = getattr(error.solution, "steps", None) if stage == 4 else None
            motion = None if last_steps is None else trajectory_of(system, time, last_steps)
            raise located(error, f"{system.name}, stage {stage} of 4", motion) from None
        (progress or (lambda done: None))(stage)
    motion = trajectory_of(system, time, steps)
    require_branch(system, motion)
    return motion


# --- the curve ----------------------------------------------------------------------------------------------


def _curve(system: System, time, q, qd, qdd, start):
    """time (count,), q (count, nq), qd and qdd (count, n), with zeros for dependent joints."""
    time, q = numbers("time", time), numbers("q", q)
    qd, qdd = (None if own is None else numbers(name, own) for name, own in (("qd", qd), ("qdd", qdd)))
    own, nq = list(system.independent), len(system.q.neutral)
    if time.ndim != 1 or len(time) < 2 or not (np.diff(time) > 0).all() or not np.isfinite(time).all():
        raise InputError("time must be two or more finite, increasing numbers")
    if q.shape not in ((len(time), len(own)), (len(time), nq)) or not np.isfinite(q).all():
        raise InputError(f"q must be finite, ({len(time)}, {len(own)}) or ({len(time)}, {nq}), not {q.shape}")
    places = [system.scalars[k] for k in own if k in system.scalars]
    if len(places) < len(own) and (q.shape[1] != nq or qd is None or qdd is None):
        raise InputError(
            f"{system.name} has joints with several coordinates: give q of all joints, qd and qdd"
        )
    if q.shape[1] == nq:
        whole = q
    else:
        whole = np.tile(_start(system, q[0], places, start), (len(time), 1))
        whole[:, places] = q
    if qd is None or qdd is None:
        qd, qdd = _derivatives(time, whole[:, places], qd)
    spread = np.zeros((2, len(time), len(system.directions)))
    for rates, name, given in zip(spread, ("qd", "qdd"), (qd, qdd), strict=True):
        if np.shape(given) != (len(time), len(own)) or not np.isfinite(given).all():
            raise InputError(f"{name} must be finite, ({len(time)}, {len(own)}), not {np.shape(given)}")
        rates[:, own] = given
    return time, whole, *spread


def _start(system, first, places, start):
    """A position (nq,) with the independent joints at `first` (nv,) from which loops can be closed."""
    if start is None and system.robot is None:
        raise InputError(
            f"{system.name}: start is required: {len(system.q.neutral)} numbers near the first position"
        )
    position = numbers("start", system.q.neutral if start is None else start).copy()
    if position.shape != system.q.neutral.shape:
        raise InputError(f"start must be {len(system.q.neutral)} numbers, not {position.shape}")
    position[places] = first
    return position if system.robot is None else first_closed(system.robot, position)


def _derivatives(time, q, qd):
    """qd and qdd (count, nv) of a fifth-order spline through q, or through qd if given."""
    from scipy.interpolate import make_interp_spline  # takes 1 s to import

    degree = min(5, len(time) - 1)
    if qd is not None:
        return qd, make_interp_spline(time, qd, k=min(degree, 4))(time, 1)
    spline = make_interp_spline(time, q, k=degree)
    return spline(time, 1), spline(time, 2)


# --- the stages ---------------------------------------------------------------------------------------------


def _prepared(system, stage, time, curve, stds, integrated, equality, before):
    """Steps of a stage, initialized from the previous one."""
    graph = graph_of(system, "inverse", stage)
    steps = graph.steps(len(time))
    steps["dt"][:-1, 0] = np.diff(time)
    steps["dt"][-1] = steps["dt"][-2]
    if stage == 2:  # independent rates from the curve, dependent ones from the positions of stage 1
        rest = list(system.dependent)
        for rates, differences in zip(curve[1:], _differences(system, before["q"], time), strict=True):
            rates[:, rest] = differences[:, rest]
    for name, values, std in zip(("q", "qd", "qdd"), curve, stds, strict=True):
        if name in graph.columns:
            steps[f"prior {name}"][:] = values
            steps.weigh(f"prior {name}", _variances(system, stage, name, std))
            steps[name][:] = before[name] if before is not None and name in before.graph.columns else values
    steps.weigh("equality q", equality)
    for name in ("trapezoidal q", "trapezoidal qd") if stage > 1 else ():
        steps.weigh(name, integrated**2)
    return steps


def _variances(system, stage, name, std):
    """Variances of a prior: on the independent directions, or on all for rates in stage 2."""
    if stage != 2 or name == "q":
        return std**2
    variances = np.full(len(system.directions), DIFFERENCES[name == "qdd"] ** 2)
    variances[list(system.independent)] = std**2
    return variances


def _differences(system, q, time):
    """Approximate qd and qdd of positions (count, nq)."""
    later, before = np.concatenate([q[1:], q[-1:]]), np.concatenate([q[:1], q[:-1]])
    span = np.gradient(time) * np.r_[1.0, np.full(len(time) - 2, 2.0), 1.0]
    qd = system.q.difference(later, before) / span[:, None]
    return qd, np.gradient(qd, time, axis=0)


def _vague_prior(steps: Steps):
    """No information about the first step: the curve determines it like all others."""
    return prior(steps.graph, {v.name: steps[v.name][0] for v in steps.graph.variables}, {})


def _along(steps: Steps, backend):
    """Solve step by step, each started from the previous one, so that loops stay on their branch."""
    lag = FixedLag(steps.graph, 2, _vague_prior(steps), backend, iterations=50)
    solution = steps.copy()
    names = [name for name in steps.graph.row if name not in ("q", "change", "linked", "damping")]
    for k in range(len(steps)):
        lag.append(**{name: steps[name][k] for name in names})
        solution["q"][k] = lag.steps["q"][-1]
    gaps = residuals(solution)["position constraint"]
    if not gaps.max() <= OPEN:
        k = int(np.argmax(~(gaps <= OPEN)))
        where = f"{steps['dt'][:k].sum():.6g} s after the start"
        raise NotConverged(f"{where}, loops cannot be closed at the positions of the curve")
    return solution


def _at_once(steps: Steps, backend):
    """Solve the last stage to convergence, the others loosely."""
    solver, known = Batch(steps.graph, backend), _vague_prior(steps)
    if "tau" in steps.graph.columns:
        return solver.solve(steps, known).steps
    try:
        return solver.solve(steps, known, iterations=10, tolerance=LOOSE_TOLERANCE).steps
    except NotConverged as error:
        return error.solution.steps
