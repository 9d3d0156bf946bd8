"""The bounded executor, and turns of the node, in this process."""

import time
import warnings
from array import array
from types import SimpleNamespace

import numpy as np
import pytest
import rclpy
from domains import fresh_domain
from rcl_interfaces.srv import ListParameters
from rclpy.context import Context
from rclpy.node import Node
from rclpy.qos import QoSProfile
from rig import TIMEOUT, point, stamp_of, trajectory
from robots import PANDA_JOINTS, ROBOTS
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import JointState
from std_srvs.srv import SetBool, Trigger

from dynamics_node.node.estimator.estimator_node import EstimatorNode
from dynamics_node.node.ros import bounded_executor as turns
from dynamics_node.node.ros.bounded_executor import TurnExecutor
from dynamics_node.node.ros.inputs import SENSOR
from dynamics_node.node.ros_node import DynamicsNode
from dynamics_node.node.state.wire import Transit

DEPTH = SENSOR.depth


class Bench:
    """An executor that is spun manually, and a node that sends and collects messages."""

    def __init__(self):
        self.context = Context()
        rclpy.init(context=self.context, domain_id=fresh_domain().number)
        self.problems = []
        self.executor = TurnExecutor(lambda *problem: self.problems.append(problem), context=self.context)
        self.outside = Node("outside", context=self.context)
        self.own = TurnExecutor(lambda *problem: self.problems.append(problem), context=self.context)
        self.own.add_node(self.outside)

    def add(self, node):
        self.executor.add_node(node)
        return node

    def until(self, condition, turn):
        """Turns until the condition holds."""
        end = time.monotonic() + TIMEOUT
        while time.monotonic() < end:
            turn()
            self.own.spin_once(timeout_sec=0.005)
            if condition():
                return
        raise AssertionError("timed out")

    def client(self, kind, name):
        client = self.outside.create_client(kind, name)
        self.until(client.service_is_ready, lambda: self.executor.spin_once(timeout_sec=0))
        return client

    def close(self):
        for node in (*self.executor.get_nodes(), self.outside):
            node.destroy_node()
        rclpy.shutdown(context=self.context)


@pytest.fixture
def bench():
    made = Bench()
    yield made
    made.close()


def turn(bench):
    return lambda: bench.executor.spin_once(timeout_sec=0)


def test_a_reply_is_sent_again_until_its_client_is_discovered(bench, monkeypatch):
    """The middleware may receive a request before it has discovered the reader of its reply; it then drops the reply
    with a warning."""
    monkeypatch.setattr(turns, "RETRY_PERIOD", 0.0)
    node, attempts = bench.add(Node("node", context=bench.context)), []
    service = node.create_service(Trigger, "late", lambda request, response: response)
    send = service.send_response

    def undiscovered(response, header):
        attempts.append(header)
        if len(attempts) < 3:
            text = f"{turns.UNDISCOVERED} (timeout): client will not receive response"
            warnings.warn(text, RuntimeWarning, stacklevel=1)
        else:
            send(response, header)

    monkeypatch.setattr(service, "send_response", undiscovered)
    future = bench.client(Trigger, "late").call_async(Trigger.Request())
    bench.until(future.done, turn(bench))
    assert len(attempts) == 3 and not bench.problems
    attempts.clear()
    monkeypatch.setattr(turns, "RETRIES", 1)
    bench.client(Trigger, "late").call_async(Trigger.Request())
    bench.until(lambda: bench.problems, turn(bench))
    assert "a reply was lost" in str(bench.problems[0][1]) and len(attempts) == 2


def test_a_service_does_not_wait_for_a_backlog(bench):
    """The middleware keeps DEPTH of 1000 messages; the EventsExecutor of rclpy serves after 1000 events."""
    node, received = bench.add(Node("slow", context=bench.context)), []
    node.create_subscription(JointState, "states", received.append, SENSOR)
    node.create_service(SetBool, "stop", lambda request, response: response)
    sender = bench.outside.create_publisher(JointState, "states", SENSOR)
    client = bench.client(SetBool, "stop")
    bench.until(sender.get_subscription_count, turn(bench))
    for k in range(1000):
        sender.publish(JointState(effort=[float(k)]))
    future = client.call_async(SetBool.Request())
    time.sleep(0.3)  # all messages have arrived
    received.clear()
    bench.executor.spin_once(timeout_sec=0)
    assert 0 < len(received) <= DEPTH
    assert received[-1].effort[0] == 999.0
    bench.until(future.done, lambda: None)


