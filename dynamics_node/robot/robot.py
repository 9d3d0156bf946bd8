"""The frozen Robot: moving bodies in topological order, joints, clusters that share constraints,
and a frame for every link."""

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from dynamics_node.robot.constraints import Custom, Linear, LoopJoint
from dynamics_node.robot.description import NO_LIMITS, Limits
from dynamics_node.robot.joints import KINDS, JointType


@dataclass(frozen=True, eq=False)
class Joint:
    """The joint that moves a body against its parent. kind: its name in KINDS.

    S (6, nv): motion subspace in body axes, already times the mimic multiplier. q, v: where its
    coordinates lie in the vectors (a mimic joint points at its master's); its own position is
    multiplier * q + offset.
    """

    name: str
    kind: str
    axis: np.ndarray
    S: np.ndarray
    q: slice
    v: slice
    limits: Limits = NO_LIMITS
    damping: float = 0.0
    friction: float = 0.0
    armature: float = 0.0
    creep: float = 0.0
    spring: float = 0.0
    torque_offset: float = 0.0
    mimic: str | None = None
    multiplier: float = 1.0
    offset: float = 0.0

    @property
    def type(self) -> JointType:
        """What all joints of its kind have in common."""
        return KINDS[self.kind]

    def position(self, q):
        """Its own position (..., nq) at q (..., nq of the model)."""
        return self.multiplier * q[..., self.q] + self.offset

    @property
    def torque_units(self):
        """Of the torques at its coordinates: N m where they turn, else N."""
        turning = np.any(self.S[:3], axis=0).tolist()
        return tuple("N m" if turns else "N" for turns in turning)


@dataclass(frozen=True, eq=False)
class Body:
    """A moving body: a link with all that is fixed to it. Its frame is the frame of `name`.

    parent: index, -1 for the root; X_tree (6, 6): from the parent body to the joint frame at
    position zero; inertia (6, 6): about the body frame's origin.
    """

    name: str
    parent: int
    joint: Joint
    X_tree: np.ndarray
    inertia: np.ndarray


@dataclass(frozen=True, eq=False)
class Frame:
    """The frame of a link: fixed to `body` (-1: to the root) by X (6, 6) from body to link.

    parent: the link it hangs on, '' of the root; fixed_joint: by which joint, where that is fixed. inertia
    (6, 6): of this link alone, in its axes about its origin; those of all links of a body add up to the
    body's.
    """

    name: str
    body: int
    X: np.ndarray
    parent: str = ""
    fixed_joint: str = ""
    inertia: np.ndarray = field(default_factory=lambda: np.zeros((6, 6)))


@dataclass(frozen=True, eq=False)
class Cluster:
    """Bodies (in order) that share constraints; a body without any is a cluster of one (Chignoli et al.,
    sec. IV).

    independent, dependent: velocity coordinates of the tree that are theirs; samples (count, nq of the tree):
    closed positions at which the constraints are as everywhere.
    """

    bodies: tuple[int, ...]
    constraints: tuple[LoopJoint | Linear | Custom, ...]
    independent: tuple[int, ...]
    dependent: tuple[int, ...]
    samples: np.ndarray


