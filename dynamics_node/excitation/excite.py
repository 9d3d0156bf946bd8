"""From a robot to the motion that makes its base parameters best known."""

import numpy as np

from dynamics_node.excitation.bounds import FACTOR, joint_bounds
from dynamics_node.excitation.constraints import BoxRows, TorqueRows
from dynamics_node.excitation.criteria import roundness, volume
from dynamics_node.excitation.excited import Excited, told
from dynamics_node.excitation.information import Regressor
from dynamics_node.excitation.problem import Problem
from dynamics_node.excitation.search import ROUNDS, Clock, improved
from dynamics_node.excitation.series import Series
from dynamics_node.excitation.starts import random_motion
from dynamics_node.identification import USUAL, LinearModel, base_parameters
from dynamics_node.loops.mechanism import Mechanism
from dynamics_node.model import Model

CRITERIA = {"condition": (volume, roundness), "volume": (volume,)}
RANDOM = 100  # motions of which the best ones are starts
SMOOTHING = 0.05  # of the highest velocity, see Regressor
NOISE = 1.0  # N m or N


class ExcitationError(ValueError):
    """A robot that cannot be excited, or limits that no motion keeps within."""


def excite(
    robot: Model,
    period=10.0,
    harmonics=5,
    *,
    criterion="condition",
    boxes=(),
    start=None,
    factor=FACTOR,
    velocity=None,
    acceleration=None,
    limits=None,
    noise=NOISE,
    terms=USUAL,
    restarts=4,
    seed=0,
    time_limit=None,
    advance=None,
    backend="auto",
) -> Excited:
    """The periodic motion that makes the base parameters of a tree with a fixed base best known: a Fourier
    series (see `series`) with the least condition number of the base regressor, or the largest determinant
    of its information, that keeps within limits.

    period: s; harmonics: how many; criterion: of CRITERIA; boxes: of Box; start (nv,): where the motion
    starts and ends, chosen by default; factor, velocity, acceleration, limits: see `joint_bounds`; noise: of
    torques, standard deviation (nv,) or of all, N m or N, by which they are weighed; terms: of LinearModel; restarts:
    from how many of the best random motions the search goes on; seed: of these: the same seed gives the same
    motion, unless time_limit, s, ends the search. advance(solutions): called on the way, of `solutions` in
    all. backend: of LinearModel.

    Raises ExcitationError where no motion keeps within limits and for robots with loops, floating bases and
    joints with several coordinates, ValueError for other arguments that make no sense, KeyError for an
    unknown link of a box; all by name.
    """
    _require_possible(robot)
    if criterion not in CRITERIA:
        raise ValueError(f"unknown criterion {criterion!r}; there are {', '.join(CRITERIA)}")
    if restarts < 1:
        raise ValueError(f"restarts must be at least 1, not {restarts}")
    clock, advance = Clock(time_limit), advance or (lambda solutions: None)
    bounds = joint_bounds(robot, factor, velocity, acceleration, limits)
    linear, noise = LinearModel(robot, tuple(terms), backend), _noise(robot, noise)
    regressor = Regressor(linear, base_parameters(linear), noise, SMOOTHING * bounds.velocity)
    rows = [TorqueRows(robot, bounds, backend), *(BoxRows(robot, box, backend) for box in boxes)]
    series = Series(float(period), harmonics, _start(robot, bounds, start))
    problem = Problem(series, bounds, regressor, rows)
    best, before = _random_starts(problem, restarts, np.random.default_rng(seed))
    found = _searched(problem, best, CRITERIA[criterion], clock, advance)
    return Excited(problem, found, before, RANDOM)


def solutions(criterion, restarts):
    """How many there are at most, for a bar."""
    return restarts * (len(CRITERIA[criterion]) + ROUNDS)


def _require_possible(robot):
    if isinstance(robot, Mechanism):
        raise ExcitationError(
            f"{robot.name} has closed loops ({', '.join(c.name for c in robot.constraints)}); "
            "motions are found for trees"
        )
    if robot.floating_base:
        raise ExcitationError(f"{robot.name} has a floating base, which nothing drives; leave its base fixed")
    for joint in robot.independent_joints:
        if not joint.type.is_scalar:
            told = f"{joint.name} is {joint.kind} and has {joint.type.nv} coordinates"
            raise ExcitationError(f"{told}; motions are found for joints with one; leave it out (--joints)")
    if not robot.nv:
        raise ExcitationError(f"{robot.name} has no joint that moves")


def _noise(robot, noise):
    noise = np.asarray(noise, dtype=float).ravel()
    if noise.size not in (1, robot.nv):
        raise ValueError(f"noise needs one number, or {robot.nv}: {', '.join(robot.v_names)}")
    if not np.all((noise > 0) & np.isfinite(noise)):
        raise ValueError(f"noise must be positive, not {noise.min():g}")
    return np.broadcast_to(noise, (robot.nv,))


def _start(robot, bounds, start):
    if start is None:
        return None
    start = np.asarray(start, dtype=float)
    if start.shape != (robot.nv,) or not np.isfinite(start).all():
        raise ValueError(f"start needs {robot.nv} numbers: {', '.join(robot.v_names)}")
    for name, q, centre, half in zip(robot.v_names, start, bounds.centre, bounds.half, strict=True):
        if abs(q - centre) >= half:
            raise ValueError(
                f"start: {name} at {q:g} is not between {centre - half:.4g} and {centre + half:.4g}"
            )
    return start


def _random_starts(problem, count, random):
    """The best of RANDOM motions (count, nv, size), those within limits first; and the condition of the best."""
    drawn = [random_motion(problem, random) for _ in range(RANDOM)]
    inside = [problem.used(x, problem.fine).max() <= 1.0 for x in drawn]
    conditions = [told(problem, x).condition for x in drawn]
    order = sorted(range(RANDOM), key=lambda k: (not inside[k], conditions[k]))
    return [drawn[k] for k in order[:count]], conditions[order[0]]


def _searched(problem, starts, criteria, clock, advance):
    """The best coefficients (nv, size) from all starts."""
    found, worst = [], []
    for start in starts:
        if clock.out and found:
            break
        x, used = improved(problem, start, criteria, clock, advance)
        if x is not None:
            found.append(x)
        worst.append(used)
    if not found:
        used = min(worst, key=np.max)
        k = int(np.argmax(used))
        raise ExcitationError(
            f"no motion within all limits was found: {problem.names[k]} comes to {100 * used[k]:.4g} % of what "
            "may be used. Give it more room, another start, or a longer period"
        )
    return min(found, key=lambda x: criteria[-1](_information(problem, x))[0])


def _information(problem, x):
    """(r, r) in usual sizes, with friction as `identify` has it."""
    found = told(problem, x)
    return (found.directions.T * found.singular**2) @ found.directions
