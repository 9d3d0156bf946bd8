"""Limits of velocity, acceleration and effort along a path, as functions of its speed.

With the times s of a checked trajectory as the path coordinate, torques and accelerations are
a s'' + b s'^2 + c + viscous s', where the inverse dynamics of three batches give a, b and c of all samples.
"""

import numpy as np

from dynamics_node.algorithms.rates import sampled_rates
from dynamics_node.functions import InputError
from dynamics_node.trajectory.motion_limits import joint_limits, scalar_joints

MOST_SPEED = 30.0  # of s: at ends, where the path rests


class PathLimits:
    """Limits at the samples of a check.

    s (samples,): path coordinate, scaled so that limits bound speeds near 1, whatever the given times:
    solvers have absolute tolerances. scale: factor of the times. q, qs (samples, joints): the points. a, b,
    c, viscous (samples, rows), limit (rows,): of efforts, then of accelerations. fastest (samples,): the
    largest speed. torques: a and b (samples, nv) of the torques of the independent joints; viscous_torques,
    resting (samples, nv): their other torques without dry friction. motion: a and b (samples, scalar joints)
    of accelerations.
    """

    def __init__(self, check, limits):
        robot, functions = check.robot, check.functions
        rows = np.append(np.diff(check.time) > 0, True)  # the later of two samples at one point
        q, qs, qss = check.q[rows], check.qd[rows], check.qdd[rows]
        bounds, zero = joint_limits(robot, limits), np.zeros_like(qs)
        self.ends = qs[[0, -1]]
        viscous, dry = functions.friction(q, qs)
        self.torques = [
            functions.inverse(q, zero, qs, gravity=np.zeros(3)),
            functions.inverse(q, qs, qss, gravity=np.zeros(3)),
        ]
        still = functions.inverse(q, zero, zero)
        self.viscous_torques, self.resting = (
            np.broadcast_to(viscous, qs.shape),
            still + functions.friction(q, zero)[1],
        )
        own = np.isfinite(bounds.effort)
        rates, accelerations, slowness = self._kinematic(robot, bounds, q, qs, qss)
        self.a = np.concatenate([self.torques[0][:, own], rates], axis=1)
        self.b = np.concatenate([self.torques[1][:, own], accelerations], axis=1)
        self.c = np.concatenate([(still + dry)[:, own], np.zeros_like(rates)], axis=1)
        self.viscous = np.concatenate([self.viscous_torques[:, own], np.zeros_like(rates)], axis=1)
        self.limit = np.concatenate([bounds.effort[own], self._accelerations])
        self._scale(check, rows, slowness)

    def _kinematic(self, robot, bounds, q, qs, qss):
        """Rates and accelerations (s, joints) of the joints with acceleration limits, and the inverse (s,)
        of the largest speed by velocity limits."""
        spread = sampled_rates(robot, q, qs)
        every = spread.qd, spread.accelerations(qss)
        rates, accelerations = (
            np.concatenate([joint.rate(own) for joint in scalar_joints(robot)], axis=1) for own in every
        )
        self.motion = [rates, accelerations]
        slowness = (np.abs(rates) / bounds.velocity).max(axis=1, initial=0.0)
        most_accelerations = np.minimum(bounds.acceleration, bounds.deceleration)
        own = np.isfinite(most_accelerations)
        self._accelerations = most_accelerations[own]
        return rates[:, own], accelerations[:, own], slowness

    def _scale(self, check, rows, slowness):
        """slowness (samples,): inverse of the largest speed by velocity limits."""
        scale = max(slowness.max(), np.sqrt((np.abs(self.b) / self.limit).max(initial=0.0)))
        if not scale > 0:
            raise InputError("no limit of velocity, acceleration or effort bounds the motion: add one")
        s = check.time[rows]
        self.q, qs = check.trajectory.at(s)
        self.scale, self.s, self.qs = scale, scale * s, qs / scale
        self.a, self.b, self.viscous = self.a / scale, self.b / scale**2, self.viscous / scale
        self.motion = [self.motion[0] / scale, self.motion[1] / scale**2]
        self.torques = [self.torques[0] / scale, self.torques[1] / scale**2]
        self.viscous_torques = self.viscous_torques / scale
        self.fastest = 1 / np.maximum(slowness / scale, 1 / MOST_SPEED)
