"""The topics that tell of a Result: one row each."""

from collections.abc import Callable
from typing import Any, NamedTuple

from builtin_interfaces.msg import Time
from geometry_msgs.msg import WrenchStamped
from rclpy.node import Node
from rclpy.qos_overriding_options import QoSOverridingOptions
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray
from trajectory_msgs.msg import JointTrajectory

from dynamics_node.node.core import Core, Result
from dynamics_node.node.messages import (
    doubles,
    point_message,
    torque_message,
    trajectory_message,
    wrench_message,
)
from dynamics_node.node.qos import RELIABLE
from dynamics_node.node.wrench_sensor import Reading

Write = Callable[[Result, Time], Any]


class Output(NamedTuple):
    """A topic. wanted(core, listeners): whether it is published; listeners(): their number.

    writer(core): made once for a robot and its settings: write(result, stamp), which makes the message.
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


WRENCH = ("~/compensated_wrench", WrenchStamped)  # of a reading, not of a Result


class Outputs:
    """Publishers of OUTPUTS, and of WRENCH."""

    def __init__(self, node: Node):
        self._publishers = [_publisher(node, row.topic, row.kind) for row in OUTPUTS]
        self._wrench = _publisher(node, *WRENCH)
        self._writers: list[Write] = []
        self._written_for: tuple = (None, None)

    def publish(self, core: Core, result: Result, stamp: Time):
        """What is wanted of a result; stamp: of its input."""
        robot, settings = self._written_for
        if core.unloaded is not robot or core.settings is not settings:
            self._writers = [row.writer(core) for row in OUTPUTS]
            self._written_for = core.unloaded, core.settings
        for row, publisher, write in zip(OUTPUTS, self._publishers, self._writers, strict=True):
            if row.wanted(core, publisher.get_subscription_count):
                publisher.publish(write(result, stamp))

    def publish_wrench(self, reading: Reading, left):
        """What is left (6,) of a reading, with its stamp and frame."""
        message = WrenchStamped(wrench=wrench_message(left))
        message.header.stamp, message.header.frame_id = reading.stamp, reading.frame
        self._wrench.publish(message)


def _publisher(node, topic, kind):
    options = QoSOverridingOptions.with_default_policies()
    return node.create_publisher(kind, topic, RELIABLE, qos_overriding_options=options)
