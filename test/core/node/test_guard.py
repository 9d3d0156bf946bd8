"""Errors of callbacks: reported by name, not too often, and never passed on."""

from types import SimpleNamespace

import pytest

pytest.importorskip("rclpy", reason="ROS 2: source an installation, or use ./dev")

from dynamics_node.node.ros.robot_node import RobotNode
from dynamics_node.node.ros.running import Guard, Throttle


def fail(error):
    raise error


@pytest.mark.parametrize(
    "error", [MemoryError("no room"), ValueError("a\nb"), RecursionError(), KeyError("x")]
)
def test_an_error_is_a_line_in_the_log(error):
    lines = []
    assert Guard(lines.append).call("joint_states", fail, error) is None
    (line,) = lines
    assert line.startswith(f"joint_states: {type(error).__name__}") and line.isprintable()
    assert "of test_guard.py)" in line


def test_the_same_again_is_not_logged_at_once():
    lines = []
    guard = Guard(lines.append)
    for _ in range(1000):
        guard.call("odom", fail, ValueError())
        guard.call("imu", fail, ValueError())
    assert len(lines) == 2


def test_a_clock_that_jumps_to_and_fro_is_one_line():
    lines = []
    node = SimpleNamespace(
        FORGETS="all",
        _throttle=Throttle(),
        _manager=SimpleNamespace(core=None),
        get_logger=lambda: SimpleNamespace(warning=lambda text, **_: lines.append(text)),
    )
    for _ in range(1000):
        RobotNode._on_clock_jump(node, None)
    assert lines == ["ROS time jumped back: all"]


def test_what_is_asked_to_end_ends():
    with pytest.raises(KeyboardInterrupt):
        Guard(print).call("spin", fail, KeyboardInterrupt())
