"""A rig per test; every node must end with exit code 0 and without a traceback."""

import gc

import numpy as np
import pytest
from robots import ROBOTS

pytest.importorskip("rclpy", reason="ROS 2: source an installation, or use ./dev")

from rig import Rig


@pytest.fixture(scope="session", autouse=True)
def short_pauses():
    """What a thousand tests before have left is not looked through while states are sent and gaps are measured."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture
def rig():
    """rig(robot name or None, parameters...) -> Rig."""
    rigs = []

    def make(name="panda7", parameters=None, **options):
        rigs.append(Rig(ROBOTS[name] if name else None, parameters, **options))
        return rigs[-1]

    yield make
    for made in rigs:
        made.close()


@pytest.fixture(scope="session")
def panda():
    """The Panda's model, oracle and a state."""
    from oracle import Oracle

    return Case("panda7", Oracle)


class Case:
    """model, oracle, names and one random state within the effort limits."""

    def __init__(self, name, oracle):
        self.robot = ROBOTS[name]
        self.model = self.robot.model()
        self.oracle = oracle(self.robot, self.model)
        self.names = self.model.joint_names
        random = np.random.default_rng(1)
        count = len(self.names)
        self.q = random.uniform(-1, 1, count) + (np.arange(count) == 3) * -1.2
        self.qd = random.uniform(-0.5, 0.5, count)
        self.qdd = random.uniform(-0.5, 0.5, count)

    def torque(self, q=None, qd=None, qdd=None):
        """By Pinocchio; accelerations are zero unless given."""
        q, qd = self.q if q is None else q, self.qd if qd is None else qd
        return self.oracle.inverse(q, qd, 0 * self.q if qdd is None else qdd)


@pytest.fixture(scope="session")
def case():
    from functools import cache

    from oracle import Oracle

    return cache(lambda name: Case(name, Oracle))
