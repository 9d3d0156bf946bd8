"""URDF text -> Description. The only file that reads XML; the text may come from the network.

A hardened first pass (no DTD, no entities, bounded size) keeps the few elements that dynamics needs, so
urdf_parser_py gets only readable ones. validate.py checks the values that this module accepts unchecked.
"""

import contextlib
import io
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
from defusedxml import DefusedXmlException
from defusedxml import ElementTree as SafeElementTree
from urdf_parser_py import urdf as parser

from dynamics_node.robot.description import (
    Coupling,
    Description,
    JointDescription,
    Limits,
    Link,
    LoopDescription,
    LoopEnd,
    Mimic,
)
from dynamics_node.robot.errors import ModelError
from dynamics_node.robot.joints import KINDS
from dynamics_node.symbolic import length, quaternion_rotation, rpy_rotation, transformed_inertia

MAX_BYTES = 8 * 1024 * 1024
MAX_LINKS = 5000  # also of joints, and of loops with couplings; no robot has as many
XACRO = ("http://www.ros.org/wiki/xacro", "http://ros.org/wiki/xacro", "http://wiki.ros.org/xacro")
GIMBAL = 1e-7  # cosine of the pitch of a quarter turn
DEFINITIONS = ("property", "arg", "macro")  # of xacro: they produce nothing by themselves

# element -> attributes kept, under <link> and <joint>
_LINK_PARTS = {"inertial": {"origin": ("xyz", "rpy"), "mass": ("value",),
                            "inertia": ("ixx", "ixy", "ixz", "iyy", "iyz", "izz")}}  # fmt: skip
