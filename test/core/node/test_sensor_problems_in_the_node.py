"""Sensor problems in the node, with plain values: a Panda with torque sensors, a wrist sensor and an IMU,
pushed at its hand. Against Pinocchio."""

import re

import numpy as np
import pytest

pytest.importorskip("pinocchio", reason="the oracle: pip install pin")

from plain import serve, settings
from robots import ROBOTS
from sensor_truth import Truth
from tolerances import EXACT, error

from dynamics_node.node.building.build_job import Failure, do
from dynamics_node.node.errors import BadMessage, NoOutput
from dynamics_node.node.state.sensor_readings import IMU, WRENCH, SensorMessage, topics_of
from dynamics_node.robot import sensor_problem
from dynamics_node.robot.contacts import Contact
from dynamics_node.robot.sensors import load_sensors

HAND = "panda_link7"
PUSH = np.array([0.4, -0.3, 0.2, 5.0, -8.0, 12.0])
SENSORS = """
sensors:
  - {type: torque, joint: [panda_joint1, panda_joint2, panda_joint3, panda_joint4, panda_joint5, panda_joint6,
                           panda_joint7], std: 0.05}
  - {type: force_torque, name: wrist, joint: panda_joint7, std: [0.01, 0.01, 0.01, 0.1, 0.1, 0.1], frame: wrist_frame,
     measures: child_to_parent}
  - {type: imu, name: hand imu, link: panda_link7, xyz: [0.05, 0, 0.1], std: [1e-3, 1e-3, 1e-3, 0.01, 0.01, 0.01]}
  - {type: imu, name: elbow, link: panda_link4, std: [1e-3, 1e-3, 1e-3, 0.01, 0.01, 0.01]}
  - {type: imu, name: base, link: panda_link0, std: 0.1}
"""
CONTACTS = "contacts: [{link: panda_link7, kind: surface}]"
TIGHT = 1e-6  # readings are exact, but weighted


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("sensors") / "panda.yaml"
    path.write_text(SENSORS)
    path.with_suffix(".contacts").write_text(CONTACTS)
    return path


class TouchedPanda:
    """A Panda with sensor readings by Pinocchio."""

    def __init__(self, file, **values):
        contacts = {"contacts_file": str(file.with_suffix(".contacts"))}
        self.served = serve("panda7", problem="sensors", sensors_file=str(file), **contacts | values)
        model = self.served.core.model
        random = np.random.default_rng(4)
        q, self.qd, self.qdd = random.uniform(-1, 1, (3, model.nv))
        self.q = q + np.array([0, 0, 0, -1.5, 0, 1.5, 0])
        self.truth = Truth(
            ROBOTS["panda7"], model, self.q, self.qd, self.qdd, [(HAND, (0, 0, 0), (0, 0, 0), PUSH)]
        )
        hand = Contact(HAND, "surface")
        self.problem = sensor_problem(
            model, load_sensors(file)[:-1], contacts=hand
        )  # the last one measures gravity
        self.readings = self.truth.readings(self.problem)

    def of(self, name):
        places = dict(zip([s.name for s in self.problem.sensors], self.problem.places, strict=True))
        return self.readings[places[name]]

    def receive_joints(self, **given):
        names = self.served.core.joints.names
        effort = [float(self.of(f"{name} torque")[0]) for name in names]
        self.served.receive(names, self.q, self.qd, given.get("effort", effort))

    def receive(self, name, numbers=None, frame="", **orientation):
        core = self.served.core
        (topic,) = [t.name for t in core.topics.values() if name in [s.name for s in t.sensors]]
        numbers = self.of(name) if numbers is None else numbers
        core.receive_sensor(topic, SensorMessage(numbers, frame, None, self.served.now, **orientation))

    def receive_all(self):
        self.receive("wrist")
        self.receive("hand imu")
        self.receive("elbow")
        self.receive_joints()


@pytest.mark.parametrize("backend", ["auto", "numpy"])
def test_motion_and_external_wrench_are_estimated(file, backend):
    touched = TouchedPanda(file, backend=backend)
    touched.receive_all()
    result = touched.served.solve()
    assert error(result.qdd, touched.qdd) < TIGHT
    assert error(result.tau, [touched.of(f"{n} torque")[0] for n in touched.served.core.joints.names]) < TIGHT
    (estimate,) = result.wrenches
    assert estimate.link == HAND and error(estimate.wrench, PUSH) < TIGHT
    assert result.clamped == ()


def test_missing_sensors_are_named_with_unobservable_quantities(file):
    touched = TouchedPanda(file, sensor_timeout=0.1, joint_state_timeout=60.0)
    touched.receive_joints()
    with pytest.raises(NoOutput, match="yet.*wrist, hand imu, elbow"):
        touched.served.solve()
    touched.receive_all()
    touched.served.solve()
    touched.served.wait(150)
    touched.receive("hand imu")
    touched.receive("elbow")
    with pytest.raises(NoOutput, match=r"wrist.*older.*panda") as raised:
        touched.served.solve()
    assert raised.value.stale and "hand imu" not in str(raised.value)
    touched.receive("wrist")
    touched.served.solve()
    touched.receive_joints(effort=[np.nan] * 7)
    with pytest.raises(NoOutput, match="effort.*panda_joint1 torque"):
        touched.served.solve()


