"""Topics on DDS: one path for each topic, timer, QoS and clock. For results and missing output, see
test/core/node."""

from contextlib import contextmanager

import numpy as np
from environments import PUSHED, UP, with_wrench
from geometry_msgs.msg import WrenchStamped
from oracle import Oracle
from rig import BEST_EFFORT, NodeProcess, efforts, point, stamp_of
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import Imu, JointState
from std_srvs.srv import SetBool
from tolerances import EXACT, error


@contextmanager
def parameters(r, defaults, **values):
    """Temporary parameters of a shared node."""
    assert r.set_parameters(**values)[0]
    yield
    assert r.set_parameters(**defaults)[0]


def right(r, case, expected=None):
    """Whether the node answers the state of the case with the expected torques, by default its own."""
    tau = efforts(r.answered(case.names, case.q, case.qd), case.names)
    return error(tau, case.torque() if expected is None else expected) <= EXACT


def drops(r, words, send):
    """Wait until the diagnostics report a dropped message."""
    r.diagnostic(lambda s: any(v.key == "last drop" and words in v.value for v in s.values), send=send)


# --- joint states, torques, solutions -----------------------------------------------------------------------


def test_a_solution_has_state_and_acceleration(arm, panda):
    def solution():
        """The node publishes it only after discovery of the subscription."""
        stamp = stamp_of(arm.answered(panda.names, panda.q, panda.qd))
        arm.spin(0.05)
        return arm.solutions.get(stamp)

    solution = arm.until(solution, what="a solution")
    (only,) = solution.points
    assert tuple(solution.joint_names) == panda.names
    assert np.array_equal(only.positions, panda.q) and np.array_equal(only.velocities, panda.qd)
    assert not np.any(only.accelerations)
    assert error(only.effort, panda.torque()) <= EXACT
    assert not arm.commands, "command_joints is empty"


def test_reference(arm, panda):
    def with_reference():
        arm.send_reference(panda.names[::-1], point(qdd=panda.qdd[::-1]))
        return right(arm, panda, panda.torque(qdd=panda.qdd))

    arm.until(with_reference)
    arm.until(lambda: right(arm, panda), what="its end")


def test_one_of_two_publishers_may_restart(rig, panda):
    r, (arm, wrist) = rig(), (slice(4), slice(4, 7))
    second = r.node.create_publisher(JointState, "joint_states", BEST_EFFORT)

    def answer(q):
        """Publish both until the node answers a state of the second."""
        r.send_state(panda.names[arm], q[arm], panda.qd[arm])
        stamp = r.send_state(panda.names[wrist], q[wrist], panda.qd[wrist], publisher=second)
        r.spin(0.03)
        return r.torques.get(stamp)

    assert error(efforts(r.until(lambda: answer(panda.q)), panda.names), panda.torque()) <= EXACT
    r.node.destroy_publisher(r.states)
    r.states = r.node.create_publisher(JointState, "joint_states", 10)
    q = panda.q * 0.5
    r.until(r.states.get_subscription_count, what="discovery")

    def followed():
        message = answer(q)
        return message and error(efforts(message, panda.names), panda.torque(q)) <= EXACT

    r.until(followed, what="torques of what the new publisher sends")


def test_two_namespaces_are_separate(rig, case):
    left, other = case("panda7"), case("ur5")
    a = rig("panda7", namespace="left")
    b = rig("ur5", namespace="right")
    third = NodeProcess(a.domain, None, "right")  # in the domain of `a`, but separate
    try:
        assert right(a, left) and right(b, other)
        ours, others = (f"{a.domain.resolved(n)}/dynamics_node/joint_torques" for n in ("left", "right"))
        assert ours in dict(a.node.get_topic_names_and_types())
        a.until(lambda: others in dict(a.node.get_topic_names_and_types()))
    finally:
        assert third.stop() == 0


# --- environment --------------------------------------------------------------------------------------------