_JOINT_PARTS = {
    "origin": ("xyz", "rpy"),
    "parent": ("link",),
    "child": ("link",),
    "axis": ("xyz",),
    "limit": ("lower", "upper", "effort", "velocity"),
    "dynamics": ("damping", "friction"),
    "mimic": ("joint", "multiplier", "offset"),
}
_BOUNDED = [kind for kind, joint_type in KINDS.items() if joint_type.bounded]
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
    armature = {j.get("name"): _armature(j) for j in robot.iterfind("joint")}
    bounds = {j.get("name"): _bounds_of_1_2(j) for j in robot.iterfind("joint")}
    independent = {j.get("name"): _independent(j) for j in robot.iterfind("joint")}
    kinds = {j.get("name"): j.get("type") for j in robot.iterfind("joint")}
    parsed = _parse(_stripped(robot))
    links, joints = expand_planar(
        [_link(link) for link in parsed.links],
        [
            _joint(
                joint, kinds[joint.name], armature[joint.name], bounds[joint.name], independent[joint.name]
            )
            for joint in parsed.joints
        ],
    )
    return Description(
        name=parsed.name,
        links=links,
        joints=joints,
        loops=tuple(
            _loop(element, ends) for tag, ends in _CLOSURES.items() for element in robot.iterfind(tag)
        ),
        couplings=tuple(_coupling(element) for element in robot.iterfind("coupling")),
        warnings=tuple(_left_out(robot)),
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
    try:
        robot = SafeElementTree.fromstring(data if isinstance(text, bytes) else text, forbid_dtd=True)
    except DefusedXmlException as error:
        raise ModelError(f"robot description declares a DTD or an entity; remove it ({error})") from None
    except (ElementTree.ParseError, ValueError, LookupError) as error:
        raise ModelError(f"robot description is malformed XML: {error}") from None
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
        quaternion = np.array([float(word) for word in text.split()])
    except ValueError:
        quaternion = np.zeros(0)
    if quaternion.shape != (4,) or not 0 < length(quaternion) < np.inf:
        raise ModelError(f"{owner}: quat_xyzw={text!r} needs four numbers x y z w, not all zero")
    R = quaternion_rotation(quaternion / length(quaternion))
    flat = np.hypot(R[0, 0], R[1, 0])
    roll, yaw = np.arctan2(R[2, 1], R[2, 2]), np.arctan2(R[1, 0], R[0, 0])
    if flat < GIMBAL:  # pitch of a quarter turn: roll and yaw are about the same axis
        roll, yaw = 0.0, np.arctan2(-R[0, 1], R[1, 1])
    return " ".join(repr(float(angle)) for angle in (roll, np.arctan2(-R[2, 0], flat), yaw))


def _require_few(robot):
    kinds = {"links": ("link",), "joints": ("joint",), "loops and couplings": (*_CLOSURES, "coupling")}
    for what, tags in kinds.items():
        count = sum(1 for tag in tags for _ in robot.iterfind(tag))
        if count > MAX_LINKS:
            raise ModelError(f"robot description has {count} {what}; the limit is {MAX_LINKS}")


def _require_names(robot):
    for tag in ("link", "joint", "loop", "constraint", "coupling"):
        for number, element in enumerate(robot.iterfind(tag), 1):
            if not element.get("name"):
                raise ModelError(f"{tag} number {number} has no name")


def _unexpanded(robot):
    """Names of macros, loops and inclusions that are not expanded: their content is missing."""
    names = (str(element.tag).rpartition("}")[2] for element in robot.iter() if _namespace(element) in XACRO)
    return list(dict.fromkeys(name for name in names if name not in DEFINITIONS))


def _namespace(element):
    return str(element.tag)[1:].partition("}")[0]


def _left_out(robot):
    """Warnings about elements that are ignored: the parser reads one of each."""
    if names := _unexpanded(robot):
        listed = ", ".join(f"<xacro:{name}>" for name in names[:5])
        yield f"{listed} not expanded, its content is missing: run xacro on the file first"
    for tag, parts in (("link", _LINK_PARTS), ("joint", _JOINT_PARTS)):
        for element in robot.iterfind(tag):
            owner = f"{tag} {element.get('name')!r}"
            for part in parts:
                if len(element.findall(part)) > 1:
                    yield f"{owner} has {len(element.findall(part))} <{part}>: only the first one is read"
            if element.get("type") in _BOUNDED and element.find("limit") is None:
                yield f"{owner} is {element.get('type')} and has no <limit>: it is unlimited"


def _armature(joint):
    """<dynamics armature="kg m^2">: not in the URDF standard, written by several exporters."""
    dynamics = joint.find("dynamics")
    text = "0" if dynamics is None else dynamics.get("armature", "0")
    try:
        return float(text)
    except ValueError:
        raise ModelError(f"joint {joint.get('name')!r}: armature {text!r} is not a number") from None


def _bounds_of_1_2(joint):
    """Limits of URDF 1.2, which the parser does not read."""
    limit, bounds = joint.find("limit"), {}
    for name in ("acceleration", "deceleration", "jerk"):
        text = None if limit is None else limit.get(name)
        if text is None:
            continue
        try:
            bounds[name] = float(text)
        except ValueError:
            raise ModelError(f"joint {joint.get('name')!r}: {name} {text!r} is not a number") from None
    if "acceleration" in bounds:
        bounds.setdefault("deceleration", bounds["acceleration"])
    return bounds


def _stripped(robot):
    clean = ElementTree.Element("robot", name=robot.get("name") or "robot")
    for link in robot.iterfind("link"):
        _copy(link, clean, ("name",), _LINK_PARTS)
    for joint in robot.iterfind("joint"):
        copy = _copy(joint, clean, ("name", "type"), _JOINT_PARTS)
        if copy.get("type") in _UNKNOWN_TO_PARSER:
            copy.set("type", "floating")
        for limit in copy.iterfind("limit"):  # the parser requires both
            limit.set("effort", limit.get("effort", "inf"))
            limit.set("velocity", limit.get("velocity", "inf"))
    return clean


def _copy(element, parent, attributes, parts):
    kept = {key: element.get(key) for key in attributes if element.get(key) is not None}
    copy = ElementTree.SubElement(parent, element.tag, kept)
    for tag, content in parts.items():
        for child in element.findall(tag)[:1]:  # the parser rejects a second one
            if isinstance(content, dict):
                _copy(child, copy, (), content)
            else:
                _copy(child, copy, content, {})
    return copy


def _parse(clean):
    parsed = _try_parse(parser.URDF, clean)
    if not isinstance(parsed, Exception):
        return parsed
    for element in clean:  # find the faulty one
        kind = parser.Link if element.tag == "link" else parser.Joint
        reason = _try_parse(kind, element)
        if isinstance(reason, Exception):
            raise ModelError(f"{element.tag} {element.get('name')!r}: {_one_line(reason)}")
    raise ModelError(f"robot description: {_one_line(parsed)}")


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
    rotation, com = _pose(inertial.origin)
    inertia = np.zeros((3, 3))
    if inertial.inertia is not None:
        with np.errstate(invalid="ignore"):  # validate.py names values that are not finite
            inertia = transformed_inertia(rotation.T, np.array(inertial.inertia.to_matrix(), dtype=float))
    return Link(link.name, float(inertial.mass or 0.0), com, inertia)


def _joint(joint, kind, armature, bounds, independent):
    rotation, origin = _pose(joint.origin)
    dynamics = joint.dynamics
    return JointDescription(
        name=joint.name,
        kind=kind,
        parent=joint.parent,
        child=joint.child,
        rotation=rotation,
        origin=origin,
        axis=np.array(joint.axis if joint.axis is not None else (1.0, 0.0, 0.0), dtype=float),
        limits=replace(_limits(joint), **bounds),
        damping=float((dynamics and dynamics.damping) or 0.0),
        friction=float((dynamics and dynamics.friction) or 0.0),
        armature=armature,
        mimic=_mimic(joint.mimic),
        independent=independent,
    )


def _limits(joint):
    limit = joint.limit
    if limit is None:
        return Limits()
    lower, upper = -np.inf, np.inf
    if joint.type in _BOUNDED:
        lower, upper = float(limit.lower or 0.0), float(limit.upper or 0.0)
    return Limits(lower, upper, float(limit.velocity), float(limit.effort))


def _mimic(mimic):
    if mimic is None:
        return None
    multiplier = 1.0 if mimic.multiplier is None else float(mimic.multiplier)
    return Mimic(mimic.joint, multiplier, float(mimic.offset or 0.0))


def _pose(origin):
    xyz = (origin.xyz if origin is not None else None) or (0.0, 0.0, 0.0)
    rpy = (origin.rpy if origin is not None else None) or (0.0, 0.0, 0.0)
    return rpy_rotation(np.array(rpy, dtype=float)), np.array(xyz, dtype=float)


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
    axis = _child_numbers(element, "axis", "xyz", (0.0, 0.0, 1.0), owner)
    second = _child_numbers(element, "axis2", "xyz", (1.0, 0.0, 0.0), owner)
    length = _child_numbers(element, "length", "value", (0.0,), owner)
    kind = element.get("type", "fixed")
    return LoopDescription(element.get("name"), kind, predecessor, successor, axis, second, float(length[0]))


def _loop_end(element, tag, owner):
    end = _one(element, tag, owner)
    place = _child_numbers(end, "origin", "xyz", (0.0, 0.0, 0.0), owner)
    turn = _child_numbers(end, "origin", "rpy", (0.0, 0.0, 0.0), owner)
    with np.errstate(invalid="ignore"):  # validate.py names values that are not finite
        return LoopEnd(_link_of(end, owner), rpy_rotation(turn), place)


def _coupling(element):
    owner = f"coupling {element.get('name')!r}"
    first, second = (_link_of(_one(element, tag, owner), owner) for tag in ("predecessor", "successor"))
    ratio = _child_numbers(element, "ratio", "value", None, owner)
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


def _child_numbers(element, tag, attribute, default, owner):
    """The numbers of an attribute of a child; `default` if it is missing; None: it is required."""
    child = element.find(tag)
    text = None if child is None else child.get(attribute)
    if text is None:
        if default is None:
            raise ModelError(f"{owner} needs <{tag} {attribute}=...>")
        return np.array(default)
    try:
        numbers = np.array([float(word) for word in text.split()])
    except ValueError:
        raise ModelError(f"{owner}: {attribute} of <{tag}> is not a list of numbers: {text!r}") from None
    wanted = 1 if attribute == "value" else 3
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
