"""The shortest stop of all joints together, by a search for its time.

All joints slow down by one profile: with constant decelerations, or smoothly, where velocities are the cubics
from those of the state and its accelerations to rest without acceleration. Stops of many times are samples of
one batch. Feasible times need not be one interval: gravity changes on the way, and long stops reach limits of
positions.
"""

from typing import NamedTuple

import numpy as np
from numpy.polynomial import Polynomial

from dynamics_node.algorithms import close_loops
from dynamics_node.algorithms.rates import sampled_rates
from dynamics_node.trajectory.joint_trajectory import JointTrajectory
from dynamics_node.trajectory.motion_limits import scalar_joints
from dynamics_node.trajectory.slowdown import TOLERANCE

LEAST = 1e-3  # s: of a stop
CANDIDATES, REFINED, ROUNDS = 96, 16, 2  # times of a batch: all of them, then between two neighbors
SAMPLES = 25  # of a stop
CONSTANT = Polynomial([1.0, -1.0]), Polynomial([0.0])  # share of the velocities, and of T times accelerations
SMOOTH = Polynomial([1.0, 0.0, -3.0, 2.0]), Polynomial([0.0, 1.0, -2.0, 1.0])


class MotionState(NamedTuple):
    """Closed q (nq,), rates qd and accelerations qdd (nv,); or of many stops (times, n)."""

    q: np.ndarray
    qd: np.ndarray
    qdd: np.ndarray


class StopTime(NamedTuple):
    """time: of the stop, or of the one that exceeds limits least; feasible: whether it keeps them at the
    samples; joint, quantity: the limit that prevents a shorter stop, None if it is the shortest of all."""

    time: float
    feasible: bool
    limit: tuple[str, str] | None


