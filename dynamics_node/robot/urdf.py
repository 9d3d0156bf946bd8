"""The element <robot> of a URDF -> Description. It may come from the network.

urdf_parser_py gets copies of links and joints with the parts that are read, and with words that are
numbers; validate.py checks their values. urdf_elements.py lists what is read.
"""

import contextlib
import io
import math
from collections import Counter
from dataclasses import replace
from xml.etree.ElementTree import Element

import numpy as np
from urdf_parser_py import urdf as parser
from urdf_parser_py.xml_reflection.core import Path, etree

from dynamics_node.errors import ModelError
from dynamics_node.robot.description import (
    JOINT_TYPES,
    LONGEST_NAME,
    Coupling,
    Description,
    JointDescription,
    Limits,
    Link,
    LoopDescription,
    LoopEnd,
    Mimic,
    rounded_turns,
)
from dynamics_node.robot.joints import KINDS
from dynamics_node.robot.planar import expand_planar
from dynamics_node.robot.rotors import armatures
from dynamics_node.robot.transmissions import actuators_of, transmissions_of
from dynamics_node.robot.urdf_elements import READ, unread
from dynamics_node.robot.validate import HUGE, require_finite
from dynamics_node.symbolic import length, quaternion_rotation, rpy_rotation, transformed_inertia
from dynamics_node.text import number, one_line

MAX_LINKS = 5000  # also of joints, and of couplings; no robot has as many
MAX_LOOPS = 200  # those that depend on each other take the cube of their number
# {element with a name: what it is counted as, and the largest count}
_COUNTED = {
    "link": ("links", MAX_LINKS),
    "joint": ("joints", MAX_LINKS),
    "loop": ("loops", MAX_LOOPS),
    "constraint": ("loops", MAX_LOOPS),
    "coupling": ("couplings", MAX_LINKS),
}
KINDS_IN_FILES = (*JOINT_TYPES, "planar")
DEFINITIONS = ("property", "arg", "macro")  # of xacro: they produce nothing by themselves

_BOUNDED = [kind for kind, joint_type in KINDS.items() if joint_type.bounded]
_WORDS = ("name", "type", "independent", "link", "joint")  # attributes that are no numbers
_REQUIRED = ("value", "link")  # the parser reads None
_ENDS = ("parent", "child")  # all that counts of a fixed joint, beside its <origin>
_UNKNOWN_TO_PARSER = ("ball",)  # types of URDF+; read as floating joints first
_CLOSURES = {"loop": ("predecessor", "successor"), "constraint": ("parent", "child")}  # element: its ends


def read_urdf(robot: Element) -> Description:
    """The Description, not yet validated.

    It reads URDF up to version 1.2 and these elements of URDF+: ball joints, and for closed loops <loop>,
    <coupling>, `independent` of a joint, and <constraint>. Raises ModelError, naming the element, for one
    that cannot be read.
    """
    _require_names(robot)
    transmissions = transmissions_of(robot)
    armature, doubled = armatures(robot, transmissions)
    links = [_link(element) for element in robot.iterfind("link")]
    joints = [_joint(element, armature) for element in robot.iterfind("joint")]
    loops = [_loop(element, tag) for tag in _CLOSURES for element in robot.iterfind(tag)]
    actuators, coupled = actuators_of(transmissions, joints)
    remarks = (*_missing(robot), *_unused(joints), *doubled, *coupled, *unread(robot))
    all_links, all_joints = expand_planar(links, joints)
    return Description(
        name=robot.get("name") or "robot",
        links=all_links,
        joints=all_joints,
        loops=tuple(loops),
        couplings=tuple(_coupling(element) for element in robot.iterfind("coupling")),
        actuators=actuators,
        warnings=remarks,
    )


def _require_names(robot):
    """Raise ModelError for more parts than a robot has, and for names that are missing or too long."""
    counts: Counter[str] = Counter()
    for element in robot:
        if element.tag in _COUNTED:
            parts, most = _COUNTED[element.tag]
            counts[parts] += 1
            if counts[parts] > most:
                raise ModelError(f"robot description has more than {most} {parts}")
            if not element.get("name"):
                raise ModelError(f"{element.tag} number {counts[parts]} has no name")
            _require_short(element)
    _require_short(robot)


def _require_short(element):
    name = element.get("name") or ""
    if len(name) > LONGEST_NAME:
        raise ModelError(
            f"the name of {element.tag} {name[:50]!r}... has {len(name)} characters; the limit is "
            f"{LONGEST_NAME}"
        )


