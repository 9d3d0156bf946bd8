"""Description -> the tree of a Robot: select joints or a subtree, merge fixed links, number moving ones."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from dynamics_node.robot.description import Description, JointDescription
from dynamics_node.robot.errors import ModelError, UnknownNameError
from dynamics_node.robot.explicit import Explicit, explicit_joints
from dynamics_node.robot.joints import KINDS
from dynamics_node.robot.robot import Body, Frame, Joint, Masters, Robot
from dynamics_node.robot.validate import HUGE, is_free
from dynamics_node.symbolic import (
    axis_rotation_parts,
    length,
    motion_transform,
    product,
    sine_cosine,
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
    gravity=GRAVITY,
    armature: Mapping[str, float] | None = None,
    warnings: tuple[str, ...] = (),
) -> Robot:
    """The Robot without constraints of a validated Description; its loops are ignored.

    joints: names of the joints that move; the others are fixed at `positions` (rad or m, 0 by default).
    Explicit joints that follow them move too. root: keep only the links from `root` on; tips: keep only the
    paths to `tips`, and drop the mass of the rest. armature: kg m^2 (or kg) per joint, in place of the
    description's. Raises ModelError for unknown names and for moving parts without inertia, TypeError
    for a `floating_base` that is no bool.
    """
    if not isinstance(floating_base, bool | np.bool_):
        raise TypeError(f"floating_base must be True or False, not {floating_base!r}")
    description = _subtree(description, root, tips)
    explicit = explicit_joints(description)
    description = _with_armature(description, dict(armature or {}))
    if joints is not None:
        description, explicit = _fix_others(description, explicit, list(joints), dict(positions or {}))
    elif positions:
        raise ModelError("positions of fixed joints are given, but not the joints that move")
    robot = _number(description, explicit, floating_base, _gravity(gravity), warnings)
    _require_mass(robot)
    return robot


def _gravity(gravity):
    gravity = np.array(gravity, dtype=float)
    if gravity.shape != (3,) or not np.all(np.isfinite(gravity)):
        raise ModelError(f"gravity must be three finite numbers, not {gravity.tolist()}")
    return gravity


# --- selection ----------------------------------------------------------------------------------------------


def _require_known(names, known, what):
    unknown = [name for name in names if name not in known]
    if unknown:
        raise UnknownNameError(f"unknown {what} {', '.join(map(repr, unknown))}; known: {', '.join(known)}")


def _subtree(description, root, tips):
    if root is None and tips is None:
        return description
    links = [link.name for link in description.links]
    tips = None if tips is None else list(tips)
    _require_known([*([root] if root is not None else []), *(tips or [])], links, "link")
    kept = _below(description, root) if root is not None else set(links)
    if tips is not None:
        kept = _paths(description, kept, tips)
    return Description(
        description.name,
        tuple(link for link in description.links if link.name in kept),
        tuple(j for j in description.joints if j.child in kept and j.parent in kept),
        couplings=tuple(c for c in description.couplings if {c.predecessor, c.successor} <= kept),
        digest=description.digest,
    )


def _below(description, root):
    children: dict[str, list[str]] = {}
    for joint in description.joints:
        children.setdefault(joint.parent, []).append(joint.child)
    links, queue = set(), [root]
    while queue:
        link = queue.pop()
        links.add(link)
        queue += children.get(link, [])
    return links


def _paths(description, within, tips):
    parent = {joint.child: joint.parent for joint in description.joints if joint.child in within}
    kept = set()
    for tip in tips:
        if tip not in within:
            raise ModelError(f"tip link {tip!r} is not below the root link")
        link: str | None = tip
        while link in within:
            kept.add(link)
            link = parent.get(link)
    return kept


def _with_armature(description, armature):
    _require_known(armature, [joint.name for joint in description.joints], "joint in armature")
    free = {joint.name for joint in description.joints if is_free(joint)}
    for name, value in armature.items():
        if name in free:
            raise ModelError(f"joint {name!r}: a floating joint has no rotor, so no armature")
        if not (np.isfinite(value) and value >= 0):
            raise ModelError(f"armature of joint {name!r} must be finite and not negative, not {value}")
    return replace(
        description,
        joints=tuple(replace(j, armature=armature.get(j.name, j.armature)) for j in description.joints),
    )


def _fix_others(description, explicit, chosen, positions):
    """The Description with joints fixed that are not chosen, or follow no chosen one; and the functions of
    the other explicit joints."""
    by_name = {joint.name: joint for joint in description.joints}
    movable = [j.name for j in description.joints if j.kind != "fixed"]
    _require_known([*chosen, *positions], movable, "joint")
    for name in positions:
        kind = by_name[name].kind
        if not KINDS[kind].is_scalar:
            raise ModelError(f"joint {name!r}: a {kind} joint has no single position to be fixed at")
    for name in chosen:
        if name in explicit and explicit[name].weights.keys().isdisjoint(chosen):
            masters = ", ".join(map(repr, explicit[name].weights))
            raise ModelError(f"joint {name!r} follows {masters}: choose that one")
    moving = {name: _following(own, chosen, positions) for name, own in explicit.items()}

    def fixed(joint):
        if joint.kind == "fixed":
            return joint
        if joint.name not in explicit:
            return joint if joint.name in chosen else _fixed_at(joint, positions.get(joint.name, 0.0))
        own = moving[joint.name]
        return joint if own.weights else _fixed_at(joint, own.offset)

    description = replace(description, joints=tuple(fixed(joint) for joint in description.joints))
    return description, {name: own for name, own in moving.items() if own.weights}


def _following(explicit, chosen, positions):
    """The function of an explicit joint in which masters that are not chosen are fixed at their positions."""
    offset = sum(
        (
            weight * positions.get(name, 0.0)
            for name, weight in explicit.weights.items()
            if name not in chosen
        ),
        explicit.offset,
    )
    return Explicit({name: weight for name, weight in explicit.weights.items() if name in chosen}, offset)


def _fixed_at(joint: JointDescription, position: float) -> JointDescription:
    rotation, origin, joint_type = joint.rotation, joint.origin, KINDS[joint.kind]
    if joint_type.slides:
        origin = origin + product(rotation, _unit(joint.axis)) * position
    elif joint_type.turns:
        along, cosine, sine = axis_rotation_parts(_unit(joint.axis))
        s, c = sine_cosine(position)
        rotation = product(rotation, along + c * cosine + s * sine)
    return replace(joint, kind="fixed", rotation=rotation, origin=origin)


def _unit(axis):
    """The axis with length one; 6e-17 becomes zero."""
    axis = np.asarray(axis, dtype=float)
    axis = axis / length(axis)
    axis[np.abs(axis) < 1e-14] = 0.0
    return axis / length(axis)


# --- numbering ----------------------------------------------------------------------------------------------


def _number(description, explicit, floating_base, gravity, warnings):
    root = _root(description)
    moving = _preorder(description, root)
    if floating_base and not any(is_free(j) and j.parent == root for j in moving):
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
    axis = _unit(joint.axis) if joint_type.has_axis else np.zeros(3)
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