class Stops:
    """Stops of a MotionState, or of one for each time, by their times. functions: CheckFunctions; bounds:
    MotionLimits; inside: whether samples beyond limits of positions do not count."""

    def __init__(self, functions, state, bounds, smooth, inside=False):
        self._functions, self._state, self._bounds, self._smooth = functions, state, bounds, smooth
        self._inside = inside
        self._robot = robot = functions.robot
        places = {name: k for k, name in enumerate(robot.v_names)}
        joints = [joint for joint in robot.tree.independent_joints if joint.type.is_scalar]
        self._moving = [joint for joint in joints if joint.name in places]
        self._v = [places[joint.name] for joint in self._moving]
        self._q = [joint.q.start for joint in self._moving]
        names = [joint.name for joint in scalar_joints(robot)]
        kinds = ("position", "velocity", "acceleration", "jerk")
        self.limits = [(name, kind) for kind in kinds for name in names]
        self.limits += [(name, kind) for kind in ("effort", "effort_rate") for name in robot.v_names]

    def trajectory(self, time, count=2) -> JointTrajectory:
        """The points of the stop of a time."""
        at, state = np.linspace(0.0, 1.0, count), self._state
        names = tuple(joint.name for joint in self._moving)
        offset = np.array([joint.offset for joint in self._moving])
        if time == 0:
            still = np.zeros((1, len(names)))
            return JointTrajectory(names, np.zeros(1), state.q[None, self._q] + offset, still, still)
        q, qd, qdd, _ = (rows[0] for rows in self._motion(np.array([time]), at))
        accelerations = qdd[:, self._v] if self._smooth else np.full((count, len(names)), np.nan)
        return JointTrajectory(names, at * time, q[:, self._q] + offset, qd[:, self._v], accelerations)

    def search(self, longest) -> StopTime:
        """The shortest stop, in at most `longest` s."""
        times = np.geomspace(LEAST, longest, CANDIDATES)
        for _ in range(ROUNDS + 1):
            used = self.used(times)
            most = used.max(axis=1)
            good = np.flatnonzero(most <= 1)
            if good.size and good[0] == 0:
                return StopTime(float(times[0]), True, None)
            k = int(good[0]) if good.size else int(most.argmin())
            found = StopTime(
                float(times[k]), bool(good.size), self.limits[used[k - bool(good.size)].argmax()]
            )
            low, high = times[max(k - 1, 0)], times[k if good.size else min(k + 1, len(times) - 1)]
            times = np.linspace(low, high, REFINED)
        return found

    def used(self, times):
        """Used fractions (times, limits) of stops, relative to that of the state for positions and
        velocities that it exceeds; infinite if a loop does not close."""
        u = np.linspace(0.0, 1.0, SAMPLES)
        motion = self._motion(times, np.append(u, 1.0))
        motion[2][:, -1] = 0.0  # the robot rests
        q, qd, qdd, jerk = motion
        q, open_ = self._closed(q)
        flat = [rows.reshape(-1, rows.shape[-1]) for rows in (q, qd, qdd)]
        step = times / (SAMPLES - 1)
        used = [rows.reshape(*q.shape[:2], -1) for rows in self._motion_used(*flat)]
        if self._inside:
            beyond = (used[0] > 1 + TOLERANCE).any(axis=2)
            used[0] = np.zeros_like(used[0])
        used[:2] = [rows / np.maximum(rows[:, :1], 1.0) for rows in used[:2]]
        used += [self._jerk_used(flat, jerk, step), *self._effort_used(flat, q.shape[:2], step)]
        if self._inside:
            for rows in used:
                rows[beyond[:, : rows.shape[1]]] = 0.0
        result = np.concatenate([rows.max(axis=1) for rows in used], axis=1)
        result[open_] = np.inf
        return result

    def _motion(self, times, u):
        """q (times, samples, nq), qd, qdd and jerks (times, samples, nv) at shares u of stops."""
        state, T = MotionState(*(rows[..., None, :] for rows in self._state)), times[:, None, None]
        fall, lead = SMOOTH if self._smooth else CONSTANT
        rates = []
        for order in (-1, 0, 1, 2):
            a, b = ((p.integ() if order < 0 else p.deriv(order))(u)[:, None] for p in (fall, lead))
            rates.append((state.qd * a + T * state.qdd * b) / T**order)
        q = np.broadcast_to(state.q, (*rates[0].shape[:2], state.q.shape[-1])).copy()
        q[..., self._q] += rates[0][..., self._v]
        return [q, *rates[1:]]

    def _closed(self, q):
        """Closed positions, and the indices of the stops with a loop that does not close."""
        if not self._robot.constrained:
            return q, []
        others = [k for k in range(q.shape[2]) if k not in self._q]
        for k in range(1, q.shape[1]):
            q[:, k, others] = q[:, k - 1, others]
            q[:, k] = close_loops(self._robot, q[:, k], errors="nan")
        open_ = np.flatnonzero(~np.isfinite(q).all(axis=(1, 2)))
        q[open_] = np.broadcast_to(self._state.q[..., None, :], q.shape)[open_]
        return q, open_

    def _motion_used(self, q, qd, qdd):
        """Used fractions (samples, joints) of the limits of positions, velocities and accelerations."""
        bounds, joints = self._bounds, scalar_joints(self._robot)
        spread = sampled_rates(self._robot, q, qd)
        rates, accelerations = (
            np.concatenate([joint.rate(values) for joint in joints], axis=1)
            for values in (spread.qd, spread.accelerations(qdd))
        )
        most = np.where(rates * accelerations < 0, bounds.deceleration, bounds.acceleration)
        positions = used_positions(self._robot, bounds, q)
        return [positions, np.abs(rates) / bounds.velocity, np.abs(accelerations) / most]

    def _jerk_used(self, flat, jerk, step):
        """Those of jerks; with loops from differences."""
        robot, limit = self._robot, self._bounds.jerk
        if not np.isfinite(limit).any():
            return np.zeros((*jerk.shape[:2], len(limit)))
        values = jerk
        if robot.constrained:
            accelerations = sampled_rates(robot, *flat[:2]).accelerations(flat[2])
            values = _differences(accelerations.reshape(*jerk.shape[:2], -1), step)
        joints = scalar_joints(robot)
        return np.abs(np.concatenate([joint.rate(values) for joint in joints], axis=-1)) / limit

    def _effort_used(self, flat, shape, step):
        """Those of efforts, and of their rates without dry friction."""
        tau = self._functions.inverse(*flat)
        viscous, dry = self._functions.friction(*flat[:2])
        yield self._bounds.effort.used(tau + viscous + dry, flat[1]).reshape(*shape, -1)
        rates, limit = np.zeros((*shape, tau.shape[1])), self._bounds.effort_rate
        if np.isfinite(limit).any():
            rates = np.abs(_differences((tau + viscous).reshape(*shape, -1), step)) / limit
        yield rates


def used_positions(robot, bounds, q):
    """Used fractions (k, joints) of the limits of positions at q (k, nq)."""
    positions = np.concatenate([joint.position(q) for joint in scalar_joints(robot)], axis=1)
    half = 0.5 * (bounds.upper - bounds.lower)
    half = np.where(np.isfinite(half) & (half > 0), half, 1.0)
    return 1 + np.maximum(positions - bounds.upper, bounds.lower - positions) / half


def _differences(values, step):
    """Derivatives (times, samples - 2, n) between samples; the last one is the rest after the stop."""
    return np.diff(values[:, :-1], axis=1) / step[:, None, None]
