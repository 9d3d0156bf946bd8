"""URDF text -> Description. The text may come from the network.

safe_xml.py reads the XML. urdf_parser_py gets a copy with the elements that it knows, and with words that are
numbers; validate.py checks their values. urdf_elements.py lists what is read.
"""

import contextlib
import io
import math
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
from urdf_parser_py import urdf as parser

from dynamics_node.errors import ModelError
from dynamics_node.robot.description import (
    LONGEST_NAME,
    Coupling,
    Description,
    JointDescription,
    Limits,
    Link,
    LoopDescription,
    LoopEnd,
    Mimic,
)
from dynamics_node.robot.joints import KINDS
from dynamics_node.robot.rotors import armatures
from dynamics_node.robot.safe_xml import elements
from dynamics_node.robot.urdf_elements import unread
from dynamics_node.robot.validate import HUGE, require_finite
from dynamics_node.symbolic import length, quaternion_rotation, rpy_angles, rpy_rotation, transformed_inertia
from dynamics_node.text import number, one_line

MAX_BYTES = 8 * 1024 * 1024
MAX_LINKS = 5000  # also of joints, and of couplings; no robot has as many
MAX_LOOPS = 200  # those that depend on each other take the cube of their number
DEFINITIONS = ("property", "arg", "macro")  # of xacro: they produce nothing by themselves

_BOUNDED = [kind for kind, joint_type in KINDS.items() if joint_type.bounded]
# {element: attributes, elements} of the copy for urdf_parser_py
_KNOWN: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "link": (("name",), ("inertial",)),
    "inertial": ((), ("origin", "mass", "inertia")),
    "mass": (("value",), ()),
    "inertia": (("ixx", "ixy", "ixz", "iyy", "iyz", "izz"), ()),
    "joint": (("name", "type"), ("origin", "parent", "child", "axis", "limit", "dynamics", "mimic")),
    "origin": (("xyz", "rpy"), ()),
    "parent": (("link",), ()),
    "child": (("link",), ()),
    "axis": (("xyz",), ()),
    "limit": (("lower", "upper", "effort", "velocity"), ()),
    "dynamics": (("damping", "friction"), ()),
    "mimic": (("joint", "multiplier", "offset"), ()),
}
_WORDS = ("name", "type", "link", "joint")  # attributes that are no numbers
_REQUIRED = ("value", "link")  # the parser reads None
_ENDS = ("origin", "parent", "child")  # all that counts of a fixed joint
_UNKNOWN_TO_PARSER = ("ball",)  # types of URDF+; read as floating joints first
_CLOSURES = {"loop": ("predecessor", "successor"), "constraint": ("parent", "child")}  # element: its ends


def parse_urdf(text):
    """Read URDF text.

    text: str or bytes. Returns a Description, not yet validated.
    It reads URDF up to version 1.2 and these elements of URDF+: ball joints, and for closed loops <loop>,
    <coupling>, `independent` of a joint, and <constraint>. Raises ModelError for over-sized, malformed or
    hostile XML, and for an unreadable element (named).
    """
    robot = read_xml(text)
    _require_few(robot)
    _require_names(robot)
    armature, doubled = armatures(robot)
    parsed = _parsed(robot)
    links = [_link(link) for link in parsed.links]
    joints = [
        _joint(joint, element, armature.get(joint.name, 0.0))
        for joint, element in zip(parsed.joints, robot.iterfind("joint"), strict=True)
    ]
    remarks = (*_missing(robot), *_unused(joints), *doubled, *unread(robot))
    links, joints = expand_planar(links, joints)
    return Description(
        name=robot.get("name") or "robot",
        links=links,
        joints=joints,
        loops=tuple(
            _loop(element, ends) for tag, ends in _CLOSURES.items() for element in robot.iterfind(tag)
        ),
        couplings=tuple(_coupling(element) for element in robot.iterfind("coupling")),
        warnings=remarks,
    )


