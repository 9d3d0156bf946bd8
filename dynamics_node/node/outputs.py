"""The topics that tell of a Result, of what pushes on the robot, or of a reading: one row each."""

from collections.abc import Callable
from typing import Any, NamedTuple

from builtin_interfaces.msg import Time
from geometry_msgs.msg import WrenchStamped
from rclpy.node import Node
from rclpy.qos_overriding_options import QoSOverridingOptions
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool, Float64MultiArray
from trajectory_msgs.msg import JointTrajectory

from dynamics_node.node.core import Core, Result
from dynamics_node.node.messages import (
    doubles,
    point_message,
    torque_message,
    trajectory_message,
    wrench_message,
)
from dynamics_node.node.observing import Push
from dynamics_node.node.qos import RELIABLE
from dynamics_node.node.wrench_sensor import Reading

Write = Callable[[Any, Time], Any]  # of a Result, a Push or what is left of a Reading, and a stamp


class Output(NamedTuple):
    """A topic. wanted(core, listeners): whether it is published; listeners(): their number.

    writer(core): made once for a robot and its settings: write(result, stamp), which makes the message, or
    None where there is nothing to say.
    """

    topic: str
    kind: type
    wanted: Callable[[Core, Callable[[], int]], bool]
    writer: Callable[[Core], Write]


def _torques(core):
    message, at = torque_message(core.joints.names, core.model.base_link), core.coordinates.v_at

    def write(result, stamp):
        message.header.stamp = stamp
        message.effort = doubles(result.tau[at])
        return message

    return write


def _commands(core):
    at = core.coordinates.v_at[core.command_index]
    return lambda result, stamp: Float64MultiArray(data=doubles(result.tau[at]))


def _solution(core):
    names, frame = list(core.joints.names), core.model.base_link
    q_at, at = core.coordinates.q_at, core.coordinates.v_at

    def write(result, stamp):
        point = point_message(result.q[q_at], result.qd[at], result.qdd[at], result.tau[at])
        return trajectory_message(names, [point], (stamp, frame))

    return write


OUTPUTS = (
    Output("~/joint_torques", JointState, lambda core, listeners: True, _torques),
    Output(
        "~/effort_commands",
        Float64MultiArray,
        lambda core, listeners: core.command_index.size > 0 and core.kind != "forward",
        _commands,
    ),
    Output("~/solution", JointTrajectory, lambda core, listeners: listeners() > 0, _solution),
)


# --- what pushes on the robot -------------------------------------------------------------------------------


def _external_torques(core):
    message = torque_message(core.coordinates.own_names, core.model.base_link)
    at = core.coordinates.own_v

    def write(push, stamp):
        message.header.stamp = stamp
        message.effort = doubles(push.torques[at])
        return message

    return write


def _external_wrench(core):
    def write(push, stamp):
        return None if push.wrench is None else wrench_message(push.wrench, push.link, stamp)

    return write


PUSHES = (
    Output("~/external_torques", JointState, lambda core, listeners: True, _external_torques),
    Output(
        "~/external_wrench_estimate",
        WrenchStamped,
        lambda core, listeners: bool(core.settings.observer_link),
        _external_wrench,
    ),
    Output(
        "~/contact",
        Bool,
        lambda core, listeners: True,
        lambda core: lambda push, stamp: Bool(data=push.contact),
    ),
)


# --- what is left of a reading ------------------------------------------------------------------------------


def _compensated_wrench(core):
    return lambda left, stamp: wrench_message(left.wrench, left.frame, stamp)


SENSED = (Output("~/compensated_wrench", WrenchStamped, lambda core, listeners: True, _compensated_wrench),)


class Outputs:
    """Publishers of OUTPUTS, PUSHES and SENSED."""

    def __init__(self, node: Node):
        self._of_results, self._of_pushes = _Rows(node, OUTPUTS), _Rows(node, PUSHES)
        self._of_readings = _Rows(node, SENSED)

    def publish(self, core: Core, result: Result, stamp: Time):
        """What is wanted of a result; stamp: of its input."""
        self._of_results.publish(core, result, stamp)

    def publish_push(self, core: Core, push: Push, stamp: Time):
        """What is wanted of a push."""
        self._of_pushes.publish(core, push, stamp)

    def publish_wrench(self, core: Core, left: Reading):
        """What is left of a reading, with its stamp and frame."""
        self._of_readings.publish(core, left, left.stamp)


class _Rows:
    """Publishers of rows of one kind."""

    def __init__(self, node, rows):
        self._rows = rows
        self._publishers = [_publisher(node, row) for row in rows]
        self._writers: list[Write] = []
        self._written_for: tuple = (None, None)

    def publish(self, core, result, stamp):
        robot, settings = self._written_for
        if core.unloaded is not robot or core.settings is not settings:
            self._writers = [row.writer(core) for row in self._rows]
            self._written_for = core.unloaded, core.settings
        for row, publisher, write in zip(self._rows, self._publishers, self._writers, strict=True):
            if row.wanted(core, publisher.get_subscription_count):
                message = write(result, stamp)
                if message is not None:
                    publisher.publish(message)


def _publisher(node, row):
    options = QoSOverridingOptions.with_default_policies()
    return node.create_publisher(row.kind, row.topic, RELIABLE, qos_overriding_options=options)
