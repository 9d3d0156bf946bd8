"""The recursions rolled into loops, with one piece of code for all bodies that move alike: for robots whose
straight-line Programs would be too long.

The step of a sweep is traced once for every kind of body. Numbers equal for all bodies of a kind become
literals, the others come from a table: a chain in frames on its common normals keeps its zeros.
"""

from itertools import accumulate
from typing import TypeGuard

import numpy as np

from dynamics_node.algorithms.aba import Given, accelerate, driven_joint, forward_clusters, free_joint
from dynamics_node.algorithms.pivots import (
    LARGEST_LOSS,
    joint_scale,
    mass_moments,
    moved_moment,
    total_loss,
    weak_coordinates,
)
from dynamics_node.algorithms.reduced_frames import economical_robot, parameter_shapes
from dynamics_node.algorithms.rnea import Motion, body_wrench, next_motion, root_motion
from dynamics_node.algorithms.transforms import FactoredTransforms, fixed_shift, fixed_turns
from dynamics_node.robot import Problem, Robot
from dynamics_node.robot.joints import KINDS
from dynamics_node.robot.reframe import regrouped_away
from dynamics_node.symbolic import (
    Expression,
    LoopProgram,
    Program,
    Shift,
    Sweep,
    Turn,
    definite_pivots,
    inertia_of_pseudo,
    plane_turn,
    pseudo_inertia,
    symmetric,
    trace,
    transform_origin,
    transform_rotation,
)

LONG = 60  # bodies; longer robots get rolled Programs: a chain gains from 15, a humanoid later
MOST = 8192  # bodies: the results of the sweeps are on the stack
_UPPER4, _UPPER6 = np.triu_indices(4), np.triu_indices(6)


ARRAYS = {"motion": 18, "force": 6, "articulated": 21, "given": 8, "added": 6}  # sizes of the sweeps' results
WATCHING = {"carried": 2}  # also, if pivots are checked


def can_roll(robot, problem: Problem) -> TypeGuard[Robot]:
    """True for a Robot with many bodies and one joint of a suitable kind for each."""
    if robot.constrained or not LONG <= robot.nbodies <= MOST:
        return False
    return (problem.kind == "inverse" or not robot.explicit_joints) and _one_by_one(robot)


def _one_by_one(robot):
    """Whether every joint has a known torque, or every joint a known acceleration, floating ones are at the
    root, and no joint has several masters."""
    if any(len(joint.masters.names) > 1 for joint in robot.explicit_joints):
        return False
    joints = [(body.joint.type, body.parent) for body in robot.bodies]
    return all(of.has_axis or (of.is_free and parent < 0) for of, parent in joints)


def rolled_program(robot: Robot, problem: Problem, wrenches=False, parameters=()) -> LoopProgram:
    """RNEA or the articulated-body recursion, rolled into loops. Arguments, inputs and outputs as in
    `dynamics_programs`."""
    watched = weak_coordinates(robot, problem.forward)
    robot, T = economical_robot(robot)
    inputs = problem.reads(robot, wrenches) | parameter_shapes(robot, parameters)
    returns = problem.returns(robot)
    joints = [body.joint for body in robot.bodies]
    free = zip(robot.clusters, forward_clusters(robot, problem.forward), strict=True)
    of_body = {i: gives_way for cluster, gives_way in free for i in cluster.bodies}
    forward = [of_body[i] for i in range(robot.nbodies)]
    arrays = ARRAYS | (WATCHING if any(watched) else {})
    keys = [
        (_moves(joint.type), parent < 0, free, any(watched[joint.v]))
        for joint, parent, free in zip(joints, robot.parents, forward, strict=True)
    ]
    kinds = sorted(set(keys))
    of_kind = np.array([kinds.index(key) for key in keys])
    numbers = _numbers(robot, T if wrenches else None, parameters)
    gone = regrouped_away(robot)[:, _UPPER4[0], _UPPER4[1]]
    records = [
        _Kind(*kind, numbers, of_kind == k, gone[of_kind == k].all(axis=0), inputs, returns, arrays)
        for k, kind in enumerate(kinds)
    ]
    inward = _articulate if any(forward) else _transmit
    passes = [(False, _move), (True, inward), *([(False, _accelerate)] if any(forward) else [])]
    sweeps = tuple(Sweep(back, tuple(kind.step(function) for kind in records)) for back, function in passes)
    outputs = {name: k * robot.nv + np.arange(robot.nv) for k, name in enumerate(returns)}
    return LoopProgram(
        inputs,
        outputs | ({"health": np.array([len(returns) * robot.nv])} if any(watched) else {}),
        np.array(robot.parents),
        of_kind,
        _table(records, robot.nbodies),
        np.array([joint.q.start for joint in joints]),
        np.array([joint.v.start for joint in joints]),
        np.array([[_multiplier(joint), joint.offset] for joint in joints]),
        arrays,
        sweeps,
        tuple(LARGEST_LOSS.tolist()) if any(watched) else (),
    )


