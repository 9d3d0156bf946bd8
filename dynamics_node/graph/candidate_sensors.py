"""Sensors that a robot might have besides: what `observability` proposes."""

from collections.abc import Iterator
from dataclasses import replace

from dynamics_node.robot import SensorProblem
from dynamics_node.robot.sensors import (
    MEASURED,
    UNKNOWN,
    WRENCH,
    Accelerometer,
    AngularAcceleration,
    ExternalWrench,
    ForceTorque,
    JointAcceleration,
    JointTorque,
    Sensor,
)


def candidates(robot, problem: SensorProblem) -> Iterator[Sensor]:
    """One row of an external wrench, the torque or acceleration of a joint, an accelerometer, angular
    accelerations, a force/torque sensor: one of each at every place. Their noise means nothing."""
    for contact in problem.contacts:
        for row in contact.rows:
            roles = tuple(MEASURED if k == row else UNKNOWN for k in range(6))
            name = f"{contact.link} wrench.{WRENCH[row]}"
            at = ExternalWrench(contact.link, xyz=contact.xyz, rpy=contact.rpy, rows=UNKNOWN)
            yield replace(at, rows=roles, std=1.0, name=name)
    for joint in robot.independent_joints:
        if not joint.type.is_free:
            yield JointTorque(joint.name, std=1.0)
    for body in robot.bodies:
        yield JointAcceleration(body.joint.name, std=1.0)
    for body in robot.bodies:
        yield Accelerometer(body.name, std=1.0)
        yield AngularAcceleration(body.name, std=1.0)
    for body in robot.bodies:
        yield ForceTorque(body.joint.name, std=1.0)