def test_a_subscription_yields_after_its_share_of_a_turn(bench, monkeypatch):
    """The first turn answers a request."""
    monkeypatch.setattr(turns, "SHARE", 0.0)
    node, received = bench.add(Node("slow", context=bench.context)), []
    node.create_subscription(JointState, "states", received.append, SENSOR)
    node.create_service(SetBool, "stop", lambda request, response: received.append("stop") or response)
    sender = bench.outside.create_publisher(JointState, "states", SENSOR)
    client = bench.client(SetBool, "stop")
    bench.until(sender.get_subscription_count, turn(bench))
    for k in range(DEPTH):
        sender.publish(JointState(effort=[float(k)]))
    client.call_async(SetBool.Request())
    time.sleep(0.3)  # all messages have arrived
    bench.executor.spin_once(timeout_sec=0)
    assert [getattr(what, "effort", what) for what in received] == ["stop", array("d", [0.0])]
    for _ in range(DEPTH):
        bench.executor.spin_once(timeout_sec=0)
    assert [message.effort[0] for message in received[1:]] == list(range(DEPTH))


def test_an_error_is_reported_and_the_turn_continues(bench):
    node, received = bench.add(Node("broken", context=bench.context)), []

    def fail(*_):
        raise MemoryError("no room")

    node.create_timer(0.001, fail)
    node.create_service(Trigger, "broken", fail)
    node.create_subscription(JointState, "bad", fail, SENSOR)
    node.create_subscription(JointState, "states", received.append, SENSOR)
    bad = bench.outside.create_publisher(JointState, "bad", SENSOR)
    good = bench.outside.create_publisher(JointState, "states", SENSOR)
    client = bench.client(Trigger, "broken")

    def send():
        bad.publish(JointState())
        good.publish(JointState())
        turn(bench)()

    client.call_async(Trigger.Request())
    bench.until(lambda: received and len({name for name, _ in bench.problems}) == 3, send)
    assert {name for name, _ in bench.problems} == {"bad", "broken", "Timer"}
    assert all(isinstance(error, MemoryError) for _, error in bench.problems)


def test_entities_can_be_created_and_destroyed(bench):
    node, received = bench.add(Node("changing", context=bench.context)), []
    sender = bench.outside.create_publisher(JointState, "states", SENSOR)
    timer = node.create_timer(0.0001, lambda: node.destroy_timer(timer))
    for _ in range(3):
        first = node.create_subscription(JointState, "states", received.append, SENSOR)
        second = node.create_subscription(JointState, "states", lambda _: None, QoSProfile(depth=1))

        def send():
            sender.publish(JointState())
            turn(bench)()

        received.clear()
        bench.until(lambda: received, send)
        assert node.destroy_subscription(first) and node.destroy_subscription(second)
        turn(bench)()
    assert not bench.problems
    assert not list(node.timers)


def test_awaiting_callbacks_are_rejected(bench):
    node = bench.add(Node("waiting", context=bench.context))

    async def wait():
        await SimpleNamespace(__await__=None)

    node.create_timer(0.001, wait)
    bench.until(lambda: bench.problems, turn(bench))
    assert isinstance(bench.problems[0][1], TypeError)


# --- requests -----------------------------------------------------------------------------------------

MANY = QoSProfile(depth=100)  # of a client: by default, it drops all but ten replies that wait for it


def burst(bench, kind, name, requests):
    """Futures of requests that have arrived."""
    client = bench.outside.create_client(kind, name, qos_profile=MANY)
    bench.until(client.service_is_ready, turn(bench))
    futures = [client.call_async(request) for request in requests]
    time.sleep(0.3)  # all requests have arrived
    return futures


@pytest.mark.parametrize("name, count", [("switch", 40), ("outer/list_parameters", 40)])
def test_every_request_of_a_burst_has_a_reply(bench, name, count):
    """Also of services whose response has no failure. A queue of ROS's usual depth holds ten requests."""
    node = bench.add(Node("outer", context=bench.context))
    node.create_service(SetBool, "switch", lambda _, response: response, qos_profile=turns.REQUESTS)
    kind = SetBool if name == "switch" else ListParameters
    futures = burst(bench, kind, name, [kind.Request() for _ in range(count)])
    for _ in range(count):
        bench.executor.spin_once(timeout_sec=0)
    bench.until(lambda: all(future.done() for future in futures), lambda: None)