def _multiplier(joint):
    return joint.masters.weights[0] if joint.masters else 1.0


def _moves(joint_type):
    return "turns" if joint_type.turns else "slides" if joint_type.slides else "floats"


def _numbers(robot, T, parameters):
    """{name: (nbodies, size)} of the data that differ between bodies."""
    X = np.array([body.X_tree for body in robot.bodies])
    n = robot.nbodies
    numbers = {
        "turn": transform_rotation(X).reshape(n, 9),
        "shift": fixed_shift(X),
        "multiplier": np.array([[_multiplier(body.joint)] for body in robot.bodies]),
    }
    if T is not None:
        numbers |= {"old_turn": transform_rotation(T).reshape(n, 9), "old_shift": transform_origin(T)}
    if "inertia" not in parameters:
        numbers["inertia"] = pseudo_inertia(robot.inertias)[:, _UPPER4[0], _UPPER4[1]]
    if "armature" not in parameters:
        own = [robot.armature[body.joint.v] for body in robot.bodies]
        numbers["armature"] = np.array([np.resize(a, 6) for a in own])
    return numbers


class _Kind:
    """Bodies that move alike: literals, columns of the table, and the shape of a step."""

    def __init__(self, moves, is_root, free, watched, numbers, members, gone, inputs, returns, arrays):
        self.moves, self.is_root, self.free, self.watched, self.gone = moves, is_root, free, watched, gone
        self.members, self.inputs, self.returns, self.arrays = members, inputs, returns, arrays
        self.names = [(name, array.shape[1]) for name, array in numbers.items()]
        own = np.hstack([array[members] for array in numbers.values()])
        self.literal = np.where(np.ptp(own, axis=0) == 0, own[0], np.nan)
        self.columns = np.flatnonzero(np.isnan(self.literal))
        self.table = own[:, self.columns]

    @property
    def size(self):
        """Coordinates of the joint."""
        return 6 if self.moves == "floats" else 1

    @property
    def known(self):
        """Name of the joint's known array."""
        return "tau" if self.free else "qdd"

    def step(self, function) -> Program:
        """The Program of a sweep's function at a body."""
        shapes = {"table": len(self.columns), "gravity": 3, "qd": self.size, self.known: self.size}
        shapes |= {"pose": 7} if self.moves == "floats" else {"position": 1, "cosine": 1, "sine": 1}
        shapes |= {name: size for name, size in (("f_ext", 6), ("inertia", 10)) if name in self.inputs}
        shapes |= {"armature": self.size} if "armature" in self.inputs else {}
        shapes |= self.arrays | {f"parent_{name}": ARRAYS[name] for name in ("motion", "added")}
        wanted = {name: (size,) for name, size in shapes.items()}
        return trace(lambda **arrays: function(_Body(self, arrays)), wanted)


class _Body:
    """The data of a body in a step: symbols where bodies differ."""

    def __init__(self, kind, arrays):
        self.kind, self.arrays = kind, arrays
        entries = np.array(kind.literal, dtype=object)
        entries[kind.columns] = arrays["table"]
        ends = list(accumulate(size for _, size in kind.names))
        own = dict(zip((name for name, _ in kind.names), np.split(entries, ends[:-1]), strict=True))
        self.numbers = {**arrays, **own}
        self.X = FactoredTransforms([(*self._joint_factors(), *_fixed(own["turn"], own["shift"]))])
        self.S = self._motion_subspace()

    def _joint_factors(self):
        if self.kind.moves == "floats":
            return KINDS["floating"].factors(None, self.arrays["pose"])
        if self.kind.moves == "slides":
            return (Shift(np.array([0.0, 0.0, 1.0]) * self.arrays["position"]),)
        return (plane_turn(2, self.arrays["cosine"][0], self.arrays["sine"][0]),)

    def _motion_subspace(self):
        if self.kind.moves == "floats":
            return np.eye(6)
        S = np.zeros((6, 1), dtype=object)
        S[2 if self.kind.moves == "turns" else 5] = self.numbers["multiplier"]
        return S

    @property
    def known(self):
        return self.arrays[self.kind.known]

    @property
    def armature(self):
        return self.numbers["armature"][: self.kind.size]

    @property
    def pseudo_inertia(self):
        J = np.zeros((4, 4), dtype=object)
        J[_UPPER4] = np.where(self.kind.gone, 0.0, self.numbers["inertia"])
        J[_UPPER4[::-1]] = J[_UPPER4]
        return J

    @property
    def wrench(self):
        """External wrench in the frame of the recursion."""
        if "f_ext" not in self.arrays:
            return np.zeros(6)
        old = self.numbers
        back = FactoredTransforms([_inverse(old["old_turn"], old["old_shift"])])
        return back.force(0, self.arrays["f_ext"])

    def results(self, unknown):
        """The Program's outputs for the joint."""
        results = {self.kind.known: self.known, "qdd" if self.kind.free else "tau": unknown}
        return {name: results[name] for name in self.kind.returns}

    def to_parent(self, **arrays):
        """The terms added to the parent's arrays; none at the root."""
        return {} if self.kind.is_root else {f"parent_{name}": array for name, array in arrays.items()}


