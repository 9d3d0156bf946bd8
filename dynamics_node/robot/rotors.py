"""Rotor inertias in a URDF, at the joint: kg m^2 of a turning joint, kg of a sliding one.

They are in `armature` (MuJoCo's word) or `rotor_inertia` (RaiSim's) of <dynamics>, both at the joint, or in a
<transmission>: `motorInertia` with `mechanicalReduction`, or `drake:rotor_inertia` with `drake:gear_ratio`.
There they are at the motor, and times the square of the reduction at the joint.
"""

from collections.abc import Iterator
from xml.etree.ElementTree import Element

from dynamics_node.errors import ModelError
from dynamics_node.robot.urdf_elements import ROTORS
from dynamics_node.text import listed, number

REDUCTIONS = ("drake:gear_ratio", "mechanicalReduction")


def armatures(robot: Element) -> tuple[dict[str, float], list[str]]:
    """{joint: its rotor inertia}, and warnings about those that are not read. Raises ModelError for numbers
    that cannot be read."""
    inertias: dict[str, float] = {}
    sources: dict[str, str] = {}
    warnings = []
    joints = {joint.get("name") for joint in robot.iterfind("joint")}
    for source, moved, inertia in (*_of_joints(robot), *_of_transmissions(robot)):
        if not inertia:
            continue
        if len(moved) != 1 or moved[0] not in joints:
            names = listed(map(repr, moved), 3) or "no joint"
            warnings.append(f"{source} is not read: it moves {names}, not one joint of the robot")
        elif moved[0] in inertias:
            warnings.append(f"joint {moved[0]!r}: {source} is not read, {sources[moved[0]]} is")
        else:
            inertias[moved[0]], sources[moved[0]] = inertia, source
    return inertias, warnings


def _of_joints(robot) -> Iterator[tuple[str, list[str], float]]:
    """(source, names of joints, inertia at the joint)."""
    for joint in robot.iterfind("joint"):
        dynamics = joint.find("dynamics")
        for key in ("armature", "rotor_inertia"):
            text = None if dynamics is None else dynamics.get(key)
            if text is not None:
                owner = f"joint {joint.get('name')!r}"
                yield f"{key} of <dynamics>", [joint.get("name")], _number(owner, key, text)


def _of_transmissions(robot):
    for transmission in robot.iterfind("transmission"):
        owner = f"transmission {transmission.get('name')!r}"
        inertia, shared = 0.0, _first(owner, REDUCTIONS, transmission)
        for actuator in transmission.iterfind("actuator"):
            ratio = _first(owner, REDUCTIONS, actuator) or shared or 1.0
            inertia += (_first(owner, ROTORS, actuator) or 0.0) * ratio * ratio
        joints = [joint.get("name") for joint in transmission.iterfind("joint")]
        yield f"the rotor of {owner}", joints, inertia


def _first(owner, tags, parent):
    """The number of the first of these elements; None if there is none."""
    for tag in tags:
        element = parent.find(tag)
        if element is not None:
            return _number(owner, tag, element.get("value") or element.text or "")
    return None


def _number(owner, what, text):
    try:
        return number(text)
    except ValueError as error:
        raise ModelError(f"{owner}: {what}: {error}") from None
