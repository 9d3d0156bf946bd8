"""Payloads, external wrenches, tilted gravity, friction and rotors: on real topics, against Pinocchio."""

import time

import numpy as np
import pytest
from dynamics_interfaces.srv import GetMassMatrix, InverseDynamics, SetPayload
from geometry_msgs.msg import WrenchStamped
from oracle import Oracle
from rig import efforts
from robots import ROBOTS
from sensor_msgs.msg import Imu
from tolerances import EXACT, error

pin = pytest.importorskip("pinocchio", reason="Pinocchio: pip install pin, or ros-$ROS_DISTRO-pinocchio")

HAND = "panda_hand"
MASS, COM = 1.5, (0.02, -0.03, 0.1)
MOMENTS = np.array([[0.02, 0.001, -0.002], [0.001, 0.03, 0.003], [-0.002, 0.003, 0.025]])


@pytest.fixture
def own(panda):
    """Pinocchio's Panda, ours to change."""
    return Oracle(panda.robot, panda.model)


def placement(oracle, link):
    frame = oracle.pin.frames[oracle.pin.getFrameId(link)]
    return frame.parentJoint, frame.placement


def load(oracle, link=HAND, mass=MASS):
    joint, place = placement(oracle, link)
    oracle.pin.inertias[joint] += place.act(pin.Inertia(mass, np.array(COM), MOMENTS))
    oracle.data = oracle.pin.createData()


def payload(link=HAND, mass=MASS, com=COM, moments=MOMENTS):
    request = SetPayload.Request(link=link)
    request.inertia.m = float(mass)
    c, i = request.inertia.com, request.inertia
    c.x, c.y, c.z = map(float, com)
    i.ixx, i.ixy, i.ixz, i.iyy, i.iyz, i.izz = map(float, moments[np.triu_indices(3)])
    return request


def torque(r, case, **options):
    return efforts(r.answered(case.names, case.q, case.qd, **options), case.names)


# --- payload -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["c", "numpy"])
def test_payload(rig, panda, own, backend):
    r = rig(parameters={"backend": backend, "joint_state_timeout": 30.0})
    r.until(lambda: f"({backend})" in r.process.output(), 30)
    assert error(torque(r, panda), panda.torque()) <= EXACT
    response = r.call(SetPayload, "set_payload", payload())
    assert response.success and response.message == f"payloads: {HAND} 1.5 kg"
    load(own)
    loaded = own.inverse(panda.q, panda.qd, 0 * panda.q)
    assert error(loaded, panda.torque()) > 0.05
    assert error(torque(r, panda), loaded) <= EXACT
    tau = r.call(InverseDynamics, "inverse_dynamics").solution.points[0].effort
    assert error(np.array(tau), loaded) <= EXACT
    M = r.call(GetMassMatrix, "get_mass_matrix").mass_matrix
    assert error(np.array(M.data).reshape(7, 7), own.mass_matrix(panda.q), tail=2) <= EXACT
    _, values, _ = r.diagnostic(send=lambda: r.send_state(panda.names, panda.q, panda.qd))
    assert values["payloads"] == f"{HAND} 1.5 kg"
    assert r.call(SetPayload, "set_payload", payload(mass=0)).message == "payloads: none"
    assert error(torque(r, panda), panda.torque()) <= EXACT


def test_payload_replaces_the_last_one_and_stays_through_a_rebuild(rig, panda, own):
    r = rig()
    torque(r, panda)
    assert r.call(SetPayload, "set_payload", payload(mass=9)).success
    assert r.call(SetPayload, "set_payload", payload()).success
    assert r.call(SetPayload, "set_payload", payload("panda_link5", 0.7)).success
    load(own)
    load(own, "panda_link5", 0.7)
    expected = own.inverse(panda.q, panda.qd, 0 * panda.q)
    assert error(torque(r, panda), expected) <= EXACT
    assert r.set_parameters(solver="factor_graph", ordering="crba")[0]
    r.until(lambda: "by crba" in r.process.output(), 30)
    assert error(torque(r, panda), expected) <= EXACT


@pytest.mark.parametrize(
    "change, message",
    [
        ({"link": "tool9"}, "unknown link 'tool9'"),
        ({"mass": -1.0}, "mass -1 is negative"),
        ({"mass": np.nan}, "not finite"),
        ({"com": (np.inf, 0, 0)}, "not finite"),
        ({"moments": np.diag([1.0, 1.0, 3.0])}, "belong to no body"),
        ({"moments": np.diag([-1.0, 1.0, 1.0])}, "belong to no body"),
        ({"link": "tool9", "mass": 0.0}, "unknown link 'tool9'"),
    ],
)
def test_payload_refused(refusing, panda, change, message):
    response = refusing.call(SetPayload, "set_payload", payload(**change))
    assert not response.success and message in response.message
    assert error(torque(refusing, panda), panda.torque()) <= EXACT


@pytest.fixture(scope="module")
def refusing():
    from rig import Rig

    made = Rig(ROBOTS["panda7"])
    made.until(lambda: "7 joints" in made.process.output(), 20)
    yield made
    made.close()


