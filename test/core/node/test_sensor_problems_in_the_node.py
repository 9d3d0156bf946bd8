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
  - {type: wrench, name: push, link: panda_link7, rows: unknown}
  - {type: imu, name: base, link: panda_link0, std: 0.1}
"""
TIGHT = 1e-6  # readings are exact, but weighed


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("sensors") / "panda.yaml"
    path.write_text(SENSORS)
    return path


class Touched:
    """A Panda whose sensors read what Pinocchio says."""

    def __init__(self, file, **values):
        self.served = serve("panda7", problem="sensors", sensors_file=str(file), **values)
        model = self.served.core.model
        random = np.random.default_rng(4)
        q, self.qd, self.qdd = random.uniform(-1, 1, (3, model.nv))
        self.q = q + np.array([0, 0, 0, -1.5, 0, 1.5, 0])
        self.truth = Truth(
            ROBOTS["panda7"], model, self.q, self.qd, self.qdd, [(HAND, (0, 0, 0), (0, 0, 0), PUSH)]
        )
        self.problem = sensor_problem(model, load_sensors(file)[:-1])  # the last one shows gravity
        self.readings = self.truth.readings(self.problem)

    def of(self, name):
        places = dict(zip([s.name for s in self.problem.sensors], self.problem.places, strict=True))
        return self.readings[places[name]]

    def hear_joints(self, **given):
        names = self.served.core.joints.names
        effort = [float(self.of(f"{name} torque")[0]) for name in names]
        self.served.hear(names, self.q, self.qd, given.get("effort", effort))

    def hear(self, name, numbers=None, frame="", **orientation):
        core = self.served.core
        (topic,) = [t.name for t in core.topics.values() if name in [s.name for s in t.sensors]]
        numbers = self.of(name) if numbers is None else numbers
        core.hear_sensor(topic, SensorMessage(numbers, frame, None, self.served.now, **orientation))

    def hear_all(self):
        self.hear("wrist")
        self.hear("hand imu")
        self.hear("elbow")
        self.hear_joints()


@pytest.mark.parametrize("backend", ["auto", "numpy"])
def test_the_motion_and_the_push_are_what_they_are(file, backend):
    touched = Touched(file, backend=backend)
    touched.hear_all()
    result = touched.served.solve()
    assert error(result.qdd, touched.qdd) < TIGHT
    assert error(result.tau, [touched.of(f"{n} torque")[0] for n in touched.served.core.joints.names]) < TIGHT
    (found,) = result.wrenches
    assert found.link == HAND and error(found.wrench, PUSH) < TIGHT
    assert result.clamped == ()


def test_what_is_silent_is_named_and_what_is_open_without_it(file):
    touched = Touched(file, sensor_timeout=0.1, joint_state_timeout=60.0)
    touched.hear_joints()
    with pytest.raises(NoOutput, match="yet.*wrist, hand imu, elbow"):
        touched.served.solve()
    touched.hear_all()
    touched.served.solve()
    touched.served.wait(150)
    touched.hear("hand imu")
    touched.hear("elbow")
    with pytest.raises(NoOutput, match=r"wrist.*older.*panda") as told:
        touched.served.solve()
    assert told.value.stale and "hand imu" not in str(told.value)
    touched.hear("wrist")
    touched.served.solve()
    touched.hear_joints(effort=[np.nan] * 7)
    with pytest.raises(NoOutput, match="effort.*panda_joint1 torque"):
        touched.served.solve()


def test_a_redundant_sensor_leaves_nothing_open(file):
    touched = Touched(file, sensor_timeout=0.1, joint_state_timeout=60.0)
    touched.hear_all()
    touched.served.wait(150)
    touched.hear("wrist")
    touched.hear("hand imu")
    with pytest.raises(NoOutput, match="elbow.*older.* s$"):
        touched.served.solve()


def test_sensors_that_contradict_each_other_publish_nothing(file):
    touched = Touched(file)
    touched.hear_all()
    wrong = touched.of("hand imu").copy()
    wrong[0] += 0.5
    touched.hear("hand imu", wrong)
    with pytest.raises(NoOutput, match=r"contradict.*chi-square.*hand imu"):
        touched.served.solve()
    touched.hear("hand imu")
    touched.served.solve()


@pytest.mark.parametrize("numbers, frame, reason", [
    ([np.nan] + [0.0] * 5, "wrist_frame", "'wrist'.*finite"),
    (None, "other", "'wrist_frame'.*'other'"),
])  # fmt: skip
def test_messages_that_are_dropped(file, numbers, frame, reason):
    touched = Touched(file)
    touched.hear_all()
    before = touched.served.solve()
    with pytest.raises(BadMessage, match=reason):
        touched.hear("wrist", numbers, frame)
    with pytest.raises(BadMessage, match="'elbow': its frame is 'panda_link4', but the message has 'camera'"):
        touched.hear("elbow", frame="camera")
    assert error(touched.served.solve().tau, before.tau) == 0.0


def test_a_payload_is_part_of_the_robot(file):
    touched = Touched(file)
    touched.hear_all()
    before = touched.served.solve().wrenches[0].wrench
    touched.served.core.set_payload(HAND, 0.5, (0.0, 0.0, 0.1), np.zeros((3, 3)))
    after = touched.served.solve().wrenches[0].wrench
    assert error(after, before) > 0.05  # the same readings: another push


def test_one_sensor_serves_all_that_name_it(file):
    """The wrist sensor is one of the problem's, and compensated; the IMU at the root shows gravity alone."""
    touched = Touched(file, wrench_sensor__name="wrist", gravity_sensor="base")
    touched.hear_all()
    touched.hear("base", (0.0,) * 6, orientation=(0.0, 0.0, 0.0, 1.0))
    result = touched.served.solve()
    assert error(result.qdd, touched.qdd) < TIGHT and error(result.wrenches[0].wrench, PUSH) < TIGHT
    core, served = touched.served.core, touched.served
    left = core.wrench_sensor.compensated(core, lambda: served.ros, served.now).numbers
    zero = np.zeros(core.model.nv)
    assert error(touched.of("wrist") - left, -core.robot.carried(touched.q, touched.qd, zero)) <= EXACT


