"""From a robot to the motion that makes its base parameters best known."""

import numpy as np

from dynamics_node.identification.base_parameters import base_parameters
from dynamics_node.identification.excitation.bounds import FACTOR, joint_bounds
from dynamics_node.identification.excitation.excitation_trajectory import ExcitationTrajectory
from dynamics_node.identification.excitation.information import Regressor, roundness, volume
from dynamics_node.identification.excitation.limits_along_motion import BoxRows, TorqueRows
from dynamics_node.identification.excitation.objective import Problem, Series, random_motion
from dynamics_node.identification.excitation.search import ROUNDS, SHARPNESS, Clock, brought_inside, improved
from dynamics_node.identification.regressor_model import USUAL, RegressorModel
from dynamics_node.robot import Robot

UNITS = ("usual", "si")
CRITERIA = {"condition": (volume, roundness), "volume": (volume,)}
RANDOM = 100  # motions of which the best ones are starts
TRIES = 8  # of them that are brought inside, besides as many as starts are wanted
NAMED = 3  # limits, of those that are exceeded
SMOOTHING = 0.05  # of the highest velocity, see Regressor
NOISE = 1.0  # N m or N
UNTOLD = 3e7  # condition: its square, that of the information, leaves no digits


class ExcitationError(ValueError):
    """A robot that cannot be excited, or limits that no motion keeps within."""


def design_excitation(
    robot: Robot,
    period=10.0,
    harmonics=5,
    *,
    criterion="condition",
    units="usual",
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
) -> ExcitationTrajectory:
    """The periodic motion that makes the base parameters of a tree with a fixed base best known: a Fourier
    series (see `series`) with the least condition number of the base regressor, or the largest determinant
    of its information, that keeps within limits.

    period: s; harmonics: how many; criterion: of CRITERIA; units: in which the condition is told, usual sizes
    of parameters (see `identification.Excitation`) or those of SI; boxes: of Box; start (nv,): where the
    motion starts and ends, chosen by default; factor, velocity, acceleration, limits: see `joint_bounds`;
    noise: of torques, standard deviation (nv,) or of all, N m or N, by which they are weighed; terms: of
    RegressorModel; restarts: from how many of the best random motions the search goes on; seed: of these: the
    same seed gives the same motion, unless time_limit, s, ends the search, whose time begins when its code is
    compiled. advance(solutions): called on the
    way, of `solutions` in all. backend: of RegressorModel.

    Raises ExcitationError where no motion keeps within limits and for robots with loops, floating bases and
    joints with several coordinates, ValueError for other arguments that make no sense; all by name.
    """
    _require_possible(robot)
    if criterion not in CRITERIA:
        raise ValueError(f"unknown criterion {criterion!r}; there are {', '.join(CRITERIA)}")
    if units not in UNITS:
        raise ValueError(f"unknown units {units!r}; there are {', '.join(UNITS)}")
    if restarts < 1:
        raise ValueError(f"restarts must be at least 1, not {restarts}")
    clock, advance = Clock(time_limit), advance or (lambda solutions: None)
    bounds = joint_bounds(robot, factor, velocity, acceleration, limits)
    linear, noise = RegressorModel(robot, tuple(terms), backend), _noise(robot, noise)
    base = base_parameters(linear)
    sizes = base.sizes[base.chosen] if units == "usual" else np.ones(base.count)
    regressor = Regressor(linear, base, sizes, noise, SMOOTHING * bounds.velocity)
    rows = [TorqueRows(robot, bounds, backend), *(BoxRows(robot, box, backend) for box in boxes)]
    series = Series(float(period), harmonics, _start(robot, bounds, start))
    problem = Problem(series, bounds, regressor, rows)
    _compile(problem, CRITERIA[criterion])
    clock.start()
    inside, conditions = _random_motions(problem, restarts, np.random.default_rng(seed), clock)
    criteria = CRITERIA[criterion]
    found = inside[:1]
    for start in inside[:restarts]:
        if not clock.out:
            found.append(improved(problem, start, criteria, clock, advance))
    best = min(found, key=lambda x: criteria[-1](_information(problem, x))[0])
    found = ExcitationTrajectory(problem, best, conditions[0], len(inside))
    if not found.condition < UNTOLD:
        raise ExcitationError(
            f"the best motion found tells too little (condition {found.condition:.1e}): allow higher "
            "velocities and accelerations, or take another period"
        )
    return found


def solutions(criterion, restarts):
    """How many there are at most, for a bar."""
    return restarts * (len(CRITERIA[criterion]) + ROUNDS)


def _require_possible(robot):
    if robot.constrained:
        raise ExcitationError(
            f"{robot.name} has closed loops ({', '.join(c.name for c in robot.constraints)}); "
            "motions are found for trees. Record motions of your own, slow and fast: identify reads them"
        )
    if robot.floating_base:
        raise ExcitationError(
            f"{robot.name} has a floating base, which nothing drives: hold the base and load the robot "
            "without floating_base, or record motions of your own in a table of states, which identify reads"
        )
    for joint in robot.independent_joints:
        if not joint.type.is_scalar:
            told = f"{joint.name} is a {joint.kind} joint with {joint.type.nv} coordinates"
            raise ExcitationError(f"{told}; motions are found for joints with one; leave it out, by --joints")
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


def _compile(problem, criteria):
    """What the search calls, before its time runs: a compiler cannot be stopped half-way."""
    x = random_motion(problem, np.random.default_rng(0))
    problem.smooth_used(x, SHARPNESS)
    problem.criterion(x, criteria[-1])


def _random_motions(problem, least, random, clock):
    """Those of RANDOM motions that keep within all limits, as many as there is time for, with the least
    condition first; where these are fewer than `least`, some others, brought inside. And their conditions."""
    inside, conditions, others = [], [], []
    for _ in range(RANDOM):
        x = random_motion(problem, random)
        if problem.used(x, problem.fine).max() > 1.0:
            others.append(x)
        else:
            inside.append(x)
            conditions.append(_condition(problem, x))
        if inside and clock.out:
            break
    if len(inside) < least and not (inside and clock.out):
        inside += _brought_inside(problem, others[: TRIES + least], clock, needed=not inside)
        conditions += [_condition(problem, x) for x in inside[len(conditions) :]]
    order = np.argsort(conditions, kind="stable").tolist()
    return [inside[k] for k in order], [conditions[k] for k in order]


def _brought_inside(problem, drawn, clock, needed):
    """Motions within limits near those that were drawn. Raises ExcitationError where there are none although
    they are needed."""
    found = [brought_inside(problem, x, clock) for x in drawn]
    inside = [x for x, used in found if used.max() <= 1.0]
    if inside or not needed:
        return inside
    used = min((used for _, used in found), key=np.max)
    beyond = [k for k in np.argsort(-used)[:NAMED] if used[k] > 1.0]
    told = ", ".join(f"{problem.names[k]} comes to {100 * used[k]:.4g} %" for k in beyond)
    within, more = (f" in {clock.limit:g} s", ", or a longer time limit") if clock.out else ("", "")
    raise ExcitationError(
        f"no motion within all limits was found{within}: of what may be used {told}. Give more room, another "
        f"start, or a longer period{more}"
    )


def _information(problem, x):
    return problem.regressor.information(*problem.fine.states(x))


def _condition(problem, x):
    return float(np.sqrt(np.linalg.cond(_information(problem, x))))
