"""Whether sensors fit a robot, and the names of their rows."""

from collections import Counter
from itertools import chain

import numpy as np

from dynamics_node.errors import SensorError
from dynamics_node.robot.sensors import (
    WRENCH,
    ExternalWrench,
    ForceTorque,
    Gyro,
    Imu,
    JointAcceleration,
    JointTorque,
    LinkSensor,
)
from dynamics_node.robot.subtree import subtree


def fitting_labels(robot, sensors, contacts) -> tuple[tuple[str, ...], ...]:
    """Names of the rows of every sensor. Raises SensorError as in `sensor_problem`."""
    _require_whole_joints(robot)
    touched = {link for contact in contacts for link in (contact.link, contact.other)}
    labels = tuple(_labels(robot, sensor, touched) for sensor in sensors)
    _require_unique(sensors, labels)
    for sensor, rows in zip(sensors, labels, strict=True):
        _check_rows(sensor, len(rows))
        _require_inexact_gyro(sensor)
    return labels


def _labels(robot, sensor, touched) -> tuple[str, ...]:
    """Names of its rows. Raises SensorError for a joint or link without such a reading."""
    if isinstance(sensor, (JointTorque, JointAcceleration)):
        joint = _driven(robot, sensor) if isinstance(sensor, JointTorque) else _joint(robot, sensor)
        rows = joint.type.v_names
        if not rows:
            return (sensor.name,)
    elif isinstance(sensor, ForceTorque):
        _require_parted(robot, sensor, touched)
        rows = WRENCH
    elif isinstance(sensor, ExternalWrench):
        _require_moving(robot, sensor)
        if sensor.link not in touched:
            raise SensorError(
                f"sensor {sensor.name!r}: link {sensor.link!r} has no contact, so nothing pushes it; add one "
                f"to the contacts of the sensor problem, such as dn.Contact({sensor.link!r}, 'surface')"
            )
        rows = sensor.rows
    elif isinstance(sensor, LinkSensor):
        _require_moving(robot, sensor)
        rows = sensor.labels
    else:
        raise SensorError(f"{sensor!r} is not a sensor")
    return tuple(f"{sensor.name}.{row}" for row in rows)


def _joint(robot, sensor):
    joints = {body.joint.name: body.joint for body in robot.bodies}
    if sensor.joint not in joints:
        raise SensorError(
            f"sensor {sensor.name!r}: joint {sensor.joint!r} is unknown or does not move; known: "
            f"{', '.join(joints)}"
        )
    return joints[sensor.joint]


def _require_parted(robot, sensor, touched):
    """Raise SensorError for an unknown joint, if the side of the joint on which a loop ends is ambiguous, and
    for contacts of links that do not move."""
    try:
        child_side = subtree(robot, sensor.joint)
    except KeyError as error:
        raise SensorError(f"sensor {sensor.name!r}: {error.args[0]}") from None
    if child_side.body < 0 and (links := [link for link in child_side.links if link in touched]):
        raise SensorError(
            f"sensor {sensor.name!r}: link {links[0]!r} with a contact is fixed to the root, where forces "
            "are not computed; let its joint move"
        )
    ends = [
        loop.name
        for loop in getattr(robot, "constraints", ())
        if child_side.body in (getattr(loop, "predecessor", None), getattr(loop, "successor", None))
    ]
    if robot.frames[child_side.link].fixed_joint and ends:
        raise SensorError(
            f"sensor {sensor.name!r}: loop {ends[0]!r} ends at a link that is fixed to both sides of joint "
            f"{sensor.joint!r}; the side is ambiguous: let the joint move, or leave the sensor out"
        )


def _driven(robot, sensor):
    """The joint of a torque sensor."""
    joint = _joint(robot, sensor)
    independent = {independent.name: independent for independent in robot.independent_joints}
    if joint.masters is not None:
        masters = ", ".join(map(repr, joint.masters.names))
        raise SensorError(
            f"sensor {sensor.name!r}: joint {joint.name!r} follows {masters}, where its torque counts: give "
            "it there"
        )
    if joint.type.is_free:
        raise SensorError(f"sensor {sensor.name!r}: no motor drives floating joint {joint.name!r}")
    if joint.name not in independent:
        raise SensorError(
            f"sensor {sensor.name!r}: joint {joint.name!r} follows from a loop, and its torque is counted at "
            f"the independent joints: {', '.join(independent)}"
        )
    return joint


def _require_moving(robot, sensor):
    try:
        frame = robot.frame(sensor.link)
    except KeyError as error:
        raise SensorError(f"sensor {sensor.name!r}: {error.args[0]}") from None
    if frame.body < 0:
        raise SensorError(
            f"sensor {sensor.name!r}: link {sensor.link!r} is fixed to the root, which does not move, so "
            "its readings determine nothing"
        )


def _require_whole_joints(robot):
    """Raise SensorError for a joint with both zero and nonzero torques, and for a robot that cannot move."""
    if not robot.nbodies:
        raise SensorError(f"robot {robot.name!r} has no joint that moves: sensors determine nothing")
    whole = {body.joint.name: body.joint.type for body in robot.bodies}
    for joint in robot.independent_joints:
        if joint.v.stop - joint.v.start != whole[joint.name].nv and not whole[joint.name].is_free:
            raise SensorError(
                f"only some coordinates of {joint.kind} joint {joint.name!r} follow from a loop: sensor "
                "problems need all or none"
            )


def _require_unique(sensors, labels):
    again = [name for name, count in Counter(sensor.name for sensor in sensors).items() if count > 1]
    again += [label for label, count in Counter(chain(*labels)).items() if count > 1]
    if again:
        raise SensorError(
            f"sensor {again[0]!r} occurs twice; a second sensor of the same kind at the same place needs a "
            "name of its own"
        )


def _check_rows(sensor, count):
    for field in ("std", "value"):
        given = getattr(sensor, field)
        if isinstance(given, tuple) and len(given) != count:
            raise SensorError(
                f"sensor {sensor.name!r}: it has {count} rows, but {field} is {len(given)} numbers"
            )
    if sensor.covariance is not None and len(sensor.covariance) != count:
        size = len(sensor.covariance)
        raise SensorError(
            f"sensor {sensor.name!r}: it has {count} rows, but its covariance is {size} x {size}"
        )


def _require_inexact_gyro(sensor):
    """Reject exact gyros: angular velocities are known, so an exact row may have no solution."""
    if isinstance(sensor, (Gyro, Imu)) and 0.0 in np.ravel([sensor.std])[:3]:
        raise SensorError(
            f"sensor {sensor.name!r}: angular velocities follow from q and qd, so a gyro cannot be exact; "
            "give its std in rad/s, or an Accelerometer alone"
        )
