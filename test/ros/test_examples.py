"""The examples that talk to a node."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from robots import PANDA_JOINTS
from tolerances import EXACT, error

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def example():
    spec = importlib.util.spec_from_file_location("example", EXAMPLES / "trajectory_with_efforts.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_trajectory_gets_its_efforts(rig, panda, example, monkeypatch):
    """As joint_trajectory_controller takes it: the same joints, times and values, to be started at once."""
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
