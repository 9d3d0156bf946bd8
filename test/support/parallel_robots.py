"""Chains and narrow trees of generic geometry for the parallel solvers, and their random states."""

from dataclasses import replace

import numpy as np

from dynamics_node.robot.description import Description, JointDescription, Link
from dynamics_node.robot.from_description import tree_from_description
from dynamics_node.robot.selection import Selection
from dynamics_node.robot.state_arrays import sample_positions
from dynamics_node.symbolic import rpy_rotation

FIVE_LIMBS = (3, 3, 3, 3, 4)


def tree(limbs, sliding=0.0, floating=False, armature=0.0, seed=0):
    """A base link with limbs; limbs: the number of joints of each; sliding: the share of prismatic joints."""
    random = np.random.default_rng(seed)
    links, joints = [_link("base", random) if floating else Link("base")], []
    for limb, length in enumerate(limbs):
        parent = "base"
        for k in range(length):
            name = f"l{limb}_{k}"
            links.append(_link(name, random))
            joints.append(_joint(parent, name, sliding, armature, random))
            parent = name
    return tree_from_description(Description("tree", tuple(links), tuple(joints)), Selection(floating))


def chain(n, sliding=0.0, floating=False, armature=0.0, seed=0):
    return tree((n,), sliding, floating, armature, seed)


def humanoid_with_hands():
    """72 bodies: a floating base, torso, head, legs, arms, five fingers on each."""
    random, (x, y, z) = np.random.default_rng(0), np.eye(3)
    links, joints = [_link("base", random)], []

    def limb(parent, name, axes):
        for k, axis in enumerate(axes):
            child = f"{name}_{k}"
            links.append(_link(child, random))
            joint = _joint(parent, child, 0.0, 0.0, random)
            joints.append(replace(joint, axis=axis, rotation=np.eye(3)))
            parent = child
        return parent

    chest = limb("base", "torso", (z, x, y))
    limb(chest, "head", (z, y))
    for side in ("left", "right"):
        limb("base", f"{side}_leg", (z, x, y, y, y, x))
        wrist = limb(chest, f"{side}_arm", (y, x, z, y, z, y, x))
        for finger in range(5):
            limb(wrist, f"{side}_finger{finger}", (x, y, y, y))
    description = Description("humanoid", tuple(links), tuple(joints))
    return tree_from_description(description, Selection(floating_base=True))


def states(model, count, seed=0):
    """q, qd, tau or qdd, f_ext."""
    random = np.random.default_rng(seed)
    q = sample_positions(model, count, random, 3.0)
    qd, u = random.uniform(-1, 1, (2, count, model.nv))
    return q, qd, 5 * u, random.uniform(-5, 5, (count, model.nbodies, 6))


def _link(name, random):
    A = 0.1 * random.normal(size=(3, 3))
    return Link(name, random.uniform(0.5, 2), 0.1 * random.normal(size=3), A @ A.T + 0.01 * np.eye(3))


def _joint(parent, child, sliding, armature, random):
    kind = "prismatic" if random.random() < sliding else "revolute"
    turn, place = rpy_rotation(random.uniform(-3, 3, 3)), 0.3 * random.normal(size=3)
    axis, rotor = random.normal(size=3), armature * random.uniform(0.1, 1)
    return JointDescription(f"j_{child}", kind, parent, child, turn, place, axis, armature=rotor)
