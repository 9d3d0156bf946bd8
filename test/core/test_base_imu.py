"""An IMU in place of the base's pose and twist: a robot that turns and moves fast, against inverse dynamics and finite
differences of its motion; noise and errors. test_contact_observer.py has a robot on its feet."""

import pickle
from functools import partial

import numpy as np
import pytest

import dynamics_node as dn
from dynamics_demo.robots import quadruped
from dynamics_node.errors import ContactError, InputError, SensorError
from dynamics_node.symbolic import quaternion_rotation, rpy_rotation
from dynamics_node.symbolic.lie_groups import quaternion_exp

SHANKS = ("fl_shank", "fr_shank", "hl_shank", "hr_shank")
FEET = [dn.Contact(shank, xyz=(0, 0, -0.2), friction=0.7) for shank in SHANKS]
OPTIONS = dn.ObserverOptions(velocity_std=1e-3, torque_std=0.01, bandwidth=1000.0)
PLACE, RPY = np.array([0.3, -0.2, 0.1]), (0.4, -0.7, 1.9)
AXES = rpy_rotation(np.array(RPY)).astype(float)  # of the IMU in the base
AXIS = np.array([0.48, -0.6, 0.64])  # the base turns about it
CYCLE = 1e-4  # s


def imu(link="torso", std=(*[1e-3] * 3, *[0.05] * 3), **more):
    return dn.sensors.Imu(link, std=std, name="imu", **more)


PLACED = imu(xyz=PLACE, rpy=RPY)


@pytest.fixture(scope="module")
def legs():
    return dn.parse_robot(quadruped(), floating_base=True)


def built(robot, sensor=PLACED, options=OPTIONS, contacts=FEET, **more):
    return dn.build_contact_observer(robot, contacts, options, imu=sensor, backend="numpy", **more)


def base(t):
    """Position, quaternion and its angle at time t."""
    angle = 0.5 + 4.0 * t + 0.3 * np.sin(15.0 * t)
    place = np.array([9.0 * t + 0.02 * np.sin(30.0 * t), -5.0 * t, 2.0 + 0.05 * np.cos(20.0 * t)])
    return place, np.append(AXIS * np.sin(0.5 * angle), np.cos(0.5 * angle)), angle


def of_imu(t):
    """Its position in the world."""
    place, quaternion, _ = base(t)
    return place + quaternion_rotation(quaternion) @ PLACE


def rate(function, t, h=1e-4):
    return (function(t + h) - function(t - h)) / (2.0 * h)


def twist(t):
    """(angular, linear) of the base in its axes."""
    place, turn = rate(lambda s: base(s)[0], t), rate(lambda s: base(s)[2], t)
    return np.concatenate([AXIS * turn, quaternion_rotation(base(t)[1]).T @ place])


def moving(robot, count):
    """time, q, qd, tau, readings, and torques (count, nv) of the contacts, for every sample."""
    rng, times = np.random.default_rng(3), CYCLE * np.arange(count)
    amplitude, frequency = rng.uniform(0.1, 0.3, 12), rng.uniform(10.0, 20.0, 12)
    angles = 0.5 + amplitude * np.sin(np.outer(times, frequency))
    speeds = amplitude * frequency * np.cos(np.outer(times, frequency))
    q = np.array([[*base(t)[0], *base(t)[1], *a] for t, a in zip(times, angles, strict=True)])
    qd = np.array([[*twist(t), *v] for t, v in zip(times, speeds, strict=True)])
    qdd = np.concatenate([[rate(twist, t) for t in times], -(frequency**2) * (angles - 0.5)], axis=1)
    tau = dn.evaluate(robot, "inverse_dynamics", q, qd, qdd, backend="numpy")
    J = dn.evaluate(robot, "delassus_matrix", q, contacts=FEET, backend="numpy")[1]
    forces = np.array(
        [np.linalg.lstsq(j[:, :6].T, t[:6], rcond=None)[0] for j, t in zip(J, tau, strict=True)]
    )
    pushed = np.einsum("kij,ki->kj", J, forces + 5.0)
    readings = []
    for t, (_, quaternion, _) in ((t, base(t)) for t in times):
        felt = rate(partial(rate, of_imu), t) + np.array([0, 0, 9.81])
        readings.append([*(AXES.T @ twist(t)[:3]), *(AXES.T @ quaternion_rotation(quaternion).T @ felt)])
    tau = tau - np.einsum("kij,ki->kj", J, forces + 5.0)
    return times, q, qd, tau, np.array(readings), pushed


def test_forces_need_no_velocity_of_the_base(legs):
    """The IMU is far from the origin of the base, which turns at 8 rad/s and moves at 10 m/s."""
    observer, filtered = built(legs), np.zeros(legs.nv)
    share = 1.0 - np.exp(-OPTIONS.bandwidth * CYCLE)
    for k, (time, q, qd, tau, reading, pushed) in enumerate(zip(*moving(legs, 120), strict=True)):
        q[:7] = qd[:6] = np.nan
        observer.step(time, q, qd, tau, imu=reading)
        filtered += (share if k else 1.0) * (pushed - filtered)
    J = dn.evaluate(legs, "delassus_matrix", observer.q, contacts=FEET, backend="numpy")[1]
    torques = J.T @ observer.contact_forces
    np.testing.assert_allclose(torques, filtered, atol=5e-3 * np.abs(filtered).max())


