"""The rows of inputs.py and their guard, without a node: messages are bytes, as in the middleware."""

from time import monotonic_ns, time_ns
from types import SimpleNamespace

import numpy as np
import pytest
from plain import serve, settings

pytest.importorskip("rclpy", reason="ROS 2: source an installation, or use ./dev")

from geometry_msgs.msg import WrenchStamped
from nav_msgs.msg import Odometry
from rclpy.serialization import serialize_message
from sensor_msgs.msg import Imu, JointState
from std_msgs.msg import String
from tolerances import EXACT, error
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from dynamics_node.algorithms import external_wrenches
from dynamics_node.node.core.diagnostics import Statistics
from dynamics_node.node.errors import NoOutput
from dynamics_node.node.ros.inputs import INPUTS, LONG, MIDDLE, SHORT, Inputs
from dynamics_node.robot.safe_xml import MAX_BYTES


class Node:
    """The methods of an rclpy node for Inputs: callbacks by topic, in the order of their creation."""

    def __init__(self):
        self.callbacks, self.lines = {}, []

    def create_subscription(self, kind, topic, callback, qos, **options):
        assert options["raw"]
        self.callbacks[topic] = callback
        return topic

    def destroy_subscription(self, topic):
        del self.callbacks[topic]

    def get_logger(self):
        log = lambda text, **_: self.lines.append(text)  # noqa: E731
        return SimpleNamespace(warning=log, error=log)

    def get_clock(self):
        return SimpleNamespace(now=lambda: SimpleNamespace(nanoseconds=0))


class RobotManager:
    """The attributes of RobotManager for Inputs."""

    def __init__(self, core=None, chosen=None):
        self.core, self.settings = core, chosen or settings()
        self.described, self.rejected = [], []
        self.describe, self.reject_length = self.described.append, self.rejected.append


class Bench:
    def __init__(self, manager):
        self.manager, self.node, self.statistics = manager, Node(), Statistics()
        self.inputs = Inputs(self.node, manager, self.statistics)

    def send(self, topic, message, published=0, received=0):
        """published, received: ns on both clocks, 0 for a middleware without stamps."""
        data = message if isinstance(message, bytes) else serialize_message(message)
        info = {"received_timestamp": received, "source_timestamp": published}
        self.node.callbacks[topic](data, info)


@pytest.fixture
def bench():
    return Bench(RobotManager(serve("panda7").core))


def test_dropped_messages_are_logged_once(bench):
    message = WrenchStamped()
    message.header.frame_id = "nowhere"
    for _ in range(1000):
        bench.send("~/external_wrench", message)
    assert bench.node.lines == ["external_wrench dropped: frame_id 'nowhere' is not a link of the robot"]
    assert bench.statistics.counts["dropped"] == 1000


def states(panda, sec=5):
    message = JointState(name=list(panda.names), position=list(panda.q), velocity=list(panda.qd))
    message.header.stamp.sec = sec
    return message


def tau(bench):
    return bench.manager.core.solve(lambda: 0, monotonic_ns()).tau


def test_joint_states_are_the_last_subscription(bench):
    """All other input of the output is read before."""
    assert list(bench.node.callbacks)[-1] == "joint_states"
    assert INPUTS[-1].topic == "joint_states"


@pytest.fixture(params=["plain", "other"])
def encoding(request, monkeypatch):
    """Both paths: the reader of wire.py, and rclpy for other encodings."""
    monkeypatch.setattr("dynamics_node.node.ros.inputs.is_plain", lambda data: request.param == "plain")
    return request.param


def test_a_joint_state_is_read(bench, panda, encoding):
    assert not bench.inputs.end_turn()
    bench.send("joint_states", states(panda))
    assert bench.inputs.end_turn() and not bench.inputs.end_turn()
    assert bench.inputs.stamp.sec == 5
    assert error(tau(bench), panda.torque()) <= EXACT


def test_only_the_description_is_read_before_a_robot():
    bench = Bench(RobotManager())
    for topic in bench.node.callbacks:
        if topic != "robot_description":
            bench.send(topic, b"whatever")
    bench.send("robot_description", String(data="<robot/>"))
    assert bench.manager.described == ["<robot/>"] and not bench.statistics.counts


def test_a_description_that_is_too_long_is_rejected_unread(bench):
    bench.send("robot_description", bytes(MAX_BYTES + 17))
    assert bench.manager.rejected == [MAX_BYTES + 17] and not bench.manager.described


@pytest.mark.parametrize(
    "topic, most", [("joint_states", MIDDLE), ("~/reference", LONG), ("~/external_wrench", SHORT)]
)
def test_a_message_that_is_too_long_is_dropped_unread(bench, topic, most):
    bench.send(topic, bytes(most + 1))
    label = topic.removeprefix("~/")
    assert bench.statistics.last_drop == f"{label}: the message has {most + 1} bytes; the limit is {most}"
    assert bench.node.lines == [f"{label} dropped: the message has {most + 1} bytes; the limit is {most}"]


def test_a_wrench_is_read(bench, panda):
    message = WrenchStamped()
    message.header.frame_id = "panda_hand"
    message.wrench.force.x, message.wrench.torque.z = 1.0, 2.0
    bench.send("~/external_wrench", message)
    (link,) = bench.manager.core.wrenches.links(monotonic_ns(), 10**12)
    assert link == "panda_hand"
    core, moment_first = bench.manager.core, np.array([0.0, 0, 2, 1, 0, 0])
    expected = external_wrenches(core.model, {link: moment_first})
    assert np.array_equal(core.wrenches.f_ext(monotonic_ns(), 10**12), expected)
    message.header.frame_id = "nowhere"
    bench.send("~/external_wrench", message)
    assert bench.statistics.last_drop == "external_wrench: frame_id 'nowhere' is not a link of the robot"


