"""Robots with two limbs that are mirror images, exactly or nearly."""

import numpy as np

from dynamics_node.robot.description import Description, JointDescription, Link
from dynamics_node.robot.from_description import tree_from_description
from dynamics_node.robot.selection import Selection
from dynamics_node.symbolic import rpy_rotation

SIDES = {"left": np.eye(3), "right": np.diag([1.0, -1.0, 1.0])}


def two_limbs(n, seed=0, square=False, longer=0):
    """A floating trunk and two limbs of n joints on it, each the other's mirror image.

    square: joints at right angles, the generic ones otherwise; longer: number of additional
    joints of the right limb.
    """
    random = np.random.default_rng(seed)
    links, joints = [Link("trunk", 3.0, random.normal(size=3), np.diag([0.3, 0.4, 0.5]))], []
    for k in range(n + longer):
        shape = int(random.integers(1 << 30))
        for side, mirror in SIDES.items() if k < n else [("right", SIDES["right"])]:
            turn = rpy_rotation([np.pi / 2 * (-1) ** k, 0.0, 0.0]) if square else None
            above = f"{side}{k - 1}" if k else "trunk"
            _add(links, joints, np.random.default_rng(shape), f"{side}{k}", above, mirror, turn)
    description = Description("mirrored", tuple(links), tuple(joints))
    return tree_from_description(description, Selection(floating_base=True))


def _add(links, joints, random, name, above, mirror, turn):
    """A mirrored body of random shape, and its joint: random if turn is None."""
    A, com, mass = random.normal(size=(3, 3)), random.normal(size=3), random.uniform(0.5, 2)
    links.append(Link(name, mass, mirror @ com, mirror @ (A @ A.T + np.eye(3)) @ mirror))
    at, axis = np.array([0.1, 0.2, 0.0]), np.array([0.0, 0.0, 1.0])
    if turn is None:
        turn, at, axis = rpy_rotation(random.uniform(-3, 3, 3)), random.normal(size=3), random.normal(size=3)
    rotation = mirror @ turn @ mirror
    joints.append(JointDescription(f"j{name}", "revolute", above, name, rotation, mirror @ at, mirror @ axis))
