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

import dynamics_node as dn
from dynamics_demo import watching
from dynamics_demo.__main__ import PAUSE, code_of_the_first
from dynamics_demo.legged_monitor import LeggedMonitor
from dynamics_demo.legged_motion import Motion
from dynamics_demo.legged_robots import ROBOTS as LEGGED
from dynamics_demo.monitor import Monitor
from dynamics_demo.oracles import ArmOracle, StandingOracle
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
    assert f"ROS_DOMAIN_ID={domain.number} ros2 topic list" in output


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


@pytest.mark.parametrize("robot", ["quadruped", "humanoid"])
def test_a_robot_on_legs_moves_with_torques_of_the_node(robot, tmp_path):
    pytest.importorskip("mujoco", minversion="3.2", reason="the robot: pip install mujoco")
    plot, seconds = tmp_path / "legged.png", LEGGED[robot].least_seconds
    watch = ("--seconds", str(seconds), "--patience", "100", "--plot", str(plot))
    demo = run("", fresh_domain(), "--robot", robot, *watch)
    output, _ = demo.communicate(timeout=220)
    assert demo.returncode == 0, output
    assert "PASSED" in output.splitlines() and "times better than PD alone" in output
    assert "those in MuJoCo" in output and "Traceback" not in output and "cannot give" not in output
    assert ("lifted or put down" in output) == (robot == "quadruped")
    assert plot.read_bytes().startswith(b"\x89PNG")


def legged_monitor(robot="quadruped", **change):
    """A monitor with 11.8 s of cycles: errors of the body of 20, 4, 2 and 3 mm; in the last phase, the feet are
    lifted one by one, and bear 0.5 N before and after."""
    cycles, lifts = 5900, [(4000 + 400 * n, 4250 + 400 * n) for n in range(4)]
    error, ground = np.zeros((cycles, 6)), np.tile([0, 0, 0, 0.5, 0, 6.0], (cycles, 4, 1))
    error[:, 2] = np.repeat([0.02, 0.004, 0.002, 0.003], [1000, 1000, 1000, 2900])
    active = np.ones((cycles, 4), dtype=bool)
    for foot, (begin, end) in enumerate(lifts):
        active[begin:end, foot], ground[begin:end, foot] = False, 0.0
        ground[[begin - 1, end], foot, 5] = 0.5
    values = {"times": 2e-3 * np.arange(cycles), "error": error, "ground": ground, "forces": 1.01 * ground}
    values |= {"active": active, "late": np.zeros(cycles), "difference": np.full(cycles, 1e-14)}
    monitor = LeggedMonitor.__new__(LeggedMonitor)
    vars(monitor).update({"legged": LEGGED[robot], "seconds": 11.8, **values, **change})
    for name in values:
        setattr(monitor, name, list(getattr(monitor, name)))
    return monitor


def at_1_s(value, usual=0.0):
    return np.where(np.arange(5900) == 500, value, usual)


def lifted_feet(force, begin, end):
    """The ground forces of `legged_monitor` with a normal force at the first foot in some cycles."""
    ground = np.array(legged_monitor().ground)
    ground[begin:end, 0, 5] = force
    return ground


@pytest.mark.parametrize(
    ("change", "verdict"),
    [
        ({}, ""),
        ({"difference": at_1_s(1e-6)}, "is wrong at 1.000 s: relative error 1.0e-06"),
        ({"difference": at_1_s(np.nan)}, "a torque or force is wrong"),
        ({"late": at_1_s(0.2)}, "the active contacts at 1.000 s are 0.200 s old"),
        ({"late": at_1_s(np.inf)}, "the active contacts at 1.000 s are inf s old"),
        ({"times": np.linspace(0.0, 3.9, 5900)}, "with full feed-forward: 0 cycles were checked"),
        ({"times": np.linspace(0.0, 5.9, 5900)}, "lifting its feet: 0 cycles were checked"),
        ({"forces": np.full((5900, 4, 6), 6.0)}, "with full feed-forward: contact forces differ from MuJoCo's by"),
        ({"error": np.full((5900, 6), 0.002)}, "full feed-forward is 1.0 times better"),
        ({"ground": lifted_feet(1e-3, 4010, 4200)}, "FL_FOOT is in the air for 24% of its lift"),
        ({"ground": lifted_feet(2.0, 3999, 4000)}, "a foot that is lifted or put down bears 2 N"),
        ({"times": []}, "no torque arrived"),
    ],
)  # fmt: skip
def test_verdict_on_a_robot_on_legs(change, verdict):
    reason = legged_monitor(**change).verdict(100)
    assert verdict in reason and bool(verdict) == bool(reason)