def reference(panda, count):
    points = [JointTrajectoryPoint(accelerations=list(panda.qdd)) for _ in range(count)]
    for k, point in enumerate(points):
        point.time_from_start.sec = k
    return JointTrajectory(joint_names=list(panda.names), points=points)


def test_a_short_reference_is_active_at_once(bench, panda, encoding):
    bench.send("~/reference", reference(panda, 1))
    assert not bench.inputs.is_reading
    bench.send("joint_states", states(panda))
    assert error(tau(bench), panda.torque(qdd=panda.qdd)) <= EXACT


def test_a_long_reference_is_read_in_slices_and_can_be_replaced(bench, panda):
    bench.send("~/reference", reference(panda, 1000))
    assert bench.inputs.is_reading and bench.manager.core.reference is None
    bench.send("~/reference", reference(panda, 500))
    slices = 0
    while bench.inputs.read_on():
        slices += 1
    assert slices and len(bench.manager.core.reference.times) == 500


def test_a_reference_with_an_invalid_end_is_dropped(bench, panda):
    message = reference(panda, 1000)
    message.points[-1].accelerations[3] = np.nan
    bench.send("~/reference", message)
    while bench.inputs.read_on():
        pass
    assert bench.statistics.last_drop == "reference: point 999: accelerations of 'panda_joint4' is nan"
    assert bench.manager.core.reference is None


def test_forget_drops_a_partly_read_reference(bench, panda):
    bench.send("~/reference", reference(panda, 1000))
    bench.inputs.forget()
    assert not bench.inputs.read_on() and bench.manager.core.reference is None


SENSOR = "sensors: [{{type: imu, name: {name}, link: panda_link0, std: 0.1, topic: imu}}]"


def test_sensors_and_odom_are_subscribed_only_while_needed(tmp_path):
    file = tmp_path / "sensors.yaml"
    file.write_text(SENSOR.format(name="base"))
    served = serve("panda7", sensors_file=str(file))
    bench = Bench(RobotManager(served.core))
    assert {"imu", "odom"}.isdisjoint(bench.node.callbacks)
    served.use(gravity_sensor="base")
    bench.inputs.subscribe()
    assert "imu" in bench.node.callbacks and "odom" not in bench.node.callbacks
    message = Imu()
    message.linear_acceleration.z = 9.81
    message.orientation_covariance[0] = -1.0
    bench.send("imu", message)
    assert served.core.gravity.tilt.direction.tolist() == [0, 0, -1]
    message.header.frame_id = "camera"
    bench.send("imu", message)
    assert bench.statistics.last_drop.startswith("imu: sensor 'base': its frame is 'panda_link0'")
    served.use(gravity_sensor="")
    bench.send("imu", message)  # sent before the change
    bench.inputs.subscribe()
    assert "imu" not in bench.node.callbacks


def test_a_subscription_is_kept_if_its_sensor_changes(tmp_path):
    """For example after ~/reload of a changed file."""
    bench, callbacks = Bench(RobotManager()), []
    for name in ("base", "level"):
        file = tmp_path / f"{name}.yaml"
        file.write_text(SENSOR.format(name=name))
        served = serve("panda7", sensors_file=str(file), gravity_sensor=name)
        bench.manager.core = served.core
        bench.inputs.subscribe()
        callbacks.append(bench.node.callbacks["imu"])
        bench.send("imu", Imu())
        assert served.core.gravity.tilt.direction.tolist() == [0, 0, -1]
    assert callbacks[0] is callbacks[1]


def test_odometry_of_a_floating_robot_is_read():
    bench = Bench(RobotManager(serve("solo12").core))
    message = Odometry(child_frame_id="base_link")
    message.pose.pose.position.x = 3.0
    message.twist.twist.linear.x, message.twist.twist.angular.z = 1.0, 2.0
    bench.send("odom", message)
    base = bench.manager.core.state.base
    assert base.pose.tolist() == [3, 0, 0, 0, 0, 0, 1] and base.twist.tolist() == [0, 0, 2, 1, 0, 0]
    message.child_frame_id = "camera"
    bench.send("odom", message)
    assert bench.statistics.last_drop.startswith("odom: child_frame_id 'camera' is not")
    assert bench.manager.core.state.base is base


def test_the_parameter_decides_on_odom_before_the_first_robot():
    assert "odom" in Bench(RobotManager(chosen=settings(floating_base=True))).node.callbacks
    assert "odom" not in Bench(RobotManager()).node.callbacks


def test_a_missing_control_msgs_is_one_log_line():
    import importlib.util

    bench = Bench(RobotManager(chosen=settings(controller_state_topic="arm/state")))
    if importlib.util.find_spec("control_msgs"):
        assert "arm/state" in bench.node.callbacks
    else:
        (line,) = bench.node.lines
        assert line.startswith("controller_state_topic needs control_msgs: sudo apt install ros-")


def test_messages_delayed_by_a_stopped_process_are_stale(bench, panda):
    """The middleware receives them when the process continues."""

    def receive(sec, age):
        now = time_ns()
        bench.send("joint_states", states(panda, sec), now - age, now)
        bench.inputs.end_turn()

    for k in range(20):
        receive(5 + k, age=2_000_000)
    assert len(tau(bench)) == 7
    receive(30, age=950_000_000)
    with pytest.raises(NoOutput, match="older"):
        tau(bench)
    receive(31, age=2_000_000)
    assert len(tau(bench)) == 7
