"""Programs limb by limb: the inputs of each limb of a robot, and limbs with the same structure."""

from collections import defaultdict
from itertools import groupby

import numpy as np

from dynamics_node.robot import Robot
from dynamics_node.robot.robot import cached_on_robot
from dynamics_node.symbolic import LaneProgram, Program, group_after_group, most_alive

_RATES = ("qd", "qdd", "tau")


FEW, MANY = 1000, 20_000  # operations: fewer gain nothing, more take too long to compile twice
NEARLY = 0.75  # smallest share of common bodies of nearly equal limbs
FEWER = 0.8  # share of live values below which another order is worth its compilation


def reordered(robot: Robot, program: Program | LaneProgram) -> Program | None:
    """The operations limb by limb, if that leaves fewer live values; the faster order depends on the
    processor. None if there is no gain."""
    if not isinstance(program, Program) or not FEW <= len(program.ops) <= MANY:
        return None
    other = limb_after_limb(robot, program)
    return other if most_alive(other) <= FEWER * most_alive(program) else None


def limb_after_limb(robot: Robot, program: Program) -> Program:
    """The Program with its operations grouped by limb; the same Program if there is only one limb."""
    limbs, above = _limbs(robot.tree)
    if len(above) < 2:
        return program
    return group_after_group(program, _groups(robot, limbs), above)


def isomorphic_inputs(robot: Robot, program: Program | LaneProgram) -> list[tuple[int, ...]]:
    """Rows of input numbers that mean the same on limbs with the same structure, one for each of four or two
    limbs."""
    places, start = _entries(robot), 0
    together = _bodies_alike(robot.tree)
    rows: dict[tuple[int, ...], None] = {}
    for name, shape in program.inputs.items():
        numbers = np.arange(start, start + int(np.prod(shape, dtype=int))).reshape(shape)
        start += numbers.size
        for bodies in together if name in places else ():
            entries = [numbers[places[name][body]].ravel().tolist() for body in bodies]
            rows |= dict.fromkeys(zip(*entries, strict=False))
    return [row for row in rows if len(set(row)) == len(row)]  # explicit joints share inputs


def _entries(robot):
    """{input: indices along its first axis, for every body}. Explicit joints have none for positions and
    rates: their masters may be on other limbs."""
    tree = robot.tree
    joints = [body.joint for body in tree.bodies]
    rates = [[*joint.moved_by] if joint.masters is None else [] for joint in joints]
    place = {v: k for k, v in enumerate(robot.independent.tolist())}
    independent = [[place[v] for v in numbers if v in place] for numbers in rates]
    bodies = [[k] for k in range(tree.nbodies)]
    q = [list(range(joint.q.start, joint.q.stop)) if joint.masters is None else [] for joint in joints]
    places = {"q": q, "armature": rates}
    return places | {"f_ext": bodies, "inertia": bodies} | dict.fromkeys(_RATES, independent)


@cached_on_robot
def _bodies_alike(tree):
    """Tuples of bodies, by twos and fours, at the same place of limbs on the same body."""
    limbs = _Limbs(tree)
    waiting: list[tuple[int, ...]] = [(-1,)]
    groups: list[tuple[int, ...]] = []
    while waiting:
        bodies = waiting.pop()
        if len(bodies) == 1:
            waiting += limbs.together(bodies[0])
        else:
            groups.append(bodies)
            waiting += [row for row in zip(*map(limbs.on, bodies), strict=False) if limbs.same_joints(row)]
    return groups


class _Limbs:
    """A limb is a body and its subtree. size: number of its bodies; built: equal for limbs with the same
    joints."""

    def __init__(self, tree):
        self._bodies, self._children = tree.bodies, defaultdict(list)
        self.size, self.built = [1] * tree.nbodies, [0] * tree.nbodies
        kinds: dict[tuple, int] = {}
        for body, parent in reversed(list(enumerate(tree.parents))):
            limbs = self.on(body)
            self.size[body] += sum(self.size[limb] for limb in limbs)
            key = (tree.bodies[body].joint.type, *(self.built[limb] for limb in limbs))
            self.built[body] = kinds.setdefault(key, len(kinds))
            self._children[parent].append(body)

    def on(self, body):
        """The limbs on a body, the largest first."""
        return sorted(self._children[body], key=lambda limb: (-self.size[limb], self.built[limb], limb))

    def same_joints(self, limbs):
        return len({self._bodies[limb].joint.type for limb in limbs}) == 1

    def together(self, body):
        """The limbs on a body, by fours and twos of the same structure, then of nearly the same; the rest
        alone."""
        left: list[int] = []
        for _, group in groupby(self.on(body), key=self.built.__getitem__):
            limbs = tuple(group)
            while len(limbs) > 1:
                size = 4 if len(limbs) > 3 else 2
                yield limbs[:size]
                limbs = limbs[size:]
            left += limbs
        while left:
            size = 2 if self._nearly(left[:2]) else 1
            yield tuple(left[:size])
            left = left[size:]

    def _nearly(self, limbs):
        return (
            len(limbs) == 2
            and self.same_joints(limbs)
            and self.size[limbs[1]] >= NEARLY * self.size[limbs[0]]
        )


@cached_on_robot
def _limbs(tree):
    """The number of the limb of every body, and the parent limb of every limb. A limb ends where bodies
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
    """{input: the limb of every entry}, for inputs of joints and bodies."""
    tree = robot.tree
    q, rates = np.full(tree.nq, -1), np.full(tree.nv, -1)
    for body, limb in zip(tree.bodies, limbs, strict=True):
        if body.joint.masters is None:
            q[body.joint.q], rates[body.joint.v] = limb, limb
    independent = rates[robot.independent]
    bodies = np.array(limbs)
    owners = dict(zip((body.joint for body in tree.bodies), limbs, strict=True))
    shared = [owners.get(joint, rates[max(joint.masters.v)]) for joint in tree.shared_joints]
    groups = {
        "q": q,
        "armature": np.append(rates, shared).astype(int),
        "f_ext": bodies[:, None],
        "inertia": bodies[:, None],
    }
    return groups | dict.fromkeys(_RATES, independent)
