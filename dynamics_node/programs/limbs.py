"""Programs limb after limb: which inputs belong to which limb of a robot."""

import numpy as np

from dynamics_node.loops.mechanism import Mechanism, tree_of
from dynamics_node.model import Model
from dynamics_node.program import Program, Rolled, Staged, group_after_group, most_alive

_RATES = ("qd", "qdd", "tau")


FEW, MANY = 1000, 20_000  # operations: of fewer nothing is to be gained, more take long to compile twice
FEWER = 0.8  # of the values that are alive at a time: what makes another order worth its compilation


def reordered(robot: Model | Mechanism, program: Program | Rolled | Staged) -> Program | None:
    """The operations limb after limb, where fewer values are alive at a time then: which order is faster
    depends on the processor. None where nothing is to be gained."""
    if not isinstance(program, Program) or not FEW <= len(program.ops) <= MANY:
        return None
    other = limb_after_limb(robot, program)
    return other if most_alive(other) <= FEWER * most_alive(program) else None


def limb_after_limb(robot: Model | Mechanism, program: Program) -> Program:
    """A Program of a robot with the operations of one limb after those of another; the same Program where
    there is one limb only."""
    limbs, above = _limbs(tree_of(robot))
    if len(above) < 2:
        return program
    return group_after_group(program, _groups(robot, limbs), above)


def _limbs(tree):
    """The number of the limb of every body, and of every limb the one it hangs on: a limb ends where bodies
    branch off."""
    children = np.bincount([p for p in tree.parents if p >= 0], minlength=tree.nbodies)
    limbs: list[int] = []
    above: list[int] = []
    for parent in tree.parents:
        if parent >= 0 and children[parent] == 1:
            limbs.append(limbs[parent])
        else:
            limbs.append(len(above))
            above.append(limbs[parent] if parent >= 0 else -1)
    return limbs, above


def _groups(robot, limbs):
    """{input: the limb of every entry}, of what belongs to a joint or a body."""
    tree = tree_of(robot)
    q, rates = np.full(tree.nq, -1), np.full(tree.nv, -1)
    for body, limb in reversed(list(zip(tree.bodies, limbs, strict=True))):
        q[body.joint.q], rates[body.joint.v] = limb, limb
    own = rates[robot.independent] if isinstance(robot, Mechanism) else rates
    bodies = np.array(limbs)
    groups = {"q": q, "armature": rates, "f_ext": bodies[:, None], "inertia": bodies[:, None]}
    return groups | dict.fromkeys(_RATES, own)
