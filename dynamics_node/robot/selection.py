"""Part of a Description: some joints move, the others are fixed, and another link is the root.

A link that no joint moves any more still has its mass. Only links above a new root, or beside it, are left
out: a fixed root has no part in the dynamics.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dynamics_node.errors import ModelError, UnknownNameError
from dynamics_node.robot.description import Description, JointDescription, snapped
from dynamics_node.robot.explicit import Explicit, joints_above, joints_apart
from dynamics_node.robot.joints import KINDS
from dynamics_node.robot.validate import HUGE, require_finite
from dynamics_node.symbolic import axis_rotation_parts, product, sine_cosine
from dynamics_node.text import listed

GRAVITY = (0.0, 0.0, -9.81)


class Selection(NamedTuple):
    """The arguments of `load_robot` that choose a part of a Description, its gravity and its rotors."""

    floating_base: bool = False
    joints: Iterable[str] | None = None
    positions: Mapping[str, float] | None = None
    root: str | None = None
    tips: Iterable[str] | None = None
    gravity: ArrayLike | None = None
    armature: Mapping[str, float] | None = None


WHOLE = Selection()


class Part(NamedTuple):
    """description, explicit, actuators: of the part. gravity (3,): in the axes of its root. warnings: of the
    mass of links that are not in the part, or of joints at 0 that turn its root; empty or of one line."""

    description: Description
    explicit: dict[str, Explicit]
    actuators: dict[str, Explicit]
    gravity: np.ndarray
    warnings: tuple[str, ...] = ()


def selected(
    description: Description,
    explicit: dict[str, Explicit],
    actuators: dict[str, Explicit],
    selection: Selection,
) -> Part:
    """The part in which only the selected joints move, and those that follow them. Raises ModelError for
    unknown names, for tips and joints that are not below the root, and for gravity that is not finite."""
    root, tips, joints, given = selection.root, selection.tips, selection.joints, selection.gravity
    usual = GRAVITY if description.gravity is None else description.gravity
    gravity = np.array(usual if given is None else given, dtype=float)
    if gravity.shape != (3,) or not np.all(np.abs(gravity) < HUGE):
        raise ModelError(f"gravity must be three numbers below {HUGE:g}, not {gravity.tolist()}")
    positions = dict(selection.positions or {})
    if root is tips is joints is None:
        if positions:
            raise ModelError("positions of fixed joints are given, but not the joints that move")
        return Part(description, explicit, actuators, gravity)
    links = [link.name for link in description.links]
    tips = None if tips is None else list(tips)
    require_known([*([] if root is None else [root]), *(tips or [])], links, "link")
    within = set(links) if root is None else _below(description, root)
    chosen = _chosen(description, explicit, within, tips, joints)
    fixed, moving = _fix_others(description, explicit, chosen, positions)
    turning = {name: _following(function, chosen, positions) for name, function in actuators.items()}
    turning = {name: function for name, function in turning.items() if function.weights}
    if root is None:
        return Part(fixed, moving, turning, gravity)
    if selection.floating_base:
        warnings = _left_out(description, root, within)
    else:
        rotation, turned = _turned(description, explicit, fixed, root, positions)
        if given is None:
            gravity = product(rotation.T, gravity)
        warnings = turned if given is None else ()
    below = replace(
        fixed,
        links=tuple(link for link in fixed.links if link.name in within),
        joints=tuple(joint for joint in fixed.joints if joint.parent in within),
    )
    return Part(below, moving, turning, gravity, warnings)


def _chosen(description, explicit, within, tips, joints):
    """Names of the joints that move."""
    chosen = {joint.name for joint in description.joints if joint.parent in within and joint.kind != "fixed"}
    if tips is not None:
        chosen &= _towards(description, explicit, within, tips)
    if joints is None:
        return chosen - explicit.keys()
    joints = list(joints)
    require_known(joints, [joint.name for joint in description.joints if joint.kind != "fixed"], "joint")
    if others := [name for name in joints if name not in chosen]:
        raise ModelError(f"joint {others[0]!r} is not between the root link and the tips")
    return set(joints)


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
        {joint.name for joint in chain(*joints_apart(up, loop.predecessor.link, loop.successor.link))}
        for loop in description.loops
    ]
    coupled = [*loops, *({name, *function.weights} for name, function in explicit.items())]
    while more := [group for group in coupled if not names.isdisjoint(group) and not group <= names]:
        names.update(*more)
    return names


def _left_out(description, root, within):
    """A warning of the mass of links that are not within the part."""
    masses = {link.name: link.mass for link in description.links if link.name not in within and link.mass}
    warning = (
        f"root={root!r} leaves out {sum(masses.values()):g} kg: links {listed(map(repr, masses), 3)} do not "
        "move with the floating base"
    )
    return (warning,) * bool(masses)


def _turned(description, explicit, fixed, root, positions):
    """The rotation (3, 3) of a root in the axes of the whole one's, and a warning of joints without position
    that turn it. fixed: the description with fixed joints."""
    rotation, turned = np.eye(3), []
    at, up = ({joint.child: joint for joint in each.joints} for each in (fixed, description))
    for joint in joints_above(up, root):
        names = explicit[joint.name].weights if joint.name in explicit else (joint.name,)
        if not set(positions).issuperset(names) and _tilts(joint, product(rotation, joint.rotation)):
            turned.append(repr(joint.name))
        rotation = product(rotation, at[joint.child].rotation)
    warning = (
        f"gravity in the axes of {root!r} is that at position 0 of {listed(turned, 3)}: give positions or "
        "gravity"
    )
    return snapped(rotation), (warning,) * bool(turned)


def _tilts(joint, rotation):
    """Whether a joint turns its link about an axis that is not vertical. rotation (3, 3): of the joint."""
    if joint.kind == "fixed" or KINDS[joint.kind].slides:
        return False
    return not KINDS[joint.kind].turns or np.abs(product(rotation, joint.direction)[:2]).max() > 1e-9


def _fix_others(description, explicit, chosen, positions):
    """The Description with joints fixed that are not chosen, or follow no chosen one; and the functions of
    the other explicit joints."""
    _check_choice(description, explicit, chosen, positions)
    moving = {name: _following(function, chosen, positions) for name, function in explicit.items()}

    def place(joint):
        """The joint, fixed if it does not move."""
        if joint.kind == "fixed":
            return joint
        if joint.name not in explicit:
            return joint if joint.name in chosen else _fixed_at(joint, positions.get(joint.name, 0.0))
        function = moving[joint.name]
        return joint if function.weights else _fixed_at(joint, function.offset)

    description = replace(description, joints=tuple(place(joint) for joint in description.joints))
    return description, {name: function for name, function in moving.items() if function.weights}


def _check_choice(description, explicit, chosen, positions):
    """Raise ModelError for unknown joints, positions that fix nothing, and explicit joints without their
    masters."""
    movable = {joint.name: joint for joint in description.joints if joint.kind != "fixed"}
    require_known([*chosen, *positions], movable, "joint")
    for name in positions:
        kind = movable[name].kind
        if not KINDS[kind].is_scalar:
            raise ModelError(f"joint {name!r}: a {kind} joint has no single position to be fixed at")
        require_finite(f"joint {name!r}", "position", positions[name])
    for name in chosen & explicit.keys():
        if explicit[name].weights.keys().isdisjoint(chosen):
            masters = ", ".join(map(repr, explicit[name].weights))
            raise ModelError(f"joint {name!r} follows {masters}: choose that one")


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
