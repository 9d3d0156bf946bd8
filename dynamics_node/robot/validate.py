"""Physical and logical checks of a Description. Every message names the joint or link."""

from html import escape

import numpy as np

from dynamics_node.errors import ModelError
from dynamics_node.robot.constraints import LOOP_KINDS
from dynamics_node.robot.description import JOINT_TYPES, JointDescription
from dynamics_node.robot.joints import KINDS
from dynamics_node.symbolic import rpy_angles

HUGE = 1e15  # above any robot's numbers; products of some of these do not overflow
TINY = 1e-30  # below any robot's masses and inertias; products and reciprocals of some of these do not vanish


def validate(description, strict=False):
    """Check a Description.

    Returns a tuple of warnings (str), those of the Description first. Raises ModelError at the first error;
    with `strict`, implausible inertias are errors too.
    """
    if not description.links:
        raise ModelError("robot description has no links")
    _unique("link", [link.name for link in description.links])
    _unique("joint", [joint.name for joint in (*description.joints, *description.actuators)])
    for link in description.links:
        _check_link_numbers(link)
    for joint in description.joints:
        _check_joint(joint)
    for actuator in description.actuators:
        _check_parameters(f"actuator {actuator.name!r}", actuator)
    _check_tree(description)
    _check_mimic(description)
    _check_closures(description)
    warnings = [w for link in description.links for w in _implausible_inertia(link)]
    if strict and warnings:
        raise ModelError("; ".join(warnings))
    odd = [w for joint in description.joints for w in _odd_numbers(joint)]
    return (*description.warnings, *warnings, *odd)


def _unique(kind, names):
    seen = set()
    for name in names:
        if name in seen:
            raise ModelError(f"{kind} {name!r} is defined twice")
        seen.add(name)


def require_possible_body(link):
    """Raise ModelError for a link with numbers that are not finite or physically impossible."""
    _check_link_numbers(link)
    for reason in _implausible_inertia(link):
        raise ModelError(reason)


def require_finite(owner, what, value):
    """Check that a number is finite, and so far from overflow that its products and squares are finite
    too."""
    if not np.all(np.isfinite(value)):
        raise ModelError(f"{owner}: {what} is not finite ({np.asarray(value).tolist()})")
    if not np.all(np.abs(value) < HUGE):
        raise ModelError(f"{owner}: {what} exceeds {HUGE:g} ({np.asarray(value).tolist()})")


def _not_tiny(owner, what, value):
    size = np.abs(value).max()
    if 0 < size < TINY:
        raise ModelError(f"{owner}: {what} {size:g} is below {TINY:g}: write 0 for none")


def _check_link_numbers(link):
    owner = f"link {link.name!r}"
    require_finite(owner, "mass", link.mass)
    require_finite(owner, "inertial origin", link.com)
    require_finite(owner, "inertia", link.inertia)
    if link.mass < 0:
        raise ModelError(f"{owner}: mass {link.mass} is negative")
    _not_tiny(owner, "mass", link.mass)
    if link.mass == 0:  # else a small inertia is that of a point
        _not_tiny(owner, "inertia", link.inertia)


def _check_joint(joint):
    owner = f"joint {joint.name!r}"
    if joint.kind not in JOINT_TYPES:
        raise ModelError(f"{owner}: unknown type {joint.kind!r}; known: {', '.join(JOINT_TYPES)}, planar")
    for what in ("rotation", "origin", "axis"):
        require_finite(owner, what, getattr(joint, what))
    _check_parameters(owner, joint)
    if joint.kind != "fixed" and KINDS[joint.kind].has_axis and not np.linalg.norm(joint.axis) > 1e-9:
        raise ModelError(f"{owner}: axis is zero")
    limits = joint.limits
    if np.isnan(list(vars(limits).values())).any():
        raise ModelError(f"{owner}: a limit is NaN")
    for what, value in list(vars(limits).items())[2:]:
        if value < 0:
            raise ModelError(f"{owner}: {what} limit {value} is negative")


