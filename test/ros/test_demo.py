"""The demo passes, and its monitor fails when something is wrong."""

import subprocess
import sys
import time

import pytest

pytest.importorskip("rich", reason="the demo's table: pip install rich")
pytest.importorskip("matplotlib", reason="the demo's plot: pip install matplotlib")

from rig import NodeProcess, fresh_domain
from robots import PANDA_JOINTS

from dynamics_node.demo.__main__ import PAUSE


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
    demo = run("", domain, "--robot", robot, "--seconds", "2", "--plot", str(plot))
    output, _ = demo.communicate(timeout=150)
    assert demo.returncode == 0, output
    assert "PASSED" in output.splitlines() and "torques checked against Pinocchio" in output
    assert ("the loop stays closed" in output) == (robot == "five_bar")
    assert plot.read_bytes().startswith(b"\x89PNG")
    assert "Traceback" not in output
    assert f"look on with ROS_DOMAIN_ID={domain.number} " in output


@pytest.mark.parametrize(
    ("parameters", "motion", "words"),
    [
        ({"gravity": [0.0, 0.0, -9.0]}, (), "FAILED: a torque is wrong"),
        ({"compensate.inertia": False}, (), "FAILED: a torque is wrong"),
        ({"velocity_source": "zero"}, (), "solutions do not carry the state of their stamp"),
        ({}, ("--rate", "20"), "torques were checked, 100 are wanted"),
    ],
    ids=["gravity", "inertia", "velocity", "slow"],
)
def test_the_monitor_fails_when_something_is_wrong(parameters, motion, words):
    domain = fresh_domain()
    node = NodeProcess(domain, {"joints": list(PANDA_JOINTS), **parameters})
    arm = run(".motion", domain, *motion, *domain.remappings())
    monitor = run(".monitor", domain, "--seconds", "1", "--plot", "", *domain.remappings())
    try:
        output, _ = monitor.communicate(timeout=150)
        assert monitor.returncode == 1, output
        assert words in output, node.output()
    finally:
        time.sleep(PAUSE)
        arm.terminate()
        assert arm.wait(timeout=40) == 0
        time.sleep(PAUSE)
        assert node.stop() == 0


def test_the_monitor_fails_when_nothing_comes():
    monitor = run(".monitor", fresh_domain(), "--seconds", "1", "--plot", "", "--patience", "1")
    output, _ = monitor.communicate(timeout=150)
    assert monitor.returncode == 1 and "FAILED: no torque arrived" in output
