"""A sensor problem on topics: a Panda with an external wrench, and sensor readings by Pinocchio."""

import numpy as np
import pytest

pytest.importorskip("dynamics_interfaces.srv", reason="build dynamics_interfaces first, or use ./dev")
pytest.importorskip("pinocchio", reason="the oracle: pip install pin")

import rig as support
from geometry_msgs.msg import WrenchStamped
from robots import ROBOTS
from sensor_msgs.msg import Imu
from sensor_truth import Truth
from tolerances import error

from dynamics_node.robot import sensor_problem
from dynamics_node.robot.contacts import Contact
from dynamics_node.robot.sensors import load_sensors

JOINTS = [f"panda_joint{k}" for k in range(1, 8)]
HAND, NONE = "panda_link7", (0.0, 0.0, 0.0)
PUSH = np.array([0.4, -0.3, 0.2, 5.0, -8.0, 12.0])
SENSORS = f"""
sensors:
  - {{type: torque, joint: [{", ".join(JOINTS)}], std: 0.05}}
  - {{type: force_torque, name: wrist, joint: panda_joint7, measures: child_to_parent, std: 0.1}}
  - {{type: imu, name: hand, link: {HAND}, xyz: [0.05, 0, 0.1], std: 0.01, topic: /hand/imu}}
"""


class TouchedPanda:
    def __init__(self, path):
        path.write_text(SENSORS)
        contacts = path.with_suffix(".contacts")
        contacts.write_text(f"contacts: [{{link: {HAND}, kind: surface}}]")
        given = {"problem": "sensors", "sensors_file": str(path), "contacts_file": str(contacts)}
        given["joint_state_timeout"] = 5.0
        self.rig = support.Rig(ROBOTS["panda7"], given | {"sensor_timeout": 1.0})
        node, model = self.rig.node, ROBOTS["panda7"].model()
        self.wrist = node.create_publisher(WrenchStamped, "dynamics_node/sensors/wrist", 50)
        self.hand = node.create_publisher(Imu, "/hand/imu", 50)
        self.pushes = []
        node.create_subscription(WrenchStamped, "dynamics_node/estimated_wrenches", self.pushes.append, 500)
        self.q, self.qd, self.qdd = np.random.default_rng(4).uniform(-0.5, 0.5, (3, 7))
        self.q[3] -= 1.5
        truth = Truth(ROBOTS["panda7"], model, self.q, self.qd, self.qdd, [(HAND, NONE, NONE, PUSH)])
        problem = sensor_problem(model, load_sensors(path), contacts=Contact(HAND, "surface"))
        readings = truth.readings(problem)
        self.readings = {
            s.name: readings[at] for s, at in zip(problem.sensors, problem.places, strict=True) if at
        }
        self.rig.serving()
        for publisher in (self.wrist, self.hand):
            self.rig.until(publisher.get_subscription_count, what="the sensors' topics")

    def send_wrist(self):
        message = WrenchStamped()
        t, f = message.wrench.torque, message.wrench.force
        t.x, t.y, t.z, f.x, f.y, f.z = map(float, self.readings["wrist"])
        self.wrist.publish(message)

    def send_hand(self):
        message = Imu()
        w, a = message.angular_velocity, message.linear_acceleration
        w.x, w.y, w.z, a.x, a.y, a.z = map(float, self.readings["hand"])
        self.hand.publish(message)

    def send_joints(self):
        effort = [float(self.readings[f"{name} torque"][0]) for name in JOINTS]
        return self.rig.send_state(JOINTS, self.q, self.qd, effort)


@pytest.fixture
def touched(tmp_path):
    made = TouchedPanda(tmp_path / "sensors.yaml")
    yield made
    made.rig.close()


def test_the_external_wrench_is_estimated(touched):
    def received_estimate():
        touched.send_wrist()
        touched.send_hand()
        touched.send_joints()
        touched.rig.spin(0.05)
        return touched.pushes

    touched.rig.until(received_estimate, what="an estimated wrench")
    message = touched.pushes[-1]
    t, f = message.wrench.torque, message.wrench.force
    assert message.header.frame_id == HAND
    assert error(np.array([t.x, t.y, t.z, f.x, f.y, f.z]), PUSH) < 1e-6
