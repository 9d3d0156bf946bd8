"""The subscriptions of the nodes: one row each, with one guard for all."""

import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable
from time import monotonic_ns, time_ns
from typing import Any, NamedTuple

from builtin_interfaces.msg import Time
from dynamics_interfaces.msg import ContactStates
from geometry_msgs.msg import AccelStamped, WrenchStamped
from nav_msgs.msg import Odometry
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from rclpy.qos_overriding_options import QoSOverridingOptions
from rclpy.serialization import deserialize_message
from rclpy.subscription import Subscription
from sensor_msgs.msg import Imu, JointState
from std_msgs.msg import String
from trajectory_msgs.msg import JointTrajectory

from dynamics_node.node.core.diagnostics import Statistics
from dynamics_node.node.core.dynamics_core import Core
from dynamics_node.node.core.robot_manager import RobotManager
from dynamics_node.node.errors import BadMessage
from dynamics_node.node.ros.messages import (
    accel_numbers,
    nanoseconds,
    pose_numbers,
    sensor_message,
    twist_numbers,
    wrench_numbers,
)
from dynamics_node.node.ros.running import Throttle
from dynamics_node.node.state.reference import read_base_acceleration, read_reference, reading
from dynamics_node.node.state.sensor_readings import IMU, WRENCH, SensorMessage
from dynamics_node.node.state.wire import StateReader, States, Transit, is_plain
from dynamics_node.robot.safe_xml import MAX_BYTES
from dynamics_node.text import one_line

LATCHED = QoSProfile(
    depth=1, reliability=ReliabilityPolicy.RELIABLE, durability=DurabilityPolicy.TRANSIENT_LOCAL
)
SENSOR = QoSProfile(depth=10, reliability=ReliabilityPolicy.BEST_EFFORT)
RELIABLE = QoSProfile(depth=10)
FRAME = 16  # bytes of a message in addition to its text
SHORT = 64 * 1024  # bytes of a message without lists
MIDDLE = 1024 * 1024  # bytes of joint states and of a controller's state


def _always(settings, core):
    return True


