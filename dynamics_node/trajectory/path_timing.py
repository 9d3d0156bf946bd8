"""The times of a trajectory's path: slowed down uniformly, or time-optimal by toppra."""

import logging
from collections.abc import Mapping
from contextlib import contextmanager
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from dynamics_node.functions import Backend, InputError
from dynamics_node.robot import Robot
from dynamics_node.trajectory.check_page import remedy
from dynamics_node.trajectory.joint_trajectory import LINE, JointTrajectory
from dynamics_node.trajectory.motion_limits import described
from dynamics_node.trajectory.path_limits import PathLimits
from dynamics_node.trajectory.slowdown import TOLERANCE
from dynamics_node.trajectory.trajectory_check import (
    MOST_NUMBERS,
    RATE,
    TrajectoryCheck,
    check_trajectory,
    require_few_samples,
)

Method = Literal["time_optimal", "uniform"]
METHODS = get_args(Method)
AT_REST = 1e-6  # rad/s or m/s
PASSES = 3  # viscous friction is that of the previous pass
SMOOTH = ("max_jerk", "max_effort_rate")  # limits of the second pass
SHY = 1e-6  # fraction below a uniform motion, which is at its limit


def scale_trajectory(
    robot: Robot,
    trajectory: Any,
    *,
    method: Method = "time_optimal",
    at: ArrayLike | None = None,
    limits: Mapping[str, Mapping[str, float]] | None = None,
    friction: bool = True,
    gravity: ArrayLike | None = None,
    rate: float = RATE,
    backend: Backend = "auto",
) -> TrajectoryCheck:
    """Change the times of a trajectory so that it is feasible, and as fast as its path permits.

    Parameters
    ----------
    robot : Robot
        The robot, with or without closed loops.
    trajectory : JointTrajectory
        As in `check_trajectory`.
    method : str
        'time_optimal': the fastest motion along the path within limits of velocity, acceleration and effort,
        from rest to rest, by toppra (``pip install toppra``). With limits of jerk or of effort rates, linear
        programs then find a motion without jumps of the acceleration. 'uniform': all times by the same
        factor, at least 1.
    at, limits, friction, gravity, rate, backend
        As in `check_trajectory`.

    Returns
    -------
    TrajectoryCheck
        Of the scaled trajectory; it is feasible.

    Raises
    ------
    InputError
        As in `check_trajectory`. Also for a time-optimal trajectory without velocities.
    ValueError
        If no times make the path feasible.
    ImportError
        Without toppra.

    See Also
    --------
    check_trajectory : whether a trajectory is feasible.

    Examples
    --------
    >>> still = np.zeros((2, 7))
    >>> path = np.array([[0.0, -0.5, 0.0, -2.0, 0.0, 1.6, 0.8], [1.0, 0.5, 0.0, -1.0, 0.0, 1.6, 0.8]])
    >>> points = dn.JointTrajectory(robot.v_names, np.array([0.0, 0.5]), path, still, still)
    >>> scaled = dn.scale_trajectory(robot, points, method="uniform", backend="numpy")
    >>> scaled.feasible, round(float(scaled.time[-1]), 2)
    (True, 0.86)

    References
    ----------
    Pham and Pham, "A New Approach to Time-Optimal Path Parameterization Based on Reachability Analysis",
    IEEE Transactions on Robotics, 2018.

    Debrouwere and others, "Time-Optimal Path Following for Robots With Convex-Concave Constraints Using
    Sequential Convex Programming", IEEE Transactions on Robotics, 2013.
    """
    options: Any = {"at": at, "limits": limits, "friction": friction, "gravity": gravity, "rate": rate}
    return scaled(check_trajectory(robot, trajectory, backend=backend, **options), method, limits)


def scaled(
    check: TrajectoryCheck,
    method: str,
    limits: Mapping[str, Mapping[str, float]] | None = None,
    most: int = MOST_NUMBERS,
) -> TrajectoryCheck:
    """The check of a trajectory with other times. limits: of the check; most: of samples times joints that
    are optimized. Raises as `scale_trajectory`."""
    if not isinstance(method, str) or method not in METHODS:
        raise InputError(f"method must be 'time_optimal' or 'uniform', not {method!r}")
    if method == "uniform":
        return check.slowed()
    for margin in check.margins:
        if margin.quantity == "position" and margin.used > 1 + TOLERANCE:
            raise ValueError(f"no times make the path feasible: {described(margin)}")
    points = check.trajectory
    if len(points) < 2 or (points.degrees() == LINE).any():
        first = points.time[(points.degrees() == LINE).argmax()] if len(points) > 1 else points.time[0]
        raise InputError(
            "a time-optimal trajectory needs velocities at all points: "
            f"the line after {first:.4g} s ends in a corner"
        )
    limits = limits or {}
    if not any(margin.quantity in ("jerk", "effort_rate") for margin in check.margins):
        return check.retimed(_fastest(check, limits, most)).slowed()
    from dynamics_node.trajectory.smooth_timing import smoothed  # imports scipy

    others = {name: {k: own[k] for k in own if k not in SMOOTH} for name, own in limits.items()}
    fast = check.retimed(_fastest(check.retimed(check.trajectory, others), others, most), others)
    return smoothed(check, fast, limits)


