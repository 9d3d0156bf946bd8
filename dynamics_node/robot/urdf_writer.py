"""Description -> the text of a URDF, with the elements of URDF+ for ball joints, loops and couplings."""

from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

import numpy as np

from dynamics_node.robot.description import MOMENTS, Description, JointDescription, Limits
from dynamics_node.robot.joints import KINDS
from dynamics_node.robot.mjcf_tendons import TENDON
from dynamics_node.robot.selection import GRAVITY
from dynamics_node.robot.transmissions import DIFFERENTIAL, SIMPLE, TYPES
from dynamics_node.symbolic import rpy_angles
from dynamics_node.text import listed

LARGEST = 1e18  # of a limit that a joint must have and has not: readers take it for none


def urdf_text(description: Description) -> str:
    """The text. Numbers have all their digits, so that it reads back as the same robot; `left_out` lists what
    a URDF cannot hold."""
    robot = Element("robot", name=description.name)
    for link in description.links:
        element = SubElement(robot, "link", name=link.name)
        if link.mass or np.any(link.inertia):
            inertial = SubElement(element, "inertial")
            SubElement(inertial, "origin", xyz=_words(link.com))
            SubElement(inertial, "mass", value=_words([link.mass]))
            SubElement(inertial, "inertia", {key: _words([link.inertia[at]]) for key, at in MOMENTS.items()})
    for joint in description.joints:
        _add_joint(robot, joint)
    for loop in description.loops:
        element = SubElement(robot, "loop", name=loop.name, type=loop.kind)
        for tag, end in (("predecessor", loop.predecessor), ("successor", loop.successor)):
            _add_origin(SubElement(element, tag, link=end.link), end.rotation, end.origin)
        SubElement(element, "axis", xyz=_words(loop.axis))
        SubElement(element, "axis2", xyz=_words(loop.second_axis))
        if loop.length:
            SubElement(element, "length", value=_words([loop.length]))
    for coupling in description.couplings:
        element = SubElement(robot, "coupling", name=coupling.name)
        SubElement(element, "predecessor", link=coupling.predecessor)
        SubElement(element, "successor", link=coupling.successor)
        SubElement(element, "ratio", value=_words([coupling.ratio]))
    motors = list(description.actuators)
    while motors:
        count = 1 if motors[0].kind in (SIMPLE, TENDON) else 2
        _add_transmission(robot, motors[:count])
        motors = motors[count:]
    ElementTree.indent(robot)
    return ElementTree.tostring(robot, encoding="unicode", xml_declaration=True) + "\n"


def left_out(description: Description) -> list[str]:
    """What the text of a Description lacks."""
    springs = [joint.name for joint in description.joints if joint.spring or joint.torque_offset]
    creep = [joint.name for joint in description.joints if joint.creep]
    named = {"springs": springs, "creep": creep}
    found = [f"{what} of {listed(joints)}" for what, joints in named.items() if joints]
    if tendons := [motor.name for motor in description.actuators if motor.kind not in TYPES]:
        found.append(f"tendons and motors at tendons, {listed(tendons)}")
    if couplings := [coupling.name for coupling in description.linear_couplings]:
        found.append(f"couplings by tendons, {listed(couplings)}")
    if description.gravity is not None and tuple(description.gravity) != GRAVITY:
        found.append(f"gravity {list(description.gravity)}")
    return found


def _add_joint(robot, joint: JointDescription):
    element = SubElement(robot, "joint", name=joint.name, type=joint.kind)
    if joint.independent is not None:
        element.set("independent", str(joint.independent).lower())
    _add_origin(element, joint.rotation, joint.origin)
    SubElement(element, "parent", link=joint.parent)
    SubElement(element, "child", link=joint.child)
    if joint.kind == "fixed":
        return
    if KINDS[joint.kind].has_axis:
        SubElement(element, "axis", xyz=_words(joint.axis))
    if limits := _limits(joint.limits, KINDS[joint.kind].bounded):
        SubElement(element, "limit", limits)
    numbers = {"damping": joint.damping, "friction": joint.friction, "armature": joint.armature}
    if any(numbers.values()):
        SubElement(element, "dynamics", {key: _words([value]) for key, value in numbers.items() if value})
    if joint.mimic is not None:
        more = {"multiplier": _words([joint.mimic.multiplier]), "offset": _words([joint.mimic.offset])}
        SubElement(element, "mimic", joint=joint.mimic.joint, **more)


def _add_transmission(robot, motors):
    """The motors of a transmission. The reduction of its first joint is 1."""
    kind = motors[0].kind
    if kind not in TYPES:
        return
    element = SubElement(robot, "transmission", name=motors[0].transmission)
    SubElement(element, "type").text = f"transmission_interface/{TYPES[kind]}"
    joints = list(dict.fromkeys(joint for motor in motors for joint in motor.weights))
    A = np.array([[motor.weights.get(joint, 0.0) for joint in joints] for motor in motors])
    reductions = [1.0, *(A[-1, 1:] / A[-1, 0])]  # the last motor of a four-bar linkage moves both joints
    if kind == DIFFERENTIAL:
        reductions[1] = -reductions[1]
    offsets = -np.linalg.lstsq(A, [motor.offset for motor in motors], rcond=None)[0]
    for number, (joint, reduction, offset) in enumerate(zip(joints, reductions, offsets, strict=True), 1):
        part = SubElement(element, "joint", name=joint)
        SubElement(part, "role").text = f"joint{number}"
        for tag, value in (("offset", offset), ("mechanicalReduction", reduction)):
            SubElement(part, tag).text = _words([value])
    for number, motor in enumerate(motors, 1):
        part = SubElement(element, "actuator", name=motor.name)
        SubElement(part, "role").text = f"actuator{number}"
        SubElement(part, "mechanicalReduction").text = _words([A[number - 1, 0]])
        if motor.armature:
            SubElement(part, "motorInertia").text = _words([motor.armature])


def _limits(limits: Limits, bounded):
    """The attributes of <limit>; those of a bounded joint are complete, as readers require it."""
    finite = {key: value for key, value in vars(limits).items() if np.isfinite(value)}
    if limits.deceleration == limits.acceleration:
        finite.pop("deceleration", None)
    if bounded:
        usual = {"lower": -LARGEST, "upper": LARGEST, "effort": LARGEST, "velocity": LARGEST}
        finite = usual | finite
    return {key: _words([value]) for key, value in finite.items()}


def _add_origin(parent, rotation, origin):
    if np.any(origin) or not np.array_equal(rotation, np.eye(3)):
        SubElement(parent, "origin", xyz=_words(origin), rpy=_words(rpy_angles(rotation)))


def _words(values):
    return " ".join(repr(float(value) + 0.0) for value in values)
