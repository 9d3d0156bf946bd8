"""Serial chains of generic geometry and inertia."""

import numpy as np

from dynamics_node.robot.description import Description, JointDescription, Link
from dynamics_node.robot.from_description import tree_from_description
from dynamics_node.symbolic import product, rpy_rotation


def chain(n, seed=0):
    """n revolute joints on a fixed base; no parameter is zero by chance."""
    random = np.random.default_rng(seed)
    links, joints = [Link("l0")], []
    for k in range(1, n + 1):
        A = random.normal(size=(3, 3))
        links.append(
            Link(f"l{k}", random.uniform(0.5, 2), random.normal(size=3), product(A, A.T) + np.eye(3))
        )
        turn, place = rpy_rotation(random.uniform(-3, 3, 3)), random.normal(size=3)
        joints.append(
            JointDescription(f"j{k}", "revolute", f"l{k - 1}", f"l{k}", turn, place, random.normal(size=3))
        )
    return tree_from_description(Description("chain", tuple(links), tuple(joints)))