@dataclass(frozen=True, eq=False)
class Robot:
    """A tree of bodies, and constraints between its joints where it has loops, gears or belts.

    gravity (3,) is the acceleration of free fall in root axes, m/s^2. clusters: in the order of their first
    bodies; () stands for one of every body. q (..., nq) are the positions of all joints, closed: see
    `close_loops`. qd, qdd, tau (..., nv) are those of the independent joints; tau is conjugate to qd. Slices
    of bodies' joints, S and the constants of joints are those of the tree, in which every joint is
    independent.
    """

    name: str
    base_link: str
    bodies: tuple[Body, ...]
    frames: dict[str, Frame]
    gravity: np.ndarray
    warnings: tuple[str, ...] = ()
    clusters: tuple[Cluster, ...] = ()

    def __post_init__(self):
        if not self.clusters:
            object.__setattr__(self, "clusters", tuple(_alone(i, body) for i, body in enumerate(self.bodies)))

    @cached_property
    def constraints(self):
        """All constraints, cluster by cluster."""
        return tuple(constraint for cluster in self.clusters for constraint in cluster.constraints)

    @property
    def constrained(self):
        """Whether it has loops, gears or belts: joints that follow from the independent ones."""
        return bool(self.constraints)

    @cached_property
    def tree(self) -> "Robot":
        """The Robot without constraints, in which every joint is independent; itself if it has none."""
        return replace(self, clusters=()) if self.constrained else self

    def with_tree(self, tree: "Robot") -> "Robot":
        """The Robot with a tree that differs in inertias, rotor inertias, gravity or names only."""
        return replace(tree, clusters=self.clusters) if self.constrained else tree

    @cached_property
    def independent(self):
        """(nv,) velocity coordinates of the tree that determine all others."""
        if not self.constrained:
            return np.arange(self._nv_of_tree)
        return np.array(sorted(v for cluster in self.clusters for v in cluster.independent), dtype=int)

    @property
    def nbodies(self):
        return len(self.bodies)

    @cached_property
    def nq(self):
        return max((body.joint.q.stop for body in self.bodies), default=0)

    @property
    def nv(self):
        return len(self.independent)

    @cached_property
    def _nv_of_tree(self):
        return max((body.joint.v.stop for body in self.bodies), default=0)

    @cached_property
    def parents(self):
        return tuple(body.parent for body in self.bodies)

    @cached_property
    def _joints_of_tree(self):
        own = (body.joint for body in self.bodies if body.joint.mimic is None)
        return tuple(sorted(own, key=lambda joint: joint.v.start))

    @cached_property
    def independent_joints(self):
        """Joints that own independent coordinates, in their order, with the places of these in qd (nv,)."""
        if not self.constrained:
            return self._joints_of_tree
        at = {v: k for k, v in enumerate(self.independent.tolist())}
        owners = []
        for joint in self._joints_of_tree:
            own = [at[v] for v in range(joint.v.start, joint.v.stop) if v in at]
            if own:
                owners.append(replace(joint, v=slice(own[0], own[-1] + 1)))
        return tuple(owners)

    @cached_property
    def joint_names(self):
        """Names of the independent joints with one coordinate: what a JointState is matched against."""
        return tuple(j.name for j in self.independent_joints if j.type.is_scalar)

    @cached_property
    def quaternion_places(self):
        """Where in q the quaternions begin."""
        return tuple(at.start for _, at in self.quaternions)

    @property
    def floating_base(self):
        """True when the first body hangs on a floating joint."""
        return bool(self.bodies) and self.bodies[0].joint.type.is_free

    @cached_property
    def q_names(self):
        return _coordinate_names((joint.name, joint.type.q_names) for joint in self._joints_of_tree)

    @cached_property
    def v_names(self):
        names = _coordinate_names((joint.name, joint.type.v_names) for joint in self._joints_of_tree)
        return tuple(names[v] for v in self.independent)

    @cached_property
    def inertias(self):
        """(nbodies, 6, 6)"""
        return np.array([body.inertia for body in self.bodies]).reshape(-1, 6, 6)

    @cached_property
    def scalar_motions(self):
        """Bodies that move by one coordinate (n,), its place in v (n,), and their S (n, 6)."""
        moved = [
            (i, b.joint.v.start, b.joint.S[:, 0])
            for i, b in enumerate(self.bodies)
            if b.joint.S.shape[1] == 1
        ]
        bodies, places, S = zip(*moved, strict=True) if moved else ((), (), ())
        return np.array(bodies, dtype=int), np.array(places, dtype=int), np.array(S).reshape(-1, 6)

    @cached_property
    def vector_motions(self):
        """(body, its slice of v, S) of joints with several velocities."""
        bodies = enumerate(self.bodies)
        return tuple((i, b.joint.v, b.joint.S) for i, b in bodies if b.joint.S.shape[1] > 1)

    @cached_property
    def quaternions(self):
        """(name of the joint, slice of q) of every unit quaternion x y z w."""
        found = []
        for joint in self._joints_of_tree:
            if joint.type.quaternion is not None:
                start = joint.q.start + joint.type.quaternion
                found.append((joint.name, slice(start, start + 4)))
        return tuple(found)

    @cached_property
    def has_mimic(self):
        return any(body.joint.mimic is not None for body in self.bodies)

    @cached_property
    def armature(self):
        """(nv,) rotor inertia seen by every coordinate; mimic joints add theirs to the master."""
        return self._per_coordinate("armature")

    @cached_property
    def damping(self):
        """(nv,) viscous coefficients."""
        return self._per_coordinate("damping")

    @cached_property
    def friction(self):
        """(nv,) Coulomb friction, N m or N."""
        return self._signs("friction")

    @cached_property
    def creep(self):
        """(nv,) friction that grows slowly with the rate, N m or N: see `friction_torque`."""
        return self._signs("creep")

    def _signs(self, attribute):
        """Of what acts against the sign of a rate."""
        total = np.zeros(self._nv_of_tree)
        for body in self.bodies:
            total[body.joint.v] += abs(body.joint.multiplier) * getattr(body.joint, attribute)
        return total

    @cached_property
    def springs(self):
        """(nv,) N m/rad or N/m, of springs at rest at position 0."""
        return self._per_coordinate("spring")

    @cached_property
    def torque_offsets(self):
        """(nv,) torques at position 0 that joints take anyway, N m or N."""
        total = np.zeros(self._nv_of_tree)
        for body in self.bodies:
            own = body.joint
            total[own.v] += own.multiplier * (own.torque_offset + own.spring * own.offset)
        return total

    @cached_property
    def effort_limits(self):
        """(nv,) N m or N, infinite where the description has none (or zero)."""
        limit = np.full(self._nv_of_tree, np.inf)
        for joint in self._joints_of_tree:
            limit[joint.v] = joint.limits.effort or np.inf
        return limit

    def _per_coordinate(self, attribute):
        values = [getattr(body.joint, attribute) for body in self.bodies]
        total = np.zeros(self._nv_of_tree, dtype=np.result_type(np.array(values).dtype, float))
        for body, value in zip(self.bodies, values, strict=True):
            total[body.joint.v] += body.joint.multiplier**2 * value
        return total

    @cached_property
    def ancestors(self):
        """ancestors[i]: the bodies from the root to i, i included."""
        chains: list[tuple[int, ...]] = []
        for index, parent in enumerate(self.parents):
            chains.append((*(chains[parent] if parent >= 0 else ()), index))
        return tuple(chains)

    def neutral(self):
        """Position (nq,) with every joint at zero, or its frames one upon the other."""
        q = np.zeros(self.nq)
        for joint in self._joints_of_tree:
            q[joint.q] = joint.type.neutral
        return q

    def frame(self, name):
        """The frame of a link; KeyError names it and lists near ones."""
        try:
            return self.frames[name]
        except KeyError:
            known = ", ".join(sorted(self.frames)[:40])
            raise KeyError(f"unknown link {name!r}; the robot has: {known}") from None

    @cached_property
    def factored_bodies(self):
        """Numbers of the bodies whose joint's transform is not of the form of `transform_parts`."""
        return tuple(i for i, body in enumerate(self.bodies) if body.joint.type.parts is None)

    @cached_property
    def transform_parts(self):
        """Constants of X_up = X0 + cos(a) Xc + sin(a) Xs + a Xp, a = multiplier q + offset.

        index (nbodies,), multiplier, offset (nbodies,), and X0, Xc, Xs, Xp (nbodies, 6, 6).
        A joint whose transform is not of this form (`parts` of its type) has Xc = Xs = Xp = 0.
        """
        joints = [body.joint for body in self.bodies]
        parts = np.array([_transform_parts(j) for j in joints]).reshape(-1, 4, 6, 6)
        X_tree = np.array([body.X_tree for body in self.bodies]).reshape(-1, 1, 6, 6)
        X0, Xc, Xs, Xp = np.moveaxis(parts @ X_tree, 1, 0)
        index = np.array([j.q.start for j in joints], dtype=int)
        multiplier = np.array([j.multiplier for j in joints])
        return index, multiplier, np.array([j.offset for j in joints]), (X0, Xc, Xs, Xp)


def _alone(index, body):
    own = () if body.joint.mimic else tuple(range(body.joint.v.start, body.joint.v.stop))
    return Cluster((index,), (), own, (), np.zeros((0, 0)))


def _coordinate_names(joints):
    """joints: (name, what is added to it for each coordinate)."""
    return tuple(".".join(filter(None, (name, part))) for name, parts in joints for part in parts or ("",))


def _transform_parts(joint):
    if joint.type.parts is None:
        return np.eye(6), *np.zeros((3, 6, 6))
    return joint.type.parts(joint.axis)