def test_payload_before_there_is_a_model(rig):
    r = rig(None)
    response = r.call(SetPayload, "set_payload", payload())
    assert not response.success and response.message == "no model yet"


def test_payload_on_the_fixed_root_changes_nothing(rig, panda):
    r = rig()
    torque(r, panda)
    assert r.call(SetPayload, "set_payload", payload("panda_link0")).success
    assert error(torque(r, panda), panda.torque()) <= EXACT


# --- external wrench -----------------------------------------------------------------------------------


def wrench(link, moment, force):
    message = WrenchStamped()
    message.header.frame_id = link
    t, f = message.wrench.torque, message.wrench.force
    t.x, t.y, t.z, f.x, f.y, f.z = map(float, (*moment, *force))
    return message


def with_wrench(oracle, case, pushed):
    """Torques by Pinocchio; pushed: {link: (moment, force)} on the links."""
    forces = pin.StdVec_Force()
    forces.extend([pin.Force.Zero() for _ in range(oracle.pin.njoints)])
    for link, (moment, force) in pushed.items():
        joint, place = placement(oracle, link)
        forces[joint] += place.act(pin.Force(np.array(force), np.array(moment)))
    return pin.rnea(oracle.pin, oracle.data, oracle.q(case.q), case.qd, 0 * case.q, forces)


PUSHED = {HAND: ((0.3, -0.2, 0.5), (5.0, -8.0, 12.0)), "panda_link4": ((0.1, 0.2, 0.3), (-4.0, 2.0, 1.0))}


@pytest.mark.parametrize("backend", ["c", "numpy"])
def test_external_wrenches_act_and_time_out(rig, panda, own, backend):
    r = rig(parameters={"backend": backend, "wrench_timeout": 0.4})
    r.until(lambda: f"({backend})" in r.process.output(), 30)
    pushes = r.node.create_publisher(WrenchStamped, "dynamics_node/external_wrench", 10)
    expected = with_wrench(own, panda, PUSHED)
    assert error(expected, panda.torque()) > 0.05

    def pushed():
        for link, (moment, force) in PUSHED.items():
            pushes.publish(wrench(link, moment, force))
        r.spin(0.02)
        return error(torque(r, panda), expected) <= EXACT

    r.until(pushed, 15, "the torque of both wrenches")
    _, values, _ = r.diagnostic(lambda s: "external" in str(s), send=pushed)
    assert set(values["external wrenches on"].split(", ")) == set(PUSHED)
    time.sleep(0.5)
    assert error(torque(r, panda), panda.torque()) <= EXACT, "both have timed out"


@pytest.mark.parametrize(
    "message, reason",
    [
        (wrench("nowhere", (0, 0, 0), (1, 0, 0)), "frame_id 'nowhere' is no link"),
        (wrench("", (0, 0, 0), (1, 0, 0)), "frame_id '' is no link"),
        (wrench(HAND, (0, 0, 0), (np.nan, 0, 0)), "not finite"),
    ],
    ids=["unknown", "empty", "NaN"],
)
def test_bad_wrench_is_dropped(refusing, panda, message, reason):
    torque(refusing, panda)
    pushes = refusing.node.create_publisher(WrenchStamped, "dynamics_node/external_wrench", 10)
    refusing.until(lambda: pushes.get_subscription_count(), what="discovery")

    def send():
        pushes.publish(message)
        refusing.send_state(panda.names, panda.q, panda.qd)

    _, values, _ = refusing.diagnostic(lambda s: reason in str(s), send=send)
    assert reason in values["last drop"]
    assert error(torque(refusing, panda), panda.torque()) <= EXACT


# --- gravity of an IMU -----------------------------------------------------------------------------------


def imu(frame="", acceleration=(0, 0, 9.81), orientation=None):
    message = Imu()
    message.header.frame_id = frame
    a, o = message.linear_acceleration, message.orientation
    a.x, a.y, a.z = map(float, acceleration)
    if orientation is None:
        message.orientation_covariance[0] = -1.0
    else:
        o.x, o.y, o.z, o.w = map(float, orientation)
    return message


def quaternion(R):
    return pin.Quaternion(R).coeffs()


TILT = pin.rpy.rpyToMatrix(0.4, -0.7, 0.3)  # from the tilted root to the world
UP = TILT.T @ np.array([0.0, 0.0, 9.81])  # what an accelerometer in root axes shows