def _missing(robot):
    """Warnings about content of macros that is missing, and about joints without limits."""
    names = [element.tag.removeprefix("xacro:") for element in robot.iter() if element.tag[:6] == "xacro:"]
    if names := list(dict.fromkeys(name for name in names if name not in DEFINITIONS)):
        listed = ", ".join(f"<xacro:{one_line(name, 80)}>" for name in names[:5])
        yield f"{listed} not expanded, its content is missing: run xacro on the file first"
    for joint in robot.iterfind("joint"):
        if joint.get("type") in _BOUNDED and joint.find("limit") is None:
            yield f"joint {joint.get('name')!r} is {joint.get('type')} and has no <limit>: it is unlimited"


def _unused(joints):
    """Warnings about numbers of planar joints, in which angles and lengths would share them."""
    for joint in joints:
        if joint.kind == "planar" and (joint.damping or joint.friction or joint.armature):
            yield f"joint {joint.name!r}: damping, friction and armature of a planar joint are not read"


# --- links and joints, by urdf_parser_py --------------------------------------------------------------------


def _parsed(kind, element):
    """The link or joint of urdf_parser_py; what it prints is dropped. Raises ModelError."""
    owner = _owner(element)
    copy = _copy(element, owner, element.get("type") == "fixed")
    with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
        try:
            return kind.from_xml(copy, Path(element.tag))
        except Exception as error:  # the parser raises bare Exception, AssertionError, KeyError ...
            raise ModelError(f"{owner}: {' '.join(str(error).split()) or type(error).__name__}") from None


def _owner(element):
    return f"{element.tag} {element.get('name')!r}"


def _copy(element, owner, is_fixed=False):
    """What is read of an element, except <origin>, for urdf_parser_py: of several children of a kind the
    first one. Raises ModelError for words that are no numbers."""
    content, copy = READ[element.tag], etree.Element(element.tag)
    for key, text in element.items():
        if key in content.attributes:
            words = [text] if key in _WORDS else map(repr, _numbers(element, key, owner).tolist())
            copy.set(key, " ".join(words))
    for key in _REQUIRED:
        if key in content.attributes and key not in element.attrib:
            raise ModelError(f"{owner}: <{element.tag}> has no {key}")
    if element.tag == "limit":  # the parser requires both
        for key in ("effort", "velocity"):
            copy.set(key, copy.get(key, "inf"))
    if copy.get("type") in _UNKNOWN_TO_PARSER:
        copy.set("type", "floating")
    wanted = _ENDS if is_fixed else content.elements - {"origin"}
    for child in element:
        if child.tag in wanted and copy.find(child.tag) is None:
            copy.append(_copy(child, owner))
    return copy


def _link(element):
    name, inertial = element.get("name"), _parsed(parser.Link, element).inertial
    if inertial is None:
        return Link(name)
    rotation, com = pose_of(element.find("inertial").find("origin"), _owner(element))
    inertia = np.zeros((3, 3))
    if inertial.inertia is not None:
        with np.errstate(all="ignore"):  # validate.py names values that are not finite
            inertia = transformed_inertia(rotation.T, np.array(inertial.inertia.to_matrix(), dtype=float))
    return Link(name, float(inertial.mass or 0.0), com, inertia)


def _joint(element, armature):
    """The joint; of a fixed one, its axis, limits, dynamics and mimic have no meaning and are not read.
    armature: {joint: rotor inertia}."""
    owner, name, kind = _owner(element), element.get("name"), element.get("type")
    if kind not in KINDS_IN_FILES:
        known = ", ".join(KINDS_IN_FILES)
        raise ModelError(f"{owner} is of the unknown type {one_line(kind, 40)!r}; known: {known}")
    joint = _parsed(parser.Joint, element)
    rotation, origin = pose_of(element.find("origin"), owner)
    independent = _independent(element, owner)
    read = JointDescription(name, kind, joint.parent, joint.child, rotation, origin, independent=independent)
    if kind == "fixed":
        return read
    dynamics = joint.dynamics
    return replace(
        read,
        axis=np.array(joint.axis or (1.0, 0.0, 0.0), dtype=float),
        limits=_limits(joint.limit, element, kind, owner),
        damping=float((dynamics and dynamics.damping) or 0.0),
        friction=float((dynamics and dynamics.friction) or 0.0),
        armature=armature.get(name, 0.0),
        mimic=_mimic(joint.mimic),
    )


def _mimic(mimic):
    if mimic is None:
        return None
    multiplier = 1.0 if mimic.multiplier is None else float(mimic.multiplier)
    return Mimic(mimic.joint, multiplier, float(mimic.offset or 0.0))