def _fastest(check, limits, most) -> JointTrajectory:
    """The time-optimal trajectory along the path of a check, as cubics. Raises ValueError."""
    given, slowdown = check, check.slowdown.factor
    if 1 < slowdown < np.inf:  # the samples are then as dense in the result as in a check
        slower = check.trajectory.slowed(slowdown)
        require_few_samples(slower.count(check.rate), check.robot, most)
        check = check.retimed(slower, limits)
    path = PathLimits(check, limits)
    problem = _Fastest(path, path.scale / check.slowdown.factor if check.slowdown.possible else 0.0)
    speeds = problem.speeds()
    if speeds is None:
        raise ValueError(f"no time-optimal motion: {remedy(given)}")
    return JointTrajectory(
        check.trajectory.names,
        check.trajectory.time[0] + problem.times(speeds),
        path.q,
        path.qs * speeds[:, None],
        np.full_like(path.q, np.nan),
    )


class _Fastest:
    """The fastest motion within PathLimits, by toppra."""

    def __init__(self, path, uniform):
        """uniform: speed of the feasible uniform motion, 0 if there is none."""
        self.path = path
        at_rest = (np.abs(path.ends) < AT_REST).all()
        self._ends = [0.0, uniform * (1 - SHY)] if at_rest and uniform > 0 else [0.0]

    def speeds(self):
        """Speeds ds/dt (samples,) of the fastest motion; None if there is none."""
        found = [own for own in map(self.speeds_from, self._ends) if own is not None]
        return min(found, key=lambda speeds: float(self.times(speeds)[-1]), default=None)

    def times(self, speeds):
        """Times (samples,) of a motion."""
        return np.concatenate([[0.0], np.cumsum(2 * np.diff(self.path.s) / (speeds[1:] + speeds[:-1]))])

    def speeds_from(self, end):
        """Speeds that begin and end with `end`; None if there are none."""
        viscous = self.path.viscous
        speeds = np.full(len(self.path.s), end)
        for _ in range(PASSES if viscous.any() else 1):
            speeds = self._solved(self.path.c + viscous * speeds[:, None], end)
            if speeds is None:
                return None
        return speeds

    def _solved(self, c, end):
        try:
            from toppra.algorithm import TOPPRA
        except ImportError:
            raise ImportError("time-optimal trajectories need toppra: pip install 'toppra>=0.6.10'") from None

        s = self.path.s
        with _quiet():  # about ends without a solution, of which one is enough
            found = TOPPRA([self.constraint(c)], _grid(s), gridpoints=s)
            _, speeds, _ = found.compute_parameterization(end, end)
        good = speeds is not None and np.isfinite(speeds).all() and (speeds[1:] + speeds[:-1] > 0).all()
        return speeds if good else None

    def constraint(self, c):
        """A constraint for toppra: |a u + b x + c| <= limit at all grid points, and bounds of x."""
        from toppra.constraint import DiscretizationType, LinearConstraint
        from toppra.constraint.linear_constraint import canlinear_colloc_to_interpolate

        path, count = self.path, len(self.path.limit)

        class Limits(LinearConstraint):
            def __init__(self):
                super().__init__()
                self.identical, self.discretization_type = True, DiscretizationType.Interpolation

            def compute_constraint_params(self, _path, gridpoints):
                F = np.concatenate([np.eye(count), -np.eye(count)])
                rows = path.a, path.b, c, F, np.concatenate([path.limit, path.limit])
                rows = canlinear_colloc_to_interpolate(*rows, None, None, path.s, identical=True)[:5]
                return *rows, None, np.stack([np.zeros_like(path.fastest), path.fastest**2], axis=1)

        return Limits()


@contextmanager
def _quiet():
    """No warnings of toppra."""
    logger = logging.getLogger("toppra")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)


def _grid(s):
    """A path for toppra, which reads its interval alone."""
    from toppra.interpolator import SplineInterpolator

    return SplineInterpolator(s[[0, -1]], np.zeros((2, 1)))
