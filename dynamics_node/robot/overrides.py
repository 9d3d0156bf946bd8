"""A file of numbers that replace those of a description: `dynamics identify` writes it, and the node reads
it without compiling.

links:
  upper_arm: {mass: 2.1, com: [0, 0, 0.1], inertia: {ixx: 0.02, ixy: 0, ixz: 0, iyy: 0.02, iyz: 0, izz: 0.01}}
joints:
  shoulder: {rotor: 0.1, viscous: 0.4, coulomb: 0.2, creep: 0.1, offset: 0.05, spring: 1.5}

inertia: about the center of mass, in link axes; rotor inertias, friction, offsets and springs are at the
joint, a spring is at rest at position 0. All entries of a joint are optional. The node reports errors of the
file to everybody in the network, and the file's name is a parameter. So messages about its form give the
position in the file, not its content.
"""

from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from dynamics_node.errors import ModelError
from dynamics_node.robot.description import MOMENTS, Description, Link
from dynamics_node.robot.joints import KINDS
from dynamics_node.robot.safe_files import composed, place, read_regular_file
from dynamics_node.robot.urdf_numbers import Inertial
from dynamics_node.robot.validate import require_possible_body
from dynamics_node.text import listed, number

MAX_BYTES = 4 * 1024 * 1024
_FORM = "the parameters file: {} needs {}"


class JointNumbers(NamedTuple):
    """Numbers at the joint; None keeps the description's. rotor kg m^2, viscous N m s/rad, coulomb, creep and
    offset N m, spring N m/rad, or with kg, m and N."""

    rotor: float | None = None
    viscous: float | None = None
    coulomb: float | None = None
    creep: float | None = None
    offset: float | None = None
    spring: float | None = None


FIELDS = {
    "rotor": "armature", "viscous": "damping", "coulomb": "friction", "creep": "creep",
    "offset": "torque_offset", "spring": "spring",
}  # {number: field of a joint}  # fmt: skip


@dataclass(frozen=True)
class Overrides:
    """Complete inertial parameters of links, and numbers of joints, by name."""

    links: dict[str, Inertial] = field(default_factory=dict)
    joints: dict[str, JointNumbers] = field(default_factory=dict)


def read_parameters_file(path):
    """The bytes of a file, up to just above the limit. Raises OSError."""
    return read_regular_file(path, MAX_BYTES + 1)


def read_overrides(text) -> Overrides:
    """The Overrides in the text of a file. Raises ModelError with the position of an error."""
    if len(text) > MAX_BYTES:
        raise ModelError(f"the parameters file has more than {MAX_BYTES} bytes")
    top = composed(text, "parameters", ModelError)
    if top is None:
        raise ModelError("the parameters file is empty: it names neither links nor joints")
    parts = _entries(top, ("links", "joints"))
    links = {name: _inertial(node) for name, node in _entries(parts.get("links")).items()}
    joints = {name: _joint(node) for name, node in _entries(parts.get("joints")).items()}
    return Overrides(links, joints)


def overrides_text(overrides: Overrides) -> str:
    """The text from which `read_overrides` reads the same numbers."""
    import yaml

    links = {
        name: {
            "mass": float(inertial.mass or 0.0),
            "com": np.asarray(inertial.com, dtype=float).tolist(),
            "inertia": {key: float(inertial.inertia[at]) for key, at in MOMENTS.items()},
        }
        for name, inertial in overrides.links.items()
    }
    joints = {
        name: {key: float(value) for key, value in numbers._asdict().items() if value is not None}
        for name, numbers in overrides.joints.items()
    }
    return yaml.safe_dump({"links": links, "joints": joints}, sort_keys=False, default_flow_style=None)


def overridden(description: Description, overrides: Overrides) -> Description:
    """The description with these numbers. Raises ModelError, naming the link or joint, if it is unknown, if
    its inertia is impossible, or if the joint has no such number."""
    _require(overrides.links, [link.name for link in description.links], "link")
    coupled = [motor for motor in description.actuators if len(motor.weights) > 1]
    names = [*(joint.name for joint in description.joints), *(motor.name for motor in coupled)]
    _require(overrides.joints, names, "joint")
    links = [_overridden_link(link, overrides.links.get(link.name)) for link in description.links]
    joints = [_overridden_joint(joint, overrides.joints.get(joint.name)) for joint in description.joints]
    actuators = [
        with_joint_numbers(motor, overrides.joints.get(motor.name, JointNumbers()))
        for motor in description.actuators
    ]
    return replace(description, links=tuple(links), joints=tuple(joints), actuators=tuple(actuators))


def _require(names, known, what):
    there = frozenset(known)
    if missing := [name for name in names if name not in there]:
        raise ModelError(
            f"the parameters file is of another robot: this one has no {what} "
            f"{listed(map(repr, missing), 12)}; it has {listed(map(repr, known), 12)}"
        )


def _overridden_link(link, inertial):
    if inertial is None:
        return link
    link = Link(link.name, float(inertial.mass), np.array(inertial.com), np.array(inertial.inertia))
    try:
        require_possible_body(link)
    except ModelError as error:
        raise ModelError(f"the parameters file: {error}") from None
    return link


def _overridden_joint(joint, numbers):
    if numbers is None:
        return joint
    if joint.kind not in KINDS or not KINDS[joint.kind].is_scalar:
        raise ModelError(f"the parameters file: joint {joint.name!r} is {joint.kind}, it has no such numbers")
    return with_joint_numbers(joint, numbers)


def with_joint_numbers(joint, numbers: JointNumbers):
    """A joint, of a description or a robot, with these numbers."""
    values = {FIELDS[name]: value for name, value in numbers._asdict().items() if value is not None}
    return replace(joint, **values)


# --- the form -----------------------------------------------------------------------------------------------


def _entries(node, allowed=None):
    """{key: node} of a mapping; empty for None. Raises ModelError for keys that are not allowed."""
    if node is None or (node.id == "scalar" and not node.value):
        return {}
    if node.id != "mapping":
        raise ModelError(_FORM.format(place(node.start_mark), "names, each with its entries"))
    entries = {}
    for key, value in node.value:
        if key.value in entries or (allowed is not None and key.value not in allowed):
            reason = f"each once, of {', '.join(allowed)}" if allowed else "each name once"
            raise ModelError(_FORM.format(place(key.start_mark), reason))
        entries[key.value] = value
    return entries


def _inertial(node):
    parts = _entries(node, ("mass", "com", "inertia"))
    if len(parts) < 3:
        raise ModelError(_FORM.format(place(node.start_mark), "mass, com and inertia"))
    moments = _entries(parts["inertia"], tuple(MOMENTS))
    com = parts["com"].value if parts["com"].id == "sequence" else ()
    if len(com) != 3 or len(moments) < len(MOMENTS):
        raise ModelError(
            _FORM.format(place(node.start_mark), f"three numbers of com and {', '.join(MOMENTS)}")
        )
    inertia = np.zeros((3, 3))
    for key, at in MOMENTS.items():
        inertia[at] = inertia[at[::-1]] = _number(moments[key])
    return Inertial(inertia, _number(parts["mass"]), np.array([_number(node) for node in com]))


def _joint(node):
    parts = _entries(node, JointNumbers._fields)
    return JointNumbers(**{name: _number(node) for name, node in parts.items()})


def _number(node):
    try:
        return number(node.value)
    except (AttributeError, ValueError):
        raise ModelError(_FORM.format(place(node.start_mark), "a number")) from None