def held(robot, flags, turn=(0.0, 0.0, 0.0)):
    """q, tau, reading and forces at rest on some feet; turn: rotation vector of the base, rad."""
    q, still = robot.neutral(), np.zeros(robot.nv)
    q[3:7], q[7:] = quaternion_exp(np.array(turn)), np.tile([0.1, -0.6, 1.2], 4)
    tau, forces = dn.evaluate(
        robot, "inverse_dynamics", q, still, still, flags, contacts=FEET, backend="numpy"
    )
    tau[:6] = 0.0
    up = quaternion_rotation(q[3:7])[2]
    return q, tau, np.append(np.zeros(3), AXES.T @ (9.81 * up)), forces


def vertical(q):
    return quaternion_rotation(q[3:7])[2]


@pytest.mark.parametrize("turn", [(0.3, -0.2, 0.0), (0.0, 0.4, 2.0), (np.pi, 0.0, 0.0)])
def test_the_vertical_is_that_of_the_imu(legs, turn):
    """Normal forces are along it, whatever the heading."""
    observer = built(legs, options=dn.ObserverOptions(velocity_std=1e-3, torque_std=0.01))
    q, tau, reading, forces = held(legs, np.ones(4), turn)
    for k in range(100):
        observer.step(0.1 * k, q, np.zeros(18), tau, imu=reading)
    np.testing.assert_allclose(vertical(observer.q), vertical(q), atol=1e-4)
    np.testing.assert_allclose(observer.contact_forces[2::3], forces[2::3], atol=0.02)
    assert observer.active.tolist() == (forces[2::3] > 0.0).tolist()


def test_the_gyro_turns_the_vertical(legs):
    """In free fall, where the accelerometer has no vertical."""
    observer, q, tau = built(legs), legs.neutral(), np.zeros(18)
    q[7:] = 0.5
    for k in range(201):
        rates = AXES.T @ (2.0 * AXIS * (k > 0))
        observer.step(1e-3 * k, q, np.zeros(18), tau, imu=np.append(rates, np.zeros(3)))
    np.testing.assert_allclose(
        vertical(observer.q), quaternion_rotation(quaternion_exp(0.4 * AXIS))[2], atol=1e-3
    )


def test_variances_include_the_noise_of_the_imu(legs):
    """Of normal forces, over 400 runs."""
    options = dn.ObserverOptions(velocity_std=1e-4, torque_std=0.05, bandwidth=100.0)
    sensor, rng = imu(std=(*[0.02] * 3, *[2.0] * 3), xyz=PLACE, rpy=RPY), np.random.default_rng(7)
    observer = dn.build_contact_observer(legs, FEET, options, imu=sensor)
    q, tau, reading, truth = held(legs, np.ones(4))
    forces = []
    for _ in range(400):
        observer.reset()
        for k in range(12):
            noise = rng.normal(size=(3, 18)) * [[1e-4], [0.05], [1.0]]
            noise[1, :6] = 0.0
            felt = reading + np.array(sensor.std) * noise[2, :6]
            observer.step(0.002 * k, q, noise[0], tau + noise[1], imu=felt)
        forces.append(observer.contact_forces[2::3].copy())
    expected = np.sqrt(observer._variances[2::3])
    np.testing.assert_allclose(np.std(forces, axis=0), expected, rtol=0.15)
    assert np.abs(np.mean(forces, axis=0) - truth[2::3]).max() < 0.5 * expected.min()


def test_given_variances_of_the_base_are_not_read(legs):
    observer, other = built(legs), built(legs)
    q, tau, reading, _ = held(legs, np.ones(4))
    variance = np.full(18, OPTIONS.velocity_std**2)
    variance[:6] = np.nan
    for k in range(3):
        observer.step(k * CYCLE, q, np.zeros(18), tau, imu=reading)
        other.step(k * CYCLE, q, np.zeros(18), tau, velocity_variance=variance, imu=reading)
    np.testing.assert_allclose(observer.contact_forces, other.contact_forces, rtol=1e-9)


def test_copies_and_payloads_continue(legs):
    q, tau, reading, _ = held(legs, np.array([1, 0, 0, 1]), (0.3, 0.0, 0.0))
    observer = built(legs, runtime_parameters=["inertia"])
    for k in range(50):
        observer.step(0.1 * k, q, np.zeros(18), tau, imu=reading)
    copy = pickle.loads(pickle.dumps(observer))
    loaded = observer.with_inertias(dn.with_payload(legs, "torso", 1.0, [0, 0, 0], np.zeros((3, 3))))
    loaded.resume(observer)
    for other in (observer, copy, loaded):
        assert other.step(5.0, q, np.zeros(18), tau, imu=reading) and "imu" in repr(other)
    np.testing.assert_allclose(copy.contact_forces, observer.contact_forces, rtol=1e-9)
    np.testing.assert_allclose(vertical(loaded.q), vertical(q), atol=1e-2)
    by_odometry = dn.build_contact_observer(legs, FEET, OPTIONS, backend="numpy")
    by_odometry.resume(observer)
    assert by_odometry.time is None


