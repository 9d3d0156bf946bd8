"""Description -> the tree of a Robot: select joints or a subtree, merge fixed links, number moving ones."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from dynamics_node.errors import ModelError
from dynamics_node.robot.description import Description, JointDescription
from dynamics_node.robot.explicit import explicit_joints
from dynamics_node.robot.joints import KINDS
from dynamics_node.robot.robot import Body, Frame, Joint, Masters, Robot
from dynamics_node.robot.selection import require_known, selected
from dynamics_node.robot.validate import HUGE, TINY, is_free
from dynamics_node.symbolic import (
    motion_transform,
    product,
    spatial_inertia,
    transformed_inertia,
)

GRAVITY = (0.0, 0.0, -9.81)
FLOATING_BASE = "floating_base"


def tree_from_description(
    description: Description,
    *,
    floating_base: bool = False,
    joints: Iterable[str] | None = None,
    positions: Mapping[str, float] | None = None,
    root: str | None = None,
    tips: Iterable[str] | None = None,
    gravity=None,
    armature: Mapping[str, float] | None = None,
    warnings: tuple[str, ...] = (),
) -> Robot:
    """The Robot without constraints of a validated Description; its loops are ignored.

    joints: names of the joints that move. tips: those on the ways to these links move, with the others of
    their loops. root: those below this link move, and the links that are not below it are left out. The other
    joints are fixed at `positions` (rad or m, 0 by default). Explicit joints that follow a moving one move
    too. gravity: in root axes; by default GRAVITY in the axes of the description's root. armature: kg m^2 (or
    kg) per joint, in place of the description's. Raises ModelError for unknown names and for moving parts
    without inertia, TypeError for a `floating_base` that is no bool.
    """
    if not isinstance(floating_base, bool | np.bool_):
        raise TypeError(f"floating_base must be True or False, not {floating_base!r}")
    explicit = explicit_joints(description)
    description = _with_armature(description, dict(armature or {}))
    if not (root is tips is joints is None):
        part = selected(description, explicit, root, tips, joints, dict(positions or {}))
        description, explicit = part.description, part.explicit
        warnings += part.left_out if floating_base else part.turned if gravity is None else ()
        if gravity is None and not floating_base:
            gravity = product(_snap(part.rotation).T, np.array(GRAVITY))
    elif positions:
        raise ModelError("positions of fixed joints are given, but not the joints that move")
    robot = _number(description, explicit, floating_base, _gravity(gravity), warnings)
    _require_mass(robot)
    return robot


def _gravity(gravity):
    gravity = np.array(GRAVITY if gravity is None else gravity, dtype=float)
    if gravity.shape != (3,) or not np.all(np.abs(gravity) < HUGE):
        raise ModelError(f"gravity must be three numbers below {HUGE:g}, not {gravity.tolist()}")
    return gravity


def _with_armature(description, armature):
    require_known(armature, [joint.name for joint in description.joints], "joint in armature")
    free = {joint.name for joint in description.joints if is_free(joint)}
    for name, value in armature.items():
        if name in free:
            raise ModelError(f"joint {name!r}: a floating joint has no rotor, so no armature")
        if not (value == 0 or TINY <= value < HUGE):
            raise ModelError(
                f"armature of joint {name!r} must be 0, or from {TINY:g} to {HUGE:g} kg m^2, not {value}"
            )
    return replace(
        description,
        joints=tuple(replace(j, armature=armature.get(j.name, j.armature)) for j in description.joints),
    )


# --- numbering ----------------------------------------------------------------------------------------------


def _number(description, explicit, floating_base, gravity, warnings):
    root = _root(description)
    moving = _preorder(description, root)
    if floating_base and not _is_world(description, moving, root):
        if any(joint.name == FLOATING_BASE and joint.kind != "fixed" for joint in moving):
            raise ModelError(f"joint {FLOATING_BASE!r} has the name of the floating base: rename it")
        moving.insert(0, JointDescription(FLOATING_BASE, "floating", "", root))
    slices = _coordinate_slices(moving, explicit)
    frames = _merge(moving, root, _link_inertias(description))
    inertias = _lumped_inertias(description, frames, len([j for j in moving if j.kind != "fixed"]))
    bodies: list[Body] = []
    for joint in moving:
        if joint.kind == "fixed":
            continue
        parent = frames.get(joint.parent, Frame("", -1, np.eye(6)))
        X_joint = motion_transform(joint.rotation.T, joint.origin)
        index = len(bodies)
        X_tree = _snap(product(X_joint, parent.X))
        own = _joint(joint, slices, explicit.get(joint.name))
        bodies.append(Body(joint.child, parent.body, own, X_tree, inertias[index]))
    return Robot(
        description.name, root, tuple(bodies), frames, gravity, warnings, urdf_digest=description.digest
    )


def _root(description):
    children = {joint.child for joint in description.joints}
    return next(link.name for link in description.links if link.name not in children)


def _is_world(description, joints, root):
    """Whether the root link stands for the world: it has no mass, and everything on it floats."""
    links, hanging = {root}, []
    for joint in joints:
        if joint.parent in links and joint.kind == "fixed":
            links.add(joint.child)
        elif joint.parent in links:
            hanging.append(joint)
    heavy = any(link.mass or link.inertia.any() for link in description.links if link.name in links)
    return bool(hanging) and all(map(is_free, hanging)) and not heavy


def _preorder(description, root):
    """The joints depth first from the root, in file order; floating joints before their siblings."""
    below: dict[str, list[JointDescription]] = {}
    for joint in description.joints:
        below.setdefault(joint.parent, []).append(joint)
    order, stack = [], _next_joints(below, root)
    while stack:
        joint = stack.pop()
        order.append(joint)
        stack += _next_joints(below, joint.child)
    return order


def _next_joints(below, link):
    """Reversed, for a stack: the floating ones last, so that they are popped first."""
    return sorted(reversed(below.get(link, [])), key=is_free)


def _coordinate_slices(joints, explicit):
    """{name: (slice of q, slice of v)} of the joints that have coordinates."""
    slices, nq, nv = {}, 0, 0
    for joint in joints:
        if joint.kind != "fixed" and joint.name not in explicit:
            dq, dv = KINDS[joint.kind].nq, KINDS[joint.kind].nv
            slices[joint.name] = (slice(nq, nq + dq), slice(nv, nv + dv))
            nq, nv = nq + dq, nv + dv
    return slices


def _merge(joints, root, inertias):
    """{link name: Frame}: its body and its pose there. inertias: {link name: (6, 6)}."""
    starts_moving = bool(joints) and joints[0].child == root
    frames = {} if starts_moving else {root: Frame(root, -1, np.eye(6), inertia=inertias[root])}
    bodies = 0
    for joint in joints:
        link = joint.child
        if joint.kind == "fixed":
            parent = frames[joint.parent]
            X = _snap(product(motion_transform(joint.rotation.T, joint.origin), parent.X))
            frames[link] = Frame(link, parent.body, X, joint.parent, joint.name, inertias[link])
        else:
            frames[link] = Frame(link, bodies, np.eye(6), joint.parent, inertia=inertias[link])
            bodies += 1
    return frames


def _link_inertias(description):
    """{link name: spatial inertia (6, 6) in link axes}."""
    return {link.name: spatial_inertia(link.mass, link.com, link.inertia) for link in description.links}


def _lumped_inertias(description, frames, nbodies):
    inertias = np.zeros((nbodies, 6, 6))
    for frame in (frames[link.name] for link in description.links):
        if frame.body >= 0:
            inertias[frame.body] += transformed_inertia(frame.X, frame.inertia)
            if not np.abs(inertias[frame.body]).max() < HUGE:
                raise ModelError(f"link {frame.name!r}: mass, center of mass or inertia exceeds {HUGE:g}")
    return inertias


def _snap(X):
    """Remove the rounding of cos(pi/2) and the like: entries within 1e-14 of 0, 1 and -1."""
    nearest = np.round(X)
    return np.where((np.abs(X - nearest) < 1e-14) & (np.abs(nearest) <= 1), nearest, X)


def _joint(joint, slices, explicit):
    joint_type = KINDS[joint.kind]
    axis = joint.direction if joint_type.has_axis else np.zeros(3)
    masters = None
    if explicit is None:
        q, v = slices[joint.name]
    else:
        masters = _masters(explicit, slices)._replace(is_mimic=joint.mimic is not None)
        q, v = (slice(min(places), max(places) + 1) for places in (masters.q, masters.v))
    return Joint(
        name=joint.name,
        kind=joint.kind,
        axis=axis,
        q=q,
        v=v,
        limits=joint.limits,
        damping=joint.damping,
        friction=joint.friction,
        armature=0.0 if joint_type.is_free else joint.armature,
        creep=joint.creep,
        spring=joint.spring,
        torque_offset=joint.torque_offset,
        offset=0.0 if explicit is None else explicit.offset,
        masters=masters,
    )


def _masters(explicit, slices):
    """The Masters of an explicit joint, in the order of their coordinates."""
    names = sorted(explicit.weights, key=lambda name: slices[name][1].start)
    q, v = ([slices[name][part].start for name in names] for part in (0, 1))
    return Masters(tuple(names), tuple(q), tuple(v), tuple(explicit.weights[name] for name in names))


def _require_mass(robot):
    """A coordinate that moves only massless links makes the mass matrix singular."""
    has_inertia = [bool(np.any(body.inertia)) for body in robot.bodies]
    for index in reversed(range(robot.nbodies)):
        if has_inertia[index] and robot.parents[index] >= 0:
            has_inertia[robot.parents[index]] = True
    heavy = np.array(robot.axle_map.T @ robot.armature != 0)
    for index, body in enumerate(robot.bodies):
        if has_inertia[index]:
            heavy[list(body.joint.moved_by)] = True
    for body in robot.bodies:
        if not np.all(heavy[list(body.joint.moved_by)]):
            raise ModelError(
                f"joint {body.joint.name!r} moves only massless links ({body.name!r} and its subtree): "
                "give one a mass, or the joint an armature"
            )