def read_xml(text):
    """The element <robot> of text that may be hostile. Raises ModelError."""
    try:
        data = text.encode() if isinstance(text, str) else bytes(text)
    except UnicodeEncodeError as error:
        raise ModelError(f"robot description is not valid text: {error}") from None
    if len(data) > MAX_BYTES:
        raise ModelError(
            f"robot description has {len(data)} bytes; the limit is {MAX_BYTES} (embed no meshes)"
        )
    robot = elements(text if isinstance(text, str) else data)
    if robot.tag != "robot":
        raise ModelError(f"robot description starts with <{robot.tag}>, not <robot>: it is not URDF")
    for element in robot:
        for origin in element.iter("origin"):
            if "quat_xyzw" in origin.attrib:
                origin.set("rpy", rpy_text(origin.attrib, f"{element.tag} {element.get('name')!r}"))
    return robot


def rpy_text(attributes, owner) -> str:
    """The rotation of an <origin> as roll, pitch and yaw, also of `quat_xyzw` (URDF 1.1). Raises ModelError
    that names the owner."""
    text = attributes.get("quat_xyzw")
    if text is None:
        return attributes.get("rpy") or "0 0 0"
    if attributes.get("rpy") is not None:
        raise ModelError(f"{owner}: an <origin> has both rpy and quat_xyzw: remove one")
    try:
        quaternion = np.array([number(word) for word in text.split()])
    except ValueError:
        quaternion = np.zeros(0)
    if quaternion.shape != (4,) or not 0 < length(quaternion) < np.inf:
        raise ModelError(f"{owner}: quat_xyzw={text!r} needs four numbers x y z w, not all zero")
    return " ".join(map(repr, rpy_angles(quaternion_rotation(quaternion / length(quaternion)))))


def _require_few(robot):
    kinds = {
        "links": (("link",), MAX_LINKS),
        "joints": (("joint",), MAX_LINKS),
        "loops": (tuple(_CLOSURES), MAX_LOOPS),
        "couplings": (("coupling",), MAX_LINKS),
    }
    for what, (tags, most) in kinds.items():
        count = sum(1 for tag in tags for _ in robot.iterfind(tag))
        if count > most:
            raise ModelError(f"robot description has {count} {what}; the limit is {most}")


def _require_names(robot):
    for tag in ("link", "joint", "loop", "constraint", "coupling"):
        for place, element in enumerate(robot.iterfind(tag), 1):
            name = element.get("name")
            if not name:
                raise ModelError(f"{tag} number {place} has no name")
            _require_short(tag, name)
    _require_short("robot", robot.get("name") or "")


