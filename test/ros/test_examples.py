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
from rclpy.time import Time
from robots import PANDA_JOINTS
from tolerances import EXACT, error

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def example():
    spec = importlib.util.spec_from_file_location("example", EXAMPLES / "trajectory_with_efforts.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_an_example_adds_efforts_to_a_trajectory(rig, panda, example, monkeypatch):
    """The result is valid for joint_trajectory_controller: same joints, times and values, immediate start."""
    r = rig().serving()
    states = [(k * panda.q / 3, panda.qd * k, panda.qdd) for k in range(4)]
    rows = [
        {"time": 0.1 * k, "positions": q.tolist(), "velocities": qd.tolist(), "accelerations": qdd.tolist()}
        for k, (q, qd, qdd) in enumerate(states)
    ]
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
