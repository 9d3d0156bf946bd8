"""What a joint carries: the links beyond it, their inertia, and the bodies that hang on them.

A fixed joint is merged when a Robot is made; what it carries is then a part of a body, and perhaps bodies
further out. A force/torque sensor mostly sits at a fixed joint and reads what moves just these.
"""

from dataclasses import dataclass, replace

import numpy as np

from dynamics_node.robot.errors import ModelError
from dynamics_node.robot.inertial_parameters import with_more
from dynamics_node.robot.robot import Robot
from dynamics_node.symbolic import (
    inverse_motion_transform,
    motion_transform,
    product,
    pseudo_inertia,
    rpy_rotation,
    spatial_inertia,
    transformed_inertia,
)


@dataclass(frozen=True, eq=False)
class Subtree:
    """link: the joint's child; body: which it belongs to (-1: the root); X (6, 6): from body to link; links:
    those of that body that are beyond, `link` first; inertia (6, 6): theirs, about the body's origin in its
    axes; children: the bodies that hang on these links by a joint that moves, but not freely.
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


def subtree(model: Robot, joint: str) -> Subtree:
    """What is beyond a joint, be it fixed or not. Raises KeyError for an unknown one."""
    frame = _child(model, joint)
    links = _rigidly_beyond(model, frame)
    if not frame.fixed_joint and frame.body >= 0:
        inertia = model.bodies[frame.body].inertia
    else:
        each = [transformed_inertia(model.frames[link].X, model.frames[link].inertia) for link in links]
        inertia = np.sum(each, axis=0)
    hanging = [i for i, body in enumerate(model.bodies) if model.frames[body.name].parent in links]
    children = tuple(i for i in hanging if not model.bodies[i].joint.type.is_free)
    return Subtree(frame.name, frame.body, frame.X, links, inertia, children)


def _child(model, joint):
    """The frame of the joint's child link."""
    for body in model.bodies:
        if body.joint.name == joint:
            return model.frames[body.name]
    for frame in model.frames.values():
        if joint and frame.fixed_joint == joint:
            return frame
    names = [body.joint.name for body in model.bodies]
    names += [frame.fixed_joint for frame in model.frames.values() if frame.fixed_joint]
    raise KeyError(f"unknown joint {joint!r}; the robot has: {', '.join(sorted(names)[:40])}")


def _rigidly_beyond(model, first):
    """Names of the links of its body that hang on the first, itself included."""
    below: dict[str, list[str]] = {}
    for frame in model.frames.values():
        if frame.fixed_joint:
            below.setdefault(frame.parent, []).append(frame.name)
    found = [first.name]
    for link in found:
        found += below.get(link, [])
    return tuple(found)


def only_subtree(robot: Robot, joint: str, **_) -> Robot:
    """The Robot in which nothing has inertia but what is beyond the joint.

    Raises KeyError as `subtree`, ModelError where a loop bridges the joint: what it transmits is then more
    than what moves the bodies beyond. A loop joint that ends on the joint's own body is taken to end beyond.
    """
    seen = _only(robot, joint)
    carried = {i for i, body in enumerate(seen.bodies) if body.inertia.any()}
    for cluster in robot.clusters:
        if cluster.constraints and not (carried.isdisjoint(cluster.bodies) or carried >= {*cluster.bodies}):
            loops = ", ".join(repr(constraint.name) for constraint in cluster.constraints)
            raise ModelError(
                f"joint {joint!r} is bridged by {loops}: what it carries is not all it bears, see the "
                "quantity reaction_wrenches"
            )
    return seen


def _only(model, joint):
    own = subtree(model, joint)
    carried: set[int] = set()
    bodies = []
    for i, body in enumerate(model.bodies):
        if i in own.children or (body.parent in carried and not body.joint.type.is_free):
            carried.add(i)
        inertia = body.inertia if i in carried else np.zeros((6, 6))
        bodies.append(replace(body, inertia=own.inertia if i == own.body else inertia))
    return replace(model, bodies=tuple(bodies))


def with_tool(model: Robot, joint: str, mass: float, com, xyz=(0, 0, 0), rpy=(0, 0, 0)) -> Robot:
    """The Robot whose tool has another mass and centre of mass, as a force/torque sensor has found them.

    The tool is all that is fixed to the child link of the joint: see `identify_tool`. mass kg, positive; com
    (3,) m in the axes of a sensor at xyz and rpy in the child link; the moments of inertia about the centre
    of mass stay those of the description. Raises KeyError for an unknown joint, ValueError for a tool that is
    none, or that is fixed to the root.
    """
    com = np.asarray(com, dtype=float)
    if not (np.isfinite(mass) and mass > 0 and com.shape == (3,) and np.isfinite(com).all()):
        raise ValueError(f"tool: a positive mass and a centre of mass are wanted, not {mass:g} and {com}")
    own = subtree(model, joint)
    if own.body < 0:
        raise ValueError(f"joint {joint!r} is fixed to the root: nothing moves its tool")
    X = own.sensor(xyz, rpy)
    back = inverse_motion_transform(X)
    described = transformed_inertia(back, own.inertia)
    wanted = spatial_inertia(mass, com, central_moments(described))
    X_link = product(X, inverse_motion_transform(own.X))
    return with_more(model, model.frames[own.link], transformed_inertia(X_link, wanted - described))


def mass_and_moment(inertia):
    """Mass (kg) and first moment (3,) (kg m) of a spatial inertia (6, 6)."""
    J = pseudo_inertia(inertia)
    return float(J[3, 3]), J[:3, 3]


def central_moments(inertia):
    """The moments of inertia (3, 3) about the centre of mass of a spatial inertia (6, 6)."""
    mass, moment = mass_and_moment(inertia)
    if mass <= 0:
        return np.zeros((3, 3))
    return inertia[:3, :3] - spatial_inertia(mass, moment / mass, np.zeros((3, 3)))[:3, :3]