def _check_parameters(owner, parameters):
    for what in ("damping", "friction", "creep", "armature"):
        value = getattr(parameters, what)
        require_finite(owner, what, value)
        if value < 0:
            raise ModelError(f"{owner}: {what} {value} is negative")
    _not_tiny(owner, "armature", parameters.armature)
    for what in ("spring", "torque_offset"):
        require_finite(owner, what, getattr(parameters, what))


def _check_tree(description):
    links = {link.name for link in description.links}
    parent_joint: dict[str, JointDescription] = {}
    for joint in description.joints:
        for role, name in (("parent", joint.parent), ("child", joint.child)):
            if name not in links:
                raise ModelError(f"joint {joint.name!r}: {role} link {name!r} does not exist")
        if joint.child in parent_joint:
            other = parent_joint[joint.child].name
            raise ModelError(
                f"link {joint.child!r} has two parents: joints {other!r} and {joint.name!r}. "
                f"{_as_loop(joint, description.joints)}"
            )
        parent_joint[joint.child] = joint
    roots = [link.name for link in description.links if link.name not in parent_joint]
    parents = {name: joint.parent for name, joint in parent_joint.items()}
    if cycle := _cycle([link.name for link in description.links], parents.get):
        raise ModelError(f"the links form a cycle, there is no root: {' -> '.join(reversed(cycle))}")
    if len(roots) != 1:
        names = ", ".join(repr(name) for name in roots)
        raise ModelError(f"the links are not one tree; links without a parent joint: {names}")


def _as_loop(joint, joints):
    """The advice to write a loop in place of a joint."""
    kind, link, axis = {"continuous": "revolute"}.get(joint.kind, joint.kind), joint.child, joint.axis
    planar = joint.name.removesuffix(".theta")
    if joint.parent == f"{planar}.y":  # the last of the three joints that stand for a planar one
        kind, joint = "planar", next(one for one in joints if one.name == f"{planar}.x")
    if kind not in LOOP_KINDS:
        return f"Links form a tree: remove joint {joint.name!r}, which constrains nothing"
    name, parent, child = map(escape, (planar if kind == "planar" else joint.name, joint.parent, link))
    axis = f'<axis xyz="{_words(axis)}"/>' if kind in ("revolute", "prismatic", "planar") else ""
    return (
        f'Links form a tree: replace the second joint by <loop name="{name}" type="{kind}"><predecessor '
        f'link="{parent}"><origin xyz="{_words(joint.origin)}" rpy="{_words(rpy_angles(joint.rotation))}"/>'
        f'</predecessor><successor link="{child}"><origin xyz="0 0 0" rpy="0 0 0"/></successor>{axis}'
        "</loop>, where <origin> of the successor is the place of the joint on its link"
    )


def _words(numbers):
    return " ".join(f"{number:.9g}" for number in np.asarray(numbers) + 0.0)


def _cycle(names, above):
    """Names of the first cycle on the ways up from some names, with the first one again at the end; empty if
    there is none. above: name -> the next one, None at the end."""
    ending: set[str] = set()  # names whose way ends
    for name in names:
        path: dict[str, None] = {}  # in order
        while name is not None and name not in ending:
            if name in path:
                cycle = list(path)
                return [*cycle[cycle.index(name) :], name]
            path[name] = None
            name = above(name)
        ending.update(path)
    return []


def _check_mimic(description):
    joints = {joint.name: joint for joint in description.joints}
    for joint in description.joints:
        if joint.mimic is not None:
            _check_mimic_joint(joint, joints)
    masters = {joint.name: joint.mimic.joint for joint in description.joints if joint.mimic is not None}
    if cycle := _cycle(masters, masters.get):
        raise ModelError(f"joints mimic each other in a cycle: {' -> '.join(cycle)}")


