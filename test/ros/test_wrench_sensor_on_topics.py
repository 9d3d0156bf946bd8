"""A force/torque sensor on topics: compensated readings, and calibration by the service."""

import numpy as np
import pytest

interfaces = pytest.importorskip(
    "dynamics_interfaces.srv", reason="build dynamics_interfaces first, or use ./dev"
)

import rig as support
from geometry_msgs.msg import WrenchStamped
from rig import set_stamp, stamp_of
from robots import PANDA_JOINTS, ROBOTS
from sensed import JointWrench, pin

JOINT, LINK = "panda_hand_joint", "panda_hand"
BIAS = np.array([0.1, 0.2, -0.1, 5.0, -4.0, 2.0])  # moment first
PUSH = np.array([0.5, -0.3, 0.2, 3.0, 10.0, -7.0])
SENSORS = (
    f"sensors: [{{type: force_torque, name: wrist, joint: {JOINT}, measures: child_to_parent, std: 0.1}}]"
)
MASS, COM = 1.2, np.array([0.01, -0.02, 0.08])


class SensorRig:
    """A rig with a sensor of a Panda whose tool differs from its description."""

    def __init__(self, file):
        file.write_text(SENSORS)
        parameters = {"sensors_file": str(file), "wrench_sensor.name": "wrist", "joint_state_timeout": 5.0}
        self.rig = support.Rig(ROBOTS["panda7"], parameters)
        self.sensor = self.rig.node.create_publisher(WrenchStamped, "dynamics_node/sensors/wrist", 50)
        self.compensated = {}
        self.rig.node.create_subscription(
            WrenchStamped,
            "dynamics_node/compensated_wrench",
            lambda m: self.compensated.update({stamp_of(m): m}),
            500,
        )
        self.rig.serving()
        self.rig.until(self.sensor.get_subscription_count, what="the sensor's topic")
        self.oracle = JointWrench(ROBOTS["panda7"], ROBOTS["panda7"].model(), JOINT)
        self.oracle.pin.inertias[self.oracle.pin.getJointId(JOINT)] = pin.Inertia(
            MASS, COM, 0.002 * np.eye(3)
        )

    def send(self, q, push=0.0, frame=LINK):
        """Send a state at rest and a reading; returns its stamp."""
        zero = np.zeros(7)
        self.rig.send_state(PANDA_JOINTS, q, zero)
        wrench = -self.oracle(q, zero, zero) + BIAS + push
        message = WrenchStamped()
        message.header.frame_id = frame
        set_stamp(message, stamp := self.rig.next_stamp())
        t, f = message.wrench.torque, message.wrench.force
        t.x, t.y, t.z, f.x, f.y, f.z = map(float, wrench)
        self.sensor.publish(message)
        return stamp

    def answered(self, q, push):
        """A compensated reading, (6,), and its frame."""
        sent = set()

        def received_stamp():
            sent.add(self.send(q, push))
            self.rig.spin(0.03)
            return next(iter(sent & self.compensated.keys()), None)

        message = self.compensated[self.rig.until(received_stamp, what="a compensated wrench")]
        t, f = message.wrench.torque, message.wrench.force
        return np.array([t.x, t.y, t.z, f.x, f.y, f.z]), message.header.frame_id

    def calibrate(self, command, **request):
        kind = interfaces.CalibrateWrenchSensor
        return self.rig.call(kind, "calibrate_wrench_sensor", kind.Request(command=command, **request))


@pytest.fixture
def sensed(tmp_path):
    made = SensorRig(tmp_path / "sensors.yaml")
    yield made
    made.rig.close()


def test_a_calibrated_sensor_gives_the_external_wrench(sensed):
    poses = np.random.default_rng(1).uniform(-1.2, 1.2, (7, 7))
    reply = sensed.calibrate("collect")
    assert not reply.success and "never seen" in reply.message
    assert "unknown command 'dance'" in sensed.calibrate("dance").message
    wrong, frame = sensed.answered(poses[0], PUSH)
    assert np.abs(wrong - PUSH).max() > 1 and frame == LINK
    for number, q in enumerate(poses):
        answer = None
        while answer is None or not answer.success:
            for _ in range(20):
                sensed.send(q)
                sensed.rig.spin(0.03)
            answer = sensed.calibrate("collect")
        assert answer.poses == number + 1
        if number == 2:
            assert "3 poses; at least 6 are required" in sensed.calibrate("compute").message
    calibration = sensed.calibrate("apply")
    assert calibration.success, calibration.message
    assert calibration.tool_mass == pytest.approx(MASS, rel=1e-3) and calibration.condition < 50
    assert (calibration.tool_com.x, calibration.tool_com.y, calibration.tool_com.z) == pytest.approx(
        tuple(COM), abs=1e-4
    )
    assert (calibration.bias.force.x, calibration.bias.torque.z) == pytest.approx((5.0, -0.1), abs=1e-3)
    compensated, _ = sensed.answered(poses[3], PUSH)
    assert np.abs(compensated - PUSH).max() < 1e-2
    values = sensed.rig.diagnostic(lambda s: True, send=lambda: sensed.send(poses[3]))[1]
    assert values["wrench sensor"] == f"compensated at {JOINT}"
    assert sensed.calibrate("reset").poses == 0
