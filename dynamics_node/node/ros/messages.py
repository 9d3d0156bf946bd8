"""Conversion of ROS messages and arrays, and of linear-first and angular-first order."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

import numpy as np
from builtin_interfaces.msg import Time
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from dynamics_interfaces.msg import NamedMatrix
from geometry_msgs.msg import Inertia, Vector3, Wrench, WrenchStamped
from sensor_msgs.msg import JointState
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from dynamics_node.node.state.sensor_readings import SensorMessage
from dynamics_node.text import one_line

if TYPE_CHECKING:
    from dynamics_node.node.core.diagnostics import Status

SWAP = np.array([3, 4, 5, 0, 1, 2])  # angular first <-> linear first
AXES = tuple(f"{part}.{axis}" for part in ("linear", "angular") for axis in "xyz")
WRENCH_AXES = tuple(f"{part}.{axis}" for part in ("force", "moment") for axis in "xyz")


def doubles(values):
    """Values for a float64[] field: 900 numbers take 5 us, and 84 us as a NumPy array."""
    return array("d", np.ascontiguousarray(values, dtype=float).tobytes())


def nanoseconds(stamp: Time) -> int:
    return stamp.sec * 1_000_000_000 + stamp.nanosec


def pose_numbers(pose):
    """x y z qx qy qz qw of a geometry_msgs/Pose."""
    p, o = pose.position, pose.orientation
    return (p.x, p.y, p.z, o.x, o.y, o.z, o.w)


def twist_numbers(twist):
    """(angular, linear) of a geometry_msgs/Twist."""
    w, v = twist.angular, twist.linear
    return (w.x, w.y, w.z, v.x, v.y, v.z)


def accel_numbers(accel):
    """(angular, linear) of a geometry_msgs/Accel."""
    w, v = accel.angular, accel.linear
    return (w.x, w.y, w.z, v.x, v.y, v.z)


def wrench_numbers(wrench):
    """(moment, force) of a geometry_msgs/Wrench."""
    t, f = wrench.torque, wrench.force
    return (t.x, t.y, t.z, f.x, f.y, f.z)


def plain_wrench(numbers) -> Wrench:
    """A Wrench from (moment, force)."""
    return Wrench(torque=vector_message(numbers[:3]), force=vector_message(numbers[3:]))


def vector_message(numbers) -> Vector3:
    x, y, z = map(float, numbers)
    return Vector3(x=x, y=y, z=z)


def inertia_numbers(inertia):
    """Mass, com (3,) and inertia about it (3, 3) of a geometry_msgs/Inertia."""
    c, i = inertia.com, inertia
    return inertia.m, (c.x, c.y, c.z), ((i.ixx, i.ixy, i.ixz), (i.ixy, i.iyy, i.iyz), (i.ixz, i.iyz, i.izz))


def inertia_message(mass, com, inertia) -> Inertia:
    """An Inertia from com (3,) and the inertia about it (3, 3)."""
    (xx, xy, xz), (_, yy, yz), (_, _, zz) = np.asarray(inertia).tolist()
    moments = {"ixx": xx, "ixy": xy, "ixz": xz, "iyy": yy, "iyz": yz, "izz": zz}
    return Inertia(m=float(mass), com=vector_message(com), **moments)


def sensor_message(message, received) -> SensorMessage:
    """A SensorMessage from an Imu or a WrenchStamped, received at steady ns."""
    header, orientation = message.header, None
    if isinstance(message, WrenchStamped):
        numbers = wrench_numbers(message.wrench)
    else:
        w, a, o = message.angular_velocity, message.linear_acceleration, message.orientation
        numbers = (w.x, w.y, w.z, a.x, a.y, a.z)
        orientation = None if message.orientation_covariance[0] == -1 else (o.x, o.y, o.z, o.w)
    return SensorMessage(numbers, header.frame_id, header.stamp, received, orientation)


def torque_message(names, frame) -> JointState:
    """A JointState for repeated use: set the stamp and the effort."""
    message = JointState(name=list(names))
    message.header.frame_id = frame
    return message


def wrench_message(wrench, link, stamp) -> WrenchStamped:
    """A WrenchStamped from a wrench (6,), moment first, on a link in its axes at its origin."""
    message = WrenchStamped(wrench=plain_wrench(wrench))
    message.header.stamp, message.header.frame_id = stamp, link
    return message


def point_message(q, qd, qdd, tau) -> JointTrajectoryPoint:
    return JointTrajectoryPoint(
        positions=doubles(q), velocities=doubles(qd), accelerations=doubles(qdd), effort=doubles(tau)
    )


def trajectory_message(names, points, header) -> JointTrajectory:
    message = JointTrajectory(joint_names=names, points=points)
    message.header.stamp, message.header.frame_id = header
    return message


def linear_first(model):
    """Order of the velocity coordinates in ROS: linear before angular part of a floating joint."""
    order = np.arange(model.nv)
    for joint in model.independent_joints:
        if joint.type.is_free:
            order[joint.v] = joint.v.start + SWAP
    return order


def link_rows(links):
    """Names `link.linear.x` ... and the indices of their angular-first rows."""
    order = np.concatenate([6 * k + SWAP for k in range(len(links))])
    return [f"{link}.{axis}" for link in links for axis in AXES], order


def matrix_message(matrix, row_names, col_names) -> NamedMatrix:
    rows, cols = matrix.shape
    return NamedMatrix(
        row_names=list(row_names),
        col_names=list(col_names),
        rows=rows,
        cols=cols,
        data=doubles(matrix.ravel()),
    )


def diagnostic_message(stamp: Time, name: str, status: Status) -> DiagnosticArray:
    """A DiagnosticArray of one status."""
    only = DiagnosticStatus(
        level=DiagnosticStatus.WARN if status.warn else DiagnosticStatus.OK,
        name=name,
        message=one_line(status.summary),
        hardware_id="",
        values=[KeyValue(key=key, value=one_line(value)) for key, value in status.values.items()],
    )
    message = DiagnosticArray(status=[only])
    message.header.stamp = stamp
    return message
