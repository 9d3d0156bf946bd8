"""Times of a path within limits of jerk and of effort rates: a second pass after the time-optimal one.

The unknowns at the points of a grid along the path are x = s'^2 and u = s''; u is linear between them, so
x_k+1 - x_k = ds (u_k + u_k+1). Torques are linear in x and u, and so are their derivatives by s. The limit of
a rate is |dtau/ds| <= limit / sqrt(x). Its right side is convex in x; its tangent at the x of the previous
pass is below it, so a solution of the linear program keeps the limit at both ends of every interval.
"""

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from scipy import sparse
from scipy.interpolate import CubicSpline, PchipInterpolator
from scipy.optimize import linprog

from dynamics_node.errors import InfeasibleError, InputError
from dynamics_node.trajectory.check_page import remedy
from dynamics_node.trajectory.joint_trajectory import JointTrajectory
from dynamics_node.trajectory.motion_limits import joint_limits
from dynamics_node.trajectory.path_limits import PathLimits

PASSES = 10
SETTLED = 5e-3  # change of the duration
TIGHTENINGS, SAFE = 3, 0.995  # of the limits, where the result exceeds them between the points of the grid
QUARTERS = 10  # of x, to programs with a solution
GUESSES = 3  # of which the first pass takes the best
SPACING = 0.01  # s between points of the grid
MOST_POINTS, FEWEST_POINTS = 400, 20  # of the grid; between two stops
MOST_STOPS = 100
SHARE = 1e-9  # of the length of the path: a shorter step is none
LEAST_SPEED = 1e-6  # of the largest, in a first guess
TANGENTS = (0.03, 0.1, 0.3, 0.6, 1.0, 1.5, 2.2, 3.0)  # multiples of x
LEAST_X = 1e-4  # of the previous x
MOST_SPEED = 30.0  # of s: at ends, where the path rests
NODES, WEIGHTS = np.polynomial.legendre.leggauss(8)


def smoothed(check, fast, limits):
    """The TrajectoryCheck of a time-optimal one, `fast`, within all `limits`; check: with these limits. It
    begins and ends at rest, without accelerations. Raises ValueError if no times make the path feasible."""
    path, motion = _path_of(fast.trajectory)
    tried = []
    for number in range(PASSES):
        last, grid = motion.time[-1], path.grid(motion)
        motion = solved_motion(fast, grid, limits, 1.0, 1 if number else GUESSES)
        if motion is None:
            break
        tried.append((grid, motion))
        if abs(motion.time[-1] - last) <= SETTLED * last:
            break
    if not tried:
        raise InfeasibleError(f"no time-optimal motion: {remedy(check)}")
    grid, motion = min(tried, key=lambda pair: pair[1].time[-1])
    tightness, result = 1.0, check.retimed(smooth_trajectory(check, grid, motion))
    for _ in range(TIGHTENINGS):
        used = max(m.used for m in result.margins if m.quantity in ("jerk", "effort_rate"))
        if used <= 1:
            break
        tightness *= SAFE / used
        motion = solved_motion(fast, grid._replace(speed=motion.speed), limits, tightness)
        if motion is None:
            break
        result = check.retimed(smooth_trajectory(check, grid, motion))
    return result.slowed()


class PathMotion(NamedTuple):
    """time (k,) s; s, speed = ds/dt and u = d^2s/dt^2 (k,): along the path."""

    time: np.ndarray
    s: np.ndarray
    speed: np.ndarray
    u: np.ndarray


class MotionStart(NamedTuple):
    """Of a motion that begins at a speed, with u. fastest (k,): speeds that it does not exceed; share: of the
    limits of values."""

    speed: float
    u: float
    fastest: np.ndarray
    share: float

    def scaled(self, scale):
        """The same for a path coordinate that is multiplied by a factor."""
        return MotionStart(scale * self.speed, scale * self.u, scale * self.fastest, self.share)


