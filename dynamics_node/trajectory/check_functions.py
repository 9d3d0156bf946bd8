"""Torques of a checked motion, its smallest slowdown and its largest payload."""

from collections.abc import Callable
from copy import copy
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dynamics_node.algorithms import close_loops, first_closed
from dynamics_node.algorithms.joint_friction import JointFriction, selected_friction
from dynamics_node.algorithms.rates import sampled_rates
from dynamics_node.errors import ClosureError
from dynamics_node.functions import cached_function
from dynamics_node.functions.checks import finite
from dynamics_node.functions.choices import BACKENDS, require_known
from dynamics_node.robot import Robot
from dynamics_node.robot.inertial_parameters import with_payload
from dynamics_node.trajectory.effort_windows import largest_continuous_speed, window_means
from dynamics_node.trajectory.motion_limits import ORDERS, Margin, joint_limits
from dynamics_node.trajectory.slowdown import TOLERANCE, largest_speed

ROUNDING = 1e-10  # of a limit, by a mass of 1 kg: the limit does not bound it


class Slowdown(NamedTuple):
    """The smallest uniform slowdown that makes a trajectory feasible.

    Attributes
    ----------
    factor : float
        All times are multiplied by it: 1 if the trajectory is feasible, infinite if no factor makes it so.
    limit : Margin or None
        The limit that determines the factor, or that is violated at any speed; None if the factor is 1.
    at_rest : bool
        Whether the reason is a torque that the joint needs even at rest, or in the slowest motion.

    Examples
    --------
    >>> dn.Slowdown(1.0, None, False).possible
    True
    """

    factor: float
    limit: Margin | None
    at_rest: bool

    @property
    def possible(self) -> bool:
        """Whether a slowdown, or none, makes the trajectory feasible."""
        return bool(np.isfinite(self.factor))


