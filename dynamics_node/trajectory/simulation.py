"""Simulation: the trajectory of a robot from a start, under torques."""

from collections.abc import Callable, Iterable
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from dynamics_node.codegen.backends import BACKENDS
from dynamics_node.errors import InputError, SingularPosition, TrajectoryError, Unobservable
from dynamics_node.functions.checks import finite, numbers, positive
from dynamics_node.functions.choices import require_known
from dynamics_node.functions.robot_function import FLOOR
from dynamics_node.robot import Robot
from dynamics_node.robot.contacts import Contact, Ground
from dynamics_node.robot.wrong_calls import explains_wrong_calls
from dynamics_node.trajectory.assembly import closed_start, require_branch
from dynamics_node.trajectory.contact_simulation import simulate_with_contacts
from dynamics_node.trajectory.fixed_lag import FixedLag, require_lag
from dynamics_node.trajectory.gauss_newton import BatchSolver
from dynamics_node.trajectory.graphs import forward_graph
from dynamics_node.trajectory.passive import DryFriction
from dynamics_node.trajectory.systems import robot_system
from dynamics_node.trajectory.trajectory import SolvedSteps, Trajectory, located
from dynamics_node.trajectory.trajectory_graph import prior, weights_of

STARTED = 1e-10  # variance of the start, in units squared
INTEGRATED = 1e-2  # variance of the integrators (paper 2, Table 2): only relative weights matter
KEPT = 1e-2 / INTEGRATED  # `least` of FixedLag
MOST_STEPS = 10_000_000
EXACT = 1e-8  # tolerance: last change of a step
Torque = np.ndarray | Callable | None
_graph = lru_cache(maxsize=16)(forward_graph)


@explains_wrong_calls
def simulate(
    robot: Robot,
    q0: ArrayLike,
    qd0: ArrayLike | None = None,
    duration: float | None = None,
    *,
    steps: int | None = None,
    dt: float = 1e-3,
    torque: Torque = None,
    lag_steps: int | None = 2,
    friction: bool = True,
    contacts: Contact | Iterable[Contact] | None = None,
    ground: Ground | Iterable[Ground] = FLOOR,
    limits: bool = True,
    backend: str = "auto",
    progress: Callable[[int], object] | None = None,
) -> Trajectory:
    """Simulate a robot under torques: integrate its equations of motion by the trapezoidal rule.

    With `contacts`, steps are those of `rollout`: with impulses, and of first order.

    Parameters
    ----------
    robot : Robot
        The robot, with or without closed loops.
    q0 : array_like (nq,)
        Closed start position, rad or m.
    qd0 : array_like (nv,), optional
        Start velocity of the independent joints, rad/s or m/s; default at rest. Rates of all directions are
        accepted if they keep the loops closed.
    duration : float, optional
        Simulated time, s. Give either `duration` or `steps`.
    steps : int, optional
        Number of steps.
    dt : float
        Length of a step, s.
    torque : array_like (nv,) or (steps + 1, nv), or callable, optional
        Torques of the motors, N m or N; default zero. A function ``torque(time, q, qd)`` returns (nv,). It
        reads the state of the previous step, like a controller.
    lag_steps : int or None
        Number of steps that are solved at a time (fixed lag); None, or 0 on the command line, for all.
    friction : bool
        Whether damping, friction, springs and offsets of the joints act.
    contacts : iterable of Contact, optional
        Points of links, or balls around them, that touch the ground, as in `rollout`; may be empty. A step is
        then semi-implicit, with impulses. The Trajectory has `contact_forces`.
    ground : Plane, Terrain, callable, or iterable of them
        Surfaces of the ground, with contacts.
    limits : bool
        Whether joints stop at the limits of their positions, with contacts.
    backend : str
        'c' (compiled for this robot and cached), 'numpy', or 'auto': 'c' if it works.
    progress : callable, optional
        Called after every step with the number of finished steps.

    Returns
    -------
    Trajectory

    Raises
    ------
    InputError
        If an argument has a wrong shape or value, and for more than 10,000,000 steps.
    ChoiceError, ContactError
        For contacts or a ground that `rollout` does not take.
    TrajectoryError
        If a step has no solution: InconsistentStart, WrongBranch, SingularPosition or NotConverged. Its
        `solution` is the Trajectory so far.

    See Also
    --------
    inverse_trajectory : torques for a given motion.

    Examples
    --------
    >>> from dynamics_demo.robots import geared_chain
    >>> arm = dn.parse_robot(geared_chain(1))  # a link on a geared motor
    >>> fall = dn.simulate(arm, [1.0], duration=0.5, dt=0.01, backend="numpy")  # without torque
    >>> fall.time.shape, fall.q[-1].round(1)
    ((51,), array([1.9]))
    >>> damped = dn.simulate(
    ...     arm, [1.0], duration=0.5, dt=0.01, torque=lambda time, q, qd: -0.5 * qd, backend="numpy"
    ... )
    >>> damped.q[-1].round(1)
    array([1.7])

    References
    ----------
    Blanco-Claraco, Leanza and Reina, A general framework for modeling and dynamic simulation of multibody
    systems using factor graphs, 2021: Figs. 2 and 3.
    """
    count = _count(duration, steps, dt) + 1
    require_lag(lag_steps)
    require_known("backend", backend, BACKENDS)
    if not isinstance(friction, bool | np.bool_):
        raise InputError(f"friction must be True or False, not {friction!r}")
    system = robot_system(robot)
    q0, qd0 = closed_start(robot, q0, qd0)
    if contacts is not None:
        time, drive = dt * np.arange(count), _drive(torque, dt * np.arange(count), system)
        choices = {"contacts": contacts, "ground": ground, "friction": bool(friction), "limits": limits}
        start = {"q": q0, "qd": qd0}
        return simulate_with_contacts(robot, system, start, time, dt, drive, backend, progress, **choices)
    graph = _graph(system, bool(friction))
    time = dt * np.arange(count)
    known = prior(graph, {"q": q0, "qd": qd0}, {"q": STARTED, "qd": STARTED})
    drive, ahead = _drive(torque, time, system), min(2 if lag_steps is None else lag_steps, max(count, 2))
    lag = FixedLag(graph, ahead, known, backend, tolerance=EXACT, observable=False, least=KEPT)
    solved = SolvedSteps(graph.steps(count))
    try:
        _integrate(solved, lag, known, drive, dt, graph, system.passive, progress)
        if lag_steps is None:
            solved.improve(BatchSolver(graph, backend), known, observable=False)
    except TrajectoryError as error:
        place = f"{system.name}, at {dt * solved.done:.6g} s"
        raise _as_singular(error, place, solved.trajectory(system, time)) from None
    motion = solved.trajectory(system, time)
    require_branch(system, motion)
    return motion