class SplineGrid(NamedTuple):
    """s (k,): the path coordinate; q, qs, qss (k, joints): positions and derivatives; stops (k,) bool; speed
    (k,): a guess."""

    s: np.ndarray
    q: np.ndarray
    qs: np.ndarray
    qss: np.ndarray
    stops: np.ndarray
    speed: np.ndarray


class SplinePath(NamedTuple):
    """stops (parts + 1,): coordinates of its ends and corners; parts: positions of s between two stops."""

    stops: np.ndarray
    parts: list

    def grid(self, motion, fewest=FEWEST_POINTS) -> SplineGrid:
        """Points about SPACING of the motion apart; fewest: between two stops."""
        coordinate = PchipInterpolator(motion.time, motion.s)
        times = np.interp(self.stops, motion.s, motion.time)
        spacing = max(SPACING, (times[-1] - times[0]) / MOST_POINTS)
        least, grids = LEAST_SPEED * motion.speed.max(), []
        for part, ends, span in zip(self.parts, pairwise(self.stops), pairwise(times), strict=True):
            count = max(fewest, int(np.ceil((span[1] - span[0]) / spacing)) + 1)
            s = coordinate(np.linspace(span[0], span[1], count))
            s[[0, -1]] = ends
            spline = CubicSpline(s, part(s))  # its third derivative changes at the points of the grid alone
            stops = np.arange(count) % (count - 1) == 0
            speed = np.interp(s, motion.s, motion.speed**1.5) ** (2 / 3)  # after a stop: ~ s^(2/3)
            speed = np.maximum(speed, least)
            grids.append(SplineGrid(s, spline(s), spline(s, 1), spline(s, 2), stops, speed))
        first, *others = grids
        whole = zip(first, *([rows[1:] for rows in grid] for grid in others), strict=True)
        return SplineGrid(*map(np.concatenate, whole))


def _path_of(trajectory):
    """SplinePath through the points of a trajectory by its length, and PathMotion along it. It stops where
    the trajectory rests, and where the direction changes by a right angle or more."""
    steps = np.linalg.norm(np.diff(trajectory.q, axis=0), axis=1)
    apart = np.append(True, steps > SHARE * steps.sum())
    q, time = trajectory.q[apart], trajectory.time[apart] - trajectory.time[0]
    if len(q) < 2:
        raise InputError("the trajectory does not move: it has no times to change")
    ways = np.diff(q, axis=0)
    s = np.concatenate([[0.0], np.cumsum(np.linalg.norm(ways, axis=1))])
    speed = np.linalg.norm(trajectory.qd[apart], axis=1)
    still = (speed[1:-1] <= SHARE * speed.max()) | ((ways[1:] * ways[:-1]).sum(axis=1) <= 0)
    stops = np.concatenate([[0], 1 + np.flatnonzero(still), [len(q) - 1]])
    if len(stops) - 2 > MOST_STOPS:
        raise InputError(
            f"the trajectory stops {len(stops) - 2} times on its way: with limits of jerk or effort rates, "
            f"scale parts of at most {MOST_STOPS} stops"
        )
    parts = [CubicSpline(s[a : b + 1], q[a : b + 1]) for a, b in pairwise(stops)]
    return SplinePath(s[stops], parts), PathMotion(time, s, speed, np.zeros_like(s))


def smooth_trajectory(check, grid, motion) -> JointTrajectory:
    """The points of a motion, with accelerations, moved to times of whole nanoseconds."""
    speed, u = motion.speed[:, None], motion.u[:, None]
    time = check.trajectory.time[0] + motion.time
    whole = np.round(time, 9)
    later = (whole - time)[:, None]  # between close points, rounded times alone would change accelerations
    qd, qdd = grid.qs * speed, grid.qss * speed**2 + grid.qs * u
    return JointTrajectory(check.trajectory.names, whole, grid.q + later * qd, qd + later * qdd, qdd)


# --- the linear program -------------------------------------------------------------------------------------