class Input(NamedTuple):
    """A topic. Messages of more than `longest` bytes are dropped unread.

    read(inputs, core, message, received) stores a message, or raises BadMessage; received: steady ns at the
    middleware. raw: the message is passed as bytes. wanted(settings, core): whether to subscribe; core is
    None before the first robot. Topics with needs_robot are not read before it.
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
        inputs.manager.reject_length(len(data))


DESCRIPTION = Input(
    "robot_description", String, LATCHED, sys.maxsize, _description, raw=True, needs_robot=False
)


class Subscriptions(ABC):
    """Subscriptions of the wanted rows. last_turn: steady ns."""

    def __init__(self, node: Node, manager: RobotManager, statistics: Statistics):
        self.manager = manager
        self._node, self._statistics = node, statistics
        self._states = StateReader()
        self.last_turn = monotonic_ns()
        self._subscriptions: dict[tuple[str, type], Subscription] = {}
        self._throttle = Throttle()

    @abstractmethod
    def rows(self) -> Iterable[Input]:
        """The current rows, in the order in which a turn empties them."""

    def subscribe(self):
        """Subscribe to the wanted topics and unsubscribe from others: at 500 Hz each takes 5 % of a core."""
        settings, core = self.manager.settings, self.manager.core
        wanted = {(row.topic, row.kind): row for row in self.rows() if row.wanted(settings, core)}
        for key in self._subscriptions.keys() - wanted.keys():
            self._node.destroy_subscription(self._subscriptions.pop(key))
        for key, row in wanted.items():
            if key not in self._subscriptions:
                self._subscriptions[key] = self._subscription(row)

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

    def receive_sensor(self, core, topic: str, message: SensorMessage):
        """Store a sensor message of a topic. Raises BadMessage."""
        core.receive_sensor(topic, message)

    def note_turn(self):
        """Store the time at which the subscriptions were emptied."""
        self.last_turn = monotonic_ns()

    def received(self, info, transit: Transit):
        """Steady ns at which a message arrived, from the stamps of its info. It may have waited in the
        middleware, since the last turn at most (for any clock of the machine), or before it, see Transit."""
        now, stamp = monotonic_ns(), info["received_timestamp"]
        waited = time_ns() - stamp if stamp > 0 else 0
        queued = min(max(waited, 0), now - self.last_turn)
        return now - max(queued, transit.waited(info.get("source_timestamp", 0), stamp, now))

    def _subscription(self, row):
        """All messages arrive as bytes; the callback catches the errors of a message."""
        label, transit = row.topic.removeprefix("~/"), Transit()

        def on_message(data, info):
            core = self.manager.core
            if row.needs_robot and core is None:
                return
            try:
                if len(data) > row.longest:
                    raise BadMessage(f"the message has {len(data)} bytes; the limit is {row.longest}")
                message = data if row.raw else deserialize_message(data, row.kind)
                row.read(self, core, message, self.received(info, transit))
            except BadMessage as error:
                self._drop(label, error)

        options = QoSOverridingOptions.with_default_policies()
        return self._node.create_subscription(
            row.kind, row.topic, on_message, row.qos, raw=True, qos_overriding_options=options
        )

    def _drop(self, topic, reason):
        reason = one_line(reason)
        self._statistics.dropped(topic, reason)
        if self._throttle.due(topic):
            self._node.get_logger().warning(f"{topic} dropped: {reason}")


# --- sensors, of both nodes --------------------------------------------------------------------------------


def sensor_inputs(core) -> list[Input]:
    """A row for each topic of the sensors in use; the sensors may change before a message arrives."""
    return [] if core is None else [_sensor_input(topic) for topic in core.topics.values()]


def _sensor_input(topic):
    def read(inputs, core, message, received):
        if topic.name in core.topics:
            inputs.receive_sensor(core, topic.name, sensor_message(message, received))

    return Input(topic.name, {IMU: Imu, WRENCH: WrenchStamped}[topic.message], SENSOR, SHORT, read)


LONG = 32 * 1024 * 1024  # bytes of a reference


# --- readers: (inputs, core, message, received) -----------------------------------------------------------


def _joint_states(inputs, core, data, received):
    states = inputs.read_states(data)
    *values, (seconds, rest) = states
    if core.joints.update(*values, seconds * 1_000_000_000 + rest, received):
        inputs.moved(seconds, rest)


def _reference(inputs, core, data, received):
    """Activate a short reference at once, and read a long one in slices, one per turn. A newer reference
    replaces it."""
    names, now = core.joints.names, inputs.ros_now()
    if is_plain(data):
        inputs.begin_reading(core, reading(names, data, now, received))
    else:
        message = deserialize_message(data, JointTrajectory)
        stamp = nanoseconds(message.header.stamp) or now
        core.reference = read_reference(names, message.joint_names, message.points, stamp, received)


def _controller_state(inputs, core, message, received):
    """The reference of a controller is one point, like those of ~/reference."""
    names = core.joints.names
    core.reference = read_reference(names, message.joint_names, [message.reference], 0, received)


def _wrench(inputs, core, message, received):
    core.wrenches.update(message.header.frame_id, wrench_numbers(message.wrench), received)


def _odometry(inputs, core, message, received):
    core.state.base = core.state.read_base(
        pose_numbers(message.pose.pose),
        twist_numbers(message.twist.twist),
        nanoseconds(message.header.stamp),
        received,
        message.child_frame_id,
    )


def _active_contacts(inputs, core, message, received):
    core.active.update(message.names, message.active, nanoseconds(message.header.stamp))


def _touches(settings, core):
    return core is not None and core.contacts is not None and settings.contact_source == "given"


def _base_acceleration(inputs, core, message, received):
    numbers, link = accel_numbers(message.accel), message.header.frame_id
    core.base_acceleration = read_base_acceleration(core.model, numbers, link, received)


def _floats(settings, core):
    return settings.floating_base if core is None else core.model.floating_base


INPUTS = (
    DESCRIPTION,
    Input("~/reference", JointTrajectory, RELIABLE, LONG, _reference, raw=True),
    Input("~/external_wrench", WrenchStamped, SENSOR, SHORT, _wrench),
    Input("~/active_contacts", ContactStates, RELIABLE, SHORT, _active_contacts, wanted=_touches),
    Input("~/base_acceleration", AccelStamped, RELIABLE, SHORT, _base_acceleration, wanted=_floats),
    Input("odom", Odometry, SENSOR, SHORT, _odometry, wanted=_floats),
    Input("joint_states", JointState, SENSOR, MIDDLE, _joint_states, raw=True),
)  # in the order in which a turn empties them: joint states last, because they trigger the output


def _controller_input(topic):
    """Raises ImportError."""
    from control_msgs.msg import JointTrajectoryControllerState

    return Input(topic, JointTrajectoryControllerState, SENSOR, MIDDLE, _controller_state)


class Inputs(Subscriptions):
    """Subscriptions of INPUTS, and a partly read reference. stamp: of the last joint state."""

    def __init__(self, node: Node, manager: RobotManager, statistics: Statistics):
        super().__init__(node, manager, statistics)
        self.stamp = Time()
        self._reading: tuple | None = None  # a Core and the generator of its next reference
        self._moved = False  # whether the turn received a joint state
        self._rows = self._with_controller(manager.settings.controller_state_topic)
        self.subscribe()

    def rows(self):
        """See Subscriptions."""
        return (*self._rows, *sensor_inputs(self.manager.core))

    def moved(self, seconds: int, nanoseconds: int):
        """Store that a joint state moved a joint, and its stamp."""
        self.stamp.sec, self.stamp.nanosec, self._moved = seconds, nanoseconds, True

    def begin_reading(self, core: Core, slices: Generator):
        """Read a reference from its first slice, and drop a partly read one."""
        self._reading = core, slices
        self.read_on()

    def end_turn(self) -> bool:
        """End the turn; returns whether it received a joint state."""
        self.note_turn()
        moved, self._moved = self._moved, False
        return moved

    def read_on(self) -> bool:
        """Read the next slice of a long reference; True while slices remain."""
        if self._reading is not None:
            core, slices = self._reading
            try:
                next(slices)
            except StopIteration as end:
                core.reference, self._reading = end.value, None
            except BadMessage as error:
                self._reading = None
                self._drop("reference", error)
        return self.is_reading

    @property
    def is_reading(self) -> bool:
        """Whether a long reference is being read."""
        return self._reading is not None

    def forget(self):
        """Drop a partly read reference."""
        self._reading = None

    def _with_controller(self, topic):
        """INPUTS, with the topic of a controller if control_msgs is installed."""
        if not topic:
            return INPUTS
        try:
            return (_controller_input(topic), *INPUTS)
        except ImportError:  # a minimal installation has no control_msgs
            package = f"ros-{os.environ.get('ROS_DISTRO', 'jazzy')}-control-msgs"
            self._node.get_logger().error(
                f"controller_state_topic needs control_msgs: sudo apt install {package}"
            )
            return INPUTS
