"""Design of the excitation trajectory of a robot."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from dynamics_node.errors import ExcitationError, InputError
from dynamics_node.functions import Backend
from dynamics_node.identification.base_parameters import base_parameters
from dynamics_node.identification.excitation.bounds import FACTOR, joint_bounds
from dynamics_node.identification.excitation.excitation_trajectory import ExcitationTrajectory
from dynamics_node.identification.excitation.information import Regressor, roundness, volume
from dynamics_node.identification.excitation.limits_along_motion import Box, BoxRows, TorqueRows
from dynamics_node.identification.excitation.objective import (
    ExcitationProblem,
    Series,
    condition,
    random_motion,
)
from dynamics_node.identification.excitation.search import ROUNDS, SHARPNESS, Clock, brought_inside, improved
from dynamics_node.identification.regressor_model import USUAL, RegressorModel
from dynamics_node.robot import Robot
from dynamics_node.robot.wrong_calls import explains_wrong_calls

Units = Literal["usual", "si"]
UNITS: tuple[str, ...] = get_args(Units)
Criterion = Literal["condition", "volume"]
CRITERIA: dict[str, tuple[Callable, ...]] = {"condition": (volume, roundness), "volume": (volume,)}
RANDOM_MOTIONS = 100  # random motions; the best ones are starting points
CANDIDATES = 8  # candidates that are brought inside the limits, in addition to the restarts
LISTED_LIMITS = 3  # exceeded limits in a message
SMOOTHING = 0.05  # fraction of the velocity limit, see Regressor
NOISE = 1.0  # N m or N
LARGEST_CONDITION = 3e7  # condition: its square, that of the information, leaves no significant digits


@explains_wrong_calls
def design_excitation(
    robot: Robot,
    period: float = 10.0,
    harmonics: int = 5,
    *,
    criterion: Criterion = "condition",
    units: Units = "usual",
    boxes: Iterable[Box] = (),
    q0: ArrayLike | None = None,
    factor: float = FACTOR,
    velocity: float | None = None,
    acceleration: float | None = None,
    limits: Mapping[str, Mapping[str, float]] | None = None,
    noise: ArrayLike = NOISE,
    terms: Sequence[str] = USUAL,
    restarts: int = 4,
    seed: int = 0,
    time_limit: float | None = None,
    progress: Callable[[int], object] | None = None,
    backend: Backend = "auto",
) -> ExcitationTrajectory:
    """Design the periodic motion that determines the base parameters of a robot best, within its limits.

    The motion is a Fourier series that starts and ends at rest. The search starts from random motions and
    minimizes the condition number of the base regressor, or maximizes the determinant of its information.

    Parameters
    ----------
    robot : Robot
        A tree with fixed base, whose joints have one coordinate each.
    period : float
        Duration of the motion, s.
    harmonics : int
        Number of sines and cosines per joint, 2 to 50.
    criterion : str
        'condition' minimizes the condition number, 'volume' maximizes the determinant.
    units : str
        Units of the condition number: 'usual' for typical sizes of parameters, or 'si'.
    boxes : iterable of Box
        Allowed regions of points of links.
    q0 : array_like (nv,), optional
        Position at start and end, rad or m; default free.
    factor : float
        Available fraction of every limit, above 0 and at most 1.
    velocity : float, optional
        Additional limit of all joints, rad/s or m/s.
    acceleration : float, optional
        Additional limit of all joints, rad/s^2 or m/s^2.
    limits : mapping, optional
        Additional limits of some joints: {joint: {'max_velocity': number, ...}}. Other keys are
        'min_position', 'max_position', 'max_acceleration' and 'max_effort'. The tightest limit is used.
        'max_jerk' and 'max_effort_rate' are not used, with a note; other limits of efforts are rejected.
    noise : array_like (nv,) or float
        Standard deviation of the torques, N m or N.
    terms : sequence of str
        Kinds of parameters that will be identified, of `RegressorModel`.
    restarts : int
        Number of random motions that are optimized.
    seed : int
        Seed of the random motions. The same seed gives the same motion, unless `time_limit` ends the search.
    time_limit : float, optional
        Duration of the search after compilation, s.
    progress : callable, optional
        Progress: called with the number of further solutions.
    backend : str
        As in `build`.

    Returns
    -------
    ExcitationTrajectory

    Raises
    ------
    ExcitationError
        If no motion keeps within the limits; for robots with loops, a floating base or joints with several
        coordinates.
    ValueError
        For other invalid arguments.

    See Also
    --------
    identify : parameters from recordings of the motion.

    Examples
    --------
    >>> from dynamics_demo.robots import geared_chain
    >>> arm = dn.parse_robot(geared_chain(1))  # a link on a geared motor
    >>> motion = dn.design_excitation(arm, 5.0, 2, restarts=1, time_limit=0.1, backend="numpy")
    >>> q, qd, qdd = motion.states(motion.times(20))
    >>> q.shape, motion.used["position of j1"] <= 1
    ((101, 1), True)

    References
    ----------
    Swevers et al., Optimal robot excitation and identification, IEEE Transactions on Robotics and Automation,
    1997.
    """
    _require_possible(robot)
    if criterion not in CRITERIA:
        raise InputError(f"unknown criterion {criterion!r}; there are {', '.join(CRITERIA)}")
    if units not in UNITS:
        raise InputError(f"unknown units {units!r}; there are {', '.join(UNITS)}")
    if restarts < 1:
        raise InputError(f"restarts must be at least 1, not {restarts}")
    clock, progress = Clock(time_limit), progress or (lambda solutions: None)
    bounds = joint_bounds(robot, factor, velocity, acceleration, limits)
    linear = RegressorModel(robot, tuple(terms), backend)
    base = base_parameters(linear)
    sizes = base.sizes[base.chosen] if units == "usual" else np.ones(base.count)
    regressor = Regressor(linear, base, sizes, _noise(robot, noise), SMOOTHING * bounds.velocity)
    rows = [TorqueRows(robot, bounds, backend), *(BoxRows(robot, box, backend) for box in boxes)]
    series = Series(float(period), harmonics, _start(robot, bounds, q0))
    problem = ExcitationProblem(series, bounds, regressor, rows)
    _compile(problem, CRITERIA[criterion])
    clock.start()
    inside, conditions = _random_motions(problem, restarts, np.random.default_rng(seed), clock)
    criteria = CRITERIA[criterion]
    candidates = inside[:1]
    for start in inside[:restarts]:
        if not clock.out:
            candidates.append(improved(problem, start, criteria, clock, progress))
    best = min(candidates, key=lambda x: criteria[-1](problem.information(x))[0])
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
        raise InputError(f"noise needs one number, or {robot.nv}: {', '.join(robot.v_names)}")
    if not np.all((noise > 0) & np.isfinite(noise)):
        raise InputError(f"noise must be positive, not {noise.min():g}")
    return np.broadcast_to(noise, (robot.nv,))


def _start(robot, bounds, q0):
    if q0 is None:
        return None
    q0 = np.asarray(q0, dtype=float)
    if q0.shape != (robot.nv,) or not np.isfinite(q0).all():
        raise InputError(f"q0 needs {robot.nv} numbers: {', '.join(robot.v_names)}")
    for name, q, center, half in zip(robot.v_names, q0, bounds.center, bounds.half, strict=True):
        if abs(q - center) >= half:
            raise InputError(
                f"q0: {name} at {q:g} is not between {center - half:.4g} and {center + half:.4g}"
            )
    return q0


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
            conditions.append(condition(problem.information(x)))
        if inside and clock.out:
            break
    if len(inside) < wanted and not (inside and clock.out):
        inside += _brought_inside(problem, others[: CANDIDATES + wanted], clock, required=not inside)
        conditions += [condition(problem.information(x)) for x in inside[len(conditions) :]]
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
