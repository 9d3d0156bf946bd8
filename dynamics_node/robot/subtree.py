"""The subtree of a joint: its links, their inertia, and the bodies further out.

A fixed joint is merged when a Robot is made: its subtree is a part of a body, and perhaps bodies further
out. A force/torque sensor usually sits at a fixed joint and reads the forces on just this subtree.
"""

from dataclasses import dataclass, replace

import numpy as np

from dynamics_node.errors import ModelError, UnknownNameError
from dynamics_node.robot.robot import Robot
from dynamics_node.symbolic import (
    motion_transform,
    product,
    pseudo_inertia,
    rpy_rotation,
    spatial_inertia,
    transformed_inertia,
)


@dataclass(frozen=True, eq=False)
class Subtree:
    """link: the joint's child; body: of this link (-1: the root); X (6, 6): from body to link; links: those
    of the body in the subtree, `link` first; inertia (6, 6): theirs, about the body's origin in its axes;
    children: bodies whose joint, free or not, is on these links.
    """

    link: str
    body: int
    X: np.ndarray
    links: tuple[str, ...]
    inertia: np.ndarray
    children: tuple[int, ...]

    def sensor(self, xyz=(0.0, 0.0, 0.0), rpy=(0.0, 0.0, 0.0)) -> np.ndarray:
        """X (6, 6) from the body to a sensor at xyz (m) and rpy (rad) in `link`."""
        rotation = rpy_rotation(np.asarray(rpy, dtype=float))
        return product(motion_transform(rotation.T, np.asarray(xyz, dtype=float)), self.X)


def subtree(robot: Robot, joint: str) -> Subtree:
    """The subtree of a joint, fixed or moving. Raises KeyError for an unknown joint."""
    frame = _child(robot, joint)
    links = _fixed_descendants(robot, frame)
    if not frame.fixed_joint and frame.body >= 0:
        inertia = robot.bodies[frame.body].inertia
    else:
        each = [transformed_inertia(robot.frames[link].X, robot.frames[link].inertia) for link in links]
        inertia = np.sum(each, axis=0)
    children = tuple(i for i, body in enumerate(robot.bodies) if robot.frames[body.name].parent in links)
    return Subtree(frame.name, frame.body, frame.X, links, inertia, children)


def _child(robot, joint):
    """The frame of the joint's child link."""
    for body in robot.bodies:
        if body.joint.name == joint:
            return robot.frames[body.name]
    for frame in robot.frames.values():
        if joint and frame.fixed_joint == joint:
            return frame
    names = [body.joint.name for body in robot.bodies]
    names += [frame.fixed_joint for frame in robot.frames.values() if frame.fixed_joint]
    raise UnknownNameError(f"unknown joint {joint!r}; the robot has: {', '.join(sorted(names)[:40])}")


def _fixed_descendants(robot, first):
    """Names of the links below the first one by fixed joints, itself included."""
    below: dict[str, list[str]] = {}
    for frame in robot.frames.values():
        if frame.fixed_joint:
            below.setdefault(frame.parent, []).append(frame.name)
    names = [first.name]
    for link in names:
        names += below.get(link, [])
    return tuple(names)


def only_subtree(robot: Robot, joint: str, **_) -> Robot:
    """The Robot in which only the subtree of a joint has inertia.

    Raises KeyError as in `subtree`. Raises ModelError if a loop bridges the joint: the joint then transmits
    more than the subtree needs. A loop joint on the joint's own body is assumed to end in the subtree.
    """
    seen = _only(robot, joint)
    loaded = {i for i, body in enumerate(seen.bodies) if body.inertia.any()}
    for cluster in robot.clusters:
        if cluster.constraints and not (loaded.isdisjoint(cluster.bodies) or loaded >= {*cluster.bodies}):
            loops = ", ".join(repr(constraint.name) for constraint in cluster.constraints)
            raise ModelError(
                f"joint {joint!r} is bridged by {loops}: its wrench is not determined by its subtree, see "
                "the quantity reaction_wrenches"
            )
    return seen


def _only(robot, joint):
    below = subtree(robot, joint)
    subtree_bodies: set[int] = set()
    bodies = []
    for i, body in enumerate(robot.bodies):
        if i in below.children or body.parent in subtree_bodies:
            subtree_bodies.add(i)
        inertia = body.inertia if i in subtree_bodies else np.zeros((6, 6))
        bodies.append(replace(body, inertia=below.inertia if i == below.body else inertia))
    return replace(robot, bodies=tuple(bodies))


def mass_and_moment(inertia):
    """Mass (kg) and first moment (3,) (kg m) of a spatial inertia (6, 6)."""
    J = pseudo_inertia(inertia)
    return float(J[3, 3]), J[:3, 3]


def central_moments(inertia):
    """The moments of inertia (3, 3) about the center of mass of a spatial inertia (6, 6)."""
    mass, moment = mass_and_moment(inertia)
    if mass <= 0:
        return np.zeros((3, 3))
    return inertia[:3, :3] - spatial_inertia(mass, moment / mass, np.zeros((3, 3)))[:3, :3]
