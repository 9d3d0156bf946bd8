"""Bodies in clusters: those that share constraints or follow each other, and every other body alone."""

from dataclasses import dataclass

import numpy as np

from dynamics_node.robot.constraints import FunctionConstraint, LoopJoint


@dataclass(frozen=True, eq=False)
class Cluster:
    """Bodies that share constraints or follow each other; every other body is a cluster of one.

    Attributes
    ----------
    bodies : tuple of int
        Indices of the bodies, in order.
    constraints : tuple of LoopJoint or FunctionConstraint
        The constraints that close loops.
    independent, dependent : tuple of int
        Velocity coordinates of the tree in the cluster; the dependent ones are those of implicit joints.
    samples : ndarray (count, nq)
        Closed positions at which the constraints have their generic rank.

    References
    ----------
    Chignoli, Adrian, Kim and Wensing, "Recursive Rigid-Body Dynamics Algorithms for Systems with Kinematic
    Loops", sec. IV.
    """

    bodies: tuple[int, ...]
    constraints: tuple[LoopJoint | FunctionConstraint, ...]
    independent: tuple[int, ...]
    dependent: tuple[int, ...]
    samples: np.ndarray

    def __repr__(self):
        names = [constraint.name for constraint in self.constraints]
        return f"Cluster(bodies={self.bodies}, constraints={names}, independent={self.independent})"


def groups_of(robot, ties=()):
    """Groups of bodies, in order: those of each of the `ties`, sets that may share bodies; those on the paths
    from an explicit joint to its masters, and between the masters of an actuator; and every other body
    alone."""
    groups: list[set[int]] = []
    for tie in (*ties, *_explicit_ties(robot)):
        shared = [group for group in groups if group & tie]
        groups = [group for group in groups if not group & tie] + [tie.union(*shared)]
    taken = set().union(*groups)
    groups += [{i} for i in range(robot.nbodies) if i not in taken]
    return sorted((tuple(sorted(group)) for group in groups), key=min)


def _explicit_ties(robot):
    owner = {
        v: i for i, body in enumerate(robot.bodies) if not body.joint.masters for v in body.joint.moved_by
    }
    for i, body in enumerate(robot.bodies):
        for v in body.joint.masters.v if body.joint.masters else ():
            yield (_above(robot, i) ^ _above(robot, owner[v])) | {i, owner[v]}
    for actuator in robot.actuators:
        first, *others = actuator.masters.v if actuator.coupled else (0,)
        for v in others:
            yield (_above(robot, owner[first]) ^ _above(robot, owner[v])) | {owner[first], owner[v]}


def members_of(robot, constraint) -> set[int]:
    """Bodies whose joints a constraint concerns."""
    if isinstance(constraint, LoopJoint):
        return _above(robot, constraint.predecessor) ^ _above(robot, constraint.successor)
    return set(constraint.bodies)


def last_common(robot, a, b) -> int:
    """The last body on the paths from the root to two bodies, -1 for the root."""
    return max(_above(robot, a) & _above(robot, b), default=-1)


def _above(robot, body):
    return set(robot.ancestors[body]) if body >= 0 else set()


def tied(robot, bodies):
    """The Cluster of bodies without a constraint."""
    joints = (robot.bodies[i].joint for i in bodies)
    coordinates = tuple(v for joint in joints if joint.masters is None for v in joint.moved_by)
    return Cluster(bodies, (), coordinates, (), np.zeros((0, robot.nq)))
