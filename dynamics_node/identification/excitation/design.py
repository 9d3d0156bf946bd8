"""Design of the excitation trajectory of a robot."""

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
RANDOM_MOTIONS = 100  # random motions; the best ones are starting points
CANDIDATES = 8  # candidates that are brought inside the limits, in addition to the restarts
LISTED_LIMITS = 3  # exceeded limits in a message
SMOOTHING = 0.05  # fraction of the velocity limit, see Regressor
NOISE = 1.0  # N m or N
LARGEST_CONDITION = 3e7  # condition: its square, that of the information, leaves no significant digits


class ExcitationError(ValueError):
    """The robot cannot be excited, or no motion keeps within the limits."""


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
    """The periodic motion that determines the base parameters of a fixed-base tree best: a Fourier series
    (see `Series`) within limits, with the smallest condition number of the base regressor or the largest
    determinant of its information.

    period: s; harmonics: number; criterion: one of CRITERIA; units: of the condition number, typical sizes of
    parameters (see `identification.Excitation`) or SI; boxes: of Box; start (nv,): position at start and end,
    default free; factor, velocity, acceleration, limits: see `joint_bounds`; noise: standard deviation of the
    torques, (nv,) or scalar, N m or N; terms: see RegressorModel; restarts: number of random motions that are
    optimized; seed: of these, the same seed gives the same motion unless time_limit, s, ends the search. The
    time starts after compilation. advance(solutions): progress callback, of `solutions` in total. backend:
    see RegressorModel.

    Raises ExcitationError if no motion keeps within the limits, and for robots with loops, a floating base or
    joints with several coordinates. Raises ValueError for other invalid arguments.
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
    candidates = inside[:1]
    for start in inside[:restarts]:
        if not clock.out:
            candidates.append(improved(problem, start, criteria, clock, advance))
    best = min(candidates, key=lambda x: criteria[-1](_information(problem, x))[0])
    trajectory = ExcitationTrajectory(problem, best, conditions[0], len(inside))
    if not trajectory.condition < LARGEST_CONDITION:
        raise ExcitationError(
            f"the best motion determines too little (condition {trajectory.condition:.1e}): allow higher "
            "velocities and accelerations, or choose another period"
        )
    return trajectory


def solutions(criterion, restarts):
    """Largest number of solutions, for a progress bar."""
    return restarts * (len(CRITERIA[criterion]) + ROUNDS)


def _require_possible(robot):
    if robot.constrained:
        raise ExcitationError(
            f"{robot.name} has closed loops ({', '.join(c.name for c in robot.constraints)}); "
            "excitation trajectories need a tree. Record slow and fast motions yourself and run identify"
        )
    if robot.floating_base:
        raise ExcitationError(
            f"{robot.name} has an unactuated floating base: fix the base and load the robot without "
            "floating_base, or record motions yourself in a table of states and run identify"
        )
    for joint in robot.independent_joints:
        if not joint.type.is_scalar:
            problem = f"{joint.name} is a {joint.kind} joint with {joint.type.nv} coordinates"
            raise ExcitationError(f"{problem}; only joints with one are supported: exclude it by --joints")
    if not robot.nv:
        raise ExcitationError(f"{robot.name} has no movable joint")


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
    for name, q, center, half in zip(robot.v_names, start, bounds.center, bounds.half, strict=True):
        if abs(q - center) >= half:
            raise ValueError(
                f"start: {name} at {q:g} is not between {center - half:.4g} and {center + half:.4g}"
            )
    return start


def _compile(problem, criteria):
    """Compile all functions of the search before its time starts: compilation cannot be interrupted."""
    x = random_motion(problem, np.random.default_rng(0))
    problem.smooth_used(x, SHARPNESS)
    problem.criterion(x, criteria[-1])


def _random_motions(problem, wanted, random, clock):
    """Random motions within all limits, smallest condition first, and their conditions. If there are fewer
    than `wanted`, some others are brought inside the limits."""
    inside, conditions, others = [], [], []
    for _ in range(RANDOM_MOTIONS):
        x = random_motion(problem, random)
        if problem.used(x, problem.fine).max() > 1.0:
            others.append(x)
        else:
            inside.append(x)
            conditions.append(_condition(problem, x))
        if inside and clock.out:
            break
    if len(inside) < wanted and not (inside and clock.out):
        inside += _brought_inside(problem, others[: CANDIDATES + wanted], clock, required=not inside)
        conditions += [_condition(problem, x) for x in inside[len(conditions) :]]
    order = np.argsort(conditions, kind="stable").tolist()
    return [inside[k] for k in order], [conditions[k] for k in order]


def _brought_inside(problem, candidates, clock, required):
    """Motions within limits near the candidates. Raises ExcitationError if there are none but one is
    required."""
    results = [brought_inside(problem, x, clock) for x in candidates]
    inside = [x for x, used in results if used.max() <= 1.0]
    if inside or not required:
        return inside
    used = min((used for _, used in results), key=np.max)
    exceeded = [k for k in np.argsort(-used)[:LISTED_LIMITS] if used[k] > 1.0]
    usage = ", ".join(f"{problem.names[k]} comes to {100 * used[k]:.4g} %" for k in exceeded)
    limit, more = (f" in {clock.limit:g} s", ", or a longer time limit") if clock.out else ("", "")
    raise ExcitationError(
        f"no candidate keeps within all limits{limit}: {usage} of the available range. Allow "
        f"more room, another start, or a longer period{more}"
    )


def _information(problem, x):
    return problem.regressor.information(*problem.fine.states(x))


def _condition(problem, x):
    return float(np.sqrt(np.linalg.cond(_information(problem, x))))