def test_a_turn_answers_one_request_and_the_others_wait(bench):
    node, answered = bench.add(Node("outer", context=bench.context)), []
    create = node.create_service
    create(SetBool, "switch", lambda q, r: answered.append(q.data) or r, qos_profile=turns.REQUESTS)
    burst(bench, SetBool, "switch", [SetBool.Request(data=k % 3 == 0) for k in range(5)])
    for k in range(5):
        bench.executor.spin_once(timeout_sec=None)  # without an end, if nothing is ready
        assert len(answered) == k + 1
    assert answered == [True, False, False, True, False]


def test_requests_that_cannot_wait_are_rejected_at_once(bench, monkeypatch):
    monkeypatch.setattr(turns, "MOST_WAITING", 3)
    bench.executor._share = np.inf
    node = bench.add(Node("outer", context=bench.context))

    def answer(_, response):
        response.success = True
        return response

    node.create_service(Trigger, "answer", answer, qos_profile=turns.REQUESTS)
    futures = burst(bench, Trigger, "answer", [Trigger.Request() for _ in range(20)])
    bench.executor.spin_once(timeout_sec=0)
    bench.until(lambda: sum(future.done() for future in futures) == 18, lambda: None)
    rejected = [future.result() for future in futures[3:]]
    assert not any(reply.success for reply in rejected)
    assert all("busy: 3 requests" in reply.message for reply in rejected)
    bench.until(lambda: all(future.done() for future in futures), turn(bench))
    assert all(future.result().success for future in futures[:3])


def test_an_internal_error_has_a_reply(bench):
    node = bench.add(Node("outer", context=bench.context))
    node.create_service(Trigger, "broken", lambda request, response: 1 / 0, qos_profile=turns.REQUESTS)
    (future,) = burst(bench, Trigger, "broken", [Trigger.Request()])
    bench.until(future.done, turn(bench))
    assert not future.result().success and "ZeroDivisionError" in future.result().message
    assert [name for name, _ in bench.problems] == ["broken"]


@pytest.mark.parametrize("kind", [DynamicsNode, EstimatorNode])
def test_services_hold_what_clients_send(bench, kind):
    """All but get_type_description and those of the lifecycle, whose depth rcl chooses."""
    node = bench.add(kind(context=bench.context))
    depths = {own.srv_name: own.qos_profile.depth for own in node.services}
    assert len(depths) > 6
    few = {name.rpartition("/")[2] for name, depth in depths.items() if depth < turns.REQUESTS.depth}
    states = {"change_state", "get_state", "get_available_states", "get_available_transitions"}
    assert few == {"get_type_description", "get_transition_graph", *states}


# --- the node -----------------------------------------------------------------------------------------

NAMES = list(PANDA_JOINTS)
Q = np.array([0.1, -0.4, 0.3, -1.5, 0.2, 1.2, 0.4])


class Served:
    """A DynamicsNode with a Panda by NumPy, and its published torques."""

    def __init__(self, bench, **parameters):
        self.bench, self.torques = bench, []
        given = {"robot_description": ROBOTS["panda7"].file.read_text(), "joints": NAMES}
        given |= {"backend": "numpy", **parameters}
        overrides = [rclpy.Parameter(name.replace("__", "."), value=value) for name, value in given.items()]
        self.node = bench.add(DynamicsNode(context=bench.context, parameter_overrides=overrides))
        self.inputs, self.statistics = self.node._inputs, self.node._statistics
        create = bench.outside.create_publisher
        self.states = create(JointState, "joint_states", 1000)
        self.references = create(type(trajectory([])), "dynamics_node/reference", 10)
        bench.outside.create_subscription(
            JointState, "dynamics_node/joint_torques", self.torques.append, 1000
        )
        self.arrivals = []
        bench.outside.create_subscription(JointState, "joint_states", self.arrivals.append, 1000)
        self.stamp = time.time_ns()
        self.until(lambda: self.torques, self.send)

    @property
    def core(self):
        return self.node._manager.core

    def turn(self):
        self.bench.executor.spin_once(timeout_sec=0)
        return self.node.after_spin()

    def until(self, condition, before=lambda: None):
        return self.bench.until(condition, lambda: (before(), self.turn()))

    def send(self, count=1, names=NAMES):
        """Send states with different stamps; returns the last stamp."""
        for _ in range(count):
            self.stamp += 1000
            message = JointState(name=names, position=[*Q][: len(names)], velocity=[0.0] * len(names))
            message.header.stamp.sec, message.header.stamp.nanosec = divmod(self.stamp, 1_000_000_000)
            self.states.publish(message)
        return self.stamp

    def arrived(self):
        """Wait until the sent states have arrived; clear the torques."""
        self.bench.until(lambda: self.arrivals and stamp_of(self.arrivals[-1]) == self.stamp, lambda: None)
        self.torques.clear()


