"""A force/torque sensor with plain values: what is left of its readings, and its calibration. Against Pinocchio."""

import numpy as np
import pytest
from plain import point, serve, settings
from robots import ROBOTS
from sensed import JointWrench, pin
from tolerances import error

pytest.importorskip("dynamics_interfaces", reason="build dynamics_interfaces first, or use ./dev")

from dynamics_interfaces.srv import CalibrateWrenchSensor

from dynamics_node.node.core.consistency import check_against
from dynamics_node.node.core.errors import BadMessage, NoOutput
from dynamics_node.node.services.services import calibrate_wrench_sensor

JOINT, LINK, FRAME = "panda_hand_joint", "panda_hand", "panda_link8"
PUSH = np.array(
    [0.5, -0.3, 0.2, 3.0, 10.0, -7.0]
)  # moment first, ON the tool, at the sensor's frame in its axes
BIAS = np.array([0.1, 0.2, -0.1, 5.0, -4.0, 2.0])
TURN = pin.rpy.rpyToMatrix(0.0, 0.0, np.pi / 4)  # of link 8 in the hand's axes, which lie at one point


def in_frame(wrench):
    """From the axes of the hand to those of link 8."""
    return np.concatenate([TURN.T @ wrench[:3], TURN.T @ wrench[3:]])


@pytest.fixture
def oracle(panda):
    return JointWrench(ROBOTS["panda7"], panda.model, JOINT)


def serving(panda, **values):
    values = {"wrench_sensor__joint": JOINT, "joint_state_timeout": 60.0, **values}
    served = serve("panda7", **values)
    served.hear(panda.names, panda.q, panda.qd)
    return served


def read(served, wrench, frame=FRAME):
    served.core.wrench_sensor.read(frame, wrench, "stamp", served.now, served.core.joints.position)


def left(served):
    found = served.core.wrench_sensor.compensated(served.core, lambda: served.ros, served.now)
    return None if found is None else found.wrench


def reason(served):
    assert left(served) is None
    return served.core.wrench_sensor.reason


@pytest.mark.parametrize("backend", ["c", "numpy"])
@pytest.mark.parametrize("measures, sign", [("child_to_parent", -1.0), ("parent_to_child", 1.0)])
def test_a_push_on_the_tool_is_left(panda, oracle, backend, measures, sign):
    """The sensor holds the tool, less what somebody else does; by default it tells the push itself."""
    bias = BIAS[[3, 4, 5, 0, 1, 2]].tolist()
    served = serving(panda, backend=backend, wrench_sensor__measures=measures, wrench_sensor__bias=bias)
    parent_on_child = in_frame(oracle(panda.q, panda.qd, 0 * panda.q)) - PUSH
    read(served, sign * parent_on_child + BIAS)
    assert error(left(served), -sign * PUSH) <= 1e-9
    assert left(served) is None and served.core.wrench_sensor.reason == "", "a reading is answered once"


def test_the_message_keeps_its_stamp_and_frame(panda):
    served = serving(panda)
    read(served, np.zeros(6), "")
    reading = served.core.wrench_sensor.compensated(served.core, lambda: served.ros, served.now)
    assert (reading.frame, reading.stamp) == (LINK, "stamp")


def test_accelerations_of_the_reference_count_when_asked_for(panda, oracle):
    qdd = np.linspace(-3, 3, 7)
    expected = in_frame(oracle(panda.q, panda.qd, qdd))
    for chosen in ("reference", "zero"):
        served = serving(panda, wrench_sensor__acceleration=chosen)
        served.refer(panda.names, point(qdd=qdd))
        read(served, -expected)
        assert (np.abs(left(served)).max() <= 1e-9) == (chosen == "reference")


def test_a_payload_comes_and_goes(panda, oracle):
    served = serving(panda)
    served.core.set_payload(LINK, 2.0, (0.0, 0.0, 0.1), np.diag([0.01, 0.01, 0.01]))
    oracle.pin.inertias[oracle.pin.getJointId(JOINT)] += pin.Inertia(
        2.0, np.array([0, 0, 0.1]), 0.01 * np.eye(3)
    )
    read(served, -in_frame(oracle(panda.q, panda.qd, 0 * panda.q)))
    assert np.abs(left(served)).max() <= 1e-9
    served.core.set_payload(LINK, 0, (), ())
    read(served, np.zeros(6))
    assert np.linalg.norm(left(served)) > 5


