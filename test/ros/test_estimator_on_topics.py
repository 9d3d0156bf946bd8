"""dynamics_estimator on topics: estimates, late, missing and invalid readings."""

from contextlib import closing
from fnmatch import fnmatch
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from domains import fresh_domain
from rig import NodeProcess, Rig, efforts, set_stamp, stamp_of
from two_links import ARM, NAMES, PUSH, SENSORS, Swing

try:
    from dynamics_interfaces.msg import JointStateEstimate
except ImportError:
    pytest.skip(
        "dynamics_interfaces without JointStateEstimate: build it again, or use ./dev",
        allow_module_level=True,
    )
from sensor_msgs.msg import Imu, JointState
from std_msgs.msg import Float64MultiArray

POLICY = Path(__file__).parents[2] / "docs" / "security" / "policy.xml"
MODULE = "dynamics_node.node.estimator"
NS = 1_000_000_000
PERIOD = NS // 250


class EstimatorRig(Rig):
    """The arm on a sine motion, with an external torque at its second joint."""

    served = "dynamics_estimator"

    def __init__(self, parameters=None):
        super().__init__(None, {"rate": NS / PERIOD, **(parameters or {})}, module=MODULE)
        self.estimates, self.plain, self.external = [], [], []
        subscribe = self.node.create_subscription
        subscribe(JointStateEstimate, "dynamics_estimator/joint_state_estimate", self.estimates.append, 500)
        subscribe(JointState, "dynamics_estimator/estimated_joint_states", self.plain.append, 500)
        subscribe(JointState, "dynamics_estimator/external_torques", self.external.append, 500)
        self.imus = self.node.create_publisher(Imu, "imu", 50)
        self.swing, self.k, self.begin = Swing(), 0, 0
        self.describe(ARM)

    def serving(self):
        self.until(lambda: " estimated at " in self.process.output(), what="a robot")
        self.until(self.states.get_subscription_count, what="discovery")
        self.begin, self.k = self.next_stamp(), 0
        return self

    def move(self, steps, effort=True, names=NAMES):
        """Send the next steps in real time."""
        order = [NAMES.index(name) for name in names]
        for _ in range(steps):
            t, stamp = self.k * PERIOD / NS, self.begin + self.k * PERIOD
            q, tau = self.swing.state(t)[0][order], self.swing.torque(t)[order]
            self.send_state(names, q, effort=tau if effort else (), stamp=stamp)
            self.k += 1
            self.spin(PERIOD / NS)
        return self

    def send_imu(self, k):
        """Send the IMU reading of step k."""
        message = Imu()
        set_stamp(message, self.begin + k * PERIOD)
        w, a = message.angular_velocity, message.linear_acceleration
        w.x, w.y, w.z, a.x, a.y, a.z = self.swing.imu(k * PERIOD / NS).tolist()
        self.imus.publish(message)

    def step_of(self, message):
        return (stamp_of(message) - self.begin) / PERIOD


@pytest.fixture(scope="module")
def estimator():
    made = EstimatorRig().serving()
    yield made
    made.close()


def test_estimates_have_consistent_covariances(estimator):
    estimator.move(300)
    results = (estimator.plain, estimator.estimates, estimator.external)
    estimator.until(
        lambda: len(estimator.estimates) > 50 and len({*map(len, results)}) == 1, what="estimates"
    )
    estimate = estimator.estimates[-1]
    k = estimator.step_of(estimate)
    assert k == round(k) and estimate.lag == pytest.approx(0.01, abs=PERIOD / NS)
    q, qd, qdd = estimator.swing.state(k * PERIOD / NS)
    assert tuple(estimate.name) == NAMES and estimate.header.frame_id == "base"
    for field, truth in (("position", q), ("velocity", qd), ("acceleration", qdd), ("external_torque", PUSH)):
        P = np.array(getattr(estimate, f"{field}_covariance")).reshape(2, 2)
        assert np.linalg.eigvalsh(P).min() > 0
        off = np.abs(np.array(getattr(estimate, field)) - truth)
        assert (off < 4 * np.sqrt(np.diag(P)) + 1e-6).all(), field
    assert estimate.readings == 4 and not estimate.unobservable
    np.testing.assert_allclose(estimator.plain[-1].position, estimate.position)
    np.testing.assert_allclose(efforts(estimator.external[-1], NAMES), estimate.external_torque)


def test_late_readings_are_used_or_counted(tmp_path):
    file = tmp_path / "imus.yaml"
    file.write_text(SENSORS)
    rig = EstimatorRig({"sensors_file": str(file), "window": 0.1, "lag": 0.08}).serving()
    try:
        rig.until(rig.imus.get_subscription_count, what="discovery")
        for _ in range(60):
            rig.move(1)
            if rig.k > 12:
                rig.send_imu(rig.k - 10)
        rig.until(lambda: rig.estimates and rig.estimates[-1].readings == 10, what="readings of the IMU")
        rig.send_imu(2)
        moving = dict(send=lambda: (rig.move(1), rig.send_imu(rig.k - 10)))
        _, values, _ = rig.diagnostic(lambda s: value(s, "readings too late"), **moving)
        assert int(values["late readings used"].removeprefix("imu ")) > 40
        assert values["readings too late"] == "imu 1" and values["stale sensors"] == ""
        message, values, level = rig.diagnostic(lambda s: "imu" in s.message, send=lambda: rig.move(1))
        assert message.startswith("no readings from imu ") and level == b"\1"
    finally:
        rig.close()


def value(status, key):
    return next((entry.value for entry in status.values if entry.key == key), "")


