"""Robots for benchmarks: those of example-robot-data, and random chains."""

from pathlib import Path

import numpy as np

from dynamics_node.model import load_model
from dynamics_node.model.description import Description, JointDescription, Link
from dynamics_node.model.from_description import model_from_description
from dynamics_node.model.sample import sample_positions
from dynamics_node.spatial import rpy_rotation

PANDA = [f"panda_joint{i}" for i in range(1, 8)]
FILES = {
    "panda": "panda_description/urdf/panda.urdf",
    "solo12": "solo_description/robots/solo12.urdf",
    "talos": "talos_data/robots/talos_reduced.urdf",
}


def robot_file(name) -> Path:
    """URDF of example-robot-data."""
    import pinocchio

    for folder in Path(pinocchio.__file__).parents:
        path = folder / "share/example-robot-data/robots" / FILES[name]
        if path.is_file():
            return path
    raise SystemExit("benchmarks need example-robot-data: pip install example-robot-data")


def robot(name):
    """Model: the Panda with 7 joints on its table, the others on a floating base."""
    if name == "panda":
        return load_model(robot_file(name), joints=PANDA)
    return load_model(robot_file(name), floating_base=True)


def random_chain(n, seed=0):
    """n revolute joints of generic geometry and inertia, fixed base."""
    random = np.random.default_rng(seed)
    links, joints = [Link("l0")], []
    for k in range(1, n + 1):
        A = random.normal(size=(3, 3))
        inertia = A @ A.T + np.eye(3)
        links.append(Link(f"l{k}", random.uniform(0.5, 2), random.normal(size=3), inertia))
        joints.append(
            JointDescription(
                f"j{k}",
                "revolute",
                f"l{k - 1}",
                f"l{k}",
                rpy_rotation(random.uniform(-3, 3, 3)),
                random.normal(size=3),
                random.normal(size=3),
            )
        )
    return model_from_description(Description("chain", tuple(links), tuple(joints)))


def random_states(model, count, seed=0):
    """q (count, nq), qd, and a third array of rates (count, nv)."""
    random = np.random.default_rng(seed)
    return sample_positions(model, count, random, 2.0), *random.uniform(-1, 1, (2, count, model.nv))
