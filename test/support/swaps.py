"""Swaps of the solver of a Core, with payloads that change in between; Pinocchio checks every torque."""

from time import monotonic_ns

import numpy as np
import pytest
from oracle import Oracle
from robots import ROBOTS
from tolerances import error

pinocchio = pytest.importorskip(
    "pinocchio", reason="Pinocchio: pip install pin, or ros-$ROS_DISTRO-pinocchio"
)

from dynamics_node.node.building.build_job import Job, ServedRobot, do
from dynamics_node.node.core.consistency import read_settings
from dynamics_node.node.core.dynamics_core import Core
from dynamics_node.node.core.settings import PARAMETERS

ALGORITHMS = (
    ("best", "best", "c"),
    ("best", "best", "numpy"),
    ("factor_graph", "crba", "c"),
    ("factor_graph", "rnea", "numpy"),
)  # solver, ordering, backend
LINKS = ("panda_hand", "panda_link7", "panda_link5")
MASSES = (1e-9, 0.1, 1.5, 20.0)  # kg


class Swaps:
    """A Core of the Panda, its possible solvers, and Pinocchio's model with the same payloads."""

    def __init__(self, seed):
        self.random = np.random.default_rng(seed)
        robot = ROBOTS["panda7"]
        self.oracle = Oracle(robot, robot.model())
        self.unloaded = [inertia.copy() for inertia in self.oracle.pin.inertias]
        self.settings = read_settings(
            {p.name: p.default for p in PARAMETERS} | {"joints": list(robot.joints), "effort_limits": "none"}
        )
        self.robots = [_built(robot, *algorithm) for algorithm in ALGORITHMS]
        self.core = Core(self.robots[0], self.settings)
        self.payloads = {}

    def run(self, count):
        """Swap the solver `count` times and return the largest error of a torque (see tolerances.py)."""
        return max(max(self._step()) for _ in range(count))

    def _step(self):
        """Errors of the torques after a swap and after a change of payload."""
        self.core.replace(self.robots[self.random.integers(len(self.robots))], self.settings)
        yield self._error()
        self._load()
        yield self._error()

    def _load(self):
        """Add, replace or remove the payload of a random link."""
        link, mass = self.random.choice(LINKS), self.random.choice([0.0, *MASSES])
        com, size = self.random.normal(0, 0.1, 3), self.random.uniform(0.01, 0.2, 3)
        moments = mass / 3 * np.diag(size @ size - size**2)  # of a box
        self.core.set_payload(link, mass, com, moments)
        self.payloads[link] = mass, com, moments
        inertias = self.oracle.pin.inertias
        for joint, inertia in enumerate(self.unloaded):
            inertias[joint] = inertia
        for name, payload in self.payloads.items():
            frame = self.oracle.pin.frames[self.oracle.pin.getFrameId(name)]
            inertias[frame.parentJoint] += frame.placement.act(pinocchio.Inertia(*payload))
        self.oracle.data = self.oracle.pin.createData()

    def _error(self):
        """The error of the torque of a random state."""
        names = self.core.joints.names
        q, qd = self.random.uniform(-1, 1, (2, len(names)))
        now = monotonic_ns()
        self.core.joints.update(names, q, qd, (), now, now)
        result = self.core.solve(monotonic_ns, monotonic_ns())
        return error(result.tau, self.oracle.inverse(q, qd, 0 * q))


def _built(robot, solver, ordering, backend) -> ServedRobot:
    choices = {"joints": robot.joints}
    built = do(
        Job(robot.file.read_text(), choices, "inverse", (), solver, ordering, backend, services="numpy")
    )
    assert isinstance(built, ServedRobot), built
    return built
