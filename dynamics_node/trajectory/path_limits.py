"""Limits of velocity, acceleration and effort along a path, as functions of its speed.

Torques and accelerations are a s'' + b s'^2 + c along a path q(s), where the inverse dynamics of three
batches give a, b and c of all points.
"""

import numpy as np

from dynamics_node.algorithms.rates import sampled_rates
from dynamics_node.trajectory.motion_limits import joint_limits, scalar_joints


class PathLimits:
    """Limits at points of a path.

    a, b (k, rows): of efforts, then of accelerations; upper, lower (k, rows): their limits, as magnitudes.
    slowness (k,): inverse of the largest speed by velocity limits. torques: a and b (k, nv) of the torques of
    the independent joints; still, resting (k, nv): torques of gravity, and those with springs and offsets.
    motion: a and b (k, scalar joints) of accelerations. efforts: names of the joints with limits of effort.
    """

    def __init__(self, check, limits, q, qs, qss):
        """q, qs, qss (k, joints): positions of the trajectory's joints and their derivatives by s."""
        robot, self._functions = check.robot, check.functions
        self._q, self._qs, own_qss = check.states(q, qs, qss)
        zero = np.zeros_like(self._qs)
        self.torques = [
            self._functions.inverse(self._q, zero, self._qs, gravity=np.zeros(3)),
            self._functions.inverse(self._q, self._qs, own_qss, gravity=np.zeros(3)),
        ]
        self.still = self._functions.inverse(self._q, zero, zero)
        self.resting = self.still + self._functions.friction(self._q, zero)[1]
        bounds = joint_limits(robot, limits)
        self._efforts = np.isfinite(bounds.effort)
        self.efforts = [name for name, limited in zip(robot.v_names, self._efforts, strict=True) if limited]
        self.motion = rates, accelerations = _joint_motion(robot, self._q, self._qs, own_qss)
        self.slowness = (np.abs(rates) / bounds.velocity).max(axis=1, initial=0.0)
        bounded = np.isfinite(np.minimum(bounds.acceleration, bounds.deceleration))
        rates, accelerations = rates[:, bounded], accelerations[:, bounded]
        self.a = np.concatenate([self.torques[0][:, self._efforts], rates], axis=1)
        self.b = np.concatenate([self.torques[1][:, self._efforts], accelerations], axis=1)
        forward, back = (bounds.acceleration[bounded], bounds.deceleration[bounded])
        effort = np.broadcast_to(bounds.effort[self._efforts], (len(q), self._efforts.sum()))
        self.upper = np.concatenate([effort, np.where(rates >= 0, forward, back)], axis=1)
        self.lower = np.concatenate([effort, np.where(rates >= 0, back, forward)], axis=1)

    @property
    def scale(self) -> float:
        """Factor of s with which limits bound speeds near 1; 0 if no limit bounds them."""
        strongest = (np.abs(self.b) / np.minimum(self.upper, self.lower)).max(initial=0.0)
        return max(self.slowness.max(), np.sqrt(strongest))

    def friction(self, speed, points=slice(None)):
        """Torques (k, nv) of viscous friction, and those at any speed, at speeds (k,) of s."""
        still = self.still[points]
        viscous, dry = self._functions.friction(self._q[points], self._qs[points] * speed[:, None])
        return np.broadcast_to(viscous, still.shape), still + dry

    def friction_rows(self, speed, points=slice(None)):
        """Rows (k, rows) of `friction`."""
        rest = np.zeros((len(speed), self.a.shape[1] - self._efforts.sum()))
        return [np.append(part[:, self._efforts], rest, axis=1) for part in self.friction(speed, points)]


def uses(check, limits):
    """Signed used fractions (samples, rows) of the limits of a check, in the order of PathLimits, and those
    (samples,) of velocities."""
    robot, bounds = check.robot, joint_limits(check.robot, limits)
    rates, accelerations = _joint_motion(robot, check.q, check.qd, check.qdd)
    limited = np.isfinite(np.minimum(bounds.acceleration, bounds.deceleration))
    braking = (rates * accelerations < 0)[:, limited]
    most = np.where(braking, bounds.deceleration[limited], bounds.acceleration[limited])
    efforts = np.isfinite(bounds.effort)
    rows = [check.tau[:, efforts] / bounds.effort[efforts], accelerations[:, limited] / most]
    return np.concatenate(rows, axis=1), (np.abs(rates) / bounds.velocity).max(axis=1, initial=0.0)


def _joint_motion(robot, q, qd, qdd):
    """Rates and accelerations (k, joints) of the scalar joints of all bodies."""
    spread = sampled_rates(robot, q, qd)
    every = spread.qd, spread.accelerations(qdd)
    return [np.concatenate([joint.rate(rates) for joint in scalar_joints(robot)], axis=1) for rates in every]
