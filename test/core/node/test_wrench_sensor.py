"""A force/torque sensor with plain values: tool compensation and calibration. Against Pinocchio."""

import numpy as np
import pytest
from plain import point, serve, settings
from robots import ROBOTS
from sensed import JointWrench, pin
from tolerances import error

pytest.importorskip("dynamics_interfaces", reason="build dynamics_interfaces first, or use ./dev")

from dynamics_interfaces.srv import CalibrateWrenchSensor

from dynamics_node.node.building.build_job import do
from dynamics_node.node.core.consistency import check_against
from dynamics_node.node.errors import BadMessage, NoOutput
from dynamics_node.node.services.services import calibrate_wrench_sensor
from dynamics_node.node.state.sensor_readings import SensorMessage

JOINT, LINK, FRAME = "panda_hand_joint", "panda_hand", "panda_link8"
PUSH = np.array(
    [0.5, -0.3, 0.2, 3.0, 10.0, -7.0]
)  # moment first, ON the tool, at the sensor's frame in its axes
BIAS = np.array([0.1, 0.2, -0.1, 5.0, -4.0, 2.0])
TURN = pin.rpy.rpyToMatrix(0.0, 0.0, np.pi / 4)  # of link 8 in the hand's axes, which lie at one point
SENSORS = """
sensors:
  - {{type: force_torque, name: wrist, joint: panda_hand_joint, rpy: [0, 0, 0.7853981633974483], measures: {measures},
     std: 0.1, frame: panda_link8}}
  - {{type: force_torque, name: other, joint: panda_joint7, measures: parent_to_child, std: 0.1}}
  - {{type: imu, name: hand, link: panda_hand, std: 0.1}}
"""


def in_frame(wrench):
    """From the axes of the hand to those of link 8."""
    return np.concatenate([TURN.T @ wrench[:3], TURN.T @ wrench[3:]])


@pytest.fixture
def oracle(panda):
    return JointWrench(ROBOTS["panda7"], panda.model, JOINT)


@pytest.fixture(scope="module", params=["child_to_parent"])
def file(request, tmp_path_factory):
    """A file with a sensor in the axes of link 8."""
    path = tmp_path_factory.mktemp("sensors") / "sensors.yaml"
    path.write_text(SENSORS.format(measures=request.param))
    return path


def serve_sensor(panda, file, **values):
    values = {"wrench_sensor__name": "wrist", "joint_state_timeout": 60.0, **values}
    served = serve("panda7", sensors_file=str(file), **values)
    served.receive(panda.names, panda.q, panda.qd)
    return served


def read(served, wrench, frame=FRAME):
    served.core.receive_sensor("~/sensors/wrist", SensorMessage(wrench, frame, "stamp", served.now))


def compensated(served):
    reading = served.core.wrench_sensor.compensated(served.core, lambda: served.ros, served.now)
    return None if reading is None else reading.numbers


def reason(served):
    assert compensated(served) is None
    return served.core.wrench_sensor.reason


@pytest.mark.parametrize("backend", ["c", "numpy"])
@pytest.mark.parametrize(
    "file, sign", [("child_to_parent", -1.0), ("parent_to_child", 1.0)], indirect=["file"]
)
def test_an_external_wrench_remains_after_compensation(panda, oracle, file, backend, sign):
    """The reading is the wrench on the tool without the external wrench, with either sign."""
    bias = BIAS[[3, 4, 5, 0, 1, 2]].tolist()
    served = serve_sensor(panda, file, backend=backend, wrench_sensor__bias=bias)
    parent_on_child = in_frame(oracle(panda.q, panda.qd, 0 * panda.q)) - PUSH
    read(served, sign * parent_on_child + BIAS)
    assert error(compensated(served), -sign * PUSH) <= 1e-9
    assert compensated(served) is None and served.core.wrench_sensor.reason == "", (
        "a reading is returned once"
    )


def test_the_message_keeps_its_stamp_and_frame(panda, file):
    served = serve_sensor(panda, file)
    read(served, np.zeros(6), "")
    reading = served.core.wrench_sensor.compensated(served.core, lambda: served.ros, served.now)
    assert (reading.frame, reading.stamp) == (FRAME, "stamp")


