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

from dynamics_demo import watching
from dynamics_demo.__main__ import PAUSE, code_of_the_first
from dynamics_demo.monitor import Monitor
from dynamics_demo.oracles import ArmOracle
from dynamics_demo.standing_monitor import StandingMonitor
from dynamics_demo.touch_monitor import TouchMonitor
from dynamics_demo.tracked_arm import CYCLE, PAYLOAD, ROTORS, Trajectory, described
from dynamics_demo.tracking import Plant
from dynamics_demo.tracking_monitor import Tracking, TrackingMonitor


def run(module, domain, *arguments):
    environment = {**domain.environment(), "PYTHONUNBUFFERED": "1"}
    return subprocess.Popen(
        [sys.executable, "-m", f"dynamics_demo{module}", *arguments],
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


def test_an_arm_in_mujoco_tracks_with_torques_of_the_node(tmp_path):
    pytest.importorskip("mujoco", minversion="3.2", reason="the arm: pip install mujoco")
    plot, domain = tmp_path / "tracking.png", fresh_domain()
    demo = run("", domain, "--seconds", "6", "--patience", "100", "--plot", str(plot))
    output, _ = demo.communicate(timeout=220)
    assert demo.returncode == 0, output
    assert "PASSED" in output.splitlines() and "times better than PD alone" in output
    assert plot.read_bytes().startswith(b"\x89PNG") and "Traceback" not in output
    assert f"inspect it with ROS_DOMAIN_ID={domain.number} " in output


def test_the_arm_waits_for_the_monitor():
    """Discovery of the monitor may precede its subscription by seconds."""
    sent, subscriber_counts = [], iter([0, 0, 1])
    arm = SimpleNamespace(
        _load=lambda: iter(()), _rest=lambda cycles: iter(["rest"]), _cycle=0, _message=lambda first: "reference",
        get_node_names=lambda: ["demo_monitor"], count_publishers=lambda topic: next(subscriber_counts),
        _reference=SimpleNamespace(publish=sent.append),
    )  # fmt: skip
    course = Plant.run(arm)
    assert next(course) == next(course) == "rest" and not sent
    assert next(course) == "rest" and sent == ["reference"]


def test_the_demo_of_a_closed_loop_saves_a_plot(tmp_path):
    plot = tmp_path / "torques.png"
    watch = ("--seconds", "1", "--patience", "100", "--plot", str(plot))
    demo = run("", fresh_domain(), "--robot", "five_bar", *watch)
    output, _ = demo.communicate(timeout=220)
    assert demo.returncode == 0, output
    assert "PASSED" in output.splitlines() and "torques checked against Pinocchio" in output
    assert "the loop stays closed" in output
    assert plot.read_bytes().startswith(b"\x89PNG") and "Traceback" not in output


def test_the_node_detects_touches_of_an_arm(tmp_path):
    pytest.importorskip("mujoco", minversion="3.2", reason="the touched arm: pip install mujoco")
    plot = tmp_path / "touched.png"
    watch = ("--seconds", "3", "--patience", "100", "--plot", str(plot))
    demo = run("", fresh_domain(), "--robot", "touched", *watch)
    output, _ = demo.communicate(timeout=220)
    assert demo.returncode == 0, output
    assert "PASSED" in output.splitlines() and "touches, detected after" in output
    assert plot.read_bytes().startswith(b"\x89PNG") and "Traceback" not in output


def test_a_quadruped_in_mujoco_stands_with_torques_of_the_node(tmp_path):
    pytest.importorskip("mujoco", minversion="3.2", reason="the quadruped: pip install mujoco")
    plot = tmp_path / "quadruped.png"
    watch = ("--seconds", "6", "--patience", "100", "--plot", str(plot))
    demo = run("", fresh_domain(), "--robot", "quadruped", *watch)
    output, _ = demo.communicate(timeout=220)
    assert demo.returncode == 0, output
    assert "PASSED" in output.splitlines() and "times better than PD alone" in output
    assert "of those in MuJoCo" in output and "Traceback" not in output
    assert plot.read_bytes().startswith(b"\x89PNG")


def standing_monitor(**change):
    """A monitor with 6 s of cycles, and errors of the body of 20, 4 and 2 mm."""
    times = np.arange(0.0, 6.0, 2e-3)
    error = np.zeros((3000, 6))
    error[:, 2] = np.repeat([0.02, 0.004, 0.002], 1000)
    ground = np.tile([0.5, 0.0, 6.0], (3000, 4, 1))
    values = {"times": times, "error": error, "ground": ground, "forces": 1.01 * ground}
    monitor = StandingMonitor.__new__(StandingMonitor)
    vars(monitor).update({"difference": np.full(3000, 1e-14), "seconds": 6.0, **values, **change})
    for name in (*values, "difference"):
        setattr(monitor, name, list(getattr(monitor, name)))
    return monitor


@pytest.mark.parametrize(
    ("change", "verdict"),
    [
        ({}, ""),
        (
            {"difference": np.where(np.arange(3000) == 500, 1e-6, 0)},
            "is wrong at 1.000 s: relative error 1.0e-06",
        ),
        ({"difference": np.where(np.arange(3000) == 500, np.nan, 0)}, "a torque or force is wrong"),
        ({"times": np.linspace(0.0, 3.9, 3000)}, "with full feed-forward: 0 cycles were checked"),
        ({"forces": np.full((3000, 4, 3), 6.0)}, "contact forces differ from MuJoCo's by"),
        ({"error": np.full((3000, 6), 0.002)}, "full feed-forward is 1.0 times better"),
        ({"times": []}, "no torque arrived"),
    ],
    ids=["good", "wrong", "NaN", "short", "forces", "no improvement", "nothing"],
)
def test_verdict_on_a_quadruped(change, verdict):
    reason = standing_monitor(**change).verdict(100)
    assert verdict in reason and bool(verdict) == bool(reason)


def touched_monitor(**change):
    """A monitor with 4 s of samples and a touch from 1 to 2 s."""
    times = np.arange(0.0, 4.0, 2e-3)
    touched = (times >= 1.0) & (times < 2.0)
    truths = np.where(touched[:, None], 5.0, 0.0) * np.ones(7)
    samples = {"times": times, "truths": truths, "contacts": touched}
    samples |= {"estimates": truths + 0.02, "sigmas": np.full((2000, 7), 0.02)}
    monitor = TouchMonitor.__new__(TouchMonitor)
    vars(monitor).update({name: list(values) for name, values in (samples | change).items()})
    return monitor


def contacts(*spans):
    times = np.arange(0.0, 4.0, 2e-3)
    return [any(begin <= t < end for begin, end in spans) for t in times]


@pytest.mark.parametrize(
    ("change", "verdict"),
    [
        ({}, ""),
        ({"contacts": contacts((1.1, 2.5))}, ""),
        ({"contacts": contacts((1.2, 2.0))}, "the touch at 1.00 s was not detected within 0.15 s"),
        ({"contacts": contacts((1.0, 2.0), (3.5, 3.6))}, "false contact at 3.50 s"),
    ],
)
def test_verdict_on_a_touch(change, verdict):
    assert touched_monitor(**change).verdict(1000) == verdict


def lost(begin, end, contact):
    """A touched monitor that lost the samples between two times, s; contact: when the contact begins, s."""
    monitor = touched_monitor(contacts=contacts((contact, 2.0)))
    kept = [k for k, t in enumerate(monitor.times) if not begin < t < end]
    for name in ("times", "truths", "estimates", "sigmas", "contacts"):
        setattr(monitor, name, [getattr(monitor, name)[k] for k in kept])
    return monitor


@pytest.mark.parametrize(
    ("begin", "end", "contact", "verdict"),
    [
        (1.02, 1.5, 1.6, ""),
        (1.02, 1.5, 1.7, "the touch at 1.50 s was not detected within 0.15 s"),
        (1.2, 1.5, 1.51, "the touch at 1.00 s was not detected within 0.15 s"),
        (1.02, 1.04, 1.2, "the touch at 1.00 s was not detected within 0.15 s"),
        (1.02, 1.9, 4.0, "no touch lasted 0.15 s without lost states"),
        (1.02, 4.0, 4.0, "no touch lasted 0.15 s without lost states"),
    ],
)
def test_lost_states_do_not_delay_a_contact(begin, end, contact, verdict):
    """A busy machine loses states: the time without them is no delay of the node."""
    assert lost(begin, end, contact).verdict(100) == verdict


def test_the_monitor_waits_for_settled_estimates_and_a_whole_touch():
    """A busy machine loses states."""
    monitor, options = touched_monitor(), SimpleNamespace(seconds=9.0, least=1000)
    assert monitor.seen_enough(10.0, options) and not monitor.seen_enough(8.0, options)
    assert not lost(1.02, 1.9, 4.0).seen_enough(10.0, options)
    monitor.times = list(np.arange(2000) * 0.01)
    assert not monitor.seen_enough(10.0, options)


def test_verdict_on_wrong_estimates():
    monitor = touched_monitor()
    assert monitor.verdict(2001) == "only 2000 estimates were checked, 2001 are required"
    monitor.estimates = [row + 0.1 for row in monitor.estimates]
    assert monitor.verdict(1000) == "only 0.0 % of the settled estimates are within three sigma"
    for name in ("times", "truths", "estimates", "sigmas", "contacts"):
        setattr(monitor, name, getattr(monitor, name)[:400])
    assert monitor.verdict(100) == "no touch lasted 0.15 s without lost states"


def test_the_monitor_fails_for_a_wrong_torque():
    domain = fresh_domain()
    node = NodeProcess(domain, {"gravity": [0.0, 0.0, -9.0]})
    robot = run(".motion", domain, "--robot", "five_bar", *domain.remappings())
    watch = ("--robot", "five_bar", "--seconds", "0.5", "--patience", "100")
    monitor = run(".monitor", domain, *watch, *domain.remappings())
    try:
        output, _ = monitor.communicate(timeout=220)
        assert monitor.returncode == 1, output
        assert "FAILED: a torque is wrong" in output, node.output()
    finally:
        time.sleep(PAUSE)
        robot.terminate()
        assert robot.wait(timeout=TIMEOUT) == 0
        time.sleep(PAUSE)
        assert node.stop() == 0


STEP = 5  # cycles between samples for the judge of the tracking demo


@pytest.fixture(scope="module")
def arm_oracle():
    return ArmOracle(described(), PANDA_JOINTS, ROTORS, PAYLOAD)


def tracked(oracle, errors=(0.04, 0.02, 0.0039), full=lambda k, right: right(k), gravity=lambda k, g: g(k)):
    """A run with these joint errors in its thirds, and with torques full(k, right) and gravity(k, right) of the node.
    The right torques are functions of the cycle."""
    run = Tracking(Trajectory.lasting(6.0), oracle)
    reference = run.trajectory.linear
    for k in [*range(0, run.cycles, STEP), run.cycles - 1]:
        run.state(k, run.trajectory.smooth(k * CYCLE)[0] - errors[3 * k // run.cycles])
        run.full(k, full(k, lambda at: oracle.torques(*reference(at * CYCLE))))
        run.gravity(k, gravity(k, lambda at: oracle.gravity(reference(at * CYCLE)[0])))
    return run


@pytest.mark.parametrize(
    ("change", "verdict"),
    [
        ({}, ""),
        ({"full": lambda k, right: right(k - 3)}, ""),  # the node reads the reference at ROS time
        ({"full": lambda k, right: right(k - 20)}, "a torque is wrong"),
        ({"full": lambda k, right: right(k) * (1 + 1e-8 * (k == 1500))}, "a torque is wrong"),
        ({"full": lambda k, right: right(k) * (np.nan if k == 1500 else 1.0)}, "a torque is wrong"),
        ({"gravity": lambda k, right: right(k) + 1e-6 * (k == 0)}, "a torque is wrong"),
        ({"errors": (0.04, 0.02, 0.0041)}, "full feed-forward is 9.8 times better than PD alone"),
        ({"errors": (0.04, 0.02, np.nan)}, "with full feed-forward: 0 states and 101 torques arrived"),
    ],
)
def test_verdict_on_tracking(arm_oracle, monkeypatch, capsys, tmp_path, change, verdict):
    """The verdict gives the exit code of the demo."""
    monitor = TrackingMonitor.__new__(TrackingMonitor)
    vars(monitor).update(tracking=tracked(arm_oracle, **change), control={})
    monkeypatch.setattr(watching, "watch", lambda *_: None)
    monkeypatch.setattr(watching, "end", lambda node: None)
    plot = tmp_path / "tracking.png"
    options = SimpleNamespace(least=100, plot=str(plot) if not verdict else "", animate="")
    assert watching.conclude(monitor, None, options) == bool(verdict)
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith(f"FAILED: {verdict}") if verdict else last == "PASSED"
    assert plot.exists() == (not verdict)


GOOD = {"times": range(100), "errors": [0.0], "drifts": [], "wrong_states": 0, "wrong_accelerations": 0}


@pytest.mark.parametrize(
    ("change", "verdict"),
    [
        ({}, ""),
        ({"times": []}, "no torque arrived"),
        ({"errors": [0.0, 1e-6]}, "a torque is wrong: relative error 1.0e-06"),
        ({"drifts": [1e-12, 1e-6]}, "the loop is open by 1.0e-06 m"),
        ({"wrong_states": 2}, "2 solutions do not match the state of their stamp"),
        ({"wrong_accelerations": 10}, ""),
        ({"wrong_accelerations": 11}, "11 solutions ignore the reference acceleration"),
        ({"times": range(99)}, "only 99 torques were checked, 100 are required"),
    ],
)
def test_verdict_on_solutions(change, verdict):
    message = Monitor.verdict(SimpleNamespace(**{**GOOD, **change}), 100)
    assert message.startswith(verdict) and bool(message) == bool(verdict)


@pytest.mark.parametrize("first", ["description", "reference"])
def test_description_and_reference_may_arrive_in_any_order(first):
    monitor = TrackingMonitor.__new__(TrackingMonitor)
    monitor.tracking, monitor.urdf, monitor.reference = None, "", None
    rest = [0.0] * 7
    points = [JointTrajectoryPoint(positions=rest, velocities=rest, accelerations=rest) for _ in range(2)]
    points[1].time_from_start.sec = 6
    arrivals = {
        "description": lambda: monitor.on_description(SimpleNamespace(data=described())),
        "reference": lambda: monitor.on_reference(JointTrajectory(points=points)),
    }
    for name in sorted(arrivals, key=lambda name: name != first):
        assert monitor.tracking is None
        arrivals[name]()
    assert monitor.tracking is not None


def test_a_wrong_velocity_is_detected():
    """For example with velocity_source zero, whose torques match its own solution."""
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
        monitor.on_solution(message)
        assert (monitor.wrong_states, monitor.wrong_accelerations) == wrong


def test_the_demo_ends_with_its_first_failed_process():
    """For example without MuJoCo: the demo does not wait for torques."""
    waiting, failing = (
        subprocess.Popen([sys.executable, "-c", code])
        for code in ("import time; time.sleep(99)", "import sys; sys.exit(2)")
    )
    try:
        assert code_of_the_first([waiting, failing]) == 2
    finally:
        waiting.kill()
        waiting.wait()


@pytest.mark.parametrize("robot", ["tracking", "five_bar"])
def test_the_monitor_fails_without_torques(robot):
    monitor = run(".monitor", fresh_domain(), "--robot", robot, "--patience", "1")
    output, _ = monitor.communicate(timeout=220)
    assert monitor.returncode == 1 and "FAILED: no torque arrived" in output