def test_external_wrenches(arm, panda):
    pushes = arm.node.create_publisher(WrenchStamped, "dynamics_node/external_wrench", 10)
    expected = with_wrench(Oracle(panda.robot, panda.model), panda, PUSHED)

    def push(link, moment, force):
        message = WrenchStamped()
        message.header.frame_id = link
        t, f = message.wrench.torque, message.wrench.force
        t.x, t.y, t.z, f.x, f.y, f.z = map(float, (*moment, *force))
        pushes.publish(message)

    def pushed():
        for link, (moment, force) in PUSHED.items():
            push(link, moment, force)
        arm.spin(0.02)
        return right(arm, panda, expected)

    with parameters(arm, {"wrench_timeout": 0.2}, wrench_timeout=0.5):
        arm.until(pushed, what="the torque of both wrenches")
        arm.until(lambda: right(arm, panda), what="their end")
    drops(
        arm, "external_wrench: frame_id 'nowhere' is not a link", lambda: push("nowhere", (0,) * 3, (1, 0, 0))
    )


def imu(acceleration):
    message = Imu()
    a = message.linear_acceleration
    a.x, a.y, a.z = map(float, acceleration)
    message.orientation_covariance[0] = -1.0
    return message


def test_an_imu_is_subscribed_only_while_needed(rig, panda, tmp_path):
    """At 500 Hz it takes 5 % of a core."""
    file = tmp_path / "sensors.yaml"
    file.write_text("sensors: [{type: imu, name: base, link: panda_link0, std: 0.1, topic: imu}]")
    r = rig(parameters={"joint_state_timeout": 60.0, "sensors_file": str(file)}).serving()
    readings = r.node.create_publisher(Imu, "imu", 10)
    subscriptions = (readings.get_subscription_count, r.odometry.get_subscription_count)
    assert [count() for count in subscriptions] == [0, 0]
    done, reason = r.set_parameters(gravity_sensor="roof")
    assert not done and "gravity_sensor: sensors_file has no sensor 'roof'; it has base" in reason
    assert r.set_parameters(gravity_sensor="base", sensor_timeout=1000.0)[0]
    r.until(lambda: [count() for count in subscriptions] == [1, 0], what="a subscription of imu")

    def send():
        return r.send_state(panda.names, panda.q, panda.qd)

    r.diagnostic(lambda s: s.message == "no output: no message yet of gravity_sensor base", send=send)
    drops(r, "imu: no orientation", lambda: readings.publish(imu((0, 0, 0.1))))
    assert not r.torque_log
    oracle = Oracle(panda.robot, panda.model)
    oracle.pin.gravity.linear = -UP
    expected = oracle.inverse(panda.q, panda.qd, 0 * panda.q)

    def tilted():
        readings.publish(imu(UP))
        stamp = send()
        r.spin(0.03)
        return stamp in r.torques and error(efforts(r.torques[stamp], panda.names), expected) <= 1e-9

    r.until(tilted, what="the torque of tilted gravity")
    assert r.set_parameters(gravity_sensor="")[0]
    r.until(lambda: [count() for count in subscriptions] == [0, 0], what="no subscription")


def test_odometry_is_subscribed_only_for_a_floating_base(rig, case):
    dog = case("solo12")
    r = rig("solo12", parameters={"joint_state_timeout": 60.0}).serving()
    pose = np.array([0.1, 0.2, 0.3, 0.1, -0.2, 0.3, np.sqrt(1 - 0.14)])
    twist = np.array([0.3, -0.1, 0.2, 0.5, 0.4, -0.3])

    def send():
        r.send_state(dog.names, dog.q, dog.qd)

    r.diagnostic(lambda s: "floating base, but no odom" in s.message, send=send)
    drops(r, "odom: quaternion of the base", lambda: r.send_odometry((0,) * 7))
    assert not r.torque_log

    def answer():
        r.send_odometry(pose, twist, child=dog.model.base_link)
        r.spin(0.02)
        stamp = r.send_state(dog.names, dog.q, dog.qd)
        r.spin(0.03)
        return r.torques.get(stamp)

    tau = efforts(r.until(answer), dog.names)
    q, qd = np.concatenate([pose, dog.q]), np.concatenate([twist, dog.qd])
    expected, limits = dog.oracle.inverse(q, qd, 0 * qd)[6:], dog.model.effort_limits[6:]
    assert error(tau, np.clip(expected, -limits, limits)) <= EXACT
    assert r.set_parameters(floating_base=False)[0]
    r.until(lambda: not r.odometry.get_subscription_count(), what="no subscription")


# --- timers and clocks --------------------------------------------------------------------------------------


