"""Topics in, topics out, on the real DDS."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from domains import fresh_domain
from rig import BEST_EFFORT, LATCHED, NodeProcess, efforts, floats, point, stamp_of
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import Imu, JointState
from std_msgs.msg import String
from std_srvs.srv import SetBool, Trigger
from tolerances import EXACT, error


def test_torques_of_a_measured_state(rig, panda):
    r = rig()
    message = r.answered(panda.names, panda.q, panda.qd)
    assert error(efforts(message, panda.names), panda.torque()) <= EXACT
    assert tuple(message.name) == panda.names
    assert message.header.frame_id == panda.model.base_link


def test_solution_carries_state_and_acceleration(rig, panda):
    r = rig()
    r.answered(panda.names, panda.q, panda.qd)
    stamp = stamp_of(r.answered(panda.names, panda.q, panda.qd))
    solution = r.until(lambda: r.solutions.get(stamp), what="solution")
    (only,) = solution.points
    assert tuple(solution.joint_names) == panda.names
    assert np.array_equal(only.positions, panda.q) and np.array_equal(only.velocities, panda.qd)
    assert not np.any(only.accelerations)
    assert error(only.effort, panda.torque()) <= EXACT


def test_node_started_before_the_description(rig, panda):
    r = rig(describe=False)
    r.spin(1.0)
    r.describe(panda.robot.file.read_text())
    assert r.answered(panda.names, panda.q, panda.qd)


@pytest.mark.parametrize("how", ["robot_description", "robot_description_file"])
def test_description_from_a_parameter_wins_over_the_topic(rig, panda, how):
    value = str(panda.robot.file) if how.endswith("file") else panda.robot.file.read_text()
    r = rig(parameters={how: value}, describe=False)
    r.describe("<robot name='other'><link name='l'/></robot>")
    assert error(efforts(r.answered(panda.names, panda.q, panda.qd), panda.names), panda.torque()) <= EXACT


def test_description_file_that_is_not_there(rig):
    r = rig(None, {"robot_description_file": "/nowhere/robot.urdf"})
    message, _, _ = r.diagnostic(lambda s: "robot_description_file" in s.message)
    assert "/nowhere/robot.urdf" in message and "no model yet" in message


def test_names_in_any_order_with_strangers_between(rig, panda):
    r = rig()
    order = np.random.default_rng(3).permutation(7)
    names = [panda.names[k] for k in order] + ["gripper_left", "gripper_right"]
    q, qd = np.append(panda.q[order], [9, 9]), np.append(panda.qd[order], [9, 9])
    assert error(efforts(r.answered(names, q, qd), panda.names), panda.torque()) <= EXACT
    _, values, _ = r.diagnostic(lambda s: True)
    assert values["unknown joints in joint_states"] == "2"
    assert 0 <= float(values["oldest joint state [ms]"]) < 60_000


def test_partial_states_of_two_publishers(rig, panda):
    r = rig()
    second = r.node.create_publisher(JointState, "joint_states", BEST_EFFORT)
    r.until(lambda: second.get_subscription_count() and r.states.get_subscription_count())
    arm, wrist = panda.names[:4], panda.names[4:]
    found = None
    for _ in range(300):
        r.send_state(arm, panda.q[:4], panda.qd[:4])
        stamp = r.send_state(wrist, panda.q[4:], panda.qd[4:], publisher=second)
        r.spin(0.03)
        if found := r.torques.get(stamp):
            break
    assert error(efforts(found, panda.names), panda.torque()) <= EXACT


def test_publisher_restarts(rig, panda):
    r = rig()
    r.answered(panda.names, panda.q, panda.qd)
    r.node.destroy_publisher(r.states)
    r.spin(0.5)
    r.states = r.node.create_publisher(JointState, "joint_states", 10)
    q = panda.q * 0.5
    assert error(efforts(r.answered(panda.names, q, panda.qd), panda.names), panda.torque(q)) <= EXACT


def test_two_nodes_in_two_namespaces(rig, case):
    left, right = case("panda7"), case("ur5")
    a = rig("panda7", namespace="left")
    b = rig("ur5", namespace="right")
    other = NodeProcess(a.domain, None, "right")  # in the same domain as `a`: they must not mix
    try:
        assert error(efforts(a.answered(left.names, left.q, left.qd), left.names), left.torque()) <= EXACT
        assert (
            error(efforts(b.answered(right.names, right.q, right.qd), right.names), right.torque()) <= EXACT
        )
        ours, others = (f"{a.domain.resolved(n)}/dynamics_node/joint_torques" for n in ("left", "right"))
        assert ours in dict(a.node.get_topic_names_and_types())
        a.until(lambda: others in dict(a.node.get_topic_names_and_types()))
    finally:
        assert other.stop() == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("running", [True, False])
def test_signals_end_it_cleanly(rig, panda, number, running):
    r = rig(describe=running)
    if running:
        r.answered(panda.names, panda.q, panda.qd)
    else:
        r.until(r.states.get_subscription_count, 30, "discovery")
    assert r.process.stop(number) == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_while_it_starts_end_it_cleanly(number):
    """From its first line on: most of its imports and the middleware are still to come."""
    process = NodeProcess(fresh_domain())
    caught = Path(f"/proc/{process.process.pid}/status")

    def listens():
        (mask,) = [line.split()[1] for line in caught.read_text().splitlines() if line.startswith("SigCgt")]
        return int(mask, 16) >> (signal.SIGTERM - 1) & 1

    while not listens():
        time.sleep(0.001)
    assert process.stop(number) == 0
    assert process.output() == ""


STUCK = """
from rclpy.node import Node
from dynamics_node.node.running import run, start_rclpy