def test_accelerations_of_the_reference_are_optional(panda, file, oracle):
    qdd = np.linspace(-3, 3, 7)
    expected = in_frame(oracle(panda.q, panda.qd, qdd))
    for chosen in ("reference", "zero"):
        served = serve_sensor(panda, file, wrench_sensor__acceleration=chosen)
        served.refer(panda.names, point(qdd=qdd))
        read(served, -expected)
        assert (np.abs(compensated(served)).max() <= 1e-9) == (chosen == "reference")


def test_a_payload_is_compensated_until_removed(panda, file, oracle):
    served = serve_sensor(panda, file)
    served.core.set_payload(LINK, 2.0, (0.0, 0.0, 0.1), np.diag([0.01, 0.01, 0.01]))
    oracle.pin.inertias[oracle.pin.getJointId(JOINT)] += pin.Inertia(
        2.0, np.array([0, 0, 0.1]), 0.01 * np.eye(3)
    )
    read(served, -in_frame(oracle(panda.q, panda.qd, 0 * panda.q)))
    assert np.abs(compensated(served)).max() <= 1e-9
    served.core.set_payload(LINK, 0, (), ())
    read(served, np.zeros(6))
    assert np.linalg.norm(compensated(served)) > 5


def test_missing_input_gives_a_reason(panda, file):
    served = serve_sensor(panda, file, joint_state_timeout=0.2, sensor_timeout=0.1)
    sensor = served.core.wrench_sensor
    assert sensor.status(served.now) == "no reading yet"
    read(served, PUSH)
    assert "the reading is older than 0.1 s" in reason(served.wait(101))
    served.wait(150)
    read(served, PUSH)
    joints = ", ".join(f"panda_joint{k}" for k in range(1, 7))
    assert reason(served) == f"joint states older than 0.2 s: {joints} and 1 more"
    assert sensor.status(served.now).startswith("no output: joint states older")
    served.receive(panda.names, panda.q)
    read(served, PUSH)
    assert "no velocity in joint_states" in reason(served)
    served.receive(panda.names, panda.q, panda.qd)
    read(served, PUSH)
    assert compensated(served) is not None and sensor.status(served.now) == f"compensated at {JOINT}"
    assert sensor.status(served.wait(5000).now) == "no reading for 5.0 s"
    served.receive(panda.names, panda.q, np.full(7, 1e200))
    read(served, PUSH)
    assert compensated(served) is None, "the tool wrench overflows at these rates"


@pytest.mark.parametrize(
    "frame, wrench, expected",
    [
        ("camera", PUSH, "'wrist'.*'panda_link8'.*'camera'"),
        (LINK, PUSH, "message.*'panda_hand'"),
        (FRAME, np.array([0, 0, np.nan, 0, 0, 0]), "finite"),
    ],
)
def test_a_bad_reading_is_dropped(panda, file, frame, wrench, expected):
    served = serve_sensor(panda, file)
    with pytest.raises(BadMessage, match=expected):
        read(served, wrench, frame)
    assert compensated(served) is None


# --- calibration --------------------------------------------------------------------------------------------

MASS, COM = 1.2, np.array([0.01, -0.02, 0.08])  # in the hand's axes


def collect_pose(served, panda, oracle, q, noise=0.0, random=None, count=20):
    """Receive half a second of readings in a pose, and collect it."""
    receive_at_rest(served, panda, oracle, q, noise, random, count)
    served.core.wrench_sensor.collect(served.core, served.now)


def receive_at_rest(served, panda, oracle, q, noise=0.0, random=None, count=20):
    wrench = -in_frame(oracle(q, 0 * q, 0 * q)) + BIAS
    served.wait(600).receive(panda.names, q, 0 * q)
    for _ in range(count):
        read(served.wait(20), wrench + (0 if random is None else noise * random.normal(size=6)))


@pytest.fixture
def heavier(oracle):
    oracle.pin.inertias[oracle.pin.getJointId(JOINT)] = pin.Inertia(MASS, COM, 0.002 * np.eye(3))
    return oracle