class Messages:
    """Of one cycle of a demo on legs, with torques and forces of the library."""

    def __init__(self, legged, active):
        robot, motion = legged.robot(), Motion(legged, legged.least_seconds)
        inverse = dn.build(robot, dn.inverse_dynamics(robot, legged.contacts()), backend="numpy")
        self.active, self.q, self.qd, self.qdd = active, motion.q[1000], motion.qd[1000], motion.qdd[1000]
        self.tau, forces = inverse(self.q, self.qd, self.qdd, np.array(active, dtype=float))
        rows = 6 if legged.half_lengths else 3
        self.forces = np.zeros((len(active), 6))
        self.forces[:, -rows:] = forces.reshape(-1, rows)

    def given_to(self, monitor, change=lambda kind, value: value):
        """The relative difference that the monitor finds."""
        odometry = np.concatenate([self.q[:7], self.qd[:6]])
        for kind, value in {
            "sets": self.active, "odometry": odometry, "wanted": odometry, "reference": self.qdd[6:],
            "base": self.qdd[:6], "states": (self.q[7:], self.qd[6:]), "torques": self.tau[6:],
            "wrenches": self.forces, "ground": ((), self.forces),
        }.items():  # fmt: skip
            value = change(kind, value)
            monitor.take(kind, 10**9, (self.active, value) if kind == "wrenches" else value)
        return monitor.difference[-1]


def changed(kind, index):
    """A change of one number of the torques or wrenches, by 1e-8 of the largest."""

    def change(own, value):
        if own == kind:
            value = value.copy()
            value[index] += 1e-8 * np.abs(value).max()
        return value

    return change


@pytest.mark.parametrize(
    ("robot", "active", "foot"),
    [
        ("quadruped", (True,) * 4, 1),
        ("quadruped", (True, True, False, True), 1),
        ("humanoid", (True,) * 2, 1),
    ],
)
def test_a_wrong_force_or_torque_fails_the_demo(robot, active, foot, monkeypatch, capsys):
    legged = LEGGED[robot]
    messages, joints = Messages(legged, active), legged.robot().joint_names
    monkeypatch.setattr(watching, "watch", lambda *_: None)
    monkeypatch.setattr(watching, "end", lambda node: None)

    def exit_code(*change):
        monitor = legged_monitor(robot, seconds=legged.least_seconds)
        for name in ("times", "q", "error", "active", "_stamps", "forces", "ground", "difference"):
            setattr(monitor, name, [])
        del monitor.late
        kinds = ("states", "odometry", "wanted", "torques", "wrenches", "ground", "reference", "base", "sets")
        vars(monitor).update(_joints=joints, _messages={kind: {} for kind in kinds}, _first=0)
        monitor._oracle = StandingOracle(legged.urdf(), joints, legged.contacts())
        difference = messages.given_to(monitor, *change)
        code = watching.conclude(monitor, None, SimpleNamespace(least=100, plot="", animate=""))
        output = capsys.readouterr().out
        assert "nan" not in output
        return difference, code, output.splitlines()[-1]

    difference, _, reason = exit_code()
    assert difference < 1e-11 and reason.endswith("0 cycles were checked; 100 are required")
    for change in (changed("wrenches", (foot, 5)), changed("torques", 3)):
        difference, code, reason = exit_code(change)
        assert difference > 1e-10 and code == 1 and "FAILED: a torque or force is wrong" in reason


def test_figures_of_a_whole_run():
    lines = list(legged_monitor().verdict_lines("", ""))
    assert len(lines) == 7 and lines[-1] == "PASSED" and not any("nan" in line for line in lines)
    assert lines[1] == "the body sags by 20 mm PD alone, 2 mm with full feed-forward"
    assert (
        "contact forces differ from those in MuJoCo by 1.0% with full feed-forward, 1.0% lifting" in lines[3]
    )
    assert "at most 0.51 N in the node and 0.5 N in MuJoCo" in lines[4]


def test_a_wrong_set_is_late():
    """At the end of the demo, as sets may arrive after the torques of their cycles."""
    sets = {0: (True, True), 10**9: (False, True)}
    monitor = legged_monitor(_messages={"sets": sets}, _stamps=[1_100_000_000] * 3)
    monitor.active = [(False, True), (True, True), (True, False)]
    del monitor.late
    assert monitor.late == [0.0, pytest.approx(0.1), np.inf]


DRAWING = """
import sys
import numpy as np
from dynamics_demo.legged_motion import Motion
from dynamics_demo.legged_plots import LeggedDrawing
from dynamics_demo.legged_robots import ROBOTS

for legged in ROBOTS.values():
    try:
        drawing = LeggedDrawing(legged)
    except ImportError as error:
        sys.exit(3)
    q, forces = Motion(legged, legged.least_seconds).q[0], np.zeros((len(legged.feet), 6))
    plain = drawing.picture(q, forces)
    forces[0, 5] = 0.5 * 9.81 * legged.robot().mass
    arrow = drawing.picture(q, forces)
    drawing.close()
    red = [int(((picture[..., 0] > 150) & (picture[..., 2] < 100)).sum()) for picture in (plain, arrow)]
    assert np.ptp(plain) > 100 and red[0] == 0 and red[1] > 50, (np.ptp(plain), red)
"""


def test_drawings_show_the_robots_and_forces_at_their_feet():
    """In a process of their own: drivers may end it."""
    drawn = subprocess.run([sys.executable, "-c", DRAWING], capture_output=True, text=True)
    if drawn.returncode == 3 or drawn.returncode < 0:
        pytest.skip("MuJoCo cannot render here: no EGL")
    assert drawn.returncode == 0, drawn.stderr


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
