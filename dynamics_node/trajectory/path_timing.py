"""The times of a trajectory's path: slowed down uniformly, or time-optimal by toppra.

With the times s of the given trajectory as the path coordinate, torques are a s'' + (b) s'^2 + c, where the
inverse dynamics of three batches give a, b and c for all samples.
"""

import logging
from collections.abc import Mapping
from contextlib import contextmanager
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from dynamics_node.algorithms.rates import sampled_rates
from dynamics_node.functions import Backend, InputError
from dynamics_node.robot import Robot
from dynamics_node.trajectory.joint_trajectory import LINE, JointTrajectory
from dynamics_node.trajectory.motion_limits import described, joint_limits, scalar_joints
from dynamics_node.trajectory.slowdown import TOLERANCE
from dynamics_node.trajectory.trajectory_check import RATE, TrajectoryCheck, check_trajectory

Method = Literal["time_optimal", "uniform"]
AT_REST = 1e-6  # rad/s or m/s
PASSES = 3  # viscous friction is that of the previous pass
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
        from rest to rest, by toppra (``pip install toppra``). 'uniform': all times by the same factor, at
        least 1.
    at, limits, friction, gravity, rate, backend
        As in `check_trajectory`.

    Returns
    -------
    TrajectoryCheck
        Of the scaled trajectory; it is feasible.

    Raises
    ------
    InputError
        As in `check_trajectory`. Also for a time-optimal trajectory with limits of jerk, or without
        velocities.
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
    """
    options: Any = {"at": at, "limits": limits, "friction": friction, "gravity": gravity, "rate": rate}
    return scaled(check_trajectory(robot, trajectory, backend=backend, **options), method, limits)


def scaled(
    check: TrajectoryCheck, method: str, limits: Mapping[str, Mapping[str, float]] | None = None
) -> TrajectoryCheck:
    """The check of a trajectory with other times; limits: of the check. Raises as `scale_trajectory`."""
    if method == "uniform":
        return check.slowed()
    if method != "time_optimal":
        raise InputError(f"method must be 'time_optimal' or 'uniform', not {method!r}")
    for margin in check.margins:
        if margin.quantity == "position" and margin.used > 1 + TOLERANCE:
            raise ValueError(f"no times make the path feasible: {described(margin)}")
        if margin.quantity == "jerk":
            raise InputError(f"{margin.joint} has a limit of jerk: use method='uniform'")
    if len(check.trajectory) < 2 or (check.trajectory.degrees() == LINE).any():
        raise InputError("a time-optimal trajectory needs velocities at all points: lines have corners")
    return check.retimed(_fastest(check, limits or {})).slowed()


def _fastest(check, limits) -> JointTrajectory:
    """The time-optimal trajectory along the path of a check, as cubics."""
    problem = _Problem(check, limits)
    speeds = problem.solved()
    time = np.concatenate([[0.0], np.cumsum(2 * np.diff(problem.s) / (speeds[1:] + speeds[:-1]))])
    q, qd = problem.path
    return JointTrajectory(
        check.trajectory.names,
        check.trajectory.time[0] + time,
        q,
        qd * speeds[:, None],
        np.full_like(q, np.nan),
    )


class _Problem:
    """Constraints at the samples of a check, whose times are the path coordinate s (samples,)."""

    def __init__(self, check, limits):
        robot, functions = check.robot, check.functions
        rows = np.append(np.diff(check.time) > 0, True)  # the later of two samples at one point
        self.s = check.time[rows]
        state = q, qs, qss = check.q[rows], check.qd[rows], check.qdd[rows]
        self.path = check.trajectory.at(self.s)
        bounds, zero = joint_limits(robot, limits), np.zeros_like(qs)
        self._viscous, dry = functions.friction(q, qs)
        parts = [
            functions.inverse(q, zero, qs, gravity=np.zeros(3)),
            functions.inverse(*state, gravity=np.zeros(3)),
            functions.inverse(q, zero, zero) + dry,
        ]
        own = np.isfinite(bounds.effort)
        self._own = own
        torques = [part[:, own] for part in parts]
        rates, accelerations, slowness = self._kinematic(robot, bounds, q, qs, qss)
        self._a = np.concatenate([torques[0], rates], axis=1)
        self._b = np.concatenate([torques[1], accelerations], axis=1)
        self._c = np.concatenate([torques[2], np.zeros_like(rates)], axis=1)
        self._limit = np.concatenate([bounds.effort[own], self._accelerations])
        scale = self._scale(slowness)
        at_rest = (np.abs(qs[[0, -1]]) < AT_REST).all()
        uniform = scale / check.slowdown.factor if check.slowdown.possible else 0.0
        self._ends = [0.0, uniform * (1 - SHY)] if at_rest and uniform > 0 else [0.0]

    def _scale(self, slowness):
        """Scale s so that limits bound speeds near 1, whatever the given times: toppra's solver has absolute
        tolerances. slowness (samples,): inverse of the largest speed by velocity limits."""
        scale = max(slowness.max(), np.sqrt((np.abs(self._b) / self._limit).max(initial=0.0)))
        if not scale > 0:
            raise InputError("no limit of velocity, acceleration or effort bounds the motion: add one")
        self.s = scale * self.s
        self._a, self._b, self._viscous = self._a / scale, self._b / scale**2, self._viscous / scale
        self.path = self.path[0], self.path[1] / scale
        fastest = 1 / np.maximum(slowness / scale, 1 / MOST_SPEED)
        self._xbound = np.stack([np.zeros_like(fastest), fastest**2], axis=1)
        return scale

    def _kinematic(self, robot, bounds, q, qs, qss):
        """Rates and accelerations (s, joints) of the joints with acceleration limits, and the inverse (s,)
        of the largest speed by velocity limits."""
        spread = sampled_rates(robot, q, qs)
        every = spread.qd, spread.accelerations(qss)
        rates, accelerations = (
            np.concatenate([joint.rate(own) for joint in scalar_joints(robot)], axis=1) for own in every
        )
        slowness = (np.abs(rates) / bounds.velocity).max(axis=1, initial=0.0)
        most_accelerations = np.minimum(bounds.acceleration, bounds.deceleration)
        own = np.isfinite(most_accelerations)
        self._accelerations = most_accelerations[own]
        return rates[:, own], accelerations[:, own], slowness

    def solved(self):
        """Speeds ds/dt (samples,) of the fastest motion. Raises ValueError."""
        found = [own for own in map(self._solved_from, self._ends) if own is not None]
        if not found:
            raise ValueError("no times make the path feasible: an effort exceeds its limit at any speed")
        return min(found, key=lambda speeds: float(np.sum(np.diff(self.s) / (speeds[1:] + speeds[:-1]))))

    def _solved_from(self, end):
        """Speeds that begin and end with `end`; None if there are none."""
        viscous = np.broadcast_to(self._viscous, (len(self.s), len(self._own)))[:, self._own]
        speeds = np.full(len(self.s), end) if viscous.any() else None
        for _ in range(PASSES if viscous.any() else 1):
            c = self._c.copy()
            if speeds is not None:
                c[:, : viscous.shape[1]] += viscous * speeds[:, None]
            speeds = self._speeds(c, end)
            if speeds is None:
                return None
        return speeds

    def _speeds(self, c, end):
        try:
            from toppra.algorithm import TOPPRA
        except ImportError:
            raise ImportError("time-optimal trajectories need toppra: pip install 'toppra>=0.6.10'") from None

        with _quiet():  # about ends without a solution, of which one is enough
            found = TOPPRA([_constraint(self, c)], _grid(self.s), gridpoints=self.s)
            _, speeds, _ = found.compute_parameterization(end, end)
        good = speeds is not None and np.isfinite(speeds).all() and (speeds[1:] + speeds[:-1] > 0).all()
        return speeds if good else None

    def parameters(self, c):
        """What toppra asks of a constraint: |a u + b x + c| <= limit, and bounds of x."""
        from toppra.constraint.linear_constraint import canlinear_colloc_to_interpolate

        count = len(self._limit)
        F = np.concatenate([np.eye(count), -np.eye(count)])
        g = np.concatenate([self._limit, self._limit])
        rows = self._a, self._b, c, F, g
        rows = canlinear_colloc_to_interpolate(*rows, None, None, self.s, identical=True)[:5]
        return *rows, None, self._xbound  # bounds of u and x


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


MOST_SPEED = 30.0  # of s: at ends, where the path rests


def _constraint(problem, c):
    """A constraint for toppra, with numbers known for all grid points."""
    from toppra.constraint import DiscretizationType, LinearConstraint

    class Limits(LinearConstraint):
        def __init__(self):
            super().__init__()
            self.identical, self.discretization_type = True, DiscretizationType.Interpolation

        def compute_constraint_params(self, path, gridpoints):
            return problem.parameters(c)

    return Limits()


def _grid(s):
    """A path for toppra, which reads its interval alone."""
    from toppra.interpolator import SplineInterpolator

    return SplineInterpolator(s[[0, -1]], np.zeros((2, 1)))
