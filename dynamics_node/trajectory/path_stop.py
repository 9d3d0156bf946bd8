"""The fastest stop on the path of a trajectory, by toppra.

The speed at the start is given, the place of the stop is not. Motions back in time, to the state at the
start, find all points of a grid at which the robot can come to rest. The fastest motions to some of them find
the shortest time. Points of the next grid are at equal times of this motion. At no place is the stop faster
than the trajectory: the robot does not speed up in order to stop earlier.
"""

from typing import NamedTuple

import numpy as np

from dynamics_node.errors import InfeasibleError, InputError
from dynamics_node.trajectory.joint_trajectory import JointTrajectory
from dynamics_node.trajectory.motion_limits import described
from dynamics_node.trajectory.path_grid import Path
from dynamics_node.trajectory.segments import LINE, QUINTIC
from dynamics_node.trajectory.stop_search import LEAST
from dynamics_node.trajectory.time_optimal import PathProblem, TimedGrid, timed_trajectory
from dynamics_node.trajectory.trajectory_check import TrajectoryCheck

FIRST, NEAREST = 100, 1e-4  # points of the first grid, denser near the start; share of the nearest
POINTS, BEYOND = 60, (0.3, 0.03)  # of later grids; how far they continue after the stop, in terms of its way
AFTER = 17  # points of them there
CANDIDATES = 10  # places of a grid whose stops are compared
SAME = 1e-3  # of the time: of two stops, the one with the shorter way
LONGER, TRIES = 1e-3, 6  # way of a stop that exceeds limits between points; doubled
TIGHTENINGS, RESERVE = 4, 2e-5  # of the limits: tolerances of the solver; doubled
SHORTEST, FEWEST = 2e-4, 16  # s between points: messages round to nanoseconds; points
FASTER = 1e-6  # than the trajectory: rounding
WEAKER = (1.1, 1.5, 3.0, 10.0, 100.0, 1e4)  # times the limits, to find the one that is exceeded
SAME_TIME = 1e-6  # s: an interval that is too short
STILL = 1e-6  # of the largest speed
INSTEAD = "stop joint by joint with stopping_trajectory, from the state at this time"


class Remainder(NamedTuple):
    """The points of a trajectory from a time on, which becomes zero, to its first stop; rests: whether they
    end with one. A robot that rests has one point."""

    points: JointTrajectory
    rests: bool


def remainder(points: JointTrajectory, time: float, longest: float) -> Remainder:
    """The Remainder of a trajectory, of at most `longest` s. Raises InputError."""
    begin, end = points.time[[0, -1]]
    if not begin <= time <= end:
        raise InputError(f"time is {time:g} s; the trajectory has motion from {begin:g} s to {end:g} s")
    if len(points) == 1:
        return _resting(points.names, points.q[0])
    nearest = points.time[np.abs(points.time - time).argmin()]
    time = nearest if abs(nearest - time) < SAME_TIME else time
    state, end = points.at(time), min(time + longest, end)
    fastest = np.nanmax(np.linalg.norm(points.qd, axis=1), initial=0.0)
    if np.linalg.norm(state.qd[0]) <= STILL * fastest:
        return _resting(points.names, state.q[0])
    if end - time < LEAST:
        raise InfeasibleError(f"the trajectory ends in motion, at {end:g} s: {INSTEAD}")
    part = _between(points, time, end)
    if (lines := part.degrees() == LINE).any():
        first = time + part.time[lines.argmax()]
        raise InputError(f"a stop on the path needs velocities at all points: a line follows {first:.4g} s")
    stop = Path(part).parts[0][1]
    part = _between(part, 0.0, stop) if stop < part.time[-1] else part
    return Remainder(part, bool(np.linalg.norm(part.qd[-1]) <= STILL * fastest))


def _resting(names, q):
    return Remainder(JointTrajectory(names, np.zeros(1), q[None], *np.zeros((2, 1, len(q)))), True)


def _between(points, begin, end):
    """The same motion from a time to a later one, which become the first and the last point."""
    time = points.time
    first, last = np.searchsorted(time, begin, side="right"), np.searchsorted(time, end, side="left")
    degrees = points.degrees()[[first - 1, last - 1]]
    ends, inner = points.at([begin, end]), slice(first, last)
    rates = [
        (ends.qd, points.qd, degrees > LINE),
        (ends.qdd, points.qdd, degrees == QUINTIC),
    ]
    parts = [(ends.q[:1], points.q[inner], ends.q[1:])]
    for own, given, known in rates:
        own = np.where(known[:, None], own, np.nan)
        own[1] = given[last] if time[last] == end else own[1]
        parts.append((own[:1], given[inner], own[1:]))
    times = np.concatenate([[begin], time[inner], [end]]) - begin
    return JointTrajectory(points.names, times, *map(np.concatenate, parts))


