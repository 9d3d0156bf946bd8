"""Description -> the tree of a Robot: select joints or a subtree, merge fixed links, number moving ones."""

from dataclasses import replace

import numpy as np

from dynamics_node.errors import ModelError
from dynamics_node.robot.bodies import Actuator, Body, Frame, Joint, Masters
from dynamics_node.robot.constraints import LoopJoint
from dynamics_node.robot.description import JOINT_PARAMETERS, Description, JointDescription, snapped
from dynamics_node.robot.explicit import actuator_functions, explicit_joints, joints_apart
from dynamics_node.robot.joints import KINDS
from dynamics_node.robot.robot import Robot
from dynamics_node.robot.selection import WHOLE, Selection, require_known, selected
from dynamics_node.robot.validate import HUGE, TINY, is_free
from dynamics_node.symbolic import (
    motion_transform,
    product,
    spatial_inertia,
    transform_origin,
    transform_rotation,
    transformed_inertia,
    without_rounding,
)

FLOATING_BASE = "floating_base"
CLOSED = 1e-6  # m, rad: loops between fixed links that are open by less are closed


def tree_from_description(
    description: Description, selection: Selection = WHOLE, warnings: tuple[str, ...] = ()
) -> Robot:
    """The Robot without constraints of a validated Description; its loops are ignored. Raises ModelError for
    unknown names and for moving parts without inertia, TypeError for a `floating_base` that is no bool."""
    if not isinstance(selection.floating_base, bool | np.bool_):
        raise TypeError(f"floating_base must be True or False, not {selection.floating_base!r}")
    explicit = explicit_joints(description)
    description = _with_armature(description, dict(selection.armature or {}))
    part = selected(description, explicit, actuator_functions(description, explicit), selection)
    robot = _number(part, selection.floating_base, warnings + part.warnings)
    _require_mass(robot)
    return robot


def _with_armature(description, armature):
    coupled = [actuator.name for actuator in description.actuators if len(actuator.weights) > 1]
    known = [*(joint.name for joint in description.joints), *coupled]
    require_known(armature, known, "joint in armature")
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
        actuators=tuple(
            replace(motor, armature=armature.get(motor.name, motor.armature))
            for motor in description.actuators
        ),
    )


# --- numbering ----------------------------------------------------------------------------------------------


def _number(part, floating_base, warnings):
    description, explicit = part.description, part.explicit
    root = _root(description)
    joints = _preorder(description, root)
    if floating_base and not _is_world(description, joints, root):
        if any(joint.name == FLOATING_BASE and joint.kind != "fixed" for joint in joints):
            raise ModelError(f"joint {FLOATING_BASE!r} has the name of the floating base: rename it")
        joints.insert(0, JointDescription(FLOATING_BASE, "floating", "", root))
    slices = _coordinate_slices(joints, explicit)
    inertias = {link.name: spatial_inertia(link.mass, link.com, link.inertia) for link in description.links}
    world = Frame(root, -1, np.eye(6), inertia=inertias[root])
    starts_moving = bool(joints) and joints[0].child == root
    frames = {} if starts_moving else {root: world}
    bodies: list[Body] = []
    for joint in joints:
        parent = frames.get(joint.parent, world)
        X = snapped(product(motion_transform(joint.rotation.T, joint.origin), parent.X))
        shared = {"parent": joint.parent, "inertia": inertias[joint.child]}
        if joint.kind == "fixed":
            frames[joint.child] = Frame(joint.child, parent.body, X, fixed_joint=joint.name, **shared)
        else:
            frames[joint.child] = Frame(joint.child, len(bodies), np.eye(6), **shared)
            moving = _joint(joint, slices, explicit.get(joint.name))
            bodies.append(Body(joint.child, parent.body, moving, X, np.zeros((6, 6))))
    lumped = _lumped_inertias(description, frames, len(bodies))
    bodies = [replace(body, inertia=inertia) for body, inertia in zip(bodies, lumped, strict=True)]
    return Robot(
        description.name, root, tuple(bodies), frames, part.gravity, warnings,
        urdf_digest=description.digest, actuators=tuple(_actuators(part, slices)),
    )  # fmt: skip


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


