"""Robots for benchmarks: from example-robot-data, and random chains."""

import sys
from pathlib import Path

import numpy as np

from dynamics_node.robot import load_robot
from dynamics_node.robot.state_arrays import sample_positions

sys.path.append(str(Path(__file__).resolve().parents[1] / "test" / "support"))

from parallel_robots import chain as random_chain

__all__ = ["mujoco_tree", "random_chain", "random_states", "robot", "robot_file"]

PANDA = [f"panda_joint{i}" for i in range(1, 8)]
FILES = {
    "panda": "panda_description/urdf/panda.urdf",
    "solo12": "solo_description/robots/solo12.urdf",
    "ur5": "ur_description/urdf/ur5_robot.urdf",
    "xarm7": "xarm_description/urdf/xarm7.urdf",
    "kinova": "kinova_description/robots/kinova.urdf",
    "talos": "talos_data/robots/talos_reduced.urdf",
}


def robot_file(name) -> Path:
    """The path of a URDF of example-robot-data."""
    import pinocchio

    for folder in Path(pinocchio.__file__).parents:
        path = folder / "share/example-robot-data/robots" / FILES[name]
        if path.is_file():
            return path
    raise SystemExit("benchmarks need example-robot-data: pip install example-robot-data")


def robot(name):
    """The Panda with 7 joints on a fixed base, or another robot on a floating base."""
    if name == "panda":
        return load_robot(robot_file(name), joints=PANDA)
    return load_robot(robot_file(name), floating_base=True)


def mujoco_tree(model, contacts=(), **choices):
    """The same tree in MuJoCo, with contacts as in mujoco_oracle."""
    from mujoco_oracle import Tree  # an optional dependency

    return Tree(model, contacts, **choices)


def random_states(model, count, seed=0):
    """q (count, nq), qd, and a third array of rates (count, nv)."""
    random = np.random.default_rng(seed)
    return sample_positions(model, count, random, 2.0), *random.uniform(-1, 1, (2, count, model.nv))
