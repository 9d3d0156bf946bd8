"""The topics that the estimator hears: one row each."""

from builtin_interfaces.msg import Time
from rclpy.serialization import deserialize_message
from sensor_msgs.msg import Imu, JointState
from std_msgs.msg import Float64MultiArray

from dynamics_node.node.estimator.settings import COMMANDED
from dynamics_node.node.ros.messages import nanoseconds, sensed_numbers
from dynamics_node.node.ros.qos import SENSOR
from dynamics_node.node.ros.subscriptions import DESCRIPTION, MIDDLE, SHORT, Input, Subscriptions
from dynamics_node.node.state.joint_memory import MAX_NAMES, BadMessage


def _joint_states(inputs, core, data, received):
    names, position, velocity, effort, (seconds, rest) = inputs.read_states(data)
    stamp = inputs.stamped(seconds * 1_000_000_000 + rest)
    core.hear_states(names, position, velocity, effort, stamp, received)
    inputs.heard = True


def _commanded_torques(inputs, core, data, received):
    names, _, _, effort, (seconds, rest) = inputs.read_states(data)
    core.hear_command(names, effort, inputs.stamped(seconds * 1_000_000_000 + rest), received)


def _effort_commands(inputs, core, data, received):
    message = deserialize_message(data, Float64MultiArray)
    if len(message.data) > MAX_NAMES:
        raise BadMessage(f"{len(message.data)} numbers; the limit is {MAX_NAMES}")
    core.hear_numbers(message.data, inputs.ros_now(), received)


def _imu(topic):
    """The reader of the topic of an IMU, gyro or accelerometer."""

    def read(inputs, core, message, received):
        if topic in core.robot.topics:
            stamp = inputs.stamped(nanoseconds(message.header.stamp))
            core.hear_sensor(topic, sensed_numbers(message), message.header.frame_id, stamp, received)
            inputs.heard = True

    return read


def _by_name(settings, core):
    return settings.torque_source == COMMANDED and not settings.command_joints


def _by_number(settings, core):
    return bool(settings.command_joints)


COMMANDS = (
    Input("~/commanded_torques", JointState, SENSOR, MIDDLE, _commanded_torques, _by_name, raw=True),
    Input("~/effort_commands", Float64MultiArray, SENSOR, MIDDLE, _effort_commands, _by_number, raw=True),
)
STATES = Input("joint_states", JointState, SENSOR, MIDDLE, _joint_states, raw=True)


class EstimatorInputs(Subscriptions):
    """heard: whether the turn brought anything to solve."""

    heard = False

    def rows(self):
        """See Subscriptions: what belongs to a step comes before the joint states that make it."""
        core = self.manager.core
        topics = core.robot.topics if core is not None else ()
        imus = [Input(topic.name, Imu, SENSOR, SHORT, _imu(topic)) for topic in topics]
        return (DESCRIPTION, *COMMANDS, *imus, STATES)

    def stamped(self, stamp: int) -> int:
        """ns of ROS time: of drivers that give no stamp, now."""
        return stamp or self.ros_now()

    def end_turn(self) -> bool:
        """The subscriptions have been emptied: whether that brought anything."""
        self.turned()
        heard, self.heard = self.heard, False
        return heard


def time_message(stamp: int) -> Time:
    """Of ns."""
    seconds, rest = divmod(stamp, 1_000_000_000)
    return Time(sec=seconds, nanosec=rest)
