"""The result of the search: a motion, its information and use of limits; as a ROS message.

The message is a trajectory_msgs/JointTrajectory in the YAML that `ros2 topic pub` accepts.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import yaml

from dynamics_node.algorithms import friction_torque
from dynamics_node.functions import build
from dynamics_node.identification.base_parameters import BaseParameters
from dynamics_node.identification.excitation.objective import Problem
from dynamics_node.identification.regressor_model import RegressorModel

RATE = 20.0  # points per second: controllers interpolate them by fifth-degree polynomials


@dataclass(frozen=True, eq=False)
class ExcitationTrajectory:
    """A periodic motion that starts and ends at rest.

    coefficients (nv, size): of the curves of `problem`; before: condition of the best of the `tried` random
    motions within limits.
    """

    problem: Problem
    coefficients: np.ndarray
    before: float
    tried: int

    @property
    def robot(self):
        return self.linear.robot

    @property
    def linear(self) -> RegressorModel:
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
        """Assumed limits, as sentences."""
        return self.problem.bounds.notes

    @property
    def start(self):
        """Position (nv,) at start and end."""
        return self.states(np.zeros(1))[0][0]

    def times(self, rate=RATE):
        """Times (count,) in s of a whole period including its end, about `rate` per second."""
        return np.linspace(0.0, self.period, 1 + max(1, round(self.period * rate)))

    def states(self, time):
        """q, qd, qdd, each (times, nv), at times (times,), s."""
        return self.problem.curves_at(time).states(self.coefficients)

    def torques(self, time):
        """Torques (times, nv), N m or N, of the description with its friction."""
        q, qd, qdd = self.states(time)
        tree = self.robot
        inverse = build(tree, "inverse_dynamics", backend=self.linear.backend)
        return inverse(q, qd, qdd) + friction_torque(tree, q, qd)

    def message(self, rate=RATE):
        """One period as a trajectory_msgs/JointTrajectory of dictionaries and lists."""
        time = self.times(rate)
        return joint_trajectory(self.robot.v_names, time, *self.states(time))

    @cached_property
    def used(self):
        """{name: largest used fraction of the limit} on the fine grid."""
        most = self.problem.used(self.coefficients, self.problem.fine)
        return dict(zip(self.problem.names, most.tolist(), strict=True))

    @cached_property
    def information(self):
        """Information (r, r) of one sample of every torque, averaged over the period: see Regressor."""
        return self.problem.regressor.information(*self.problem.fine.states(self.coefficients))

    @property
    def condition(self):
        """Condition of the base regressor, in the requested units."""
        return float(np.sqrt(np.linalg.cond(self.information)))

    def std(self, count):
        """Expected standard deviations (base parameters,) for `count` samples."""
        return self.problem.regressor.sizes * np.sqrt(np.diagonal(np.linalg.inv(self.information)) / count)


DIGITS = 6  # after the decimal point: micrometers, below encoder resolution


def joint_trajectory(names, time, q, qd, qdd):
    """The message as dictionaries and lists. names: of the joints; time (count,) s; q, qd, qdd (count,
    joints)."""
    points = []
    for t, *states in zip(time.tolist(), q, qd, qdd, strict=True):
        sec, nanosec = divmod(round(t * 1e9), 10**9)
        kinds = zip(("positions", "velocities", "accelerations"), states, strict=True)
        own = {kind: [_plain(value) for value in values.tolist()] for kind, values in kinds}
        points.append(own | {"time_from_start": {"sec": sec, "nanosec": nanosec}})
    return {"joint_names": list(names), "points": points}


def _plain(value):
    return round(value, DIGITS) + 0.0  # no negative zero


def message_text(message) -> str:
    """YAML with one point per line. Names are quoted if necessary."""
    return yaml.safe_dump(message, sort_keys=False, default_flow_style=None, width=10**6)