def test_a_stale_redundant_sensor_keeps_all_observable(file):
    touched = TouchedPanda(file, sensor_timeout=0.1, joint_state_timeout=60.0)
    touched.receive_all()
    touched.served.wait(150)
    touched.receive("wrist")
    touched.receive("hand imu")
    with pytest.raises(NoOutput, match="elbow.*older.* s$"):
        touched.served.solve()


def test_contradicting_sensors_give_no_output(file):
    touched = TouchedPanda(file)
    touched.receive_all()
    wrong = touched.of("hand imu").copy()
    wrong[0] += 0.5
    touched.receive("hand imu", wrong)
    with pytest.raises(NoOutput, match=r"contradict.*chi-square.*hand imu"):
        touched.served.solve()
    touched.receive("hand imu")
    touched.served.solve()


@pytest.mark.parametrize("numbers, frame, reason", [
    ([np.nan] + [0.0] * 5, "wrist_frame", "'wrist'.*finite"),
    (None, "other", "'wrist_frame'.*'other'"),
])  # fmt: skip
def test_invalid_messages_are_dropped(file, numbers, frame, reason):
    touched = TouchedPanda(file)
    touched.receive_all()
    before = touched.served.solve()
    with pytest.raises(BadMessage, match=reason):
        touched.receive("wrist", numbers, frame)
    with pytest.raises(BadMessage, match="'elbow': its frame is 'panda_link4', but the message has 'camera'"):
        touched.receive("elbow", frame="camera")
    assert error(touched.served.solve().tau, before.tau) == 0.0


def test_a_payload_changes_the_external_wrench(file):
    touched = TouchedPanda(file)
    touched.receive_all()
    before = touched.served.solve().wrenches[0].wrench
    touched.served.core.set_payload(HAND, 0.5, (0.0, 0.0, 0.1), np.zeros((3, 3)))
    after = touched.served.solve().wrenches[0].wrench
    assert error(after, before) > 0.05  # the same readings, another wrench


def test_one_sensor_can_have_several_uses(file):
    """The wrist sensor is part of the problem and compensated; the IMU at the root measures only gravity."""
    touched = TouchedPanda(file, wrench_sensor__name="wrist", gravity_sensor="base")
    touched.receive_all()
    touched.receive("base", (0.0,) * 6, orientation=(0.0, 0.0, 0.0, 1.0))
    result = touched.served.solve()
    assert error(result.qdd, touched.qdd) < TIGHT and error(result.wrenches[0].wrench, PUSH) < TIGHT
    core, served = touched.served.core, touched.served
    compensated_wrench = core.wrench_sensor.compensated(core, lambda: served.ros, served.now).numbers
    zero = np.zeros(core.model.nv)
    assert (
        error(
            touched.of("wrist") - compensated_wrench, -core.robot.sensor_wrench(touched.q, touched.qd, zero)
        )
        <= EXACT
    )


def test_sensors_have_default_topics(file):
    problem = TouchedPanda(file).problem
    assert [(t.name, t.message) for t in topics_of(problem.sensors).values()] == [
        ("~/sensors/wrist", WRENCH), ("~/sensors/hand_imu", IMU), ("~/sensors/elbow", IMU)
    ]  # fmt: skip


@pytest.mark.parametrize("text, reason", [
    (SENSORS.replace("name: hand imu", "name: 'hand imu!'"), "'hand imu!': .* is not a valid topic name"),
    (SENSORS.replace("name: hand imu", "name: hand imu, topic: /imu").replace("frame: wrist_frame", "topic: /imu"),
     "topic '/imu' has type WrenchStamped for 'wrist'"),
    (SENSORS + "  - {type: acceleration, joint: panda_joint1, std: 1.0}\n", "no message type contains acceleration"),
    (SENSORS.replace("type: force_torque", "type: force"), "line 5"),
    (SENSORS.replace("panda_joint7, std: [", "panda_joint9, std: ["), "joint 'panda_joint9'"),
    ("sensors:\n  - {type: torque, joint: panda_joint1, std: 1}\n", "not observable"),
])  # fmt: skip
def test_invalid_sensors_are_rejected(tmp_path, text, reason):
    path = tmp_path / "sensors.yaml"
    path.write_text(text)
    chosen = settings(problem="sensors", sensors_file=str(path), backend="numpy")
    result = do(chosen.job(ROBOTS["panda7"].file.read_text()))
    assert isinstance(result, Failure)
    assert re.search(reason, result.reason), result.reason


def test_inconsistent_settings_are_rejected():
    with pytest.raises(ValueError, match="sensors_file"):
        settings(problem="sensors")
    with pytest.raises(ValueError, match="state_source"):
        settings(problem="sensors", sensors_file="x.yaml", state_source="reference")