class _LinearRows(NamedTuple):
    """Rows of -lower <= a u + b x + c <= upper, all (k, rows)."""

    a: np.ndarray
    b: np.ndarray
    c: np.ndarray
    upper: np.ndarray
    lower: np.ndarray


def solved_motion(fast, grid, limits, tightness, guesses=1, start=None) -> PathMotion | None:
    """The fastest motion that the tangents at the speeds of the grid permit, and at fractions of them until
    `guesses` programs are solved: far below its speed, a tangent permits too little. tightness: of the limits
    of rates; start: MotionStart, None from rest. None if no program has a solution."""
    path = PathLimits(fast, limits, grid.q, grid.qs, grid.qss)
    scale = path.scale  # of s and of speeds in the program: solvers have absolute tolerances
    speed = scale * grid.speed
    values = _LinearRows(
        path.a / scale, path.b / scale**2, sum(path.friction_rows(grid.speed)), path.upper, path.lower
    )
    rated = _rated(path, fast.robot, limits, grid.speed, tightness)
    rated = rated._replace(a=rated.a / scale, b=rated.b / scale**2)
    motions, most = [], 1 / np.maximum(path.slowness / scale, 1 / MOST_SPEED) ** 2
    if start is not None:
        start = start.scaled(scale)
        most = np.minimum(most, start.fastest**2)
        values = values._replace(upper=start.share * values.upper, lower=start.share * values.lower)
    program = _TimingProgram(scale * grid.s, grid.stops, values, rated)
    for number in range(QUARTERS):
        if (found := program.solved(speed**2 / 4**number, most, start)) is not None:
            x, u = found
            motions.append(PathMotion(program.times(x, u), grid.s, np.sqrt(x) / scale, u / scale))
        if len(motions) == guesses:
            break
    return min(motions, key=lambda motion: motion.time[-1], default=None)


def _rated(path, robot, limits, speed, tightness):
    """The _LinearRows whose rates have limits: efforts, and accelerations."""
    bounds = joint_limits(robot, limits)
    efforts, joints = np.isfinite(bounds.effort_rate), np.isfinite(bounds.jerk)
    still = path.resting + path.friction(speed)[0]
    parts = zip([*path.torques, still], [*path.motion, np.zeros_like(path.motion[0])], strict=True)
    a, b, c = (np.concatenate([tau[:, efforts], rate[:, joints]], axis=1) for tau, rate in parts)
    limit = tightness * np.concatenate([bounds.effort_rate[efforts], bounds.jerk[joints]])
    return _LinearRows(a, b, c, limit, limit)