class Calibration:
    """The service with plain values."""

    def __init__(self, served):
        self.served = served

    def __call__(self, command):
        answer = CalibrateWrenchSensor.Response()
        request = CalibrateWrenchSensor.Request(command=command)
        return calibrate_wrench_sensor(self._set, self.served.core, request, answer), answer

    def _set(self, values):
        self.served.use(**{name.replace(".", "__"): value for name, value in values.items()})
        return ""


def test_a_tare_compensates_the_reading_to_zero(panda, file, oracle, monkeypatch):
    """A tare uses the current pose and tool; collected poses are kept."""
    served = serve_sensor(panda, file)
    monkeypatch.setattr("dynamics_node.node.services.services.monotonic_ns", lambda: served.now)
    calibrate = Calibration(served)
    with pytest.raises(BadMessage, match="0 readings"):
        calibrate("tare")
    collect_pose(served, panda, oracle, poses(2)[0])
    q = poses(2)[1]
    receive_at_rest(served, panda, oracle, q)
    message, answer = calibrate("tare")
    assert message == "tared" and answer.poses == 1
    assert (answer.bias.force.x, answer.bias.torque.z) == pytest.approx((5.0, -0.1))
    read(served, -in_frame(oracle(q, 0 * q, 0 * q)) + BIAS)
    assert np.abs(compensated(served)).max() < 1e-9
    read(served, -in_frame(oracle(q, 0 * q, 0 * q)) + BIAS + PUSH)
    assert error(compensated(served), PUSH) <= 1e-9


def poses(count=8, seed=1):
    return np.random.default_rng(seed).uniform(-1.2, 1.2, (count, 7))


def test_bias_and_tool_are_identified_from_poses(panda, file, heavier):
    served, random = serve_sensor(panda, file), np.random.default_rng(2)
    for q in poses():
        collect_pose(served, panda, heavier, q, 0.05, random)
    tool, bias, std = served.core.wrench_sensor.identified(served.core)
    assert abs(tool.mass - MASS) < 0.01 and np.abs(tool.com - TURN.T @ COM).max() < 3e-3
    assert np.abs(bias - BIAS).max() < 0.1 and (std > 0).all() and (std < 0.1).all()


def test_the_identified_tool_is_compensated_and_part_of_the_robot(panda, file, heavier):
    """The result becomes parameters, which torques use, too."""
    served = serve_sensor(panda, file)
    for q in poses():
        collect_pose(served, panda, heavier, q)
    tool, bias, _ = served.core.wrench_sensor.identified(served.core)
    attached = {"wrench_sensor__tool_mass": tool.mass, "wrench_sensor__tool_com": tool.com.tolist()}
    served.use(wrench_sensor__bias=bias[[3, 4, 5, 0, 1, 2]].tolist(), **attached)
    q = poses(1, 5)[0]
    served.receive(panda.names, q, 0 * q)
    read(served, -in_frame(heavier(q, 0 * q, 0 * q)) + BIAS + PUSH)
    assert np.abs(compensated(served) - PUSH).max() < 1e-8
    zero = np.zeros(heavier.pin.nv)
    whole = pin.neutral(heavier.pin)
    order = [heavier.pin.joints[heavier.pin.getJointId(name)].idx_v for name in panda.names]
    whole[order] = q
    expected = pin.rnea(heavier.pin, heavier.data, whole, zero, zero)[order]
    assert error(served.tau(panda.names), expected) <= 1e-8
    served.use(wrench_sensor__tool_mass=0.0, wrench_sensor__tool_com=[])
    assert error(served.tau(panda.names), expected) > 1e-3, "as described again"


def test_one_pose_determines_the_bias(panda, file, oracle):
    served = serve_sensor(panda, file)
    collect_pose(served, panda, oracle, poses(1)[0])
    tool, bias, std = served.core.wrench_sensor.identified(served.core, bias_only=True)
    assert error(bias, BIAS) <= 1e-9 and tool.mass == pytest.approx(0.76) and not np.isnan(std).any()


