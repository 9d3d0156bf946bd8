"""The fastest motion along a path within limits of velocity, acceleration and effort, by toppra.

The unknowns are x = s'^2 at points along the path, and u = s'' of the intervals between them. Rows
a u + b x + c at both ends of every interval, with the derivatives of that interval, are within limits: so
both sides of a jump count. Viscous friction is linear in x at the speeds of the previous pass.
"""

import logging
from typing import Any, NamedTuple

import numpy as np

from dynamics_node.errors import InfeasibleError, InputError
from dynamics_node.optional import required
from dynamics_node.trajectory.joint_trajectory import JointTrajectory
from dynamics_node.trajectory.path_grid import Path, PathGrid
from dynamics_node.trajectory.path_limits import PathLimits, uses
from dynamics_node.trajectory.slowdown import TOLERANCE
from dynamics_node.trajectory.trajectory_check import require_few_samples

FIRST = 60  # intervals of a part at first
PASSES = 3  # grids, each with points at equal times of the previous motion
FEWEST, SHORTEST = 100, 1e-3  # intervals of a part, but no shorter than this, s
TIGHTENINGS, SAFE = 4, 1e-4  # of limits that the result exceeds; additional fraction
SLOWER = 0.5  # of a guess with which viscous friction leaves no motion
TRIES = 8
MOST_SPEED = 1e3  # of the typical one
AT_REST = 1e-9  # square of a speed
LEAST_SPEED = 0.03  # of the largest, for viscous friction


class TimedGrid(NamedTuple):
    """A PathGrid; its speeds (k + 1,) and times (k + 1,) from 0."""

    grid: PathGrid
    speed: np.ndarray
    time: np.ndarray


def time_optimal(check, limits, most):
    """The TrajectoryCheck of the fastest motion, as cubics; limits are exceeded slightly at most.
    most: of its points times joints. Raises ValueError if there is none, InputError if nothing bounds it."""
    path, rate = Path(check.trajectory), check.options.rate
    grids, speeds = [path.first(part, FIRST) for part in path.parts], None
    for number in range(PASSES):
        require_few_samples(sum(len(grid.s) for grid in grids), check.robot, most)
        problem = PathProblem(check, limits, grids)
        parts = problem.solved(speeds)
        if number < PASSES - 1:
            grids = [path.spaced(part.grid.s, part.time, _spacing(part.time[-1], rate)) for part in parts]
            speeds = [
                np.interp(grid.s, part.grid.s, part.speed) for grid, part in zip(grids, parts, strict=True)
            ]
    result = check.retimed(timed_trajectory(check, parts))
    for _ in range(TIGHTENINGS):
        if not problem.tighten(result):
            break
        try:
            parts = problem.solved([part.speed for part in parts])
        except InfeasibleError:
            break
        result = check.retimed(timed_trajectory(check, parts))
    return result


def _spacing(duration, rate):
    return max(min(1 / rate, duration / FEWEST), SHORTEST)


def timed_trajectory(check, parts):
    """The points of the parts, one after the other, moved to times of whole nanoseconds."""
    begin, rows = check.trajectory.time[0], []
    for number, (grid, speed, time) in enumerate(parts):
        new = slice(number > 0, None)  # the first point is the last one of the previous part
        rows.append((begin + time[new], grid.q[new], (grid.qs * speed[:, None])[new]))
        begin += time[-1]
    time, q, qd = map(np.concatenate, zip(*rows, strict=True))
    whole = np.round(time, 9)
    q += qd * (whole - time)[:, None]  # between close points, rounded times alone would change accelerations
    return JointTrajectory(check.trajectory.names, whole, q, qd, np.full_like(q, np.nan))