def test_why_nothing_is_told(panda):
    served = serving(panda, joint_state_timeout=0.2, wrench_sensor__timeout=0.1)
    sensor = served.core.wrench_sensor
    assert sensor.status(served.now) == "no reading yet"
    read(served, PUSH)
    assert "had waited for more than 0.1 s" in reason(served.wait(101))
    served.wait(150)
    read(served, PUSH)
    assert (
        reason(served)
        == "joint states older than 0.2 s: "
        + "panda_joint1, panda_joint2, panda_joint3, panda_joint4, panda_joint5, panda_joint6 and 1 more"
    )
    assert sensor.status(served.now).startswith("silent: joint states older")
    served.hear(panda.names, panda.q)
    read(served, PUSH)
    assert "no velocity in joint_states" in reason(served)
    served.hear(panda.names, panda.q, panda.qd)
    read(served, PUSH)
    assert left(served) is not None and sensor.status(served.now) == f"compensated at {JOINT}"
    assert sensor.status(served.wait(5000).now) == "no reading for 5.0 s"
    read(served, np.full(6, 1e308))
    served.core.wrench_sensor._bias = np.full(6, -1e308)
    assert left(served) is None


@pytest.mark.parametrize(
    "frame, wrench, words",
    [
        ("camera", PUSH, "frame_id 'camera' is no link of the robot"),
        ("panda_link5", PUSH, "frame_id 'panda_link5' moves against 'panda_hand', where the sensor is"),
        (FRAME, np.array([0, 0, np.nan, 0, 0, 0]), "a reading is not finite"),
    ],
)
def test_a_bad_reading_is_dropped(panda, frame, wrench, words):
    served = serving(panda)
    with pytest.raises(BadMessage, match=words):
        read(served, wrench, frame)
    assert left(served) is None


# --- calibration --------------------------------------------------------------------------------------------

MASS, COM = 1.2, np.array([0.01, -0.02, 0.08])  # in the hand's axes


def at_rest(served, panda, oracle, q, noise=0.0, random=None, count=20):
    """Half a second of readings in a pose, which is then collected."""
    rest(served, panda, oracle, q, noise, random, count)
    served.core.wrench_sensor.collect(served.core, served.now)


def rest(served, panda, oracle, q, noise=0.0, random=None, count=20):
    wrench = -in_frame(oracle(q, 0 * q, 0 * q)) + BIAS
    served.wait(600).hear(panda.names, q, 0 * q)
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


def test_a_tare_leaves_nothing_of_the_reading(panda, oracle, monkeypatch):
    """Of the pose at hand, with the tool as it is; poses that are collected stay."""
    served = serving(panda)
    monkeypatch.setattr("dynamics_node.node.services.services.monotonic_ns", lambda: served.now)
    calibrate = Calibration(served)
    with pytest.raises(BadMessage, match="0 readings"):
        calibrate("tare")
    at_rest(served, panda, oracle, poses(2)[0])
    q = poses(2)[1]
    rest(served, panda, oracle, q)
    words, answer = calibrate("tare")
    assert words == "tared" and answer.poses == 1
    assert (answer.bias.force.x, answer.bias.torque.z) == pytest.approx((5.0, -0.1))
    read(served, -in_frame(oracle(q, 0 * q, 0 * q)) + BIAS)
    assert np.abs(left(served)).max() < 1e-9
    read(served, -in_frame(oracle(q, 0 * q, 0 * q)) + BIAS + PUSH)
    assert error(left(served), PUSH) <= 1e-9


def poses(count=8, seed=1):
    return np.random.default_rng(seed).uniform(-1.2, 1.2, (count, 7))


def test_bias_and_tool_by_poses(panda, heavier):
    served, random = serving(panda), np.random.default_rng(2)
    for q in poses():
        at_rest(served, panda, heavier, q, 0.05, random)
    tool, bias, std = served.core.wrench_sensor.identified(served.core)
    assert abs(tool.mass - MASS) < 0.01 and np.abs(tool.com - COM).max() < 3e-3
    assert np.abs(bias - BIAS).max() < 0.1 and (std > 0).all() and (std < 0.1).all()


