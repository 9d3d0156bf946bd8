"""Part of a Description: some joints move, the others are fixed, and another link is the root.

A link that no joint moves any more still has its mass. Only links above a new root, or beside it, are left
out: a fixed root has no part in the dynamics.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from dynamics_node.errors import ModelError, UnknownNameError
from dynamics_node.robot.description import Description, JointDescription
from dynamics_node.robot.explicit import Explicit, joints_above, joints_apart
from dynamics_node.robot.joints import KINDS
from dynamics_node.robot.validate import require_finite
from dynamics_node.symbolic import axis_rotation_parts, product, sine_cosine
from dynamics_node.text import listed


class Part(NamedTuple):
    """description, explicit: of the part; rotation (3, 3): of its root in the axes of the whole one's root.
    left_out: a warning of the mass of links that are not in the part; turned: of joints at 0 that turn its
    root. Both are empty or of one line."""

    description: Description
    explicit: dict[str, Explicit]
    rotation: np.ndarray
    left_out: tuple[str, ...]
    turned: tuple[str, ...]


def selected(description, explicit, root, tips, joints, positions) -> Part:
    """The part in which only the selected joints move, and those that follow them; see `load_robot`. Raises
    ModelError for unknown names, and for tips and joints that are not below the root."""
    links = [link.name for link in description.links]
    tips = None if tips is None else list(tips)
    require_known([*([] if root is None else [root]), *(tips or [])], links, "link")
    within = set(links) if root is None else _below(description, root)
    chosen = {joint.name for joint in description.joints if joint.parent in within and joint.kind != "fixed"}
    if tips is not None:
        chosen &= _towards(description, explicit, within, tips)
    if joints is not None:
        joints = list(joints)
        require_known(joints, [own.name for own in description.joints if own.kind != "fixed"], "joint")
        if others := [name for name in joints if name not in chosen]:
            raise ModelError(f"joint {others[0]!r} is not between the root link and the tips")
        chosen = set(joints)
    else:
        chosen -= explicit.keys()
    fixed, own = _fix_others(description, explicit, chosen, positions)
    if root is None:
        return Part(fixed, own, np.eye(3), (), ())
    below, rotation, left_out, turned = _rooted(description, explicit, fixed, root, within, positions)
    return Part(below, own, rotation, left_out, turned)


def require_known(names, known, what):
    """Raise UnknownNameError if names are not among the known ones."""
    known = dict.fromkeys(known)
    unknown = [name for name in names if name not in known]
    if unknown:
        raise UnknownNameError(f"unknown {what} {', '.join(map(repr, unknown))}; known: {', '.join(known)}")


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


def _towards(description, explicit, within, tips):
    """Names of the joints on the ways to the tips, and of those coupled to them by mimics, gears, loops."""
    up = {
        joint.child: joint for joint in description.joints if joint.child in within and joint.parent in within
    }
    names: set[str] = set()
    for tip in tips:
        if tip not in within:
            raise ModelError(f"tip link {tip!r} is not below the root link")
        names |= {joint.name for joint in joints_above(up, tip)}
    loops = [
        {joint.name for way in joints_apart(up, loop.predecessor.link, loop.successor.link) for joint in way}
        for loop in description.loops
    ]
    coupled = [*loops, *({name, *own.weights} for name, own in explicit.items())]
    while more := [group for group in coupled if not names.isdisjoint(group) and not group <= names]:
        names.update(*more)
    return names


def _rooted(description, explicit, fixed, root, within, positions):
    """The links and joints below a root, the rotation of the root, and warnings. fixed: the description with
    fixed joints."""
    rotation, turned = np.eye(3), []
    at, up = ({joint.child: joint for joint in own.joints} for own in (fixed, description))
    for joint in joints_above(up, root):
        names = explicit[joint.name].weights if joint.name in explicit else (joint.name,)
        if not set(positions).issuperset(names) and _tilts(joint, product(rotation, joint.rotation)):
            turned.append(repr(joint.name))
        rotation = product(rotation, at[joint.child].rotation)
    masses = {link.name: link.mass for link in description.links if link.name not in within and link.mass}
    part = replace(
        fixed,
        links=tuple(link for link in fixed.links if link.name in within),
        joints=tuple(joint for joint in fixed.joints if joint.parent in within),
    )
    left_out = (
        f"root={root!r} leaves out {sum(masses.values()):g} kg: links {listed(map(repr, masses), 3)} do not "
        "move with the floating base"
    )
    at_zero = (
        f"gravity in the axes of {root!r} is that at position 0 of {listed(turned, 3)}: give positions or "
        "gravity"
    )
    return part, rotation, (left_out,) * bool(masses), (at_zero,) * bool(turned)


def _tilts(joint, rotation):
    """Whether a joint turns its link about an axis that is not vertical. rotation (3, 3): of the joint."""
    if joint.kind == "fixed" or KINDS[joint.kind].slides:
        return False
    return not KINDS[joint.kind].turns or np.abs(product(rotation, joint.direction)[:2]).max() > 1e-9


def _fix_others(description, explicit, chosen, positions):
    """The Description with joints fixed that are not chosen, or follow no chosen one; and the functions of
    the other explicit joints."""
    by_name = {joint.name: joint for joint in description.joints}
    movable = [j.name for j in description.joints if j.kind != "fixed"]
    require_known([*chosen, *positions], movable, "joint")
    for name in positions:
        kind = by_name[name].kind
        if not KINDS[kind].is_scalar:
            raise ModelError(f"joint {name!r}: a {kind} joint has no single position to be fixed at")
        require_finite(f"joint {name!r}", "position", positions[name])
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
        origin = origin + product(rotation, joint.direction) * position
    elif joint_type.turns:
        along, cosine, sine = axis_rotation_parts(joint.direction)
        s, c = sine_cosine(position)
        rotation = product(rotation, along + c * cosine + s * sine)
    return replace(joint, kind="fixed", rotation=rotation, origin=origin)