def test_missing_torques_are_named_with_unobservable_quantities(estimator):
    message, values, level = estimator.diagnostic(
        lambda s: "external_torque" in s.message, send=lambda: estimator.move(1, effort=False)
    )
    assert message.startswith("no readings from measured torques ")
    assert "not observable: external_torque joint1" in message
    assert level == b"\1"
    assert estimator.estimates[-1].unobservable == [f"external_torque {name}" for name in NAMES]
    estimator.diagnostic(lambda s: s.message == "running", send=lambda: estimator.move(1))


def test_a_stale_joint_is_named_until_it_returns(estimator):
    message, _, _ = estimator.diagnostic(
        lambda s: "older" in s.message, send=lambda: estimator.move(1, names=("joint1",))
    )
    assert message == "no output: joint states older than 0.2 s: joint2"
    before = len(estimator.estimates)
    estimator.diagnostic(lambda s: s.message == "running", send=lambda: estimator.move(1))
    assert len(estimator.estimates) > before


def test_parameters_can_change_at_run_time(estimator):
    assert estimator.set_parameters(lag=0.5) == (False, "lag 0.5 s must be less than the window of 0.02 s")
    done, reason = estimator.set_parameters(noise__encoder=[1e-4, 1e-4, 1e-4])
    assert not done and "noise.encoder has 3 entries" in reason
    assert estimator.set_parameters(lag=0.0) == (True, "")
    try:
        estimator.estimates.clear()
        estimator.move(60)
        assert estimator.estimates[-1].lag == 0.0
    finally:
        estimator.set_parameters(lag=0.01)


def test_commands_by_name_or_in_order():
    for parameters, kind, topic in (
        ({}, JointState, "commanded_torques"),
        ({"command_joints": ["joint2", "joint1"]}, Float64MultiArray, "effort_commands"),
    ):
        rig = EstimatorRig({"torque_source": "commanded", **parameters}).serving()
        try:
            commands = rig.node.create_publisher(kind, f"dynamics_estimator/{topic}", 50)
            rig.until(commands.get_subscription_count, what="discovery")
            rig.begin = rig.next_stamp()
            for _ in range(200):
                rig.k = max(
                    rig.k, (rig.next_stamp() - rig.begin) // PERIOD
                )  # commands in order have no stamp: their time is now
                tau = rig.swing.torque(rig.k * PERIOD / NS)
                if kind is JointState:
                    message = JointState(name=list(NAMES), effort=tau.tolist())
                    message.header.stamp.sec, message.header.stamp.nanosec = divmod(
                        rig.begin + rig.k * PERIOD, NS
                    )
                    commands.publish(message)
                else:
                    commands.publish(Float64MultiArray(data=tau[::-1].tolist()))
                rig.move(1, effort=False)
            last = [efforts(message, NAMES) for message in rig.external[-100:]]  # a single one may be late
            np.testing.assert_allclose(np.median(last, axis=0), PUSH, atol=0.5)
        finally:
            rig.close()


def test_an_unsupported_robot_is_rejected_with_a_reason(estimator):
    estimator.describe(ARM.replace('type="revolute"', 'type="floating"'))
    message, _, _ = estimator.diagnostic(lambda s: "floating joint" in s.message)
    assert "the estimator requires a fixed base" in message and "the last valid robot is in use" in message
    estimator.describe(ARM.replace('mass value="2"', 'mass value="2.5"'))
    estimator.until(lambda: estimator.process.output().count(" estimated at ") == 2, what="another robot")
    estimator.estimates.clear()
    estimator.begin, estimator.k = estimator.next_stamp(), 0
    estimator.move(100)
    assert estimator.estimates


@pytest.mark.parametrize(
    "parameters, reason",
    [
        ({"rate": 5000.0}, "rate must be between 10 and 2000, not 5000.0"),
        ({"lag": 1.0}, "must be less than the window"),
    ],
)
def test_an_invalid_start_parameter_ends_the_node(parameters, reason):
    domain = fresh_domain()
    process = NodeProcess(domain, parameters, module=MODULE)
    assert process.process.wait(timeout=60) == 1
    (line,) = process.output().strip().splitlines()
    assert line.startswith("dynamics_estimator: ") and reason in line


def test_the_policy_grants_exactly_the_names_in_use(tmp_path):
    """The policy covers IMUs on private topics of the node."""
    sensors = tmp_path / "sensors.yaml"
    sensors.write_text(SENSORS.replace(", topic: imu", ""))
    with closing(EstimatorRig({"sensors_file": str(sensors)}).serving()) as estimator:
        policy = ElementTree.parse(POLICY)
        (enclave,) = (e for e in policy.iter("enclave") if e.get("path") == "/dynamics_estimator")
        space = estimator.node.get_namespace()
        commanded = {f"/dynamics_estimator/{name}" for name in ("commanded_torques", "effort_commands")}
        unused_grants = {"/clock", "/parameter_events", *commanded}
        for tag, right, what in (
            ("topic", "publish", "publisher"),
            ("topic", "subscribe", "subscriber"),
            ("service", "reply", "service"),
        ):
            granted = {
                c.text for group in enclave.iter(f"{tag}s") if group.get(right) == "ALLOW" for c in group
            }
            query = getattr(estimator.node, f"get_{what}_names_and_types_by_node")

            def used(query=query):
                return {name.removeprefix(space) for name, _ in query("dynamics_estimator", space)}

            def unused(granted=granted, used=used):
                return {pattern for pattern in granted if not any(fnmatch(name, pattern) for name in used())}

            estimator.until(
                lambda unused=unused: unused() <= unused_grants, what=f"use of the grants: {what}"
            )
            assert all(any(fnmatch(name, pattern) for pattern in granted) for name in used()), what
