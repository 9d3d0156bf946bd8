"""What the search gives: a motion, what it tells, and how near it comes to limits."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dynamics_node.algorithms import friction_torque
from dynamics_node.functions import build
from dynamics_node.identification.base_parameters import BaseParameters
from dynamics_node.identification.excitation.message import joint_trajectory
from dynamics_node.identification.excitation.problem import Problem
from dynamics_node.identification.linear import LinearModel

RATE = 20.0  # points a second: controllers join them by polynomials of fifth degree


@dataclass(frozen=True, eq=False)
class Excited:
    """A periodic motion that starts and ends at rest.

    coefficients (nv, size): of the curves of `problem`; before: condition of the best of the random motions
    within limits that were `tried`.
    """

    problem: Problem
    coefficients: np.ndarray
    before: float
    tried: int

    @property
    def robot(self):
        return self.linear.robot

    @property
    def linear(self) -> LinearModel:
        return self.problem.regressor.linear

    @property
    def base(self) -> BaseParameters:
        return self.problem.regressor.base

    @property
    def period(self):
        """s"""
        return self.problem.series.period

    @property
    def notes(self):
        """What is taken for limits that nobody tells, in sentences."""
        return self.problem.bounds.notes

    @property
    def start(self):
        """(nv,) where the motion starts and ends."""
        return self.states(np.zeros(1))[0][0]

    def times(self, rate=RATE):
        """(count,) s, of a whole period with its end, about `rate` a second."""
        return np.linspace(0.0, self.period, 1 + max(1, round(self.period * rate)))

    def states(self, time):
        """q, qd, qdd, each (times, nv), at times (times,), s."""
        return self.problem.curves_at(time).states(self.coefficients)

    def torques(self, time):
        """(times, nv) N m or N, of the description with its friction."""
        q, qd, qdd = self.states(time)
        tree = self.robot
        inverse = build(tree, "inverse_dynamics", backend=self.linear.backend)
        friction = friction_torque(qd @ tree.axle_map.T, tree.damping, tree.friction)
        return inverse(q, qd, qdd) + friction @ tree.axle_map

    def message(self, rate=RATE):
        """A trajectory_msgs/JointTrajectory of one period as dictionaries and lists."""
        time = self.times(rate)
        return joint_trajectory(self.robot.v_names, time, *self.states(time))

    @cached_property
    def used(self):
        """{what: how much of its limit is used at most}, on the fine grid."""
        most = self.problem.used(self.coefficients, self.problem.fine)
        return dict(zip(self.problem.names, most.tolist(), strict=True))

    @cached_property
    def information(self):
        """(r, r) of one sample of every torque, in the mean over the period: see Regressor."""
        return self.problem.regressor.information(*self.problem.fine.states(self.coefficients))

    @property
    def condition(self):
        """Of the base regressor, in the units that were asked for."""
        return float(np.sqrt(np.linalg.cond(self.information)))

    def std(self, count):
        """(base parameters,) expected standard deviations from `count` samples."""
        return self.problem.regressor.sizes * np.sqrt(np.diagonal(np.linalg.inv(self.information)) / count)