def test_a_timer_detects_stale_input(arm, panda):
    still = panda.torque(qd=0 * panda.qd)
    with parameters(arm, {"on_stale": "silent"}, on_stale="gravity"):
        last = stamp_of(arm.answered(panda.names, panda.q, panda.qd))
        arm.until(
            lambda: error(efforts(arm.torque_log[-1], panda.names), still) <= EXACT, what="gravity alone"
        )
        arm.torque_log.clear()
        arm.until(lambda: len(arm.torque_log) >= 5, what="without any input")
        for message in arm.torque_log:
            assert error(efforts(message, panda.names), still) <= EXACT and stamp_of(message) >= last
        arm.diagnostic(lambda s: "joint states older than 0.2 s" in s.message)
        assert right(arm, panda)


def test_output_at_a_fixed_rate(arm, panda):
    """Output is not faster than the rate, and needs no new input; a slow machine may be slower."""
    sent = []
    with parameters(arm, {"rate": 0.0, "joint_state_timeout": 0.2}, rate=100.0, joint_state_timeout=60.0):
        arm.answered(panda.names, panda.q, panda.qd)
        stamp = arm.send_state(panda.names, panda.q, panda.qd)

        def on_torques(message, info):
            if stamp_of(message) == stamp:
                sent.append(info["source_timestamp"])

        subscription = arm.node.create_subscription(
            JointState, "dynamics_node/joint_torques", on_torques, 500
        )
        arm.until(lambda: len(sent) >= 30, what="torques of one state")
        arm.node.destroy_subscription(subscription)
    assert sent[-1] - sent[0] >= 0.9 * (len(sent) - 1) * 10_000_000


def test_a_jump_back_of_simulated_time_clears_the_state(rig, panda):
    r = rig(parameters={"use_sim_time": True, "joint_state_timeout": 60.0})
    clock = r.node.create_publisher(Clock, "/clock", 10)

    def tick(seconds):
        message = Clock()
        message.clock.sec = seconds
        clock.publish(message)
        r.spin(0.05)

    r.until(clock.get_subscription_count)
    r.until(
        lambda: tick(100) or r.torques.get(r.send_state(panda.names, panda.q, panda.qd, stamp=100 * 10**9))
    )
    r.until(lambda: (tick(101), tick(50)) and "ROS time jumped back" in r.process.output(), what="the jump")

    def send():
        r.send_state(panda.names[:6], panda.q[:6], panda.qd[:6], stamp=50_000_000_000)

    r.diagnostic(lambda s: s.message == "no output: never seen: panda_joint7", send=send)


def test_enable_and_disable(arm, panda):
    def send():
        arm.send_state(panda.names, panda.q, panda.qd)

    with parameters(arm, {"command_joints": [""]}, command_joints=list(panda.names)):
        assert right(arm, panda)
        arm.until(lambda: arm.commands, what="commands")
        request = SetBool.Request(data=False)
        assert arm.call(SetBool, "set_enabled", request).message == "disabled"
        arm.diagnostic(lambda s: s.message == "disabled", send=send)
        arm.commands.clear()
        assert arm.silent_for(0.3, send) and not arm.commands
        assert arm.call(SetBool, "set_enabled", SetBool.Request(data=True)).success
        assert right(arm, panda)
    arm.commands.clear()


# --- QoS and log lines --------------------------------------------------------------------------------------


def test_qos_can_be_overridden(rig, panda):
    key = "qos_overrides./joint_states.subscription.reliability"
    r = rig(parameters={key: "reliable"})
    infos = r.until(lambda: r.node.get_subscriptions_info_by_topic("joint_states"))
    assert infos[0].qos_profile.reliability.name == "RELIABLE"
    assert right(r, panda)


def test_missing_output_is_logged_with_reason_and_remedy(rig, panda):
    """Diagnostics and log have the reason, each tested with its own node."""
    undescribed, unmoved, r = rig(describe=False), rig(), rig()

    def logged(node, words, send=lambda: None):
        node.until(lambda: send() or words in node.process.output(), what=words)

    def send():
        r.send_state(panda.names, panda.q)

    expected = "(velocity_source: message); set velocity_source:=differentiate"
    logged(r, expected, send)
    r.diagnostic(lambda s: "no velocity in joint_states for panda_joint1" in s.message, send=send)
    logged(undescribed, "no output: no robot description yet; publish it on the topic robot_description")
    logged(unmoved, "; no message has arrived on the topic joint_states")
    assert not r.torque_log
    assert right(r, panda)