def braked(check, limits, rests, smooth, verify) -> TrajectoryCheck:
    """The TrajectoryCheck of the fastest stop on the path of a check, which begins in motion.

    limits: its own; rests: whether it ends at rest; smooth: whether they limit jerks or effort rates;
    verify(points): a TrajectoryCheck and the Margin of an exceeded limit, None without. Raises
    InfeasibleError, and InputError if nothing bounds the stop."""
    search = _Search(check, limits)
    stops = [verify(check.trajectory)] if rests else []
    found = search.place()
    nearest = found and (search.smooth if smooth else search.verified)(found, verify)
    stops += [nearest] if nearest else []
    if good := [stop for stop, over in stops if over is None]:
        return min(good, key=lambda stop: stop.time[-1])
    nearest = nearest or _exceeding(search, check, verify)
    if nearest is None:
        raise InfeasibleError(f"no stop on the path, which ends {check.time[-1]:.4g} s later: {INSTEAD}")
    result, over = nearest
    time = f"in one of {result.time[-1]:.4g} s"
    raise InfeasibleError(f"no stop on the path keeps the limits: {described(over)}, {time}; {INSTEAD}")


def _exceeding(search, check, verify):
    """A stop that exceeds limits, and the Margin of one; None if there is none."""
    for factor in WEAKER:
        if found := search.place(factor):
            result, _ = verify(timed_trajectory(check, [found]))
            return result, next(own for own in result.margins if own.quantity in ("effort", "acceleration"))
    return None


class _Search:
    """The search for the stop of a check."""

    def __init__(self, check, limits):
        self._check, self._limits, self._path = check, limits, Path(check.trajectory)
        self._end = float(check.trajectory.time[-1])

    def place(self, factor=1.0) -> TimedGrid | None:
        """The fastest stop on grids, None if there is none. factor: of the limits."""
        s = np.append(0.0, np.geomspace(max(LEAST, NEAREST * self._end), self._end, FIRST))
        guess, candidates = self._speed(s), CANDIDATES
        for beyond in (*BEYOND, None):
            problem = self._problem(s)
            problem.weaken(factor)
            places = np.flatnonzero(problem.rests(guess) & (s >= LEAST))
            if (found := _fastest(problem, places, guess, candidates)) is None or beyond is None:
                return found
            if len(found.grid.lengths) == places[0]:
                candidates = 1  # the shortest way is the fastest
            way = found.grid.s[-1]
            after = np.linspace(way, min((1 + beyond) * way, self._end), AFTER)
            s = np.unique(np.concatenate([self._equal_times(found, POINTS), after]))
            guess = np.interp(s, found.grid.s, found.speed)
        return found

    def verified(self, found, verify):
        """The TrajectoryCheck of a stop without short intervals, and the Margin of an exceeded limit; None
        without a stop."""
        time, rate = found.time[-1], self._check.options.rate
        count = max(FEWEST, int(min(max(POINTS, time * rate), time / SHORTEST)))
        s, stop = self._equal_times(found, count), None
        guess = np.interp(s, found.grid.s, found.speed)
        for number in range(TRIES):
            longer = s * min(1 + LONGER * 2**number, self._end / s[-1])
            problem = self._problem(longer)
            problem.weaken(1 - RESERVE * 2**number)
            for _ in range(TIGHTENINGS):
                try:
                    motion = problem.until(count, guess)
                except InfeasibleError:
                    break
                stop = verify(timed_trajectory(self._check, [motion]))
                if stop[1] is None:
                    return stop
                if not problem.tighten(stop[0]):
                    break
        return stop

    def smooth(self, found, verify):
        """The same within limits of jerk and of effort rates."""
        from dynamics_node.trajectory.smooth_path_stop import smooth_stop  # imports scipy

        return smooth_stop(self._check, self._limits, float(found.grid.s[-1]), verify)

    def _problem(self, s):
        """The PathProblem of a grid at times s (k + 1,) of the trajectory."""
        speed = (1 + FASTER) * self._speed(s)
        begin = float(self._speed(s[:1])[0])
        return PathProblem(self._check, self._limits, [self._path.grid(s)], begin, speed)

    def _equal_times(self, found, count):
        """Times (count + 1,) of the trajectory at equal times of a motion."""
        return np.interp(np.linspace(0.0, found.time[-1], count + 1), found.time, found.grid.s)

    def _speed(self, s):
        """Speeds (k,) of the trajectory, by the length of its path."""
        return np.linalg.norm(self._check.trajectory.at(s).qd, axis=1)


def _fastest(problem, places, guess, candidates):
    """The fastest stop at one of some points of a grid; None if there is none."""
    found = []
    for point in places[:: max(1, -(-len(places) // candidates))]:
        try:
            found.append(problem.until(int(point), guess))
        except InfeasibleError:
            continue
    least = min((motion.time[-1] for motion in found), default=0.0)
    return next((motion for motion in found if motion.time[-1] <= (1 + SAME) * least), None)