def test_invalid_poses_are_rejected(panda, file, oracle):
    served = serve_sensor(panda, file)
    sensor, q = served.core.wrench_sensor, poses(1)[0]
    with pytest.raises(BadMessage, match="0 readings.*10"):
        sensor.collect(served.core, served.now)
    with pytest.raises(BadMessage, match="no pose"):
        sensor.identified(served.core)
    for k in range(20):
        served.receive(panda.names, q + 0.001 * k, 0 * q)
        read(served.wait(10), PUSH)
    with pytest.raises(BadMessage, match="moved.*0.019"):
        sensor.collect(served.core, served.now)
    with pytest.raises(NoOutput, match="older"):
        sensor.collect(served.core, served.wait(60_001).now)
    collect_pose(served, panda, oracle, q)
    with pytest.raises(ValueError, match="1 poses.* 6 "):
        sensor.identified(served.core)
    served.core.set_payload(LINK, 2.0, (0.0, 0.0, 0.1), np.diag([0.01, 0.01, 0.01]))
    with pytest.raises(BadMessage, match="payload.*'panda_hand'"):
        sensor.identified(served.core)


def test_poses_are_kept_until_the_sensor_changes(panda, file, oracle):
    served = serve_sensor(panda, file)
    collect_pose(served, panda, oracle, poses(1)[0])
    served.core.replace(served.core.unloaded, served.core.settings)
    served.core.forget()
    assert len(served.core.wrench_sensor.poses) == 1
    served.use(wrench_sensor__name="other")  # the robot is not built yet
    assert not served.core.wrench_sensor.poses and served.core.wrench_sensor.status(0) == "off"


# --- parameters ---------------------------------------------------------------------------------------------


NAMED = {"wrench_sensor__name": "a", "sensors_file": "sensors.yaml"}


@pytest.mark.parametrize(
    "values, expected",
    [
        ({**NAMED, "wrench_sensor__bias": [1.0]}, "wrench_sensor.bias.* 6 .*1"),
        ({**NAMED, "wrench_sensor__tool_mass": 1.0}, "tool_mass.*requires.*tool_com"),
        ({**NAMED, "wrench_sensor__tool_com": [0.0] * 3}, "positive.*wrench_sensor.tool_mass"),
        ({"wrench_sensor__bias": [0.0] * 6}, "wrench_sensor.name.*empty"),
        ({"wrench_sensor__name": "a"}, "wrench_sensor.name.*sensors_file"),
    ],
)
def test_contradicting_parameters_are_rejected(values, expected):
    with pytest.raises(ValueError, match=expected):
        settings(**values)


@pytest.mark.parametrize(
    "values, expected",
    [
        (
            {"wrench_sensor__name": "elbow"},
            "wrench_sensor.name: sensors_file has no sensor 'elbow'; it has wrist",
        ),
        ({"wrench_sensor__name": "hand"}, "wrench_sensor.name: sensor 'hand' has type imu, not force_torque"),
        ({"gravity_sensor": "wrist"}, "gravity_sensor: sensor 'wrist' has type force_torque, not imu"),
        ({"gravity_sensor": "hand"}, "gravity_sensor: link 'panda_hand' of 'hand' is not fixed to the root"),
    ],
)
def test_invalid_sensor_names_are_rejected(panda, file, values, expected):
    served = serve_sensor(panda, file)
    with pytest.raises(ValueError, match=expected):
        check_against(settings(sensors_file=str(file), **values), served.core.unloaded)


@pytest.mark.parametrize(
    "entry, expected",
    [
        (
            "type: force_torque, joint: elbow, measures: child_to_parent",
            "'s': unknown joint 'elbow'; the robot has: ",
        ),
        ("type: imu, link: elbow", "sensor 's': unknown link 'elbow'"),
        (
            "type: imu, link: panda_hand}\n  - {name: s, std: 1, type: gyro, link: panda_hand",
            "sensor 's' twice",
        ),
    ],
)
def test_sensors_with_unknown_links_are_rejected(tmp_path, entry, expected):
    (tmp_path / "sensors.yaml").write_text(f"sensors:\n  - {{name: s, std: 1, {entry}}}")
    chosen = settings(sensors_file=str(tmp_path / "sensors.yaml"), backend="numpy")
    assert expected in do(chosen.job(ROBOTS["panda7"].file.read_text())).reason
