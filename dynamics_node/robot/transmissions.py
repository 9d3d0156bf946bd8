"""The transmissions of a URDF, in the forms of ROS 1, ros2_control and Drake.

A motor turns with joints: its position is the sum of weights times (position - offset) of the joints. With
the reductions n of motors (a) and joints (j), as in transmission_interface of ros2_control, the weights are

    simple             a1: n_a1 n_j1
    differential       a1: n_a1 n_j1, n_a1 n_j2     a2: n_a2 n_j1, -n_a2 n_j2
    four-bar linkage   a1: n_a1 n_j1, 0             a2: n_a2, n_a2 n_j2

These are the rows of A. By virtual work, the torques of joints are A^T times those of motors, and rotors of
inertia I at the motors add A^T diag(I) A to the mass matrix. The rotor of a motor with one joint counts at
the joint (rotors.py); the others stay here.
"""

import math
from collections.abc import Iterable
from typing import NamedTuple
from xml.etree.ElementTree import Element

from dynamics_node.errors import ModelError
from dynamics_node.robot.description import LONGEST_NAME, ActuatorDescription, JointDescription
from dynamics_node.robot.joints import KINDS
from dynamics_node.robot.validate import HUGE, TINY
from dynamics_node.text import listed, number, one_line

SIMPLE, DIFFERENTIAL, FOUR_BAR = "simple", "differential", "four_bar_linkage"
TYPES = {  # in files
    SIMPLE: "SimpleTransmission",
    DIFFERENTIAL: "DifferentialTransmission",
    FOUR_BAR: "FourBarLinkageTransmission",
}
_KINDS = {name: kind for kind, name in TYPES.items()}
REDUCTIONS = ("drake:gear_ratio", "mechanicalReduction", "mechanical_reduction")
MOST = 20_000  # transmissions and their elements
ROTORS = ("motorInertia", "drake:rotor_inertia")


class Side(NamedTuple):
    """A joint or a motor of a transmission. inertia: of the rotor, at the motor."""

    name: str
    role: str
    reduction: float
    offset: float
    inertia: float


class Transmission(NamedTuple):
    """kind: None if it is not known."""

    name: str
    kind: str | None
    joints: tuple[Side, ...]
    motors: tuple[Side, ...]

    @property
    def owner(self):
        return f"transmission {self.name!r}"


def transmissions_of(robot: Element) -> list[Transmission]:
    """All transmissions, also those in <ros2_control>. Raises ModelError for numbers that cannot be read."""
    found = [*robot.iterfind("transmission"), *robot.iterfind("ros2_control/transmission")]
    if sum(1 + len(element) for element in found) > MOST:
        raise ModelError(f"robot description has more than {MOST} transmissions and parts of them")
    return [_transmission(element) for element in found]


def actuators_of(
    transmissions: Iterable[Transmission], joints: Iterable[JointDescription]
) -> tuple[tuple[ActuatorDescription, ...], list[str]]:
    """Their motors, and warnings about transmissions of coupled joints that are not read."""
    scalar = {joint.name for joint in joints if joint.kind in KINDS and KINDS[joint.kind].is_scalar}
    taken = {joint.name for joint in joints}
    actuators: list[ActuatorDescription] = []
    warnings = []
    for transmission in transmissions:
        reason = _why_not(transmission, scalar)
        motors = [] if reason else list(_motors(transmission, taken))
        reason = reason or _why_no_motor(motors)
        if not reason:
            actuators += motors
        elif motors or _matters(transmission):
            warnings.append(f"{transmission.owner} is not read: {reason}")
    return tuple(actuators), warnings


# --- from joints to motors ----------------------------------------------------------------------------------


def _matters(transmission):
    """Whether joints are coupled, or may be."""
    rotors = any(motor.inertia for motor in transmission.motors)
    return transmission.kind in (DIFFERENTIAL, FOUR_BAR) or (rotors and len(transmission.joints) != 1)


def _why_not(transmission, scalar):
    """Why a transmission is not read; empty if it is."""
    joints, motors = transmission.joints, transmission.motors
    names = listed((repr(joint.name) for joint in joints), 3) or "no joint"
    if transmission.kind is None and len(joints) != 1:
        return f"it moves {names}, and its type is not known"
    if transmission.kind == SIMPLE and len(joints) != 1:
        return f"it moves {names}, not one joint of the robot"
    if transmission.kind in (DIFFERENTIAL, FOUR_BAR):
        if (len(joints), len(motors)) != (2, 2):
            return f"it has {len(joints)} joints and {len(motors)} actuators, not two of each"
        if joints[0].name == joints[1].name:
            return f"both joints are {joints[0].name!r}"
    if unknown := [repr(joint.name) for joint in joints if joint.name not in scalar]:
        return f"the robot has no joint {unknown[0]} with one coordinate"
    return ""