def _check_mimic_joint(joint, joints):
    mimic = joint.mimic
    if mimic.joint not in joints:
        raise ModelError(f"joint {joint.name!r} mimics unknown joint {mimic.joint!r}")
    if joints[mimic.joint].kind == "fixed" and joint.kind != "fixed":
        raise ModelError(
            f"joint {joint.name!r} mimics {mimic.joint!r}, which is fixed: make it fixed too, or let it "
            "mimic a joint that moves"
        )
    for kind in (joint.kind, joints[mimic.joint].kind):
        if kind != "fixed" and not KINDS[kind].is_scalar:
            raise ModelError(f"joint {joint.name!r}: a {kind} joint cannot mimic or be mimicked")
    require_finite(f"joint {joint.name!r}", "mimic", (mimic.multiplier, mimic.offset))


def _check_closures(description):
    links = {link.name for link in description.links}
    _unique("loop or coupling", [c.name for c in (*description.loops, *description.couplings)])
    for loop in description.loops:
        owner = f"loop {loop.name!r}"
        if loop.kind not in LOOP_KINDS:
            raise ModelError(f"{owner}: unknown type {loop.kind!r}; known: {', '.join(LOOP_KINDS)}")
        for role, end in (("predecessor", loop.predecessor), ("successor", loop.successor)):
            _check_end(owner, role, end.link, links)
            require_finite(owner, f"frame of the {role}", (*end.rotation.flat, *end.origin))
        for what, axis in (("axis", loop.axis), ("second axis", loop.second_axis)):
            require_finite(owner, what, axis)
            if not np.linalg.norm(axis) > 1e-9:
                raise ModelError(f"{owner}: {what} is zero")
        if LOOP_KINDS[loop.kind].has_length and not (np.isfinite(loop.length) and loop.length > 0):
            raise ModelError(f"{owner}: a {loop.kind} needs a positive length, not {loop.length}")
        require_finite(owner, "length", loop.length)
    for coupling in description.couplings:
        owner = f"coupling {coupling.name!r}"
        for role in ("predecessor", "successor"):
            _check_end(owner, role, getattr(coupling, role), links)
        require_finite(owner, "ratio", coupling.ratio)
        if coupling.ratio == 0:
            raise ModelError(f"{owner}: ratio {coupling.ratio} must not be 0")


def _check_end(owner, role, link, links):
    if link not in links:
        raise ModelError(f"{owner}: {role} link {link!r} does not exist")


def _implausible_inertia(link):
    if not link.inertia.any():
        if link.mass > 0:
            yield f"link {link.name!r}: inertia is zero with mass {link.mass:g}: not positive definite"
        return
    a, b, c = principal_moments(link.inertia)
    moments = f"principal moments {a:.3g} {b:.3g} {c:.3g}"
    if a <= 0:
        yield f"link {link.name!r}: inertia is not positive definite ({moments})"
    elif a + b < c * (1 - 1e-6):
        yield f"link {link.name!r}: inertia breaks the triangle inequality ({moments})"


def principal_moments(inertia):
    """(3,) of an inertia (3, 3), smallest first, rounded to 12 digits of the largest: further digits differ
    between processors."""
    moments = np.linalg.eigvalsh(inertia)
    largest = np.abs(moments).max()
    if largest == 0.0:
        return moments
    digits = 12 - int(np.floor(np.log10(largest)))
    return np.array([round(moment, digits) for moment in moments.tolist()]) + 0.0


def is_free(joint):
    """True for a joint across which no force acts."""
    return joint.kind != "fixed" and KINDS[joint.kind].is_free


def _odd_numbers(joint):
    if is_free(joint) and joint.armature:
        yield f"joint {joint.name!r}: a floating joint has no rotor, its armature is ignored"
    if zero := [what for what, value in list(vars(joint.limits).items())[2:] if value == 0]:
        yield f"joint {joint.name!r}: {' and '.join(zero)} limit 0 means no limit"
    if joint.kind != "fixed" and joint.limits.lower > joint.limits.upper:
        yield f"joint {joint.name!r}: lower limit {joint.limits.lower:g} > upper {joint.limits.upper:g}"
