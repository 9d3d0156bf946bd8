"""Errors of callbacks: logged with a name, throttled, and not propagated."""

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
def test_an_error_is_one_log_line(error):
    lines = []
    assert Guard(lines.append).call("joint_states", fail, error) is None
    (line,) = lines
    assert line.startswith(f"joint_states: {type(error).__name__}") and line.isprintable()
    assert "of test_guard.py)" in line


def test_repeated_errors_are_throttled():
    lines = []
    guard = Guard(lines.append)
    for _ in range(1000):
        guard.call("odom", fail, ValueError())
        guard.call("imu", fail, ValueError())
    assert len(lines) == 2


def test_repeated_clock_jumps_are_throttled():
    lines = []
    node = SimpleNamespace(
        LOST_ON_JUMP_BACK="all",
        _throttle=Throttle(),
        _manager=SimpleNamespace(core=None),
        get_logger=lambda: SimpleNamespace(warning=lambda text, **_: lines.append(text)),
    )
    for _ in range(1000):
        RobotNode._on_clock_jump(node, None)
    assert lines == ["ROS time jumped back: all"]


@pytest.mark.parametrize(
    ("core", "building", "failure", "logs"),
    [
        (object(), False, "", True),
        (object(), True, "", True),
        (object(), False, "bad URDF", True),
        (None, True, "", False),
        (None, False, "bad URDF", False),
        (None, False, "", True),
    ],
)
def test_missing_output_is_logged_as_soon_as_a_robot_is_served(core, building, failure, logs):
    """A solver that is being built is no reason for missing output: NumPy computes meanwhile."""
    node = SimpleNamespace(_manager=SimpleNamespace(core=core, building=building, failure=failure))
    assert RobotNode._needs_no_log(node) != logs


def test_keyboard_interrupt_is_not_caught():
    with pytest.raises(KeyboardInterrupt):
        Guard(print).call("spin", fail, KeyboardInterrupt())
