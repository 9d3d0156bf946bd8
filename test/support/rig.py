"""A real node in its own process and isolated domain, and a client of its topics and services."""

import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest
from domains import fresh_domain

rclpy = pytest.importorskip("rclpy", reason="ROS 2: source an installation, or use ./dev")
pytest.importorskip("dynamics_interfaces", reason="build dynamics_interfaces first, or use ./dev")

import yaml
from diagnostic_msgs.msg import DiagnosticArray
from dynamics_interfaces.msg import DynamicsState
from nav_msgs.msg import Odometry
from rcl_interfaces.msg import Parameter as ParameterMessage
from rcl_interfaces.srv import SetParametersAtomically
from rclpy.context import Context
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.parameter import Parameter
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray, String
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

LATCHED = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
TIMEOUT = 100.0  # s, enough for a busy machine; waiting ends with the event
BEST_EFFORT = QoSProfile(depth=50, reliability=ReliabilityPolicy.BEST_EFFORT)


class NodeProcess:
    """A process of the executable `module` in a namespace of a Domain.

    parameters: {name: value}, nested names with dots; QoS overrides name topics relative to the namespace, such as
    /joint_states. environment: additional variables.
    """

    def __init__(
        self,
        domain,
        parameters=None,
        namespace="",
        arguments=(),
        environment=None,
        module="dynamics_node.node.main",
    ):
        self.log = tempfile.NamedTemporaryFile("w+", suffix=".log")  # noqa: SIM115, closed in stop
        command = [sys.executable, "-m", module, *domain.remappings(namespace)]
        if parameters:
            topics = f"qos_overrides.{domain.resolved(namespace)}/"
            parameters = {name.replace("qos_overrides./", topics): v for name, v in parameters.items()}
            self._file = tempfile.NamedTemporaryFile("w", suffix=".yaml")  # noqa: SIM115
            yaml.safe_dump({"/**": {"ros__parameters": parameters}}, self._file)
            self._file.flush()
            command += ["--params-file", self._file.name]
        surroundings = {**domain.environment(), **(environment or {})}
        self.process = subprocess.Popen(
            [*command, *arguments], env=surroundings, stdout=self.log, stderr=subprocess.STDOUT
        )

    def output(self):
        return Path(self.log.name).read_text()

    def stop(self, number=signal.SIGINT):
        """Stop the process and return its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            return self.process.wait(timeout=TIMEOUT)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise


class Client:
    """Publishers and subscriptions for the topics of one node; served: the name of that node, for its services."""

    served = "dynamics_node"

    def __init__(self, domain, namespace=""):
        self.context = Context()
        rclpy.init(args=domain.remappings(namespace), context=self.context, domain_id=domain.number)
        self.node = Node("client", context=self.context)
        self.executor = SingleThreadedExecutor(context=self.context)
        self.executor.add_node(self.node)
        create = self.node.create_publisher
        self.description = create(String, "robot_description", LATCHED)
        self.states = create(JointState, "joint_states", 50)
        self.odometry = create(Odometry, "odom", 50)
        self.references = create(JointTrajectory, "dynamics_node/reference", 50)
        self.torques: dict[int, JointState] = {}
        self.solutions: dict[int, JointTrajectory] = {}
        self.torque_log: list[JointState] = []
        self.commands: list[list[float]] = []
        self.diagnostics: list = []
        listen = self.node.create_subscription
        listen(JointState, "dynamics_node/joint_torques", self._on_torques, 500)
        listen(JointTrajectory, "dynamics_node/solution", self._on_solution, 500)
        listen(Float64MultiArray, "dynamics_node/effort_commands", self._on_commands, 500)
        listen(DiagnosticArray, "/diagnostics", lambda m: self.diagnostics.append(m.status[0]), 50)
        self.stamp = time.time_ns()

    def _on_torques(self, message):
        self.torques[stamp_of(message)] = message
        self.torque_log.append(message)

    def _on_commands(self, message):
        self.commands.append(list(message.data))

    def _on_solution(self, message):
        self.solutions[stamp_of(message)] = message

    def neighbours(self):
        """Names of the nodes in the client's namespace, without hidden ones such as the services' process."""
        own, nodes = self.node.get_namespace(), self.node.get_node_names_and_namespaces()
        return [name for name, space in nodes if space == own and not name.startswith("_")]

    def published_by_others(self):
        """Topics in the client's namespace that another node publishes.

        The name of a node is no proof that it runs: the graph of rmw_fastrtps listed one whose process had ended
        with 0, without publishers, for over 100 s (once in some 250 tests on a busy machine). One explanation is
        a last ros_discovery_info that arrives after the participant has left.
        """
        inside = f"{self.node.get_namespace()}/"
        topics = [topic for topic, _ in self.node.get_topic_names_and_types() if topic.startswith(inside)]
        publishers = self.node.get_publishers_info_by_topic
        return [t for t in topics if any(p.node_name != "client" for p in publishers(t))]

    def spin(self, seconds):
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self.executor.spin_once(timeout_sec=left)

    def until(self, condition, timeout=TIMEOUT, what=""):
        """Spin until condition() is truthy and return its value. Raises AssertionError after the timeout."""
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            if value := condition():
                return value
            self.executor.spin_once(timeout_sec=0.02)
        raise AssertionError(f"timed out: {what or condition}")

    def next_stamp(self):
        """ns, strictly rising and not ahead of time."""
        self.stamp = max(self.stamp + 1, time.time_ns())
        return self.stamp

    def send_state(self, names, q, qd=(), effort=(), stamp=None, publisher=None):
        """Publish a JointState and return its stamp."""
        stamp = self.next_stamp() if stamp is None else stamp
        message = JointState(name=list(names), position=floats(q), velocity=floats(qd), effort=floats(effort))
        set_stamp(message, stamp)
        (publisher or self.states).publish(message)
        return stamp

    def send_odometry(self, pose, twist=(0,) * 6, child="", stamp=None):
        """pose x y z qx qy qz qw; twist (angular, linear)."""
        message = Odometry(child_frame_id=child)
        set_stamp(message, self.next_stamp() if stamp is None else stamp)
        p, o = message.pose.pose.position, message.pose.pose.orientation
        p.x, p.y, p.z, o.x, o.y, o.z, o.w = map(float, pose)
        w, v = message.twist.twist.angular, message.twist.twist.linear
        w.x, w.y, w.z, v.x, v.y, v.z = map(float, twist)
        self.odometry.publish(message)

    def send_reference(self, names, *points, stamp=None):
        message = trajectory(names, *points)
        set_stamp(message, self.next_stamp() if stamp is None else stamp)
        self.references.publish(message)

    def answered(self, names, q, qd=(), effort=(), timeout=TIMEOUT, **options):
        """Send the state repeatedly until a torque with one of its stamps arrives; return that torque."""
        stamps, end = [], time.monotonic() + timeout
        while time.monotonic() < end:
            stamps.append(self.send_state(names, q, qd, effort, **options))
            self.spin(0.03)
            for stamp in reversed(stamps):
                if stamp in self.torques:
                    return self.torques[stamp]
        raise AssertionError("no torque for the state")

    def silent_for(self, seconds, send=None):
        """True if no torque arrives during `seconds`, with send() every 30 ms."""
        self.spin(0.1)
        self.torque_log.clear()
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if send:
                send()
            self.spin(0.03)
        return not self.torque_log

    def diagnostic(self, condition=lambda status: True, timeout=TIMEOUT, send=None):
        """The next status that satisfies the condition, as (message, {key: value}, level); send() keeps the input
        fresh."""
        self.diagnostics.clear()

        def first_match():
            if send:
                send()
                self.spin(0.02)  # receive all replies to a state
            return next(filter(condition, self.diagnostics), None)

        status = self.until(first_match, timeout, "diagnostics")
        return status.message, {v.key: v.value for v in status.values}, status.level

    def call(self, kind, name, request=None, timeout=TIMEOUT):
        """Response of a service of the node."""
        client = self.node.create_client(kind, f"{self.served}/{name}")
        self.until(client.service_is_ready, timeout, name)
        future = client.call_async(request or kind.Request())
        self.until(future.done, timeout, name)
        self.node.destroy_client(client)
        return future.result()

    def ask(self, kind, **fields):
        """Response of the service that is called like its type, to a request with these fields."""
        name = re.sub("(?<!^)(?=[A-Z])", "_", kind.__name__).lower()
        return self.call(kind, name, kind.Request(**fields))

    def set_parameters(self, **values):
        """Set atomically and return (successful, reason). __ in a name stands for a dot, [] for an empty list of numbers."""
        request = SetParametersAtomically.Request()
        for name, value in values.items():
            name, kind = name.replace("__", "."), Parameter.Type.DOUBLE_ARRAY if value == [] else None
            value = Parameter(name, kind, value).get_parameter_value()
            request.parameters.append(ParameterMessage(name=name, value=value))
        result = self.call(SetParametersAtomically, "set_parameters_atomically", request).result
        return result.successful, result.reason

    def close(self):
        self.executor.shutdown()
        self.node.destroy_node()
        rclpy.shutdown(context=self.context)


class Rig(Client):
    """A Client with its node. robot: of robots.py, published on robot_description; domain: by default a fresh one;
    process: options of NodeProcess."""

    def __init__(
        self, robot=None, parameters=None, describe=True, namespace="", arguments=(), domain=None, **process
    ):
        domain = domain or fresh_domain()
        super().__init__(domain, namespace)
        self.domain, self.robot = domain, robot
        self.parameters = dict(parameters or {})
        if robot is not None:
            if robot.joints is not None:
                self.parameters.setdefault("joints", list(robot.joints))
            if robot.floating_base:
                self.parameters.setdefault("floating_base", True)
            if describe:
                self.describe(robot.file.read_text())
        self.process = NodeProcess(domain, self.parameters, namespace, arguments, **process)

    def until(self, condition, timeout=TIMEOUT, what=""):
        """As of Client; the failure has the log of the node."""
        try:
            return super().until(condition, timeout, what)
        except AssertionError as error:
            raise AssertionError(f"{error}; the log of the node:\n{self.process.output()}") from None

    def describe(self, text):
        self.description.publish(String(data=text))

    def serving(self):
        """Wait until the node has a solver and receives joint states, and return self; earlier NoOutput is no failure."""
        self.until(lambda: " dynamics by " in self.process.output(), what="a solver")
        self.until(self.states.get_subscription_count, what="discovery")
        return self

    def close(self):
        code = self.process.stop()
        self.until(lambda: not self.published_by_others(), what="the end of the node's publishers")
        super().close()
        output = self.process.output()
        # SIGALRM: Fast DDS blocked while it deleted a participant, see `end` of node/ros/running.py
        assert code in (0, -signal.SIGALRM), f"the node ended with {code}:\n{output}"
        assert "Traceback" not in output, output


def stamp_of(message):
    return message.header.stamp.sec * 1_000_000_000 + message.header.stamp.nanosec


def state(names=(), q=(), qd=(), effort=()):
    """A DynamicsState of joints."""
    joints = JointState(name=list(names), position=floats(q), velocity=floats(qd), effort=floats(effort))
    return DynamicsState(joints=joints)


def set_stamp(message, stamp):
    message.header.stamp.sec, message.header.stamp.nanosec = divmod(stamp, 1_000_000_000)


def floats(values):
    return [float(x) for x in values]


def point(time_from_start=0.0, q=(), qd=(), qdd=(), effort=()):
    result = JointTrajectoryPoint(
        positions=floats(q), velocities=floats(qd), accelerations=floats(qdd), effort=floats(effort)
    )
    nanoseconds = round(time_from_start * 1e9)
    result.time_from_start.sec, result.time_from_start.nanosec = divmod(nanoseconds, 1_000_000_000)
    return result


def trajectory(names, *points):
    return JointTrajectory(joint_names=list(names), points=list(points))


def efforts(message, names):
    """Efforts of a JointState in the order of names."""
    order = [list(message.name).index(name) for name in names]
    return np.array(message.effort)[order]