def test_topics(file):
    problem = Touched(file).problem
    assert [(t.name, t.message) for t in topics_of(problem.sensors).values()] == [
        ("~/sensors/wrist", WRENCH), ("~/sensors/hand_imu", IMU), ("~/sensors/elbow", IMU)
    ]  # fmt: skip


@pytest.mark.parametrize("text, reason", [
    (SENSORS.replace("name: hand imu", "name: 'hand imu!'"), "'hand imu!': .* is no name of a topic"),
    (SENSORS.replace("name: hand imu", "name: hand imu, topic: /imu").replace("frame: wrist_frame", "topic: /imu"),
     "topic '/imu' carries WrenchStamped for 'wrist' already"),
    (SENSORS + "  - {type: acceleration, joint: panda_joint1, std: 1.0}\n", "no message carries acceleration"),
    (SENSORS.replace("type: force_torque", "type: force"), "line 5"),
    (SENSORS.replace("panda_joint7, std: [", "panda_joint9, std: ["), "joint 'panda_joint9'"),
    ("sensors:\n  - {type: torque, joint: panda_joint1, std: 1}\n", "not observable"),
])  # fmt: skip
def test_sensors_that_are_refused(tmp_path, text, reason):
    path = tmp_path / "sensors.yaml"
    path.write_text(text)
    chosen = settings(problem="sensors", sensors_file=str(path), backend="numpy")
    found = do(chosen.job(ROBOTS["panda7"].file.read_text()))
    assert isinstance(found, Failure)
    assert re.search(reason, found.reason), found.reason


def test_what_does_not_go_together():
    with pytest.raises(ValueError, match="sensors_file"):
        settings(problem="sensors")
    with pytest.raises(ValueError, match="state_source"):
        settings(problem="sensors", sensors_file="x.yaml", state_source="reference")
