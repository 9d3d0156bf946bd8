"""The robots of the tests by name, each read once, and their states."""

from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from balls import ankle, ball_robot, rssr, wrist
from coupled_motors import coupled_motors
from mechanisms import spatial_loop

import dynamics_node as dn
from dynamics_demo.robots import (
    belt_chain,
    belt_leg,
    differential,
    five_bar,
    four_bar,
    geared_chain,
    humanoid,
    quadruped,
)
from dynamics_node.algorithms.first_positions import closed_samples
from dynamics_node.robot import load_robot
from dynamics_node.robot.state_arrays import moved, sample_positions


@cache
def data_folder():
    """The folder of robots in the wheel of example-robot-data."""
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
        """The Robot (frozen), read once for the default choices."""
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

DISTINCT = [  # of ROBOTS: the others have no other kinds of joints
    name
    for name in ROBOTS
    if name not in ("panda7", "kinova", "xarm7", "tiago_pro", "tiago", "anymal_c", "go2", "hyq", "g1", "icub")
]


def random_positions(model, count, seed=0):
    """q (count, nq): joints in [-3, 3], any pose of a floating base."""
    return sample_positions(model, count, np.random.default_rng(seed), 3.0)


def random_states(model, count=50, seed=0):
    """q, qd, qdd, f_ext."""
    random = np.random.default_rng(seed + 1)
    qd, qdd = random.uniform(-2, 2, (2, count, model.nv))
    return random_positions(model, count, seed), qd, qdd, random.uniform(-5, 5, (count, model.nbodies, 6))


# --- by name: published trees, trees with ball joints, gears and belts, closed loops --------------------------

PLANAR = {"four_bar": four_bar(), "five_bar": five_bar(), "tilted five_bar": five_bar((0.4, 0.7, -0.3))}
GEARED = {"geared_chain": geared_chain(4), "belt_chain": belt_chain(2), "belt_leg": belt_leg()}
GEARED["coupled_motors"] = coupled_motors()
SPATIAL = {
    kind: spatial_loop(kind) for kind in ("revolute", "prismatic", "universal", "ball", "planar", "rod")
}
LOOPS = {**PLANAR, **GEARED, "differential": differential(), **SPATIAL}
BALL_LOOPS = {"ankle": ankle(), "rssr": rssr(), "wrist": wrist()}  # with ball joints in the tree
TEXTS = {**LOOPS, **BALL_LOOPS}
BALLS = tuple(
    f"balls{seed}" for seed in range(6)
)  # trees; on a fixed or a floating base, with rotors at some joints
SHARED = Path(__file__).parents[3] / "shared" / "robots"
LEGGED = {  # text or file, coordinates of all joints, independent ones
    "quadruped": (quadruped(), 30, 18),
    "humanoid": (humanoid(), 42, 24),
    "mini_cheetah": (SHARED / "mini_cheetah.urdf", 30, 18),
    "mit_humanoid": (SHARED / "mit_humanoid.urdf", 42, 24),
    "jvrc1_humanoid": (SHARED / "jvrc1_humanoid.urdf", 63, 38),
    "tello_humanoid": (SHARED / "tello_humanoid.urdf", 42, 42),
}


def text_of(name):
    """The description of a robot that is not in ROBOTS."""
    if name in BALLS:
        return ball_robot(int(name[-1]))
    text = LEGGED[name][0] if name in LEGGED else TEXTS[name]
    if isinstance(text, Path):
        if not text.is_file():
            pytest.skip(f"{text.name} is missing in {SHARED}")
        return text.read_text()
    return text


@cache
def robot_of(name):
    """The Robot, read once."""
    if name in ROBOTS:
        return ROBOTS[name].model()
    text = text_of(name)
    if name in BALLS:
        seed = int(name[-1])
        rotors = {"j1": 0.04} if seed % 3 == 0 else {}
        return dn.parse_robot(text, floating_base=seed % 2 == 1, armature=rotors)
    return dn.parse_robot(text, floating_base=name in LEGGED and 'type="floating"' not in text)


def closed_states(robot, count=4, seed=3, reach=0.25):
    """q, qd, qdd: closed positions near the assembled one, any pose of a floating base, and rates."""
    random = np.random.default_rng(seed)
    q = np.tile(_assembled(robot, random), (count, 1))
    q = moved(robot.tree, q, robot.independent.tolist(), random.uniform(-reach, reach, (count, robot.nv)))
    if robot.floating_base:
        q[:, :7] = sample_positions(robot, count, random)[:, :7]
    return dn.close_loops(robot, q), *random.uniform(-1, 1, (2, count, robot.nv))


def _assembled(robot, random):
    if robot.quaternions and robot.constrained:
        return closed_samples(robot, 1, random)[0]
    if robot.quaternions or robot.name in SPATIAL:
        return robot.neutral()
    return dn.close_loops(robot, np.full(robot.nq, 0.1))


def states_of(name, count, seed=0):
    """q, qd, qdd, f_ext of any robot: random positions of trees, positions near the assembled one of others."""
    robot = robot_of(name)
    if name in ROBOTS or name in BALLS:
        return random_states(robot, count, seed)
    f_ext = np.random.default_rng(seed + 5).uniform(-5, 5, (count, robot.nbodies, 6))
    reach = 1.0 if name in LEGGED else 0.1 if name in SPATIAL else 0.15 if name in BALL_LOOPS else 0.25
    return *closed_states(robot, count, seed, reach), f_ext