def _integrate(solved, lag, known, drive, dt, graph, passive, progress):
    """Solve step by step; a step changes while it is in the window of the lag."""
    numbers = {weights_of(factor.name): 1.0 / INTEGRATED for factor in graph.weighted}
    dry = DryFriction(passive) if "friction" in graph.data else None
    if dry is not None:
        numbers |= dry.start(known.values["qd"])
    states, start = solved.steps.views, {name: known.values[name][None] for name in ("q", "qd")}
    for k in range(len(solved.steps)):
        tau = drive(k, states if k else start)
        iterations = lag.append(dt=dt, tau=tau, **({} if k else numbers))
        if dry is not None:
            iterations += dry.settle(lag)
        solved.take(lag, k, iterations)
        if progress:
            progress(k + 1)


def _as_singular(error, place, motion):
    """The error with the Trajectory so far. Start and integrators determine everything except at singular
    positions."""
    if isinstance(error, Unobservable):
        error = SingularPosition(f"{', '.join(error.variables)} diverge: the position is singular, or nearly")
    return located(error, place, motion)


def _count(duration, steps, dt):
    dt = positive("dt", dt, "seconds")
    if (duration is None) == (steps is None):
        raise InputError("give a duration, s, or a number of steps")
    name, value = ("duration", duration) if steps is None else ("steps", steps)
    value = float(finite(name, value, ()))
    if value < 0:
        raise InputError(f"{name} must not be negative: {value}")
    count = value / dt if steps is None else value
    if count > MOST_STEPS:
        raise InputError(f"{count:.3g} steps exceed {MOST_STEPS}: simulate in parts, or use a larger dt")
    return round(count)


def _drive(torque, time, system):
    """(number of a step, {'q', 'qd': rows of which the one before it is its state}) -> its torques (nv,)."""
    nv, independent = len(system.independent), list(system.independent)
    if callable(torque):

        def controlled(k, states):
            q, qd = states["q"][k - 1].copy(), states["qd"][k - 1][independent]
            tau = numbers(f"the torque at {time[k]:.6g} s", torque(time[k], q, qd))
            if tau.shape != (nv,) or not np.isfinite(tau).all():
                raise InputError(f"at {time[k]:.6g} s the torque must be {nv} finite numbers, not {tau}")
            return tau

        return controlled
    given = np.zeros(nv) if torque is None else numbers("torque", torque)
    if given.shape not in ((nv,), (len(time), nv)) or not np.isfinite(given).all():
        raise InputError(f"torque must be finite, ({nv},) or ({len(time)}, {nv}), not {given.shape}")
    rows = np.broadcast_to(given, (len(time), nv))
    return lambda k, states: rows[k]