class CheckFunctions:
    """The functions of a check.

    friction: whether to include it, or a JointFriction of the robot's tree; close: the closed position near
    (nq,), whose implicit joints may be NaN, on the branch of the previous one, which is None for the first.
    """

    def __init__(
        self,
        robot: Robot,
        inverse: Any,
        *,
        gravity: ArrayLike | None = None,
        friction: bool | JointFriction = True,
        close: Callable | None = None,
    ):
        self.robot, self._inverse, self._close = robot, inverse, close
        self._gravity = robot.gravity if gravity is None else finite("gravity", gravity, (3,))
        self._friction = selected_friction(robot, friction)

    @classmethod
    def of(cls, robot, backend, *, gravity, friction) -> "CheckFunctions":
        """Those of a robot. Raises ChoiceError for an unknown backend."""
        require_known("backend", backend, BACKENDS)
        inverse = cached_function(robot, "inverse_dynamics", backend)
        return cls(robot, inverse, gravity=gravity, friction=friction)

    def inverse(self, q, qd, qdd, gravity=None):
        """Torques (s, nv) without friction. gravity (3,): in place of the usual one."""
        return self._inverse(q, qd, qdd, gravity=self._gravity if gravity is None else gravity)

    def friction(self, q, qd):
        """Torques (s, nv) of friction: the viscous part, and the rest."""
        if self._friction is None:
            return 0.0, 0.0
        rates = sampled_rates(self.robot, q, qd)
        viscous = self._friction.viscous(rates.qd)
        rest = self._friction(q, rates.qd) - viscous
        return rates.independent(viscous), rates.independent(rest)

    def effort_parts(self, q, qd, qdd):
        """Torques (3, s, nv) without dry friction, by powers 0, 1 and 2 of the speed of a motion: those at
        rest, of viscous friction, and of the motion."""
        zero = np.zeros_like(qd)
        resting = self.inverse(q, zero, zero)
        moving = self.inverse(q, qd, qdd) - resting
        return np.stack(
            np.broadcast_arrays(resting + self.friction(q, zero)[1], self.friction(q, qd)[0], moving)
        )

    def closed(self, q, dependent, time):
        """Closed positions (k, nq) of successive points at times (k,), None without loops; dependent: indices
        of implicit joints in q. Raises ClosureError."""
        if not self.robot.constrained:
            return None
        closed = np.empty_like(q)
        for k, one in enumerate(q):
            try:
                closed[k] = self._following(one.copy(), closed[k - 1] if k else None, dependent)
            except ClosureError as error:
                raise ClosureError(f"at {time[k]:.4g} s: {error}") from None
        return closed

    def _following(self, one, last, dependent):
        if last is not None:
            one[dependent] = last[dependent] if self._close is None else np.nan
        if self._close is not None:
            return self._close(one, last)
        return first_closed(self.robot, one) if last is None else close_loops(self.robot, one)

    def slowdown(self, check) -> Slowdown:
        """See TrajectoryCheck.slowdown."""
        if check.feasible:
            return Slowdown(1.0, None, False)
        for margin in check.margins:
            if margin.quantity == "position" and margin.used > 1 + TOLERANCE:
                return Slowdown(np.inf, margin, False)
        bounds = [(m.used ** (1 / ORDERS[m.quantity]), m) for m in check.margins if m.quantity in ORDERS]
        if rates := [m for m in check.margins if m.quantity == "effort_rate"]:
            if not np.isfinite(rates[0].used):
                return Slowdown(np.inf, rates[0], False)
            bounds.append(self._rate_limit(check, rates))
        factor, limit = max(bounds, default=(1.0, None), key=lambda bound: bound[0])
        slowest = 1 / max(factor, 1.0)  # as slow as velocities and accelerations need
        limits, parts = joint_limits(self.robot, check.options.limits), self._by_speed(check)
        speed, margin = self._effort_limit(check, parts, limits.effort, slowest)
        if speed > 0 and np.isfinite(limits.continuous_effort).any():
            speed, margin = self._continuous_limit(check, parts, limits.continuous_effort, speed, margin)
        if margin is None:
            return Slowdown(max(factor, 1.0), limit, False)
        return Slowdown(1 / speed if speed > 0 else np.inf, margin, speed == 0)

    def _by_speed(self, check):
        """Torques (3, samples, nv) with dry friction, by powers 0, 1 and 2 of the speed of a motion."""
        zero = np.zeros_like(check.qd)
        viscous, rest = self.friction(check.q, check.qd)
        still = self.inverse(check.q, zero, zero)
        return np.stack(np.broadcast_arrays(still + rest, viscous, check.tau - still - viscous - rest))

    def _effort_limit(self, check, parts, limits, slowest):
        """The largest speed up to `slowest` that satisfies the limits of efforts, and the Margin that bounds
        it, None without."""
        rows = limits.joint
        if not len(rows):
            return slowest, None
        fast = limits.slope * check.qd[:, rows]  # grows with the speed as well
        powers = parts[..., rows] + np.stack([np.zeros_like(fast), fast, np.zeros_like(fast)])
        powers *= (slowest ** np.arange(3))[:, None, None]
        lower, upper = (np.broadcast_to(side, fast.shape).ravel() for side in (limits.lower, limits.upper))
        x, entry = largest_speed(powers.reshape(3, -1), lower, upper)
        if entry < 0:
            return slowest, None
        sample, row = divmod(entry, len(rows))
        constant, linear, square = powers[:, sample, row]
        load = float(constant + x * (linear + x * square))
        bound = float((limits.upper if load > 0 else limits.lower)[row])
        lost = x * slowest * float(fast[sample, row])
        name, time = self.robot.v_names[rows[row]], float(check.time[sample])
        return x * slowest, Margin(name, "effort", time, load - lost, bound - lost, load / bound)

    def _continuous_limit(self, check, parts, limits, speed, margin):
        """The same as `_effort_limit` for root mean squares; speed, margin: results for the efforts."""
        joints = np.flatnonzero(np.isfinite(limits))
        window = check.options.thermal_window
        x, joint, value, end = largest_continuous_speed(
            check.time, parts[..., joints], window, limits[joints], speed
        )
        if joint is None:
            return speed, margin
        name, most = self.robot.v_names[joints[joint]], float(limits[joints[joint]])
        margin = Margin(name, "continuous_effort", float(end), float(value), most, float(value) / most)
        return float(x), margin

    def _rate_limit(self, check, margins):
        """The smallest factor that satisfies limits of effort rates, and the Margin that bounds it."""
        joints = [self.robot.v_names.index(margin.joint) for margin in margins]
        rates = check.effort_rates[..., joints]
        most = np.array([abs(margin.limit) for margin in margins])
        parts = np.concatenate([np.zeros_like(rates[:1]), rates]).reshape(4, -1)
        most = np.broadcast_to(most, rates.shape[1:]).ravel()
        x, entry = largest_speed(parts, -most, most)
        return 1 / x, margins[entry % len(joints)] if entry >= 0 else margins[0]

    def loaded(self, link, com) -> "CheckFunctions":
        """Those of the robot with 1 kg more on a link, at com (3,) in its axes."""
        robot = with_payload(self.robot, link, 1.0, finite("com", com, (3,)))
        changed = copy(self)
        if "inertia" not in self._inverse.spec.parameters:
            self._inverse = changeable_inverse(self.robot, self._inverse.choice.backend)
        changed._inverse = self._inverse.with_inertias(robot)
        return changed