def _fixed(turn, shift):
    """Factors of the fixed part of a transform, numbers or symbols."""
    E = turn.reshape(3, 3)
    if not any(isinstance(x, Expression) for x in turn):
        return (*fixed_turns(E.astype(float)), Shift(shift))
    off_axis = [E[0, 0] - 1.0, E[0, 1], E[0, 2], E[1, 0], E[2, 0]]
    is_about_x = not any(isinstance(x, Expression) or x != 0.0 for x in off_axis)
    return (plane_turn(0, E[1, 1], E[1, 2]) if is_about_x else Turn(E), Shift(shift))


def _inverse(turn, shift):
    """Factors of the inverse of a transform."""
    E = turn.reshape(3, 3)
    return (Shift(-shift), Turn(E.T))


def _move(body):
    """The motion from the parent's, and the wrench for it, with zero acceleration of the forward joints."""
    a = body.arrays
    changes = np.zeros(6) if body.kind.free else body.S @ body.known
    before = root_motion(a["gravity"]) if body.kind.is_root else _unpacked(a["parent_motion"])
    motion = next_motion(body.X, 0, before, body.S @ a["qd"], changes)
    packed = np.concatenate([motion.w, motion.wd, motion.U.ravel(), motion.a])
    return {"motion": packed, "force": body_wrench(motion.U, motion.a, body.pseudo_inertia) - body.wrench}


def _unpacked(motion):
    return Motion(motion[:3], motion[3:6], motion[6:15].reshape(3, 3), motion[15:])


def _transmit(body):
    """Torque of the joint, and the wrench to the parent."""
    force = body.arrays["force"]
    unknown = body.S.T @ force + body.armature * body.known
    return {**body.results(unknown), **body.to_parent(force=body.X.force(0, force))}


def _articulate(body):
    """The inertia and force for the parent, and the results for the last sweep."""
    J = inertia_of_pseudo(body.pseudo_inertia)
    IA, pA = _symmetric(body.arrays["articulated"]) + J, body.arrays["force"]
    eliminate = free_joint if body.kind.free else driven_joint
    given, Ia, pa = eliminate(IA, pA, body.S, np.diag(body.armature), body.known)
    packed = np.zeros(ARRAYS["given"], dtype=object)
    if body.kind.moves == "floats":
        packed[:6] = accelerate(given, np.zeros(6)) if body.kind.free else given.u
    else:
        inverse = 1.0 / given.D[0, 0] if body.kind.free else 0.0
        packed[:] = [*given.U[:, 0], inverse, given.u[0]]
    results, back = {"given": packed}, {"force": body.X.force(0, pa)}
    if "carried" in body.arrays:
        moment, mass = body.arrays["carried"] + mass_moments(J)
        back["carried"] = np.array([moved_moment(moment, mass, body.X.origin(0)), mass])
        if body.kind.watched:
            scale = joint_scale(body.S, moment, mass) + body.armature
            results["health"] = total_loss(scale / definite_pivots(given.D))
    if not body.kind.is_root:
        results |= body.to_parent(articulated=body.X.inertia(0, Ia)[_UPPER6], **back)
    return results


def _symmetric(upper):
    matrix = np.zeros((6, 6), dtype=object)
    matrix[_UPPER6] = upper
    return symmetric(matrix)


def _accelerate(body):
    """Add the accelerations of the forward joints; the result of the joint."""
    given, free = body.arrays["given"], body.kind.free
    if body.kind.moves == "floats":
        rates = given[:6]
        unknown = rates if free else rates + body.armature * body.known
        return {**body.results(unknown), "added": rates if free else np.zeros(6)}
    inherited = np.zeros(6) if body.kind.is_root else body.X.motion(0, body.arrays["parent_added"])
    U, inverse, u = given[:6, None], given[6], given[7:]
    if not free:
        unknown = U.T @ inherited + u + body.armature * body.known
        return {**body.results(unknown), "added": inherited}
    unknown = accelerate(Given(U, np.array([[1.0 / inverse]], dtype=object), u), inherited)
    return {**body.results(unknown), "added": inherited + body.S @ unknown}


def _table(kinds, count):
    table = np.zeros((count, max((len(kind.columns) for kind in kinds), default=0)))
    for kind in kinds:
        table[kind.members, : len(kind.columns)] = kind.table
    return table