@pytest.mark.parametrize(
    "message",
    [imu(acceleration=UP), imu("panda_link0", 1.3 * UP), imu(orientation=quaternion(TILT))],
    ids=["acceleration", "its direction only", "orientation"],
)
def test_gravity_of_an_imu(rig, panda, own, message):
    # Of the two inputs the IMU's alone grows old, however busy the machine is.
    r = rig(parameters={"gravity_source": "imu", "imu_timeout": 0.5, "joint_state_timeout": 60.0})
    readings = r.node.create_publisher(Imu, "imu", 10)
    _, values, _ = r.diagnostic(
        lambda s: "imu" in str(s), 20, send=lambda: r.send_state(panda.names, panda.q, panda.qd)
    )
    assert values["silent because"] == "no imu message yet (gravity_source: imu)"
    assert not r.torque_log
    own.pin.gravity.linear = -UP
    expected = own.inverse(panda.q, panda.qd, 0 * panda.q)
    r.until(lambda: readings.get_subscription_count(), what="discovery")

    def tilted():
        readings.publish(message)
        r.spin(0.02)
        return error(torque(r, panda), expected) <= 1e-9

    r.until(tilted, 15, "the torque of tilted gravity")
    time.sleep(0.6)
    assert r.silent_for(0.5, lambda: r.send_state(panda.names, panda.q, panda.qd))
    _, values, _ = r.diagnostic(
        lambda s: "older" in str(s), send=lambda: r.send_state(panda.names, panda.q, panda.qd)
    )
    assert values["silent because"] == "imu older than 0.5 s"


@pytest.mark.parametrize(
    "message, reason",
    [
        (imu("panda_link3"), "moves against the root link"),
        (imu("camera"), "frame_id 'camera' is no link"),
        (imu(acceleration=(0, 0, 0.1)), "shows no vertical"),
        (imu(acceleration=(0, 0, np.nan)), "shows no vertical"),
        (imu(orientation=(0, 0, 0, 0)), "norm 0, not 1"),
    ],
)
def test_bad_imu_is_dropped(tilting, panda, message, reason):
    readings = tilting.node.create_publisher(Imu, "imu", 10)
    tilting.until(lambda: readings.get_subscription_count(), what="discovery")

    def send():
        readings.publish(message)
        tilting.send_state(panda.names, panda.q, panda.qd)

    _, values, _ = tilting.diagnostic(lambda s: reason in str(s), send=send)
    assert reason in values["last drop"] and not tilting.torque_log


@pytest.fixture(scope="module")
def tilting():
    from rig import Rig

    made = Rig(ROBOTS["panda7"], {"gravity_source": "imu"})
    made.until(lambda: "7 joints" in made.process.output(), 20)
    yield made
    made.close()


def test_imu_of_a_floating_base_is_refused(refusing):
    done, reason = refusing.set_parameters(gravity_source="imu", floating_base=True)
    assert not done and "has its pose from odom" in reason


# --- friction and rotors -----------------------------------------------------------------------------------


def test_friction(rig, panda):
    r = rig()
    torque(r, panda)
    assert r.set_parameters(compensate__friction=True)[0]
    urdf = panda.model.damping * panda.qd + panda.model.friction * np.tanh(panda.qd / 0.01)
    r.until(lambda: error(torque(r, panda), panda.torque() + urdf) <= EXACT, what="friction of the URDF")
    names = [panda.names[1], panda.names[4]]
    done, reason = r.set_parameters(
        friction__joints=names, friction__viscous=[2.0, 3.0], friction__coulomb=[0.5, 0.25]
    )
    assert done, reason
    viscous, coulomb = panda.model.damping.copy(), panda.model.friction.copy()
    viscous[[1, 4]], coulomb[[1, 4]] = [2.0, 3.0], [0.5, 0.25]
    expected = panda.torque() + viscous * panda.qd + coulomb * np.tanh(panda.qd / 0.01)
    r.until(lambda: error(torque(r, panda), expected) <= EXACT, what="friction of the parameters")
    assert r.set_parameters(compensate__friction=False)[0]
    r.until(lambda: error(torque(r, panda), panda.torque()) <= EXACT, what="no friction")


def test_friction_refused(refusing, panda):
    torque(refusing, panda)
    one = {"friction__viscous": [1.0], "friction__coulomb": [1.0]}
    assert "'elbow' is none of" in refusing.set_parameters(friction__joints=["elbow"], **one)[1]
    assert "friction.joints and friction.viscous differ" in refusing.set_parameters(**one)[1]
    one["friction__viscous"] = [-1.0]
    done, reason = refusing.set_parameters(friction__joints=[panda.names[0]], **one)
    assert not done and "friction.viscous must not be negative" in reason
    done, reason = refusing.set_parameters(problem="forward", compensate__friction=True)
    assert not done and "compensate.friction is for problem inverse only" in reason


def test_armature_behind_gears(rig, panda, own):
    names = list(panda.names[:2])
    values = {"armature.joints": names, "armature.values": [2e-5, 3e-5], "armature.gears": [100.0, 50.0]}
    r = rig(parameters=values)
    own.pin.armature[:2] = [0.2, 0.075]
    own.data = own.pin.createData()
    torque(r, panda)
    r.until(lambda: "(c)" in r.process.output() or "numpy serves" in r.process.output(), 30)

    def accelerated():
        r.send_reference(panda.names, _point(panda.qdd))
        r.spin(0.02)
        return error(torque(r, panda), own.inverse(panda.q, panda.qd, panda.qdd)) <= EXACT

    r.until(accelerated, 15, "the torque of the rotors")
    done, reason = r.set_parameters(armature__gears=[1.0])
    assert not done and "armature.joints and armature.gears differ" in reason


def _point(qdd):
    from rig import point

    return point(qdd=qdd)