def changeable_inverse(robot, backend):
    """Inverse dynamics whose inertias can be replaced, as a Function."""
    require_known("backend", backend, BACKENDS)
    return cached_function(robot, "inverse_dynamics", backend, options=(("runtime_parameters", "inertia"),))


def closed_samples(robot, q, time):
    """Closed positions (s, nq) near those of samples at times (s,). Raises ClosureError."""
    closed = close_loops(robot, q, errors="nan")
    for k in np.flatnonzero(~np.isfinite(closed).all(axis=1)):
        try:
            closed[k] = close_loops(robot, q[k])
        except ClosureError as error:
            raise ClosureError(f"at {time[k]:.4g} s: {error}") from None
    return closed


def largest_mass(check, loaded) -> float:
    """The largest mass, kg, with which all limits of efforts and of their rates hold: both are linear in it.
    loaded: the same TrajectoryCheck with 1 kg."""
    bounds = joint_limits(check.robot, check.options.limits)
    limits = bounds.effort
    without, one = (limits.loads(own.tau, own.qd) for own in (check, loaded))
    most = _largest_share(without, one, limits.lower, limits.upper)
    if check.effort_rates is not None:
        without, one = (own.effort_rates.sum(axis=0) for own in (check, loaded))
        most = min(most, _largest_share(without, one, -bounds.effort_rate, bounds.effort_rate))
    limited = np.flatnonzero(np.isfinite(bounds.continuous_effort))
    if limited.size:
        tau, share = check.tau[:, limited], (loaded.tau - check.tau)[:, limited]
        products, window = (tau * tau, tau * share, share * share), check.options.thermal_window
        c, b, a = (window_means(check.time, product, window)[1] for product in products)
        room = bounds.continuous_effort[limited] ** 2 - c
        counts = a > (ROUNDING * bounds.continuous_effort[limited]) ** 2
        root = np.sqrt(np.maximum(b * b + a * room, 0.0)) - b
        most = min(most, (root[counts] / a[counts]).min(initial=np.inf))
    return float(max(0.0, most))


def _largest_share(without, one, lower, upper):
    """The largest m with lower <= without + m (one - without) <= upper, (samples, n) and (n,)."""
    share = one - without
    limit = np.where(share > 0, upper, lower)
    counts = np.abs(share) > ROUNDING * np.abs(limit)
    return ((limit - without)[counts] / share[counts]).min(initial=np.inf)