CART = """<robot name="cart"><link name="world"/>
<link name="body"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link>
<link name="arm"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link>
<joint name="free" type="floating"><parent link="world"/><child link="body"/></joint>
<joint name="hinge" type="continuous"><parent link="world"/><child link="arm"/><axis xyz="0 1 0"/></joint>
</robot>"""


@pytest.mark.parametrize(
    "robot, sensor, contacts, error, words",
    [
        ("legs", imu("fl_shank"), FEET, SensorError, "'imu': its link 'fl_shank' is not fixed to the floating link"),
        ("fixed", imu("fl_shank"), FEET, SensorError, "'fl_shank' is not fixed to a floating base"),
        ("legs", imu("nose"), FEET, SensorError, "nose"),
        ("legs", imu(std=(1.0, 1.0)), FEET, SensorError, "6 rows"),
        ("legs", "torso", FEET, TypeError, "imu must be an Imu, not str"),
        ("legs", PLACED, [dn.Contact("fl_shank", normal=(0, 1, 1))], ContactError, "'fl_shank': its normal is not"),
        ("arm", imu("body"), [dn.Contact("body")], SensorError, "'arm' joins the robot to the world"),
    ],
)  # fmt: skip
def test_robots_that_an_imu_does_not_suit(legs, robot, sensor, contacts, error, words):
    robots = {
        "legs": lambda: legs,
        "fixed": lambda: dn.parse_robot(quadruped()),
        "arm": lambda: dn.parse_robot(CART),
    }
    with pytest.raises(error, match=words):
        built(robots[robot](), sensor, contacts=contacts)


def test_readings_without_gravity_are_named(legs):
    """Some drivers subtract it."""
    observer = built(legs)
    q, tau, reading, _ = held(legs, np.ones(4))
    for k in range(31):
        observer.step(0.1 * k, q, np.zeros(18), tau, imu=0.0 * reading)
    with pytest.raises(InputError, match="acceleration of imu 'imu' is nearly zero: it must include gravity"):
        observer.step(3.15, q, np.zeros(18), tau, imu=0.0 * reading)
    for k in range(5):
        observer.step(4.5 + 0.1 * k, q, np.zeros(18), tau, imu=reading)
    assert observer.active.tolist() == [1, 1, 1, 1]


def test_a_floating_joint_with_axes_of_its_own():
    """Below the root link, on a point of which the body stands."""
    text = CART.replace('<child link="body"/>', '<child link="body"/><origin xyz="1 2 3" rpy="0.5 -0.3 1"/>')
    body = dn.parse_robot(text, joints=["free"])
    foot = dn.Contact("body", xyz=(0, 0, -0.2), friction=0.7)
    options = dn.ObserverOptions(velocity_std=1e-3, torque_std=0.01)
    observer = built(body, imu("body"), options, [foot])
    for k in range(100):
        observer.step(0.1 * k, np.zeros(body.nq), np.zeros(6), np.zeros(6), imu=[0, 0, 0, 0, 0, 9.81])
    np.testing.assert_allclose(observer.contact_forces, [0, 0, 9.81 * body.mass], atol=1e-3)
    J = dn.evaluate(body, "delassus_matrix", observer.q, contacts=[foot], backend="numpy")[1]
    np.testing.assert_allclose(J.T @ observer.contact_forces, [0, 0, 0, 0, 0, 9.81 * body.mass], atol=1e-3)


def test_bad_readings_change_nothing(legs):
    observer = built(legs)
    q, tau, reading, _ = held(legs, np.ones(4))
    for k in range(2):
        observer.step(k * CYCLE, q, np.zeros(18), tau, imu=reading)
    forces = observer.contact_forces.copy()
    for bad in (None, reading[:5], np.full(6, np.nan), "still"):
        with pytest.raises(InputError, match="imu"):
            observer.step(2 * CYCLE, q, np.zeros(18), tau, imu=bad)
    for wrong, words in (
        ({"q": q[7:]}, "q must have shape"),
        ({"qd": np.zeros(12)}, "qd"),
        ({"time": "now"}, "time"),
    ):
        with pytest.raises(InputError, match=words):
            observer.step(
                **{"time": 2 * CYCLE, "q": q, "qd": np.zeros(18), "tau": tau, "imu": reading} | wrong
            )
    assert observer.step(2 * CYCLE, q, np.zeros(18), tau, imu=reading)
    np.testing.assert_allclose(observer.contact_forces, forces, atol=1e-3)
    without = dn.build_contact_observer(legs, FEET, OPTIONS, backend="numpy")
    with pytest.raises(InputError, match="imu is given"):
        without.step(0.0, q, np.zeros(18), tau, imu=reading)
