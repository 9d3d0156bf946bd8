"""A robot with closed loops: a tree, and constraints between its joints.

The tree has a coordinate for every joint; some of them, the independent ones, tell the others. Joints and
bodies that share constraints form clusters; every other body is a cluster of one (Chignoli et al., sec.
IV).
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from dynamics_node.loops.kinds import Custom, Linear, LoopJoint
from dynamics_node.loops.spanning import spanning_rates
from dynamics_node.model.model import Model


@dataclass(frozen=True, eq=False)
class Cluster:
    """Bodies (in order) that share constraints. independent, dependent: velocity coordinates of the tree
    that are theirs; samples (count, nq of the tree): closed positions at which the constraints are as
    everywhere."""

    bodies: tuple[int, ...]
    constraints: tuple[LoopJoint | Linear | Custom, ...]
    independent: tuple[int, ...]
    dependent: tuple[int, ...]
    samples: np.ndarray


def tree_of(robot: "Model | Mechanism") -> Model:
    """The Model in which every joint of a Mechanism has a coordinate of its own; a Model itself."""
    return robot.tree if isinstance(robot, Mechanism) else robot


def with_tree(robot: "Model | Mechanism", tree: Model) -> "Model | Mechanism":
    """A robot with another tree of the same joints, and its loops."""
    return robot.with_tree(tree) if isinstance(robot, Mechanism) else tree


def same_loops(one: "Model | Mechanism", other: "Model | Mechanism") -> bool:
    """Whether two robots have the same loops, or none. Loops are never changed, only carried over."""
    clusters = [robot.clusters if isinstance(robot, Mechanism) else None for robot in (one, other)]
    return clusters[0] == clusters[1]


@dataclass(frozen=True, eq=False)
class Mechanism:
    """tree: a Model in which every joint has a coordinate of its own. clusters: in the order of their first
    bodies.

    q (..., nq) are the positions of all joints of the tree, closed: see `close_loops`. qd, qdd, tau (..., nv)
    are those of the independent joints; tau is conjugate to qd.
    """

    tree: Model
    clusters: tuple[Cluster, ...]
    warnings: tuple[str, ...] = ()

    @cached_property
    def independent(self):
        """(nv,) velocity coordinates of the tree that determine all others."""
        return np.array(sorted(v for cluster in self.clusters for v in cluster.independent), dtype=int)

    @property
    def nq(self):
        return self.tree.nq

    @property
    def nv(self):
        return len(self.independent)

    @property
    def q_names(self):
        return self.tree.q_names

    @cached_property
    def v_names(self):
        return tuple(self.tree.v_names[v] for v in self.independent)

    @property
    def name(self):
        return self.tree.name

    @property
    def base_link(self):
        return self.tree.base_link

    @property
    def bodies(self):
        return self.tree.bodies

    @property
    def nbodies(self):
        return self.tree.nbodies

    @property
    def gravity(self):
        return self.tree.gravity

    @property
    def frames(self):
        return self.tree.frames

    @property
    def quaternion_places(self):
        return self.tree.quaternion_places

    @property
    def floating_base(self):
        return self.tree.floating_base

    @cached_property
    def independent_joints(self):
        """Joints that own independent coordinates, with the places of these in qd (nv,)."""
        at = {v: k for k, v in enumerate(self.independent.tolist())}
        found = []
        for joint in self.tree.independent_joints:
            own = [at[v] for v in range(self.tree.nv)[joint.v] if v in at]
            if own:
                found.append(replace(joint, v=slice(own[0], own[-1] + 1)))
        return tuple(found)

    @property
    def joint_names(self):
        return tuple(joint.name for joint in self.independent_joints if joint.type.is_scalar)

    @property
    def quaternions(self):
        return self.tree.quaternions

    @cached_property
    def constraints(self):
        """All constraints, cluster by cluster."""
        return tuple(constraint for cluster in self.clusters for constraint in cluster.constraints)

    def spanning(self, q, qd=None, qdd=None):
        """Positions, velocities and accelerations of every joint of the tree, (..., nq) and (..., nv of the
        tree), at closed q (..., nq) from qd, qdd (..., nv). What is not given comes back as None;
        accelerations need velocities. Rates at singular positions are NaN."""
        return (q, *spanning_rates(self, q, qd, qdd))

    def frame(self, name):
        """The frame of a link; KeyError names it and lists near ones."""
        return self.tree.frame(name)

    def with_tree(self, tree: Model) -> "Mechanism":
        """The mechanism with a tree that differs in inertias, rotor inertias or gravity only."""
        return replace(self, tree=tree)

    def neutral(self):
        """Position (nq,) with every joint at zero: in general not closed."""
        return self.tree.neutral()