def _why_no_motor(motors):
    """Why motors of a transmission are not read; empty if they are."""
    for motor in motors:
        if not motor.name:
            return "two actuators have the same name"
        if not motor.weights:
            return f"a reduction of actuator {motor.name!r} is zero"
        largest = max(map(abs, motor.weights.values()))
        sizes = [*motor.weights.values(), motor.armature and motor.armature * largest * largest]
        if not all(TINY <= abs(size) < HUGE for size in sizes if size):
            return f"a reduction or rotor of actuator {motor.name!r} is not between {TINY:g} and {HUGE:g}"
        if not abs(motor.offset) < HUGE:
            return f"an offset exceeds {HUGE:g}"
    return ""


def _motors(transmission, taken):
    """ActuatorDescriptions of a transmission; without a name if every name is taken."""
    for motor, row in zip(transmission.motors, _weights(transmission), strict=True):
        joints = list(zip(transmission.joints, row, strict=True))
        names = (motor.name or transmission.name, f"{transmission.name}/{motor.name}")
        name = next((name for name in names if name not in taken), "")
        taken.add(name)
        yield ActuatorDescription(
            name=name,
            transmission=transmission.name,
            kind=transmission.kind or SIMPLE,
            weights={joint.name: weight for joint, weight in joints if weight},
            offset=-sum(weight * joint.offset for joint, weight in joints),
            armature=motor.inertia if len(transmission.joints) > 1 else 0.0,
        )


def _weights(transmission):
    """The rows of A."""
    joints = [joint.reduction for joint in transmission.joints]
    motors = [motor.reduction for motor in transmission.motors]
    if transmission.kind == DIFFERENTIAL:
        (a, b), (j, k) = motors, joints
        return [(a * j, a * k), (b * j, -b * k)]
    if transmission.kind == FOUR_BAR:
        (a, b), (j, k) = motors, joints
        return [(a * j, 0.0), (b, b * k)]
    return [(motor * joints[0],) for motor in motors]


# --- elements -----------------------------------------------------------------------------------------------


def _transmission(element):
    name = _name(element) or "transmission"
    kind = element.findtext("type") or element.findtext("plugin") or element.get("type") or ""
    last = kind.strip().replace(":", "/").split("/")[-1]
    shared = _first(name, REDUCTIONS, element)
    joints = [_side(name, part, None) for part in element.iterfind("joint")]
    motors = [_side(name, part, shared) for part in element.iterfind("actuator")]
    known = SIMPLE if not last and len(joints) == 1 else _KINDS.get(last)
    return Transmission(name, known, _by_role(joints, "joint"), _by_role(motors, "actuator"))


def _side(owner, element, shared):
    """shared: the reduction of all motors of the transmission, if there is one."""
    reduction = _first(owner, REDUCTIONS, element)
    return Side(
        name=_name(element),
        role=(element.get("role") or element.findtext("role") or "").strip(),
        reduction=next((n for n in (reduction, shared) if n is not None), 1.0),
        offset=_first(owner, ("offset",), element) or 0.0,
        inertia=_first(owner, ROTORS, element) or 0.0,
    )


def _name(element):
    name = element.get("name") or ""
    if len(name) > LONGEST_NAME:
        raise ModelError(f"the name of {element.tag} {name[:50]!r}... is longer than {LONGEST_NAME}")
    return name


def _by_role(sides, what):
    """In the order of the roles joint1, joint2; that of the file if they have others."""
    roles = [side.role for side in sides]
    if sorted(roles) == [f"{what}{k + 1}" for k in range(len(sides))]:
        sides = sorted(sides, key=lambda side: side.role)
    return tuple(sides)


def _first(owner, tags, parent):
    """The number of the first of these elements; None if there is none."""
    for tag in tags:
        element = parent.find(tag)
        if element is not None:
            try:
                read = number(element.get("value") or element.text or "")
            except ValueError as error:
                raise ModelError(f"transmission {one_line(owner, 80)!r}: {tag}: {error}") from None
            if not math.isfinite(read):
                raise ModelError(f"transmission {one_line(owner, 80)!r}: {tag} is not finite")
            return read
    return None