def _limits(limit, element, kind, owner):
    """Its limits, with those of URDF 1.2. Those from HUGE on are infinite: files write the largest number for
    none."""
    if limit is None:
        return Limits()
    bounds = {"velocity": limit.velocity, "effort": limit.effort}
    for key in ("acceleration", "jerk", "deceleration"):
        default = bounds["acceleration"] if key == "deceleration" else np.inf
        (bounds[key],) = _numbers(element.find("limit"), key, owner, (default,))
    if kind in _BOUNDED:
        bounds |= {"lower": limit.lower or 0.0, "upper": limit.upper or 0.0}
    return Limits(
        **{key: math.copysign(math.inf, x) if abs(x) >= HUGE else float(x) for key, x in bounds.items()}
    )


def _independent(element, owner):
    """Whether the joint may be independent; None if the file has no such attribute."""
    text = element.get("independent")
    if text is not None and text.strip().lower() not in ("true", "false"):
        raise ModelError(f"{owner}: independent is 'true' or 'false', not {text!r}")
    return None if text is None else text.strip().lower() == "true"


# --- closed loops -------------------------------------------------------------------------------------------


def _loop(element, tag):
    owner = _owner(element)
    predecessor, successor = (_loop_end(_one(element, end, owner), owner) for end in _CLOSURES[tag])
    axis = _numbers(element.find("axis"), "xyz", owner, (0.0, 0.0, 1.0))
    second = _numbers(element.find("axis2"), "xyz", owner, (1.0, 0.0, 0.0))
    (length,) = _numbers(element.find("length"), "value", owner, (0.0,))
    kind = element.get("type", "fixed")
    return LoopDescription(element.get("name"), kind, predecessor, successor, axis, second, float(length))


def _loop_end(element, owner):
    rotation, origin = pose_of(element.find("origin"), owner)
    return LoopEnd(_link_of(element, owner), rotation, origin)


def _coupling(element):
    owner = _owner(element)
    first, second = (_link_of(_one(element, tag, owner), owner) for tag in ("predecessor", "successor"))
    (ratio,) = _numbers(_one(element, "ratio", owner), "value", owner, (np.nan,))
    return Coupling(element.get("name"), first, second, float(ratio))


def _one(element, tag, owner):
    children = element.findall(tag)
    if len(children) != 1:
        raise ModelError(f"{owner} needs one <{tag}>, not {len(children)}")
    return children[0]


def _link_of(element, owner):
    if not element.get("link"):
        raise ModelError(f"{owner}: <{element.tag}> names no link")
    return element.get("link")


# --- numbers ------------------------------------------------------------------------------------------------


def pose_of(origin: Element | None, owner):
    """Rotation (3, 3) and position (3,) of an <origin>. Raises ModelError, which names the owner."""
    rotation = rotation_of({} if origin is None else origin.attrib, owner)
    return rotation, _numbers(origin, "xyz", owner, (0.0, 0.0, 0.0))


def rotation_of(attributes, owner):
    """Rotation (3, 3) by the attributes of an <origin>: rpy, or quat_xyzw of URDF 1.1. Raises ModelError."""
    if "quat_xyzw" not in attributes:
        rpy = numbers(attributes.get("rpy") or "0 0 0", f"{owner}: rpy of <origin>", 3)
        require_finite(owner, "rpy of <origin>", rpy)
        return rpy_rotation(rounded_turns(rpy))
    if "rpy" in attributes:
        raise ModelError(f"{owner}: an <origin> has both rpy and quat_xyzw: remove one")
    quaternion = numbers(attributes["quat_xyzw"], f"{owner}: quat_xyzw of <origin>", 4)
    if not 0 < length(quaternion) < np.inf:
        raise ModelError(f"{owner}: quat_xyzw of <origin> needs four finite numbers, not all zero")
    return quaternion_rotation(quaternion / length(quaternion))


def _numbers(element, key, owner, default=()):
    """The numbers of an attribute, as many as in `default`, which is those of a missing one; () allows any
    number."""
    text = None if element is None else element.get(key)
    if text is None:
        return np.array(default)
    return numbers(text, f"{owner}: {key} of <{element.tag}>", len(default))


def numbers(text, what, count=0) -> np.ndarray:
    """The numbers (count,) in a text; 0 allows any count. Raises ModelError, which begins with `what`."""
    if "${" in text or "$(" in text:
        raise ModelError(
            f"{what}: {one_line(text, 40)!r} is an expression of xacro: expand the file, or name it .xacro, "
            "see docs/how-to/bring_your_robot.md"
        )
    try:
        read = np.array([number(word) for word in text.split()])
    except ValueError as error:
        raise ModelError(f"{what}: {error}") from None
    if count and len(read) != count:
        raise ModelError(f"{what} must have {count} numbers, not {len(read)}")
    return read
