"""The demo passes, and its monitor fails when something is wrong."""

import subprocess
import sys
import time
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("rich", reason="the demo's table: pip install rich")
pytest.importorskip("matplotlib", reason="the demo's plot: pip install matplotlib")

from domains import fresh_domain
from rig import TIMEOUT, NodeProcess
from robots import PANDA_JOINTS
from sensor_msgs.msg import JointState
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from dynamics_node.demo.__main__ import PAUSE
from dynamics_node.demo.monitor import Monitor
from dynamics_node.demo.touch_monitor import TouchMonitor


def run(module, domain, *arguments):
    environment = {**domain.environment(), "PYTHONUNBUFFERED": "1"}
    return subprocess.Popen(
        [sys.executable, "-m", f"dynamics_node.demo{module}", *arguments],
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


@pytest.mark.parametrize("robot", ["panda", "five_bar"])
def test_the_whole_demo_passes_and_saves_a_plot(tmp_path, robot):
    plot = tmp_path / "torques.png"
    domain = fresh_domain()
    demo = run("", domain, "--robot", robot, "--seconds", "1", "--patience", "100", "--plot", str(plot))
    output, _ = demo.communicate(timeout=220)
    assert demo.returncode == 0, output
    assert "PASSED" in output.splitlines() and "torques checked against Pinocchio" in output
    assert ("the loop stays closed" in output) == (robot == "five_bar")
    assert plot.read_bytes().startswith(b"\x89PNG")
    assert "Traceback" not in output
    assert f"look on with ROS_DOMAIN_ID={domain.number} " in output


def test_an_arm_is_touched_and_the_node_tells_by_what(tmp_path):
    pytest.importorskip("mujoco", minversion="3.2", reason="the touched arm: pip install mujoco")
    plot = tmp_path / "touched.png"
    watch = ("--seconds", "9", "--patience", "100", "--plot", str(plot))
    demo = run("", fresh_domain(), "--robot", "touched", *watch)
    output, _ = demo.communicate(timeout=220)
    assert demo.returncode == 0, output
    assert "PASSED" in output.splitlines() and "touches, noticed after" in output
    assert plot.read_bytes().startswith(b"\x89PNG") and "Traceback" not in output


def touched_monitor(**change):
    """What a monitor has seen of 4 s with a touch from 1 to 2 s."""
    times = np.arange(0.0, 4.0, 2e-3)
    touched = (times >= 1.0) & (times < 2.0)
    truths = np.where(touched[:, None], 5.0, 0.0) * np.ones(7)
    seen = {"times": times, "truths": truths, "estimates": truths + 0.02, "sigmas": np.full((2000, 7), 0.02)}
    monitor = TouchMonitor.__new__(TouchMonitor)
    vars(monitor).update(
        {name: list(values) for name, values in seen.items()}, contacts=list(touched), **change
    )
    return monitor


def contacts(*spans):
    times = np.arange(0.0, 4.0, 2e-3)
    return [any(begin <= t < end for begin, end in spans) for t in times]


@pytest.mark.parametrize(
    ("change", "verdict"),
    [
        ({}, ""),
        ({"contacts": contacts((1.1, 2.5))}, ""),
        ({"contacts": contacts((1.2, 2.0))}, "the touch at 1.00 s was not noticed within 0.15 s"),
        ({"contacts": contacts((1.0, 2.0), (3.5, 3.6))}, "a touch is told at 3.50 s where there is none"),
    ],
)
def test_what_the_monitor_says_of_a_touch(change, verdict):
    monitor = touched_monitor()
    vars(monitor).update(change)
    assert monitor.verdict(1000) == verdict


def test_what_the_monitor_says_of_wrong_estimates():
    monitor = touched_monitor()
    assert monitor.verdict(2001) == "only 2000 estimates were checked, 2001 are wanted"
    monitor.estimates = [row + 0.1 for row in monitor.estimates]
    assert monitor.verdict(1000) == "only 0.0 % of the settled estimates are within three sigma"
    for name in ("times", "truths", "estimates", "sigmas", "contacts"):
        setattr(monitor, name, getattr(monitor, name)[:400])
    assert monitor.verdict(100) == "nobody touched the robot"


def test_the_monitor_fails_when_a_torque_is_wrong():
    domain = fresh_domain()
    node = NodeProcess(domain, {"joints": list(PANDA_JOINTS), "gravity": [0.0, 0.0, -9.0]})
    arm = run(".motion", domain, *domain.remappings())
    watch = ("--seconds", "0.5", "--patience", "100", "--plot", "")
    monitor = run(".monitor", domain, *watch, *domain.remappings())
    try:
        output, _ = monitor.communicate(timeout=220)
        assert monitor.returncode == 1, output
        assert "FAILED: a torque is wrong" in output, node.output()
    finally:
        time.sleep(PAUSE)
        arm.terminate()
        assert arm.wait(timeout=TIMEOUT) == 0
        time.sleep(PAUSE)
        assert node.stop() == 0


GOOD = {"times": range(100), "errors": [0.0], "drifts": [], "wrong_states": 0, "wrong_accelerations": 0}


@pytest.mark.parametrize(
    ("change", "verdict"),
    [
        ({}, ""),
        ({"times": []}, "no torque arrived"),
        ({"errors": [0.0, 1e-6]}, "a torque is wrong: relative error 1.0e-06"),
        ({"drifts": [1e-12, 1e-6]}, "the loop is open by 1.0e-06 m"),
        ({"wrong_states": 2}, "2 solutions do not carry the state of their stamp"),
        ({"wrong_accelerations": 10}, ""),
        ({"wrong_accelerations": 11}, "11 solutions ignore the reference acceleration"),
        ({"times": range(99)}, "only 99 torques were checked, 100 are wanted"),
    ],
)
def test_what_the_monitor_says_of_what_it_has_seen(change, verdict):
    said = Monitor.verdict(SimpleNamespace(**{**GOOD, **change}), 100)
    assert said.startswith(verdict) and bool(said) == bool(verdict)


def test_a_velocity_that_is_not_that_of_the_state_is_seen():
    """As of a node with velocity_source zero: its torques are right for the solution that it tells."""
    monitor = Monitor.__new__(Monitor)
    state, stamp = JointState(name=["a"], position=[0.1], velocity=[0.2]), 7
    oracle = SimpleNamespace(torques=lambda *_: np.ones(1), drift=lambda _: None)
    robot = SimpleNamespace(
        joints=["a"], acceleration_at=lambda q: np.ones(1), acceleration_tolerance=lambda late: 0.1
    )
    vars(monitor).update(
        robot=robot, oracle=oracle, times=[], published=[], computed=[], errors=[], drifts=[],
        wrong_states=0, wrong_accelerations=0,
        _states={stamp: (np.array(state.position), np.array(state.velocity))}, _torques={stamp: np.ones(1)},
    )  # fmt: skip
    for velocity, acceleration, wrong in ((0.2, 1.0, (0, 0)), (0.0, 1.0, (1, 0)), (0.2, 0.5, (1, 1))):
        point = JointTrajectoryPoint(positions=[0.1], velocities=[velocity], accelerations=[acceleration])
        message = JointTrajectory(joint_names=["a"], points=[point])
        message.header.stamp.nanosec = stamp
        monitor._on_solution(message)
        assert (monitor.wrong_states, monitor.wrong_accelerations) == wrong


def test_the_monitor_fails_when_nothing_comes():
    monitor = run(".monitor", fresh_domain(), "--seconds", "1", "--plot", "", "--patience", "1")
    output, _ = monitor.communicate(timeout=220)
    assert monitor.returncode == 1 and "FAILED: no torque arrived" in output
