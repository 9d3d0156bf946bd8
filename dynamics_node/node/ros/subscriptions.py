"""Subscriptions by rows, one guard around all of them, and the qualities of service of the node's topics."""

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from time import monotonic_ns, time_ns
from typing import Any, NamedTuple

from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from rclpy.qos_overriding_options import QoSOverridingOptions
from rclpy.serialization import deserialize_message
from rclpy.subscription import Subscription
from sensor_msgs.msg import JointState
from std_msgs.msg import String

from dynamics_node.node.building.robot_manager import RobotManager
from dynamics_node.node.core.diagnostics import Statistics
from dynamics_node.node.core.errors import BadMessage
from dynamics_node.node.ros.running import Throttle
from dynamics_node.node.ros.wire import StateReader, States, Transit, is_plain
from dynamics_node.robot.urdf import MAX_BYTES
from dynamics_node.text import shown

LATCHED = QoSProfile(
    depth=1, reliability=ReliabilityPolicy.RELIABLE, durability=DurabilityPolicy.TRANSIENT_LOCAL
)
SENSOR = QoSProfile(depth=10, reliability=ReliabilityPolicy.BEST_EFFORT)
RELIABLE = QoSProfile(depth=10)
FRAME = 16  # bytes that a message has beside its text
SHORT = 64 * 1024  # bytes of a message without lists
MIDDLE = 1024 * 1024  # bytes of joint states and of a controller's state


def _always(settings, core):
    return True


class Input(NamedTuple):
    """A topic. A message of more than `longest` bytes is dropped unread.

    read(inputs, core, message, received) takes one in, or raises BadMessage; received: steady ns of its
    reception by the middleware. raw: the message is bytes, of which not everything need become an object.
    wanted(settings, core): whether the topic is heard; core is None before the first robot, and a topic that
    needs_robot is not read then.
    """

    topic: str
    kind: type
    qos: QoSProfile
    longest: int
    read: Callable[[Any, Any, Any, int], object]
    wanted: Callable[[Any, Any], bool] = _always
    raw: bool = False
    needs_robot: bool = True


def _description(inputs, core, data, received):
    if len(data) <= MAX_BYTES + FRAME:
        inputs.manager.describe(deserialize_message(data, String).data)
    else:
        inputs.manager.refuse_length(len(data))


DESCRIPTION = Input(
    "robot_description", String, LATCHED, sys.maxsize, _description, raw=True, needs_robot=False
)


class Subscriptions(ABC):
    """Subscriptions of the rows that are wanted. last_turn: steady ns."""

    def __init__(self, node: Node, manager: RobotManager, statistics: Statistics):
        self.manager = manager
        self._node, self._statistics = node, statistics
        self._states = StateReader()
        self.last_turn = monotonic_ns()
        self._heard: dict[str, Subscription] = {}
        self._throttle = Throttle()

    @abstractmethod
    def rows(self) -> Iterable[Input]:
        """Those there are now, in the order in which a turn empties them."""

    def listen(self):
        """Hear what is wanted now and nothing else: at 500 Hz a topic takes a twentieth of a core."""
        settings, core = self.manager.settings, self.manager.core
        wanted = {row.topic: row for row in self.rows() if row.wanted(settings, core)}
        for topic in self._heard.keys() - wanted.keys():
            self._node.destroy_subscription(self._heard.pop(topic))
        for topic, row in wanted.items():
            if topic not in self._heard:
                self._heard[topic] = self._subscription(row)

    def ros_now(self) -> int:
        """ns of ROS time."""
        return self._node.get_clock().now().nanoseconds

    def read_states(self, data: bytes) -> States:
        """A sensor_msgs/JointState. Raises BadMessage."""
        if is_plain(data):
            return self._states.read(data)
        message = deserialize_message(data, JointState)
        numbers = (message.position, message.velocity, message.effort)
        stamp = message.header.stamp
        return States(tuple(message.name), *numbers, (stamp.sec, stamp.nanosec))

    def turned(self):
        """The subscriptions have been emptied."""
        self.last_turn = monotonic_ns()

    def received(self, info, transit: Transit):
        """Steady ns at which a message came, by the stamps of its info: it may have waited in the middleware,
        but not since before the last turn, whatever the clock of the machine does; or in front of it, see
        Transit."""
        now, stamp = monotonic_ns(), info["received_timestamp"]
        waited = time_ns() - stamp if stamp > 0 else 0
        queued = min(max(waited, 0), now - self.last_turn)
        return now - max(queued, transit.waited(info.get("source_timestamp", 0), stamp, now))

    def _subscription(self, row):
        """All messages come as bytes; nothing that is wrong with one leaves the callback."""
        label, transit = row.topic.removeprefix("~/"), Transit()

        def on_message(data, info):
            core = self.manager.core
            if row.needs_robot and core is None:
                return
            try:
                if len(data) > row.longest:
                    raise BadMessage(f"a message of {len(data)} bytes; the limit is {row.longest}")
                message = data if row.raw else deserialize_message(data, row.kind)
                row.read(self, core, message, self.received(info, transit))
            except BadMessage as error:
                self._drop(label, error)

        options = QoSOverridingOptions.with_default_policies()
        return self._node.create_subscription(
            row.kind, row.topic, on_message, row.qos, raw=True, qos_overriding_options=options
        )

    def _drop(self, topic, reason):
        reason = shown(reason)
        self._statistics.dropped(topic, reason)
        if self._throttle.due(topic):
            self._node.get_logger().warning(f"{topic} dropped: {reason}")