def _lumped_inertias(description, frames, nbodies):
    inertias = np.zeros((nbodies, 6, 6))
    for frame in (frames[link.name] for link in description.links):
        if frame.body >= 0:
            inertias[frame.body] += transformed_inertia(frame.X, frame.inertia)
            if not np.abs(inertias[frame.body]).max() < HUGE:
                raise ModelError(f"link {frame.name!r}: mass, center of mass or inertia exceeds {HUGE:g}")
    return without_rounding(inertias)


def _joint(joint, slices, explicit):
    joint_type = KINDS[joint.kind]
    parameters = {name: getattr(joint, name) for name in JOINT_PARAMETERS}
    if joint_type.is_free:
        parameters["armature"] = 0.0
    masters = None
    if explicit is None:
        q, v = slices[joint.name]
    else:
        masters = _masters(explicit, slices)._replace(is_mimic=joint.mimic is not None)
        q, v = (slice(min(places), max(places) + 1) for places in (masters.q, masters.v))
    return Joint(
        name=joint.name,
        kind=joint.kind,
        axis=joint.direction if joint_type.has_axis else np.zeros(3),
        q=q,
        v=v,
        offset=0.0 if explicit is None else explicit.offset,
        masters=masters,
        **parameters,
    )


def _actuators(part, slices):
    """The motors whose joints move. Those of one joint have their rotor there."""
    for motor in part.description.actuators:
        if motor.name in part.actuators:
            masters = _masters(part.actuators[motor.name], slices)
            yield Actuator(
                name=motor.name,
                kind="continuous",
                axis=np.array([0.0, 0.0, 1.0]),
                q=slice(min(masters.q), max(masters.q) + 1),
                v=slice(min(masters.v), max(masters.v) + 1),
                offset=part.actuators[motor.name].offset,
                masters=masters,
                transmission=motor.transmission,
                coupled=any(getattr(motor, name) for name in JOINT_PARAMETERS if name != "limits"),
                **{name: getattr(motor, name) for name in JOINT_PARAMETERS},
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


# --- loops --------------------------------------------------------------------------------------------------


def loop_joints(tree: Robot, description: Description) -> tuple[list[LoopJoint], list[str]]:
    """The LoopJoints between links of the tree whose ends move against each other, and warnings about others
    that are open. Raises ModelError for a loop with one link outside the tree."""
    up = {joint.child: joint for joint in description.joints}
    loops, warnings = [], []
    for loop in description.loops:
        ends = (loop.predecessor, loop.successor)
        left_out = [end.link for end in ends if end.link not in tree.frames]
        if len(left_out) == 1:
            raise ModelError(
                f"loop {loop.name!r} needs link {left_out[0]!r}, which root={tree.base_link!r} leaves out"
            )
        if left_out:
            continue
        (a, R, p), (b, S, s) = (_end(tree, end) for end in ends)
        axes = loop.axis, loop.second_axis
        joint = LoopJoint(loop.name, loop.kind, a, b, (R, S), (p, s), *axes, loop.length)
        moved = any(joints_apart(up, *(end.link for end in ends)))
        if not moved or joint.predecessor != joint.successor:
            loops.append(joint)
        elif (gap := _gap(joint)) > CLOSED:
            warnings.append(
                f"loop {loop.name!r} is open by {gap:.3g} (m or rad) where its joints are fixed: give "
                "positions at which it is closed"
            )
    return loops, warnings


def _end(tree, end):
    """Body, rotation and origin of a frame on a link."""
    frame = tree.frames[end.link]
    E = transform_rotation(frame.X)
    return frame.body, product(E.T, end.rotation), product(E.T, end.origin) + transform_origin(frame.X)


def _gap(joint):
    """By how much a LoopJoint on one body is open, m or rad."""
    phi = joint.type.phi(joint, *joint.rotations, np.subtract(*joint.origins))
    return np.abs(np.array(phi) / joint.type.scale(joint)).max()
