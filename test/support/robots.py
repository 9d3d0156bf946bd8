"""Robots of example-robot-data, and random states of any model."""

from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from dynamics_node.algorithms import load_robot
from dynamics_node.robot.state_arrays import sample_positions


@cache
def data_folder():
    """Where the wheel of example-robot-data keeps its files."""
    pinocchio = pytest.importorskip("pinocchio", reason="the oracle: pip install pin")
    for folder in Path(pinocchio.__file__).parents:
        robots = folder / "share" / "example-robot-data" / "robots"
        if robots.is_dir():
            return robots
    pytest.skip("robots: pip install example-robot-data")


class PublishedRobot(NamedTuple):
    path: str
    floating_base: bool = False
    joints: tuple[str, ...] | None = None

    @property
    def file(self):
        return data_folder() / self.path

    def model(self, **choices):
        """The Robot: frozen, and read once where nothing is chosen."""
        return self.read(**choices) if choices else _model(self)

    def read(self, **choices):
        return load_robot(self.file, floating_base=self.floating_base, joints=self.joints, **choices)


@cache
def _model(robot):
    return robot.read()


PANDA_JOINTS = tuple(f"panda_joint{i}" for i in range(1, 8))
PANDA = "panda_description/urdf/panda.urdf"
ROBOTS = {
    "panda7": PublishedRobot(PANDA, joints=PANDA_JOINTS),
    "panda": PublishedRobot(PANDA),  # prismatic fingers, one mimics the other
    "panda_floating": PublishedRobot(PANDA, floating_base=True),
    "ur5": PublishedRobot("ur_description/urdf/ur5_robot.urdf"),
    "kinova": PublishedRobot("kinova_description/robots/kinova.urdf"),
    "xarm7": PublishedRobot("xarm_description/urdf/xarm7.urdf"),
    "so101": PublishedRobot("so_arm_description/urdf/so101.urdf"),
    "double_pendulum": PublishedRobot("double_pendulum_description/urdf/double_pendulum_continuous.urdf"),
    "allegro_hand": PublishedRobot("allegro_hand_description/urdf/allegro_left_hand.urdf"),
    "baxter": PublishedRobot("baxter_description/urdf/baxter.urdf"),  # mimic
    "pr2": PublishedRobot("pr2_description/urdf/pr2.urdf"),  # mimic, prismatic, continuous
    "tiago_pro": PublishedRobot("tiago_pro_description/robots/tiago_pro.urdf"),  # mimic
    "tiago": PublishedRobot("tiago_description/robots/tiago.urdf"),
    "solo12": PublishedRobot("solo_description/robots/solo12.urdf", floating_base=True),
    "anymal_c": PublishedRobot("anymal_c_simple_description/urdf/anymal.urdf", floating_base=True),
    "go2": PublishedRobot("go2_description/urdf/go2.urdf", floating_base=True),
    "hyq": PublishedRobot("hyq_description/robots/hyq_no_sensors.urdf", floating_base=True),
    "simple_humanoid": PublishedRobot(
        "simple_humanoid_description/urdf/simple_humanoid.urdf", floating_base=True
    ),
    "g1": PublishedRobot("g1_description/urdf/g1_29dof_rev_1_0.urdf", floating_base=True),
    "icub": PublishedRobot("icub_description/robots/icub_reduced.urdf", floating_base=True),
    "talos": PublishedRobot("talos_data/robots/talos_reduced.urdf", floating_base=True),
}


def random_positions(model, count, seed=0):
    """q (count, nq): joints in [-3, 3], floating bases anywhere."""
    return sample_positions(model, count, np.random.default_rng(seed), 3.0)


def random_states(model, count=50, seed=0):
    """q, qd, qdd, f_ext."""
    random = np.random.default_rng(seed + 1)
    qd, qdd = random.uniform(-2, 2, (2, count, model.nv))
    return random_positions(model, count, seed), qd, qdd, random.uniform(-5, 5, (count, model.nbodies, 6))
