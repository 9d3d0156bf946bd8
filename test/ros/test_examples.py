"""The examples with a node."""

import importlib.util
import re
import subprocess
import sys
from itertools import repeat
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import rig as rigs
from rclpy.parameter import Parameter
from rclpy.time import Time
from robots import PANDA_JOINTS
from tolerances import EXACT, error
from trajectory_msgs.msg import JointTrajectory

EXAMPLES = Path(__file__).parents[2] / "examples"


def loaded(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def example():
    return loaded("trajectory_with_efforts")


def test_an_example_adds_efforts_to_a_trajectory(rig, panda, example, monkeypatch):
    """The result is valid for joint_trajectory_controller: same joints, times and values, immediate start."""
    r = rig().serving()
    states = [(k * panda.q / 3, panda.qd * k, panda.qdd) for k in range(4)]
    names = ("positions", "velocities", "accelerations")
    rows = [dict(zip(names, (own.tolist() for own in state), strict=True)) for state in states]
    for k, row in enumerate(rows):
        row["time_from_start"] = {"sec": 0, "nanosec": k * 10**8}
    text = str({"joint_names": list(PANDA_JOINTS), "points": rows})  # flow style is YAML too
    monkeypatch.setattr(
        example.rclpy, "spin_until_future_complete", lambda node, future: r.until(future.done)
    )
    answer = example.with_efforts(r.node, example.read_trajectory(text))
    assert list(answer.joint_names) == list(PANDA_JOINTS)
    assert (answer.header.stamp.sec, answer.header.stamp.nanosec) == (0, 0)
    for k, (point, (q, qd, qdd)) in enumerate(zip(answer.points, states, strict=True)):
        time = point.time_from_start
        assert time.sec * 10**9 + time.nanosec == pytest.approx(k * 10**8, abs=1)
        assert np.array_equal(point.positions, q) and np.array_equal(point.velocities, qd)
        assert error(np.array(point.effort), panda.torque(q, qd, qdd)) <= EXACT


def test_unknown_fields_of_a_trajectory_are_errors(example):
    point = "{time_from_start: {sec: 1}, positions: [0.0], velocity: [1.0]}"
    with pytest.raises(SystemExit, match="velocity"):
        example.read_trajectory(f"{{joint_names: [joint1], points: [{point}]}}")


def waiting(example, subscriptions, monkeypatch):
    """Run `wait_for_subscription` on a clock that advances by 3 s at every spin; the seconds that passed."""
    now = [Time(seconds=0)]
    counts = iter(subscriptions)
    publisher = SimpleNamespace(topic_name="/joint_trajectory", get_subscription_count=lambda: next(counts))
    node = SimpleNamespace(get_clock=lambda: SimpleNamespace(now=lambda: now[-1]))

    def spin(node, timeout_sec):
        now.append(now[-1] + example.Duration(seconds=3))

    monkeypatch.setattr(example.rclpy, "spin_once", spin)
    example.wait_for_subscription(node, publisher)
    return 3 * (len(now) - 1)


def test_an_example_waits_until_the_controller_subscribes(example, monkeypatch):
    assert waiting(example, [0, 0, 1], monkeypatch) == 6


def test_an_example_ends_without_a_subscription(example, monkeypatch):
    with pytest.raises(SystemExit, match=r"no subscription of /joint_trajectory in 10 s"):
        waiting(example, repeat(0), monkeypatch)


def test_the_client_example_runs(rig, panda):
    r = rig().serving()
    r.answered(panda.names, panda.q, panda.qd)
    client = subprocess.Popen(
        [sys.executable, EXAMPLES / "client.py", *r.domain.remappings()],
        env=r.domain.environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip

    def ended():
        r.send_state(panda.names, panda.q, panda.qd)
        r.send_reference(panda.names, rigs.point(q=panda.q, qd=panda.qd, qdd=panda.qdd))
        r.spin(0.02)
        return client.poll() is not None

    r.until(ended, what="the end of the example")
    output = client.communicate()[0]
    assert client.returncode == 0, output
    names, rest = output.split("\n", 1)
    matrix, torques = rest.split("{", 1)
    M = np.array([float(x) for x in re.findall(r"-?\d+\.\d*", matrix)]).reshape(7, 7)
    assert tuple(names.split(", ")) == panda.names
    assert np.allclose(M, panda.oracle.mass_matrix(panda.q), atol=1e-4)
    printed = np.array([float(x) for x in re.findall(r": (-?[\d.e-]+)", torques)]).reshape(3, 7)
    without_inertia = panda.torque(qdd=0 * panda.qdd)
    assert np.allclose(printed, without_inertia, atol=1e-4)


# --- behind MoveIt's planner --------------------------------------------------------------------------------


def plan(end, seconds):
    """A swing of the Panda with velocities and accelerations, as MoveIt's time parameterization has them."""
    start = np.array([0.0, -0.5, 0.0, -2.0, 0.0, 1.6, 0.8])
    zero = np.zeros(7)
    points = (rigs.point(t, q, zero, zero) for t, q in ((0.0, start), (seconds, start + end)))
    return rigs.trajectory(PANDA_JOINTS, *points)


def sent_by_the_client_of_moveit(r, method, count):
    """What the controller receives for three plans: infeasible at rest, too fast, and feasible."""
    values = {"method": method, "source": "planned_trajectory", "max_effort_rate": 1e5}
    options = [Parameter(name, value=value) for name, value in values.items()]
    client = loaded("moveit_client").MoveItClient(
        context=r.context, namespace=r.node.get_namespace(), parameter_overrides=options
    )
    r.executor.add_node(client)
    sent = []
    received = r.node.create_subscription(JointTrajectory, "joint_trajectory", sent.append, 10)
    plans = r.node.create_publisher(JointTrajectory, "planned_trajectory", 10)
    r.until(lambda: plans.get_subscription_count() and client.count_subscribers("joint_trajectory"))
    r.until(client._service.service_is_ready)
    for message in (plan(9.0, 1.0), plan(0.3, 0.1), plan(0.3, 2.0)):
        plans.publish(message)
    r.until(lambda: len(sent) >= count, what="trajectories for the controller")
    client.destroy_node()
    r.node.destroy_subscription(received)
    return sent


def test_the_client_of_moveit_sends_feasible_plans(rig, panda):
    """Plans on a topic, the services of a node, and the topic of a controller; MoveIt itself does not run."""
    r = rig().serving()
    slowed, feasible = sent_by_the_client_of_moveit(r, "uniform", 2)
    (checked,) = sent_by_the_client_of_moveit(r, "check", 1)
    ends = [own.points[-1].time_from_start for own in (slowed, feasible, checked)]
    seconds = [end.sec + 1e-9 * end.nanosec for end in ends]
    assert 0.1 < seconds[0] < 2.0 and seconds[1:] == [2.0, 2.0]
    for own in (slowed, feasible, checked):
        assert list(own.joint_names) == list(PANDA_JOINTS)
        assert (own.header.stamp.sec, own.header.stamp.nanosec) == (0, 0)
        for point in own.points:
            expected = panda.torque(point.positions, point.velocities, point.accelerations)
            assert error(np.array(point.effort), expected) <= 1e-6


def test_a_plan_of_moveit_is_one_trajectory():
    example, nothing = loaded("moveit_client"), SimpleNamespace(points=[])
    part = SimpleNamespace(joint_trajectory=plan(0.3, 1.0), multi_dof_joint_trajectory=nothing)
    assert example.of_plan(SimpleNamespace(trajectory=[part])) is part.joint_trajectory
    for parts, match in (([], "0 trajectories"), ([part, part], "2 trajectories")):
        with pytest.raises(ValueError, match=match):
            example.of_plan(SimpleNamespace(trajectory=parts))
    base = SimpleNamespace(joint_trajectory=None, multi_dof_joint_trajectory=SimpleNamespace(points=[1]))
    with pytest.raises(ValueError, match="base"):
        example.of_plan(SimpleNamespace(trajectory=[base]))


def test_absent_messages_of_moveit_are_named(monkeypatch):
    example = loaded("moveit_client")
    for module, call in (
        ("moveit_msgs", example.display_trajectory),
        ("control_msgs", lambda: example.action_client(None)),
    ):
        monkeypatch.setitem(sys.modules, module, None)
        with pytest.raises(SystemExit, match=f"{module}: install"):
            call()