def test_what_was_found_is_taken_off_and_carried(panda, heavier):
    """As parameters, which also the torques follow."""
    served = serving(panda)
    for q in poses():
        at_rest(served, panda, heavier, q)
    tool, bias, _ = served.core.wrench_sensor.identified(served.core)
    served.use(
        wrench_sensor__bias=bias[[3, 4, 5, 0, 1, 2]].tolist(),
        wrench_sensor__tool_mass=tool.mass,
        wrench_sensor__tool_com=tool.com.tolist(),
    )
    q = poses(1, 5)[0]
    served.hear(panda.names, q, 0 * q)
    read(served, -in_frame(heavier(q, 0 * q, 0 * q)) + BIAS + PUSH)
    assert np.abs(left(served) - PUSH).max() < 1e-8
    zero = np.zeros(heavier.pin.nv)
    whole = pin.neutral(heavier.pin)
    order = [heavier.pin.joints[heavier.pin.getJointId(name)].idx_v for name in panda.names]
    whole[order] = q
    expected = pin.rnea(heavier.pin, heavier.data, whole, zero, zero)[order]
    assert error(served.tau(panda.names), expected) <= 1e-8
    served.use(wrench_sensor__tool_mass=0.0, wrench_sensor__tool_com=[])
    assert error(served.tau(panda.names), expected) > 1e-3, "as described again"


def test_the_bias_alone_of_one_pose(panda, oracle):
    served = serving(panda)
    at_rest(served, panda, oracle, poses(1)[0])
    tool, bias, std = served.core.wrench_sensor.identified(served.core, bias_only=True)
    assert error(bias, BIAS) <= 1e-9 and tool.mass == pytest.approx(0.76) and not np.isnan(std).any()


def test_what_is_no_pose(panda, oracle):
    served = serving(panda)
    sensor, q = served.core.wrench_sensor, poses(1)[0]
    with pytest.raises(BadMessage, match="0 readings in 0.5 s, 10 are wanted"):
        sensor.collect(served.core, served.now)
    with pytest.raises(BadMessage, match="no pose is collected yet"):
        sensor.identified(served.core)
    for k in range(20):
        served.hear(panda.names, q + 0.001 * k, 0 * q)
        read(served.wait(10), PUSH)
    with pytest.raises(BadMessage, match="a joint has moved by 0.019 in 0.5 s: wait until it rests"):
        sensor.collect(served.core, served.now)
    with pytest.raises(NoOutput, match="joint states older"):
        sensor.collect(served.core, served.wait(60_001).now)
    at_rest(served, panda, oracle, q)
    with pytest.raises(ValueError, match="1 poses; at least 6 are wanted"):
        sensor.identified(served.core)
    served.core.set_payload(LINK, 2.0, (0.0, 0.0, 0.1), np.diag([0.01, 0.01, 0.01]))
    with pytest.raises(BadMessage, match="payload on 'panda_hand' would count with the tool"):
        sensor.identified(served.core)


def test_poses_stay_until_the_sensor_is_another_one(panda, oracle):
    served = serving(panda)
    at_rest(served, panda, oracle, poses(1)[0])
    served.core.replace(served.core.unloaded, served.core.settings)
    served.core.forget()
    assert len(served.core.wrench_sensor.poses) == 1
    served.use(wrench_sensor__joint="")
    assert not served.core.wrench_sensor.poses and served.core.wrench_sensor.status(0) == "off"


# --- parameters ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "values, words",
    [
        (
            {"wrench_sensor__joint": "a", "wrench_sensor__bias": [1.0]},
            "wrench_sensor.bias needs 6 numbers, not 1",
        ),
        ({"wrench_sensor__joint": "a", "wrench_sensor__tool_mass": 1.0}, "3 numbers of tool_com go together"),
        (
            {"wrench_sensor__joint": "a", "wrench_sensor__tool_com": [0.0] * 3},
            "a positive wrench_sensor.tool_mass",
        ),
        ({"wrench_sensor__bias": [0.0] * 6}, "no meaning while wrench_sensor.joint is empty"),
    ],
)
def test_parameters_that_contradict_each_other(values, words):
    with pytest.raises(ValueError, match=words):
        settings(**values)


def test_a_joint_that_the_robot_does_not_have(panda):
    with pytest.raises(ValueError, match="wrench_sensor: unknown joint 'wrist'; the robot has: "):
        check_against(settings(wrench_sensor__joint="wrist"), panda.model)