class PathProblem:
    """Limits at both ends of the intervals of grids, with factors that tighten them.

    begin: the speed at the start of every grid; fastest (points,): a limit of the speed at the points of one.
    """

    def __init__(self, check, limits, grids, begin=0.0, fastest=np.inf):
        self._check, self._limits, self._grids = check, limits, grids
        self._begin, self._fastest = begin, fastest
        rows = [np.concatenate(parts) for parts in zip(*(grid.rows for grid in grids), strict=True)]
        self._path = path = PathLimits(check, limits, *rows)
        if not (path.slowness.any() or (path.a / np.minimum(path.upper, path.lower)).any()):
            raise InputError("no limit of velocity, acceleration or effort bounds the motion: add one")
        count = len(rows[0]) // 2
        self._upper, self._lower = np.ones((2, count, path.a.shape[1]))
        self._slower = np.ones(count)

    def solved(self, speeds):
        """The TimedGrid of every part. speeds: guesses (k + 1,), None without. Raises ValueError."""
        first, parts = 0, []
        for number, grid in enumerate(self._grids):
            intervals = slice(first, first := first + len(grid.lengths))
            parts.append(self._part(grid, intervals, None if speeds is None else speeds[number]))
        return parts

    def weaken(self, factor):
        """Multiply the limits of efforts and accelerations."""
        self._upper *= factor
        self._lower *= factor

    def rests(self, guess):
        """Where on a single grid the motion can end: bool (k + 1,). guess (k + 1,): of the speeds."""
        (grid,) = self._grids
        every = slice(0, len(grid.lengths))
        rows, _ = self._rows(every, guess)
        reached = _reached(grid.lengths, rows, self._slowness(every), self._begin)
        _, still = self._path.friction_rows(np.zeros(2 * every.stop))
        held = (np.abs(still) <= np.where(still > 0, *rows[3:])).all(axis=1)
        return reached & np.append(held[::2], held[-1])

    def until(self, point, guess) -> TimedGrid:
        """The fastest motion on a single grid that ends at one of its points. Raises InfeasibleError."""
        grid = self._grids[0].until(point)
        return self._part(grid, slice(0, point), guess[: point + 1])

    def _part(self, grid, intervals, guess):
        path, rows, slowness = self._path, _both(intervals), self._slowness(intervals)
        limit = np.minimum(path.upper, path.lower)[rows]
        typical = self._begin or _typical(grid.lengths.sum(), path.a[rows], limit, slowness)
        guess = np.full(len(grid.s), typical) if guess is None else guess
        for _ in range(TRIES):
            bounded, viscous = self._rows(intervals, guess)
            if (found := _solved(grid.lengths, bounded, slowness, typical, self._begin)) is not None:
                steps = 2 * grid.lengths / (found[1:] + found[:-1])
                return TimedGrid(grid, found, np.append(0.0, np.cumsum(steps)))
            if not viscous:
                break
            guess = SLOWER * guess
        raise InfeasibleError(self._reason(grid, rows))

    def _rows(self, intervals, guess):
        """Rows a, b, c, upper, lower (2 k, rows) with friction at speeds (k + 1,); whether it is viscous."""
        path, rows = self._path, _both(intervals)
        speed = np.maximum(guess, LEAST_SPEED * guess.max())
        at = np.stack([speed[:-1], speed[1:]], axis=1).ravel()
        viscous, rest = path.friction_rows(at, rows)
        upper = path.upper[rows] * np.repeat(self._upper[intervals], 2, axis=0)
        lower = path.lower[rows] * np.repeat(self._lower[intervals], 2, axis=0)
        b = path.b[rows] + 0.5 * viscous / at[:, None] ** 2
        return (path.a[rows], b, rest + 0.5 * viscous, upper, lower), viscous.any()

    def _slowness(self, intervals):
        """Inverse (k + 1,) of the largest speeds; the speed at the start is permitted everywhere."""
        slowness = self._path.slowness[_both(intervals)].reshape(-1, 2) * self._slower[intervals, None]
        slowness = np.maximum(np.append(slowness[:, 0], 0), np.append(0, slowness[:, 1]))
        slowness /= max(1.0, slowness[0] * self._begin)
        fastest = np.broadcast_to(self._fastest, len(self._slower) + 1)[: len(slowness)]
        return np.maximum(slowness, 1 / np.maximum(fastest, LEAST_SPEED**2 * self._begin))

    def _reason(self, grid, rows):
        """Why there is no motion."""
        _, still = self._path.friction_rows(np.zeros(rows.stop - rows.start), rows)
        limits = np.where(still > 0, self._path.upper[rows], self._path.lower[rows])
        over = np.abs(still) / limits
        row, joint = np.unravel_index(over.argmax(), over.shape) if over.size else (0, 0)
        if over.size and over[row, joint] > 1:
            name, time = self._path.efforts[joint], grid.s[(row + 1) // 2]
            limit = limits[row, joint]
            return (
                f"no time-optimal motion: effort of {name} at {time:.4g} s is "
                f"{still[row, joint]:.4g} at rest, limit {limit:.4g}"
            )
        return (
            f"no time-optimal motion: none from rest at {grid.s[0]:.4g} s to rest at {grid.s[-1]:.4g} s "
            "keeps the limits of effort and acceleration"
        )

    def tighten(self, result):
        """Tighten the limits that a result exceeds, in its intervals; whether there are any."""
        interval = np.append(0, np.cumsum(np.diff(result.time) == 0))  # cubics have samples at both ends
        used, velocity = uses(result, self._limits)
        shape = self._upper.shape
        high, low, fast = np.zeros(shape), np.zeros(shape), np.zeros(shape[0])
        np.maximum.at(high, interval, used)
        np.maximum.at(low, interval, -used)
        np.maximum.at(fast, interval, velocity)
        exceeded: Any = False
        for factor, most in ((self._upper, high), (self._lower, low)):
            over = most > 1 + TOLERANCE
            factor[over] /= (1 + SAFE) * most[over]
            exceeded |= over.any()
        over = fast > 1 + TOLERANCE
        self._slower[over] *= (1 + SAFE) * fast[over]
        return exceeded or over.any()


def _typical(length, a, limit, slowness):
    """A speed of the order of the fastest motion: solvers have absolute tolerances."""
    strength = (np.abs(a) / limit).max(axis=1, initial=0.0)
    squares = [length / np.median(sizes) for sizes in [strength[strength > 0]] if sizes.size]
    squares += [1 / np.median(sizes) ** 2 for sizes in [slowness[slowness > 0]] if sizes.size]
    return float(np.sqrt(min(squares)))


def _both(intervals):
    """The rows at both ends of intervals."""
    return slice(2 * intervals.start, 2 * intervals.stop)


def _solved(lengths, rows, slowness, typical, begin):
    """Speeds (k + 1,) to rest; None if there are none. rows: a, b, c, upper, lower (2 k, rows). slowness
    (k + 1,): inverse of the largest speed."""
    algorithm = _toppra(lengths, rows, slowness, typical)
    speeds = _quietly(algorithm.compute_parameterization, begin / typical, 0)[1]
    good = speeds is not None and np.isfinite(speeds).all() and (speeds[1:] + speeds[:-1] > 0).all()
    return speeds * typical if good else None


def _reached(lengths, rows, slowness, begin):
    """Points (k + 1,), bool, that motions from a speed reach at rest: those from which motions back in time,
    with reversed directions and the same efforts, end with this speed."""
    a, *rest = (row[::-1] for row in rows)
    algorithm = _toppra(lengths[::-1], (-a, *rest), slowness[::-1], begin)
    least = _quietly(algorithm.compute_controllable_sets, 1, 1)[::-1, 0]
    impossible = np.isnan(least)
    least[impossible.argmax() if impossible.any() else len(least) :] = np.inf
    return least <= AT_REST


def _toppra(lengths, rows, slowness, typical):
    """The algorithm for speeds in terms of a typical one within a u + b x + c <= 1, rows as in `_solved`."""
    TOPPRA = required("toppra.algorithm", "the time-optimal trajectory").TOPPRA
    from toppra.constraint import DiscretizationType, LinearConstraint
    from toppra.interpolator import SplineInterpolator

    steps = lengths / typical
    a, b, c, upper, lower = (row.reshape(len(lengths), 2, -1) for row in rows)
    a, b = a * typical, b * typical**2
    a[:, 1] += 2 * steps[:, None] * b[:, 1]  # x at the end of an interval is that at its start + 2 u ds
    sides = [np.concatenate([side / upper, -side / lower], axis=2) for side in (a, b, c)]
    sides = [side.reshape(len(lengths), -1) for side in sides]
    a, b, c = (np.concatenate([side, side[-1:]]) for side in sides)
    most = 1 / np.maximum(slowness * typical, 1 / MOST_SPEED) ** 2

    class RowLimits(LinearConstraint):
        def __init__(self):
            super().__init__()
            self.identical, self.discretization_type = True, DiscretizationType.Collocation

        def compute_constraint_params(self, _path, _gridpoints):
            count = a.shape[1]
            x = np.stack([np.zeros_like(most), most], axis=1)
            return a, b, c, np.eye(count), np.ones(count), None, x

    s = np.append(0.0, np.cumsum(steps))
    path = SplineInterpolator(s[[0, -1]], np.zeros((2, 1)))  # toppra reads its interval alone
    return TOPPRA([RowLimits()], path, gridpoints=s)


def _quietly(function, *arguments):
    """The result of a function, without warnings of toppra about problems without a solution."""
    logger = logging.getLogger("toppra")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        return function(*arguments)
    finally:
        logger.setLevel(level)
