"""Limits of velocity, acceleration and effort along a path, as functions of its speed.

Torques and accelerations are a s'' + b s'^2 + c along a path q(s), where the inverse dynamics of three
batches give a, b and c of all points.
"""

import numpy as np

from dynamics_node.algorithms.rates import sampled_rates
from dynamics_node.trajectory.motion_limits import joint_limits, scalar_joints


class PathLimits:
    """Limits at points of a path.

    a, b (k, rows): of the rows of EffortLimits, then of accelerations; upper, lower (k, rows): their limits,
    as magnitudes. efforts: names of the joints of the former. slowness (k,): inverse of the largest speed by
    velocity limits. torques: a and b (k, nv) of the torques of the independent joints; still, resting (k,
    nv): torques of gravity, and those with springs and offsets. motion: a and b (k, scalar joints) of
    accelerations.
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
        self._efforts = efforts = bounds.effort
        self.efforts = [robot.v_names[v] for v in efforts.joint]
        self.motion = rates, accelerations = _joint_motion(robot, self._q, self._qs, own_qss)
        self.slowness = (np.abs(rates) / bounds.velocity).max(axis=1, initial=0.0)
        bounded = np.isfinite(np.minimum(bounds.acceleration, bounds.deceleration))
        rates, accelerations = rates[:, bounded], accelerations[:, bounded]
        self.a = np.concatenate([self.torques[0][:, efforts.joint], rates], axis=1)
        self.b = np.concatenate([self.torques[1][:, efforts.joint], accelerations], axis=1)
        forward, back = (bounds.acceleration[bounded], bounds.deceleration[bounded])
        highest, lowest = (np.tile(side, (len(q), 1)) for side in (efforts.upper, -efforts.lower))
        self.upper = np.concatenate([highest, np.where(rates >= 0, forward, back)], axis=1)
        self.lower = np.concatenate([lowest, np.where(rates >= 0, back, forward)], axis=1)

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
        """Rows (k, rows) of `friction`. Efforts that limits lose with velocity are like viscous friction."""
        joint = self._efforts.joint
        none = np.zeros((len(speed), self.a.shape[1] - len(joint)))
        viscous, still = (part[:, joint] for part in self.friction(speed, points))
        viscous = viscous + self._efforts.slope * self._qs[points][:, joint] * speed[:, None]
        return [np.append(part, none, axis=1) for part in (viscous, still)]


def uses(check, limits):
    """Signed used fractions (samples, rows) of the limits of a check, in the order of PathLimits, and those
    (samples,) of velocities."""
    robot, bounds = check.robot, joint_limits(check.robot, limits)
    rates, accelerations = _joint_motion(robot, check.q, check.qd, check.qdd)
    limited = np.isfinite(np.minimum(bounds.acceleration, bounds.deceleration))
    braking = (rates * accelerations < 0)[:, limited]
    most = np.where(braking, bounds.deceleration[limited], bounds.acceleration[limited])
    rows = [bounds.effort.fractions(check.tau, check.qd), accelerations[:, limited] / most]
    return np.concatenate(rows, axis=1), (np.abs(rates) / bounds.velocity).max(axis=1, initial=0.0)


def _joint_motion(robot, q, qd, qdd):
    """Rates and accelerations (k, joints) of the scalar joints of all bodies."""
    spread = sampled_rates(robot, q, qd)
    every = spread.qd, spread.accelerations(qdd)
    return [np.concatenate([joint.rate(rates) for joint in scalar_joints(robot)], axis=1) for rates in every]