class _TimingProgram:
    """The linear program of the fastest motion: x, u and y (k,) at points s (k,), one after the other.

        minimize    the integral of y ds, the duration
        subject to  y >= 1 / sqrt(x), by tangents at multiples of a previous x
                    x_k+1 - x_k = ds (u_k + u_k+1)
                    -lower <= a u + b x + c <= upper, of `values`
                    |d/ds (a u + b x + c)| <= upper / sqrt(x), of `rated`, by the tangent at a previous x

    At stops (k,), bool, x = u = 0. Next to them the jerk is constant: s ~ t^3, so |u| = x / (1.5 ds).
    """

    def __init__(self, s, stops, values, rated):
        self._s, self._stops, self._values, self._rated = s, stops, values, rated
        self._count, self._steps = len(s), np.diff(s)
        self._left, self._right = stops[:-1], stops[1:]  # of every interval
        self._inner = ~(self._left | self._right)

    def solved(self, x, most, start=None):
        """x and u (k,) of the fastest motion for the tangents at x (k,), None if there is none. most (k,): of
        x; start: MotionStart."""
        values, n, free = self._values, self._count, ~self._stops
        every = np.arange(n)
        rows = self._matrix((every, values.b), (n + every, values.a))
        A, b = [rows, -rows], [(values.upper - values.c).ravel(), (values.lower + values.c).ravel()]
        for end in (0, 1):
            change, rest, bound, slope = self._rates(end, x)
            A += [change - slope, -change - slope]
            b += [bound - rest, bound + rest]
        inner = np.flatnonzero(free)
        for near in TANGENTS:  # of the duration: y >= 1 / sqrt(x)
            root = 1 / np.sqrt(near * x[inner, None])
            A.append(self._matrix((inner, -0.5 * root**3), (2 * n + inner, -np.ones_like(root))))
            b.append(-1.5 * root[:, 0])
        cost = np.concatenate([np.zeros(2 * n), np.gradient(self._s)])
        bounds = np.zeros((3 * n, 2))
        bounds[:n][free] = np.stack([LEAST_X * x, most], axis=1)[free]
        bounds[n:][np.tile(free, 2)] = -np.inf, np.inf
        if start is not None:
            bounds[0], bounds[n] = start.speed**2, start.u
        equal = self._dynamics()
        found = linprog(cost, sparse.vstack(A), np.concatenate(b), equal, np.zeros(n - 1), bounds, "highs")
        return (found.x[:n], found.x[n : 2 * n]) if found.status == 0 else None

    def _matrix(self, *terms):
        """Rows (r m, unknowns) of terms: an unknown (r,) and its factors (r, m)."""
        numbers = np.arange(terms[0][1].size)
        columns = [np.repeat(unknown, factors.shape[1]) for unknown, factors in terms]
        entries = np.concatenate([factors.ravel() for _, factors in terms])
        at = np.tile(numbers, len(terms)), np.concatenate(columns)
        return sparse.csr_matrix((entries, at), (len(numbers), 3 * self._count))

    def _dynamics(self):
        """x_k+1 - x_k = ds (u_k + u_k+1); next to stops |u| = x / (1.5 ds)."""
        k, n, ds = np.arange(self._count - 1), self._count, self._steps[:, None]
        step = np.where(self._inner[:, None], ds, 1.5 * ds)
        one = np.ones_like(ds)
        return self._matrix((k, -one), (k + 1, one), (n + k, -step), (n + k + 1, -step))

    def _rates(self, end, x):
        """At an end of every interval, 0 or 1, that does not stop: |change + rest| <= bound + slope, with ds
        times the derivatives by s, as a matrix and numbers, and ds limit / s', as numbers and a matrix. Next
        to a stop the derivatives by time are constant, and the interval takes 3 ds / s'."""
        a, b, c, limit, _ = self._rated
        k = np.flatnonzero(~(self._left, self._right)[end])
        j, n = k + end, self._count
        ds, inner = self._steps[k, None], self._inner[k, None]
        change_a, change_b = a[k + 1] - a[k], b[k + 1] - b[k]
        matrix = self._matrix(
            (j, np.where(inner, change_b, (2 * end - 1) * b[j])),
            (n + j, np.where(inner, change_a + 2 * ds * b[j], 0.0)),
            (n + k + 1, np.where(inner, a[j], a[k + 1] * (end == 1))),
            (n + k, np.where(inner, -a[j], -a[k] * (end == 0))),
        )
        time = np.where(inner, 1.0, 3.0) * ds / np.sqrt(x[j, None])
        slope = self._matrix((j, -0.5 * time / x[j, None] * limit))
        return matrix, (c[k + 1] - c[k]).ravel(), (1.5 * time * limit).ravel(), slope

    def times(self, x, u):
        """Times (k,) of the points."""
        steps, change = self._steps[:, None], np.diff(u)[:, None]
        part = 0.5 * (NODES + 1)
        squares = x[:-1, None] + steps * part * (2 * u[:-1, None] + change * part)
        squares = np.maximum(squares, LEAST_X * np.maximum(x[:-1], x[1:])[:, None])
        with np.errstate(all="ignore"):
            inner = 0.5 * steps[:, 0] * (WEIGHTS / np.sqrt(squares)).sum(axis=1)
        ends = 3 * self._steps / np.sqrt(np.maximum(x[:-1], x[1:]))
        return np.concatenate([[0.0], np.cumsum(np.where(self._inner, inner, ends))])