@pytest.fixture
def served(bench, monkeypatch):
    """A node whose turns take all pending messages on any machine."""
    monkeypatch.setattr(turns, "SHARE", np.inf)
    return lambda **parameters: Served(bench, **parameters)


def test_the_newest_state_of_a_backlog_is_answered_once(served):
    panda = served(joint_state_timeout=30.0)
    newest = panda.send(300)
    panda.arrived()
    panda.turn()
    panda.until(lambda: panda.torques)
    assert [stamp_of(torque) for torque in panda.torques] == [newest]


def test_waiting_partial_states_are_merged(served):
    panda = served(joint_state_timeout=30.0)
    panda.send(1, NAMES[4:5])
    panda.send(1, NAMES[:4])
    newest = panda.send(1, NAMES[:1])
    panda.arrived()
    panda.turn()
    panda.until(lambda: panda.torques)
    assert [stamp_of(torque) for torque in panda.torques] == [newest]
    memory = panda.core.joints
    assert len(set(memory.stamp.tolist())) == 4  # of three messages and an earlier one


def test_a_reference_applies_to_the_state_of_the_same_turn(served):
    panda = served(joint_state_timeout=30.0, reference_timeout=30.0)
    panda.bench.until(panda.references.get_subscription_count, panda.turn)
    before = panda.torques[-1].effort
    panda.references.publish(trajectory(NAMES, point(qdd=[1.0] * 7)))
    panda.send()
    panda.arrived()
    panda.turn()
    panda.until(lambda: panda.torques)
    assert len(panda.torques) == 1
    assert abs(panda.torques[0].effort[0] - before[0]) > 0.1


def test_a_long_reference_is_read_between_torques(served):
    panda = served(joint_state_timeout=30.0)
    message = trajectory(NAMES, *[point(float(k), qdd=0 * Q) for k in range(2000)])
    panda.bench.until(panda.references.get_subscription_count, panda.turn)
    panda.references.publish(message)
    panda.until(lambda: panda.inputs.is_reading)
    stamps, turns = [], 0
    while panda.inputs.is_reading:
        assert panda.core.reference is None
        stamps.append(panda.send())
        panda.turn()
        turns += 1
    assert turns >= 8
    panda.until(lambda: stamp_of(panda.torques[-1]) >= stamps[-1], panda.send)
    assert len(set(stamps) & {stamp_of(torque) for torque in panda.torques}) > 1
    assert len(panda.core.reference.times) == 2000


def test_a_message_that_is_too_long_is_dropped_unread(served):
    panda = served()
    message = JointState(name=[f"joint{k}" for k in range(100_000)])
    panda.states.publish(message)
    panda.until(lambda: "bytes; the limit is 1048576" in panda.statistics.last_drop)


def test_waiting_time_counts_as_age(served):
    """Age counts from reception by the middleware, also if the node is delayed."""
    panda = served(joint_state_timeout=0.1)
    panda.send()
    panda.arrived()
    time.sleep(0.15)
    panda.turn()
    assert "joint states older than 0.1 s" in panda.statistics.no_output_reason
    panda.until(lambda: panda.torques, panda.send)


@pytest.mark.parametrize("step", [-3600, 3600])
def test_a_clock_adjustment_makes_nothing_stale(served, step):
    panda = served()
    before = time.monotonic_ns()
    panda.turn()
    stamp = time.time_ns() + step * 1_000_000_000
    received = panda.inputs.received({"received_timestamp": stamp}, Transit())
    assert before <= panda.inputs.last_turn <= received <= time.monotonic_ns()


@pytest.mark.parametrize("sec", [-5, -(2**31)])
def test_negative_clock_time_does_not_end_the_node(served, sec):
    panda = served(use_sim_time=True)
    clock = panda.bench.outside.create_publisher(Clock, "/clock", 10)
    message = Clock()
    message.clock.sec = sec

    def send():
        clock.publish(message)
        panda.send()

    panda.until(lambda: panda.bench.problems, send)
    assert {name for name, _ in panda.bench.problems} == {"/clock"}
    panda.torques.clear()
    panda.until(lambda: panda.torques, panda.send)
