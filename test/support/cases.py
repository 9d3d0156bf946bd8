"""A robot, its Pinocchio oracle, and one state."""

from functools import cache

import numpy as np
from loop_oracle import LoopOracle
from oracle import BallOracle, Oracle
from robots import BALLS, ROBOTS, robot_of, text_of


@cache
def oracle_of(name, mimic=True) -> Oracle:
    """The oracle of a robot of robots.py; mimic: see Oracle."""
    robot = robot_of(name)
    if name in ROBOTS:
        return Oracle(ROBOTS[name], robot, mimic)
    return BallOracle(robot) if name in BALLS else LoopOracle(text_of(name), robot)


class Case:
    """model, oracle, names and one random state within the effort limits."""

    def __init__(self, name):
        self.robot = ROBOTS[name]
        self.model = robot_of(name)
        self.oracle = Oracle(self.robot, self.model)
        self.names = self.model.joint_names
        random = np.random.default_rng(1)
        count = len(self.names)
        self.q = random.uniform(-1, 1, count) + (np.arange(count) == 3) * -1.2
        self.qd = random.uniform(-0.5, 0.5, count)
        self.qdd = random.uniform(-0.5, 0.5, count)

    def torque(self, q=None, qd=None, qdd=None):
        """Torques by Pinocchio; the default acceleration is zero."""
        q, qd = self.q if q is None else q, self.qd if qd is None else qd
        return self.oracle.inverse(q, qd, 0 * self.q if qdd is None else qdd)


@cache
def case_of(name) -> Case:
    return Case(name)