class Stuck(Node):
    def destroy_node(self):
        print("destroying", flush=True)
        sum(iter(int, 1))  # like Fast DDS: in C, where no signal handler of Python's runs

stop = start_rclpy()
stop.asked = True
run(Stuck("stuck"), stop)
"""


def test_a_middleware_that_does_not_end_is_ended():
    """Fast DDS may go round forever while a participant is destroyed."""
    process = subprocess.run([sys.executable, "-c", STUCK], stdout=subprocess.PIPE, text=True, timeout=60)
    assert (process.returncode, process.stdout) == (-signal.SIGALRM, "destroying\n")


def test_signal_while_the_model_is_built(rig, panda):
    r = rig(describe=False)
    r.until(r.states.get_subscription_count, 30, "discovery")
    r.describe(panda.robot.file.read_text())
    r.spin(0.05)
    assert r.process.stop() == 0


# --- reference ------------------------------------------------------------------------------------


def test_reference_acceleration_holds_and_times_out(rig, panda):
    r = rig(parameters={"reference_timeout": 0.5})
    r.answered(panda.names, panda.q, panda.qd)
    expected = panda.torque(qdd=panda.qdd)

    def with_reference():
        r.send_reference(panda.names, point(qdd=panda.qdd))
        r.spin(0.02)
        return error(efforts(r.answered(panda.names, panda.q, panda.qd), panda.names), expected) <= EXACT

    r.until(with_reference)
    r.spin(0.7)
    late = r.answered(panda.names, panda.q, panda.qd)
    assert error(efforts(late, panda.names), panda.torque()) <= EXACT


def test_several_points_are_interpolated_and_end(rig, panda):
    r = rig()
    r.answered(panda.names, panda.q, panda.qd)
    start = time.time_ns()
    r.send_reference(panda.names, point(0.0, qdd=0 * panda.qdd), point(1.0, qdd=panda.qdd), stamp=start)
    seen = []
    while time.time_ns() < start + 800_000_000:
        message = r.answered(panda.names, panda.q, panda.qd)
        seen.append((stamp_of(message), efforts(message, panda.names)))
    whole = panda.torque(qdd=panda.qdd) - panda.torque()
    for stamp, tau in seen[2:]:
        weight = (tau - panda.torque()) @ whole / (whole @ whole)
        assert error(tau, panda.torque(qdd=weight * panda.qdd)) <= EXACT  # on the line between the points
        assert weight == pytest.approx((stamp - start) * 1e-9, abs=0.1)  # and at the right place
    r.spin(0.5)
    assert error(efforts(r.answered(panda.names, panda.q, panda.qd), panda.names), panda.torque()) <= EXACT


def test_state_of_the_reference(rig, panda):
    r = rig(parameters={"state_source": "reference"})
    q = panda.q + 0.1

    def answer():
        r.send_reference(panda.names[::-1], point(q=q[::-1], qd=panda.qd[::-1], qdd=panda.qdd[::-1]))
        stamp = r.send_state(panda.names, 0 * panda.q)
        r.spin(0.05)
        return r.torques.get(stamp)

    tau = efforts(r.until(answer), panda.names)
    assert error(tau, panda.torque(q=q, qdd=panda.qdd)) <= EXACT
    r.spin(0.7)
    assert r.silent_for(0.3, lambda: r.send_state(panda.names, panda.q))
    assert "no reference in force" in r.diagnostic(lambda s: "reference" in s.message)[0]


# --- problems -------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", ["joint_states", "reference"])
def test_forward_dynamics_of_efforts(rig, panda, source):
    r = rig(parameters={"problem": "forward"})
    tau = np.array([5.0, -20, 3, 10, 1, 2, 0.5])

    def answer():
        if source == "reference":
            r.send_reference(panda.names, point(effort=tau))
        measured = tau if source == "joint_states" else 0 * tau
        stamp = r.send_state(panda.names, panda.q, panda.qd, measured)
        r.spin(0.05)
        return r.solutions.get(stamp)

    r.until(answer)
    solution = r.until(answer).points[0]
    assert error(solution.accelerations, panda.oracle.forward(panda.q, panda.qd, tau)) <= 1e-9
    assert error(solution.effort, tau) <= EXACT and not r.commands


def test_forward_dynamics_without_effort_is_silent(rig, panda):
    r = rig(parameters={"problem": "forward"}).serving()

    def send():
        r.send_state(panda.names, panda.q, panda.qd)

    r.diagnostic(lambda s: "no effort in joint_states or reference for panda_joint1" in s.message, send=send)
    assert r.silent_for(0.5, send)


def test_hybrid_dynamics(rig, panda):
    r = rig(parameters={"problem": "hybrid", "forward_joints": ["panda_joint2", "panda_joint6"]})
    forward = np.isin(panda.names, ["panda_joint2", "panda_joint6"])
    tau = panda.torque(qdd=panda.qdd)

    def answer():
        r.send_reference(
            panda.names, point(qdd=np.where(forward, 0, panda.qdd), effort=np.where(forward, tau, 0))
        )
        stamp = r.send_state(panda.names, panda.q, panda.qd)
        r.spin(0.05)
        return r.solutions.get(stamp)

    r.until(answer)
    solution = r.until(answer).points[0]
    assert error(solution.accelerations, panda.qdd) <= 1e-9
    assert error(solution.effort, tau) <= 1e-9


# --- commands and limits ----------------------------------------------------------------------------


def test_effort_commands_have_the_order_of_command_joints(rig, panda):
    chosen = ["panda_joint6", "panda_joint1", "panda_joint4"]
    r = rig(parameters={"command_joints": chosen})
    tau = dict(
        zip(panda.names, efforts(r.answered(panda.names, panda.q, panda.qd), panda.names), strict=True)
    )
    command = r.until(lambda: r.commands)[-1]
    assert command == [tau[name] for name in chosen]


def test_no_effort_commands_without_command_joints(rig, panda):
    r = rig()
    r.answered(panda.names, panda.q, panda.qd)
    r.spin(0.2)
    assert not r.commands


def test_torques_are_clamped_and_that_is_said(rig, panda):
    limits = [1.0, 2.0, 0.5, 100.0, 100.0, 100.0, 100.0]
    r = rig(
        parameters={
            "effort_limits": "list",
            "effort_limits_list": limits,
            "command_joints": list(panda.names),
        }
    )
    tau = efforts(r.answered(panda.names, panda.q, panda.qd), panda.names)
    expected = np.clip(panda.torque(), -np.array(limits), limits)
    assert np.any(expected != panda.torque())
    assert error(tau, expected) <= EXACT
    assert np.all(np.abs(r.until(lambda: r.commands)[-1]) <= limits)
    message, values, _ = r.diagnostic(
        lambda s: "clamped" in s.message, send=lambda: r.send_state(panda.names, panda.q, panda.qd)
    )
    assert "panda_joint2" in message and "panda_joint2" in values["clamped joints"]


def test_limits_of_the_urdf(rig, panda):
    r = rig()
    qd = np.array([0, 30.0, 0, 30.0, 0, 0, 30.0])  # fast: beyond 87 N m
    tau = efforts(r.answered(panda.names, panda.q, qd), panda.names)
    unlimited = panda.torque(qd=qd)
    limits = panda.model.effort_limits
    assert np.any(np.abs(unlimited) > limits)
    assert error(tau, np.clip(unlimited, -limits, limits)) <= EXACT
    assert r.set_parameters(effort_limits="none")[0]
    assert error(efforts(r.answered(panda.names, panda.q, qd), panda.names), unlimited) <= EXACT


@pytest.mark.parametrize("off", ["gravity", "coriolis", "inertia"])
def test_compensation_can_leave_a_part_out(rig, panda, off):
    r = rig(parameters={f"compensate.{off}": False})
    gravity = panda.torque(qd=0 * panda.qd)
    parts = {
        "gravity": gravity,
        "coriolis": panda.torque() - gravity,
        "inertia": panda.torque(qdd=panda.qdd) - panda.torque(),
    }
    expected = sum(part for name, part in parts.items() if name != off)

    def right():
        r.send_reference(panda.names, point(qdd=panda.qdd))
        r.spin(0.02)
        tau = efforts(r.answered(panda.names, panda.q, panda.qd), panda.names)
        return error(tau, expected) <= EXACT

    r.until(right)


# --- velocity, staleness, rate ----------------------------------------------------------------------


def test_velocity_zero(rig, panda):
    r = rig(parameters={"velocity_source": "zero"})
    expected = panda.torque(qd=0 * panda.qd)
    for qd in ((), panda.qd, np.full(7, np.nan)):
        assert error(efforts(r.answered(panda.names, panda.q, qd), panda.names), expected) <= EXACT


def test_velocity_differentiated(rig, panda):
    r = rig(parameters={"velocity_source": "differentiate"})
    r.until(lambda: r.states.get_subscription_count())
    found = None
    begin = time.time_ns()
    for k in range(300):
        stamp = begin + k * 10_000_000
        q = panda.q + 1e-2 * k * panda.qd
        r.send_state(panda.names, q, stamp=stamp)
        r.spin(0.01)
        if k > 100 and (found := r.torques.get(stamp)):
            break
    assert error(efforts(found, panda.names), panda.torque(q=q)) <= 1e-6


@pytest.mark.parametrize("qd", [(), np.full(7, np.nan)])
def test_absent_velocity_is_silence_with_the_reason(rig, panda, qd):
    r = rig().serving()

    def send():
        r.send_state(panda.names, panda.q, qd)

    r.diagnostic(lambda s: "no velocity in joint_states for panda_joint1" in s.message, send=send)
    assert r.silent_for(0.5, send)
    told = "(velocity_source: message); velocity_source:=differentiate takes them from the positions"
    r.until(lambda: send() or told in r.process.output(), 20, "the reason in the terminal, with a remedy")


def test_what_is_missing_is_told_in_the_terminal(rig):
    r = rig("panda7", describe=False)
    r.until(
        lambda: "silent: no robot description yet; publish it on the topic" in r.process.output(), 20, "why"
    )
    r.describe(r.robot.file.read_text())
    r.until(lambda: "; nothing has come on the topic joint_states" in r.process.output(), 30, "why")


def test_odom_and_imu_are_heard_only_while_something_asks_for_them(rig):
    """At 500 Hz each takes a twentieth of a core."""
    r = rig().serving()
    readings = r.node.create_publisher(Imu, "imu", 10)
    heard = (readings.get_subscription_count, r.odometry.get_subscription_count)
    assert [count() for count in heard] == [0, 0]
    assert r.set_parameters(gravity_source="imu")[0]
    r.until(lambda: [count() for count in heard] == [1, 0], what="imu is asked for")
    assert r.set_parameters(gravity_source="parameter", floating_base=True)[0]
    r.until(lambda: [count() for count in heard] == [0, 1], 30, "the base has come loose")
    assert r.set_parameters(floating_base=False)[0]
    r.until(lambda: [count() for count in heard] == [0, 0], 30, "nobody asks")


def test_absent_velocity_does_not_matter_when_it_is_not_needed(rig, panda):
    r = rig(parameters={"compensate.coriolis": False})
    tau = efforts(r.answered(panda.names, panda.q), panda.names)
    assert error(tau, panda.torque(qd=0 * panda.qd)) <= EXACT


@pytest.mark.parametrize("rate", [0.0, 50.0])
@pytest.mark.parametrize("on_stale", ["silent", "gravity", "zero"])
def test_stale_input(rig, panda, on_stale, rate):
    r = rig(parameters={"on_stale": on_stale, "rate": rate, "joint_state_timeout": 0.2})
    last = stamp_of(r.answered(panda.names, panda.q, panda.qd))
    r.spin(0.4)
    r.torque_log.clear()
    r.spin(0.5)
    if on_stale == "silent":
        assert not r.torque_log
    else:
        expected = panda.torque(qd=0 * panda.qd) if on_stale == "gravity" else 0 * panda.qd
        assert r.torque_log
        for message in r.torque_log:
            assert error(efforts(message, panda.names), expected) <= EXACT
            assert stamp_of(message) >= last
    message, _, _ = r.diagnostic()
    assert "joint states older than 0.2 s" in message
    assert error(efforts(r.answered(panda.names, panda.q, panda.qd), panda.names), panda.torque()) <= EXACT


def test_rate(rig, panda):
    r = rig(parameters={"rate": 100.0, "joint_state_timeout": 5.0})
    r.answered(panda.names, panda.q, panda.qd)
    stamp = r.send_state(panda.names, panda.q, panda.qd)
    r.spin(0.2)
    r.torque_log.clear()
    r.spin(1.0)
    assert 80 <= len(r.torque_log) <= 120
    assert all(stamp_of(m) == stamp for m in r.torque_log)


def test_a_joint_that_falls_silent_stops_the_output(rig, panda):
    r = rig()
    r.answered(panda.names, panda.q, panda.qd)
    r.spin(0.4)

    def send():
        r.send_state(panda.names[:6], panda.q[:6], panda.qd[:6])

    assert r.silent_for(0.5, send)
    message, _, _ = r.diagnostic(lambda s: "older" in s.message, send=send)
    assert message == "silent: joint states older than 0.2 s: panda_joint7"


# --- enabling, reloading, floating base, clocks ---------------------------------------------------------


def test_enable_and_disable(rig, panda):
    r = rig(parameters={"autostart": False}).serving()
    assert r.silent_for(0.5, lambda: r.send_state(panda.names, panda.q, panda.qd))
    assert r.call(SetBool, "set_enabled", SetBool.Request(data=True)).success
    assert r.answered(panda.names, panda.q, panda.qd)
    assert r.call(SetBool, "set_enabled", SetBool.Request(data=False)).message == "disabled"
    assert r.silent_for(0.5, lambda: r.send_state(panda.names, panda.q, panda.qd))


def test_reload_reads_the_file_again(rig, panda, tmp_path):
    path = tmp_path / "robot.urdf"
    text = panda.robot.file.read_text()
    path.write_text(text)
    r = rig(parameters={"robot_description_file": str(path)}, describe=False)
    before = efforts(r.answered(panda.names, panda.q, panda.qd), panda.names)
    path.write_text(text.replace("panda_link0", "pedestal"))
    assert r.call(Trigger, "reload").success
    r.until(lambda: r.answered(panda.names, panda.q, panda.qd).header.frame_id == "pedestal")
    assert error(efforts(r.torque_log[-1], panda.names), before) <= EXACT


def test_reload_without_any_description(rig):
    r = rig(None)
    answer = r.call(Trigger, "reload")
    assert not answer.success and "no robot description yet" in answer.message


def test_floating_base_needs_odometry(rig, case):
    dog = case("solo12")
    r = rig("solo12")
    pose = np.array([0.1, 0.2, 0.3, 0.1, -0.2, 0.3, 0.0])
    pose[6] = np.sqrt(1 - pose[3:6] @ pose[3:6])
    twist = np.array([0.3, -0.1, 0.2, 0.5, 0.4, -0.3])

    def send():
        r.send_state(dog.names, dog.q, dog.qd)

    r.serving()
    r.diagnostic(lambda s: "floating base, but no odom" in s.message, send=send)
    assert r.silent_for(0.5, send)

    def answer():
        r.send_odometry(pose, twist, child=dog.model.base_link)
        r.spin(0.02)
        stamp = r.send_state(dog.names, dog.q, dog.qd)
        r.spin(0.03)
        return r.torques.get(stamp)

    tau = efforts(r.until(answer), dog.names)
    q, qd = np.concatenate([pose, dog.q]), np.concatenate([twist, dog.qd])
    expected = dog.oracle.inverse(q, qd, 0 * qd)[6:]
    assert error(tau, np.clip(expected, -dog.model.effort_limits[6:], dog.model.effort_limits[6:])) <= EXACT
    r.spin(0.4)
    assert r.silent_for(0.3, send)
    assert "odom older" in r.diagnostic(lambda s: "odom" in s.message, send=send)[0]


@pytest.mark.parametrize(
    "pose, twist, child",
    [
        ((0, 0, 0, 0, 0, 0, 0), (0,) * 6, ""),
        ((0, 0, np.nan, 0, 0, 0, 1), (0,) * 6, ""),
        ((0, 0, 0, 0, 0, 0, 1), (np.inf, 0, 0, 0, 0, 0), ""),
        ((0, 0, 0, 0, 0, 0, 1), (0,) * 6, "some_other_link"),
    ],
)
def test_bad_odometry_is_dropped(rig, case, pose, twist, child):
    dog = case("solo12")
    r = rig("solo12")

    def send():
        r.send_odometry(pose, twist, child)
        r.send_state(dog.names, dog.q, dog.qd)

    r.serving()
    r.diagnostic(
        lambda s: any(v.key == "last drop" and v.value.startswith("odom: ") for v in s.values), send=send
    )
    assert r.silent_for(0.5, send)


def test_stamps_that_jump_back_reset_the_state(rig, panda):
    """A bag that loops: the old joints are forgotten, no mixture is published."""
    r = rig(parameters={"joint_state_timeout": 10.0})
    last = stamp_of(r.answered(panda.names, panda.q, panda.qd))
    early = last - 5_000_000_000
    assert r.silent_for(0.4, lambda: r.send_state(panda.names[:3], panda.q[:3], panda.qd[:3], stamp=early))
    stamp = r.send_state(panda.names[3:], panda.q[3:], panda.qd[3:], stamp=early + 1)
    assert error(efforts(r.until(lambda: r.torques.get(stamp)), panda.names), panda.torque()) <= EXACT


def test_messages_out_of_order_are_ignored(rig, panda):
    r = rig()
    last = stamp_of(r.answered(panda.names, panda.q, panda.qd))
    for _ in range(5):
        r.send_state(panda.names, 0 * panda.q, panda.qd, stamp=last - 100_000_000)
        r.spin(0.02)
    assert error(efforts(r.answered(panda.names, panda.q, panda.qd), panda.names), panda.torque()) <= EXACT
    assert last - 100_000_000 not in r.torques


def test_simulated_time_that_jumps_back_forgets_the_state(rig, panda):
    r = rig(parameters={"use_sim_time": True, "joint_state_timeout": 30.0})
    clock = r.node.create_publisher(Clock, "/clock", 10)

    def tick(seconds):
        message = Clock()
        message.clock.sec = seconds
        clock.publish(message)
        r.spin(0.05)

    r.until(clock.get_subscription_count)
    tick(100)
    assert r.answered(panda.names, panda.q, panda.qd, stamp=100_000_000_000)
    tick(101)
    tick(50)
    r.until(lambda: "ROS time jumped back" in r.process.output(), what="the jump in the log")
    assert r.silent_for(
        0.3, lambda: r.send_state(panda.names[:6], panda.q[:6], panda.qd[:6], stamp=50_000_000_000)
    )


def test_qos_can_be_overridden(rig, panda):
    key = "qos_overrides./joint_states.subscription.reliability"
    r = rig(parameters={key: "reliable"})
    infos = r.until(lambda: r.node.get_subscriptions_info_by_topic("joint_states"))
    assert infos[0].qos_profile.reliability.name == "RELIABLE"
    assert r.answered(panda.names, panda.q, panda.qd)


def test_a_late_node_gets_the_description_of_a_publisher_long_gone_quiet(rig, panda):
    r = rig(describe=False)
    r.until(r.states.get_subscription_count, 30, "discovery")
    assert r.process.stop() == 0
    late = r.node.create_publisher(String, "robot_description", LATCHED)
    late.publish(String(data=panda.robot.file.read_text()))
    r.spin(0.5)
    r.process = NodeProcess(r.domain, r.parameters)
    assert r.answered(panda.names, panda.q, panda.qd)


def test_mimic_joints_need_not_be_measured(rig, case):
    gripper = case("panda")
    r = rig("panda")
    q = np.append(gripper.q[:7], 0.02)
    tau = efforts(r.answered(gripper.names, q, floats(gripper.qd)), gripper.names)
    assert "panda_finger_joint2" not in gripper.names
    assert error(tau, gripper.torque(q=q)) <= EXACT