def _require_short(tag, name):
    if len(name) > LONGEST_NAME:
        raise ModelError(
            f"the name of {tag} {name[:50]!r}... has {len(name)} characters; the limit is {LONGEST_NAME}"
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


def _parsed(robot):
    """The robot of urdf_parser_py. Raises ModelError that names the faulty link or joint."""
    clean = ElementTree.Element("robot", name=robot.get("name") or "robot")
    for tag in ("link", "joint"):
        for element in robot.iterfind(tag):
            clean.append(_copy(element, f"{tag} {element.get('name')!r}", element.get("type") == "fixed"))
    parsed = _try_parse(parser.URDF, clean)
    if not isinstance(parsed, Exception):
        return parsed
    for element in clean:  # find the faulty one
        kind = parser.Link if element.tag == "link" else parser.Joint
        reason = _try_parse(kind, element)
        if isinstance(reason, Exception):
            raise ModelError(f"{element.tag} {element.get('name')!r}: {_one_line(reason)}")
    raise ModelError(f"robot description: {_one_line(parsed)}")


def _copy(element, owner, is_fixed=False):
    """What urdf_parser_py knows of an element: of several children of a kind the first one. Raises ModelError
    for words that are no numbers."""
    attributes, children = _KNOWN[element.tag]
    copy = ElementTree.Element(element.tag)
    for key in attributes:
        if (text := element.get(key)) is None:
            if key in _REQUIRED:
                raise ModelError(f"{owner}: <{element.tag}> has no {key}")
            continue
        try:
            copy.set(key, text if key in _WORDS else " ".join(repr(number(word)) for word in text.split()))
        except ValueError as error:
            raise ModelError(f"{owner}: {key} of <{element.tag}>: {error}") from None
    if element.tag == "limit":  # the parser requires both
        for key in ("effort", "velocity"):
            copy.set(key, copy.get(key, "inf"))
    if copy.get("type") in _UNKNOWN_TO_PARSER:
        copy.set("type", "floating")
    for tag in _ENDS if is_fixed else children:
        if (child := element.find(tag)) is not None:
            copy.append(_copy(child, owner))
    return copy


def _try_parse(kind, element):
    """The parsed object, or the exception; the parser's printed output is dropped."""
    with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
        try:
            return kind.from_xml_string(ElementTree.tostring(element))
        except Exception as error:  # the parser raises bare Exception, AssertionError, KeyError ...
            return error


def _one_line(error):
    return " ".join(str(error).split()) or type(error).__name__


def _link(link):
    inertial = link.inertial
    if inertial is None:
        return Link(link.name)
    rotation, com = _pose_of(inertial.origin, f"link {link.name!r}")
    inertia = np.zeros((3, 3))
    if inertial.inertia is not None:
        with np.errstate(invalid="ignore"):  # validate.py names values that are not finite
            inertia = transformed_inertia(rotation.T, np.array(inertial.inertia.to_matrix(), dtype=float))
    return Link(link.name, float(inertial.mass or 0.0), com, inertia)


def _joint(joint, element, armature):
    """The joint; of a fixed one, its axis, limits, dynamics and mimic have no meaning and are not read."""
    kind, owner = element.get("type"), f"joint {joint.name!r}"
    rotation, origin = _pose_of(joint.origin, owner)
    read = JointDescription(
        joint.name, kind, joint.parent, joint.child, rotation, origin, independent=_independent(element)
    )
    if kind == "fixed":
        return read
    return replace(
        read,
        axis=np.array(joint.axis if joint.axis is not None else (1.0, 0.0, 0.0), dtype=float),
        limits=_limits(joint.limit, element, kind, owner),
        damping=float((joint.dynamics and joint.dynamics.damping) or 0.0),
        friction=float((joint.dynamics and joint.dynamics.friction) or 0.0),
        armature=armature,
        mimic=_mimic(joint.mimic),
    )


def _limits(limit, element, kind, owner):
    """Its limits, with those of URDF 1.2. Those from HUGE on are infinite: files write the largest number for
    none."""
    if limit is None:
        return Limits()
    bounds = {"velocity": limit.velocity, "effort": limit.effort}
    for key in ("acceleration", "jerk"):
        (bounds[key],) = _numbers(element, "limit", key, (np.inf,), owner)
    (bounds["deceleration"],) = _numbers(element, "limit", "deceleration", (bounds["acceleration"],), owner)
    if kind in _BOUNDED:
        bounds |= {"lower": limit.lower or 0.0, "upper": limit.upper or 0.0}
    return Limits(
        **{key: math.copysign(math.inf, x) if abs(x) >= HUGE else float(x) for key, x in bounds.items()}
    )


def _mimic(mimic):
    if mimic is None:
        return None
    multiplier = 1.0 if mimic.multiplier is None else float(mimic.multiplier)
    return Mimic(mimic.joint, multiplier, float(mimic.offset or 0.0))


def _pose_of(origin, owner):
    """Rotation (3, 3) and position (3,) of an origin of urdf_parser_py."""
    xyz, rpy = ((origin and getattr(origin, key)) or (0.0, 0.0, 0.0) for key in ("xyz", "rpy"))
    return _rotated(owner, np.array(rpy, dtype=float)), np.array(xyz, dtype=float)


def _rotated(owner, rpy):
    require_finite(owner, "rpy of <origin>", rpy)
    return rpy_rotation(rpy)


# --- closed loops -------------------------------------------------------------------------------------------


def _independent(joint):
    """Whether the joint may be independent; None if the file has no such attribute."""
    text = joint.get("independent")
    if text is not None and text.strip().lower() not in ("true", "false"):
        raise ModelError(f"joint {joint.get('name')!r}: independent is 'true' or 'false', not {text!r}")
    return None if text is None else text.strip().lower() == "true"


def _loop(element, ends):
    owner = f"{element.tag} {element.get('name')!r}"
    predecessor, successor = (_loop_end(element, tag, owner) for tag in ends)
    axis = _numbers(element, "axis", "xyz", (0.0, 0.0, 1.0), owner)
    second = _numbers(element, "axis2", "xyz", (1.0, 0.0, 0.0), owner)
    length = _numbers(element, "length", "value", (0.0,), owner)
    kind = element.get("type", "fixed")
    return LoopDescription(element.get("name"), kind, predecessor, successor, axis, second, float(length[0]))


def _loop_end(element, tag, owner):
    end = _one(element, tag, owner)
    place, turn = (_numbers(end, "origin", key, (0.0, 0.0, 0.0), owner) for key in ("xyz", "rpy"))
    return LoopEnd(_link_of(end, owner), _rotated(owner, turn), place)


def _coupling(element):
    owner = f"coupling {element.get('name')!r}"
    first, second = (_link_of(_one(element, tag, owner), owner) for tag in ("predecessor", "successor"))
    ratio = _numbers(element, "ratio", "value", None, owner)
    return Coupling(element.get("name"), first, second, float(ratio[0]))


def _one(element, tag, owner):
    children = element.findall(tag)
    if len(children) != 1:
        raise ModelError(f"{owner} needs one <{tag}>, not {len(children)}")
    return children[0]


def _link_of(element, owner):
    if not element.get("link"):
        raise ModelError(f"{owner}: <{element.tag}> names no link")
    return element.get("link")


def _numbers(element, tag, attribute, default, owner):
    """The numbers of an attribute of a child, as many as in `default`, which is those of a missing one; None:
    a single number that is required."""
    child = element.find(tag)
    text = None if child is None else child.get(attribute)
    if text is None:
        if default is None:
            raise ModelError(f"{owner} needs <{tag} {attribute}=...>")
        return np.array(default)
    try:
        numbers = np.array([number(word) for word in text.split()])
    except ValueError as error:
        raise ModelError(f"{owner}: {attribute} of <{tag}>: {error}") from None
    wanted = len(default or (0.0,))
    if len(numbers) != wanted:
        raise ModelError(f"{owner}: {attribute} of <{tag}> must have {wanted} numbers, not {len(numbers)}")
    return numbers


# --- a planar joint is two slides and a turn, with massless links in between --------------------------------

PARTS = (("x", "prismatic"), ("y", "prismatic"), ("theta", "continuous"))


def expand_planar(links, joints):
    """(links, joints) with every planar joint 'j' replaced by 'j.x', 'j.y' and 'j.theta': q = (x, y, theta)
    in the parent's plane, m and rad. The joint's axis is the normal. x and y are those of the joint frame
    after the shortest rotation that takes its z to the normal. Raises ModelError for a planar joint that
    mimics."""
    all_links, all_joints = list(links), []
    for joint in joints:
        if joint.kind == "planar":
            parts, between = _parts(joint)
            all_joints += parts
            all_links += between
        else:
            all_joints.append(joint)
    return tuple(all_links), tuple(all_joints)


def _parts(joint: JointDescription):
    if joint.mimic is not None:
        raise ModelError(f"joint {joint.name!r}: a planar joint cannot mimic or be mimicked")
    names = [f"{joint.name}.{part}" for part, _ in PARTS]
    between = [Link(name) for name in names[:2]]
    ends = [joint.parent, *(link.name for link in between), joint.child]
    first = replace(joint, damping=0.0, friction=0.0, armature=0.0)
    later = replace(first, rotation=np.eye(3), origin=np.zeros(3))
    rows = zip((first, later, later), names, PARTS, _directions(joint.axis), ends, ends[1:], strict=False)
    parts = [
        replace(start, name=name, kind=kind, axis=axis, parent=parent, child=child)
        for start, name, (_, kind), axis, parent, child in rows
    ]
    return parts, between


def _directions(normal):
    """x, y and the normal (3,); three times the normal if it is invalid, which `validate` reports."""
    size = length(normal)
    if not 0 < size < np.inf:
        return normal, normal, normal
    a, b, c = normal / size
    if c < -1 + 1e-12:
        return np.array([1.0, 0, 0]), np.array([0, -1.0, 0]), normal
    return (  # Rodrigues' rotation about z x normal
        np.array([1 - a * a / (1 + c), -a * b / (1 + c), -a]),
        np.array([-a * b / (1 + c), 1 - b * b / (1 + c), -b]),
        normal,
    )
