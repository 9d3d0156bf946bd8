"""The elements of URDF and URDF+ that are read, and warnings about those that are not.

Everything outside these lists causes a warning. Elements of other tools have no effect on the dynamics, so
they cause one only where a name speaks of mass, inertia, gravity or springs. docs/reference/elements.md
has an example of each.
"""

from collections.abc import Iterator
from typing import NamedTuple
from xml.etree.ElementTree import Element

from dynamics_node.robot.transmissions import ROTORS
from dynamics_node.text import listed, number, one_line


class Content(NamedTuple):
    """Names in an element: attributes and elements that are read; attributes and elements without effect on
    the dynamics."""

    attributes: frozenset[str]
    elements: frozenset[str]
    other_attributes: frozenset[str]
    other_elements: frozenset[str]


def _content(attributes="", elements="", other_attributes="", other_elements=""):
    return Content(*(frozenset(s.split()) for s in (attributes, elements, other_attributes, other_elements)))


_END = _content("link", "origin")
READ: dict[str, Content] = {
    "robot": _content(
        "name",
        "link joint loop constraint coupling",
        "version",
        "material transmission gazebo ros2_control sensor mujoco drake:collision_filter_group",
    ),
    "link": _content(
        "name",
        "inertial",
        "type",
        "visual collision contact collision_checking self_filter surface gravity kinematic",
    ),
    "inertial": _content("", "origin mass inertia"),
    "mass": _content("value"),
    "inertia": _content("ixx ixy ixz iyy iyz izz"),
    "joint": _content(
        "name type independent",
        "origin parent child axis limit dynamics mimic",
        "dont_collapse",
        "calibration safety_controller",
    ),
    "origin": _content("xyz rpy quat_xyzw"),
    "parent": _END,
    "child": _END,
    "axis": _content("xyz"),
    "limit": _content(
        "lower upper effort velocity acceleration deceleration jerk",
        "",
        "command_effort current gear_velocity",
    ),
    "dynamics": _content("damping friction armature rotor_inertia", "", "D K mu_coulomb mu_viscous"),
    "mimic": _content("joint multiplier offset"),
    "loop": _content("name type", "predecessor successor axis axis2 length"),
    "constraint": _content("name type", "parent child axis axis2 length"),
    "predecessor": _END,
    "successor": _END,
    "axis2": _content("xyz"),
    "length": _content("value"),
    "coupling": _content("name", "predecessor successor ratio", "type"),
    "ratio": _content("value"),
}
SHAPES = ("visual", "collision", "material")  # the only elements of other tools without numbers of bodies
DYNAMIC = ("mass", "inerti", "gravity", "spring", "armature")  # parts of names, in small letters
NOT_DYNAMIC = ("implicitSpringDamper",)  # an integrator
MOST_KINDS = 30  # of warnings


def unread(robot: Element) -> Iterator[str]:
    """Warnings about attributes and elements that are not read, one for each kind, with their owners."""
    owners: dict[str, dict[str, None]] = {}
    for what, owner in _unread_in(robot, "the robot"):
        if what in owners or len(owners) <= MOST_KINDS:
            owners.setdefault(one_line(what, 80), {})[owner] = None
    for what, names in list(owners.items())[:MOST_KINDS]:
        yield f"{listed(names, 3)}: {what}"
    if len(owners) > MOST_KINDS:
        yield "further elements and attributes are not read"


def _unread_in(element, owner):
    """Pairs of a part that is not read and its owner, in an element that is read."""
    known, top = READ[element.tag], element.tag == "robot"
    for name in _unread_attributes(element, known):
        yield f"{name} of <{element.tag}> is not read", owner
    counts: dict[str, int] = {}
    for child in element:
        child_owner = f"{child.tag} {child.get('name')!r}" if top else owner
        if child.tag in known.elements:
            counts[child.tag] = counts.get(child.tag, 0) + 1
            if top or counts[child.tag] == 1:
                yield from _unread_in(child, child_owner)
        elif child.tag in known.other_elements:
            yield from _dynamic_in(child, child_owner)
        elif not child.tag.startswith("xacro:"):
            yield f"<{child.tag}> in <{element.tag}> is not read", owner
    if not top:
        repeated = [(name, count) for name, count in counts.items() if count > 1]
        yield from ((f"only the first of {count} <{name}> is read", owner) for name, count in repeated)


def _unread_attributes(element, known):
    others = (name for name in element.attrib if name not in known.attributes | known.other_attributes)
    for name in others:
        if not name.startswith("xmlns") and not _is_zero(element.get(name)):
            yield name


def _dynamic_in(element, owner):
    """Parts of an element of another tool that speak of mass, inertia, gravity or springs."""
    if element.tag in SHAPES:
        return
    if element.tag == "gazebo":
        owner = f"gazebo {element.get('reference')!r}"
    transmissions = element.iter("transmission")
    rotors = {id(part) for found in transmissions for tag in ROTORS for part in found.iter(tag)}
    for part in element.iter():
        tag = part.get("name", "") if part.tag == "param" else part.tag
        if id(part) not in rotors and _is_dynamic(tag, part.text or part.get("value") or ""):
            yield f"<{tag}> in <{element.tag}> is not read", owner
        for name, value in part.attrib.items():
            if _is_dynamic(name, value):
                yield f"{name} of <{tag}> in <{element.tag}> is not read", owner


def _is_dynamic(name, value):
    if name in NOT_DYNAMIC or not any(word in name.lower() for word in DYNAMIC):
        return False
    if name == "gravity":
        return value.strip().lower() not in ("true", "1")
    return value.strip().lower() != "false" and not _is_zero(value)


def _is_zero(text):
    try:
        return number(text) == 0.0
    except ValueError:
        return False
