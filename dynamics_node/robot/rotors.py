"""Rotor inertias in a URDF, at the joint: kg m^2 of a turning joint, kg of a sliding one.

They are in `armature` (MuJoCo's word) or `rotor_inertia` (RaiSim's) of <dynamics>, both at the joint, or in a
<transmission>: `motorInertia` with `mechanicalReduction`, or `drake:rotor_inertia` with `drake:gear_ratio`.
There they are at the motor, and times the square of the reduction at the joint.
"""

from collections.abc import Iterable, Iterator
from xml.etree.ElementTree import Element

from dynamics_node.errors import ModelError
from dynamics_node.robot.transmissions import Transmission
from dynamics_node.text import number


def armatures(robot: Element, transmissions: Iterable[Transmission]) -> tuple[dict[str, float], list[str]]:
    """{joint: its rotor inertia}, without rotors of motors that move several joints, and warnings about those
    that are not read. Raises ModelError for numbers that cannot be read."""
    inertias: dict[str, float] = {}
    sources: dict[str, str] = {}
    warnings = []
    joints = {joint.get("name") for joint in robot.iterfind("joint")}
    for source, joint, inertia in (*_of_joints(robot), *_of_transmissions(transmissions)):
        if not inertia:
            continue
        if joint not in joints:
            warnings.append(f"{source} is not read: it moves {joint!r}, not one joint of the robot")
        elif joint in inertias:
            warnings.append(f"joint {joint!r}: {source} is not read, {sources[joint]} is")
        else:
            inertias[joint], sources[joint] = inertia, source
    return inertias, warnings


def _of_joints(robot) -> Iterator[tuple[str, str, float]]:
    """(source, name of the joint, inertia at the joint)."""
    for joint in robot.iterfind("joint"):
        dynamics = joint.find("dynamics")
        for key in ("armature", "rotor_inertia"):
            text = None if dynamics is None else dynamics.get(key)
            if text is not None:
                try:
                    inertia = number(text)
                except ValueError as error:
                    raise ModelError(f"joint {joint.get('name')!r}: {key}: {error}") from None
                yield f"{key} of <dynamics>", joint.get("name"), inertia


def _of_transmissions(transmissions):
    for transmission in transmissions:
        if len(transmission.joints) == 1:
            (joint,) = transmission.joints
            rotors = (
                motor.inertia * (motor.reduction * joint.reduction) ** 2 for motor in transmission.motors
            )
            yield f"the rotor of {transmission.owner}", joint.name, sum(rotors)
