"""Stops on a path within limits of jerk and of effort rates, by the linear programs of smooth timing.

The stop continues the acceleration of the trajectory, and ends without one. The shortest way is between that
of the stop without these limits and the first of longer ones for which a program has a solution.
"""

import numpy as np
from scipy.interpolate import CubicSpline

from dynamics_node.trajectory.smooth_timing import (
    LEAST_SPEED,
    MotionStart,
    PathMotion,
    SplinePath,
    smooth_trajectory,
    solved_motion,
)

POINTS, FEWEST = 200, 41  # of the path; of a stop
GROWTH, HALVINGS = 1.3, 4  # of the way, until a motion is found; then of the last step
PASSES = 4  # of programs, each with tangents at the last motion
SHORTENINGS, SHORTER = 8, 0.985  # of the way then
TRIES, LONGER = 6, 2e-3  # of a way whose motion exceeds limits between points; doubled
TIGHTENINGS, SAFE = 3, 0.999
FASTER = 1e-4  # than the trajectory: splines


def smooth_stop(check, limits, way, verify):
    """The stop within all limits, as a TrajectoryCheck and the Margin of an exceeded limit, None without.
    check: of the trajectory; way: of the stop without these limits, as a time of the trajectory."""
    search = _SmoothStops(check, limits)
    low, high = way, min(GROWTH * way, search.end)
    while not search.motion(high, 1):
        if high >= search.end:
            return search.longest(verify)
        low, high = high, min(GROWTH * high, search.end)
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if search.motion(middle, 1) else (middle, high)
    best = search.motion(high, PASSES)
    for _ in range(SHORTENINGS):  # with tangents at the last motion, shorter ways have solutions
        if not (found := search.motion(SHORTER * high, 2, guess=best[1])):
            break
        best, high = found, SHORTER * high
    for number in range(TRIES):
        result = search.verified(min(high * (1 + LONGER * 2**number), search.end), verify, best[1])
        if result is not None and result[1] is None:
            return result
    return result or search.longest(verify)


class _SmoothStops:
    """Stops of a check by their ways, which are times of its trajectory."""

    def __init__(self, check, limits):
        self._check, self._limits, self.end = check, limits, float(check.trajectory.time[-1])

    def verified(self, way, verify, guess):
        """The best stop on a way, as of `smooth_stop`; None without."""
        tightness, share, result = 1.0, 1.0, None
        for _ in range(TIGHTENINGS):
            if (found := self.motion(way, PASSES, tightness, share, guess)) is None:
                break
            result = verify(self._points(*found))
            if result[1] is None:
                break
            rated = [own.used for own in result[0].margins if own.quantity in ("jerk", "effort_rate")]
            other = [own.used for own in result[0].margins if own.quantity in ("effort", "acceleration")]
            tightness *= SAFE / max([1.0, *rated])
            share *= SAFE / max([1.0, *other])
        return result

    def longest(self, verify):
        """A stop on the whole way, with a cubic speed, and the Margin of an exceeded limit."""
        _, _, path, motion = self._path_until(self.end)
        grid = path.grid(motion, FEWEST)
        time, speed, u = (np.interp(grid.s, motion.s, own) for own in (motion.time, motion.speed, motion.u))
        return verify(self._points(grid, PathMotion(time, grid.s, speed, u)))

    def motion(self, way, passes, tightness=1.0, share=1.0, guess=None):
        """The SplineGrid and the PathMotion of the fastest stop on a way; None if there is none. guess: a
        PathMotion on another way."""
        found, (time, s, path, motion) = None, self._path_until(way)
        if guess is not None:
            motion = guess._replace(s=guess.s * (s[-1] / guess.s[-1]))
        for _ in range(passes):
            grid = path.grid(motion, FEWEST)
            grid = grid._replace(stops=np.arange(len(grid.s)) == len(grid.s) - 1)
            start = self._start(grid, np.interp(grid.s, s, time), share)
            motion = solved_motion(self._check, grid, self._limits, tightness, start=start)
            if motion is None:
                break
            found = grid, motion
        return found

    def _path_until(self, way):
        """Times of the trajectory and lengths (POINTS,) of its path, the SplinePath, and a first guess."""
        time = np.linspace(0.0, way, POINTS)
        samples = self._check.trajectory.at(time)
        s = np.append(0.0, np.cumsum(np.linalg.norm(np.diff(samples.q, axis=0), axis=1)))
        path = SplinePath(s[[0, -1]], [CubicSpline(s, samples.q)])
        return time, s, path, _cubic(np.linalg.norm(samples.qd[0]), s[-1])

    def _start(self, grid, time, share):
        """The MotionStart of a grid at times (k,) of the trajectory."""
        points, qs, qss = self._check.trajectory, grid.qs[0], grid.qss[0]
        state, rates = points.at([0.0]), points.at(time).qd
        speed = state.qd[0] @ qs / (qs @ qs)
        u = (state.qdd[0] - qss * speed**2) @ qs / (qs @ qs)
        fastest = (1 + FASTER) * np.linalg.norm(rates, axis=1) / np.linalg.norm(grid.qs, axis=1)
        return MotionStart(speed, u, np.maximum(fastest, LEAST_SPEED * speed), share)

    def _points(self, grid, motion):
        """The JointTrajectory of a motion, which begins with the state of the trajectory."""
        points, state = smooth_trajectory(self._check, grid, motion), self._check.trajectory.at([0.0])
        points.q[0], points.qd[0], points.qdd[0] = state.q[0], state.qd[0], state.qdd[0]
        return points


def _cubic(speed, length):
    """A first guess: speeds fall by a cubic, without accelerations at both ends."""
    u, duration = np.linspace(0.0, 1.0, 101), 2 * length / speed
    s = 2 * length * (u - u**3 + 0.5 * u**4)
    rate, change = 1 - 3 * u**2 + 2 * u**3, (6 * u**2 - 6 * u) / duration
    return PathMotion(duration * u, s, speed * rate, speed * change)
