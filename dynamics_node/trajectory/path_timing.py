"""The times of a trajectory's path: slowed down uniformly, or time-optimal by toppra."""

from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from dynamics_node.errors import InfeasibleError, InputError
from dynamics_node.functions import Backend
from dynamics_node.functions.choices import require_known
from dynamics_node.io.motion_files import JointLimits
from dynamics_node.robot import Robot
from dynamics_node.robot.wrong_calls import explains_wrong_calls
from dynamics_node.trajectory.motion_limits import described, without
from dynamics_node.trajectory.segments import LINE
from dynamics_node.trajectory.slowdown import TOLERANCE
from dynamics_node.trajectory.time_optimal import time_optimal
from dynamics_node.trajectory.trajectory_check import (
    MOST_NUMBERS,
    RATE,
    WINDOW,
    TrajectoryCheck,
    check_trajectory,
)

Method = Literal["time_optimal", "uniform"]
METHODS = get_args(Method)
AT_REST = 1e-6  # rad/s or m/s
SMOOTH = ("max_jerk", "max_effort_rate")  # limits of the second pass


@explains_wrong_calls
def scale_trajectory(
    robot: Robot,
    trajectory: Any,
    *,
    method: Method = "time_optimal",
    q0: ArrayLike | None = None,
    limits: JointLimits | None = None,
    friction: bool = True,
    gravity: ArrayLike | None = None,
    thermal_window: float = WINDOW,
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
        programs then find a motion without jumps of the acceleration. With limits of continuous efforts, all
        times of the result are then multiplied by the smallest sufficient factor. 'uniform': all times by
        the same factor, at least 1.
    q0, limits, friction, gravity, thermal_window, rate, backend
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
    check = check_trajectory(
        robot,
        trajectory,
        q0=q0,
        limits=limits,
        friction=friction,
        gravity=gravity,
        thermal_window=thermal_window,
        rate=rate,
        backend=backend,
    )
    return scaled(check, method, limits)


def scaled(
    check: TrajectoryCheck,
    method: str,
    limits: JointLimits | None = None,
    most: int = MOST_NUMBERS,
) -> TrajectoryCheck:
    """The check of a trajectory with other times. limits: of the check; most: of samples times joints that
    are optimized. Raises as `scale_trajectory`."""
    require_known("method", method, METHODS)
    if method == "uniform":
        return check.slowed()
    for margin in check.margins:
        if margin.quantity == "position" and margin.used > 1 + TOLERANCE:
            raise InfeasibleError(f"no times make the path feasible: {described(margin)}")
    points = check.trajectory
    if len(points) < 2 or (points.degrees() == LINE).any():
        first = points.time[(points.degrees() == LINE).argmax()] if len(points) > 1 else points.time[0]
        raise InputError(
            "a time-optimal trajectory needs velocities at all points: "
            f"the line after {first:.4g} s ends in a corner"
        )
    limits = limits or {}
    if not any(margin.quantity in ("jerk", "effort_rate") for margin in check.margins):
        return _fastest(check, limits, most)
    from dynamics_node.trajectory.smooth_timing import smoothed  # imports scipy

    others = without(limits, *SMOOTH, "max_continuous_effort")
    fast = _fastest(check.retimed(check.trajectory, others), others, most)
    return smoothed(check, fast, limits)


def _fastest(check, limits, most) -> TrajectoryCheck:
    """The time-optimal motion along the path of a check, or the uniform one if it is faster."""
    ends = check.trajectory.qd[[0, -1]]
    uniform = check.slowed() if (np.abs(ends) < AT_REST).all() and check.slowdown.possible else None
    try:
        fast = time_optimal(check, limits, most).slowed()
    except InfeasibleError:
        if uniform is None:
            raise
        return uniform
    return fast if uniform is None or fast.time[-1] < uniform.time[-1] else uniform
