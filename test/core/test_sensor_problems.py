"""Estimates from any sensors, for trees and loops: against Pinocchio's motions, a dense system, and noise statistics."""

import pickle
import sys
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest

pytest.importorskip("pinocchio", reason="the oracle: pip install pin")

from dense_estimate import Dense
from linkages import palletizer, spatial, stewart
from loop_oracle import LoopOracle
from robots import ROBOTS, PublishedRobot, random_states
from sensor_truth import Truth, driven, sensor_problem_of, tips
from tolerances import error, solved
from trials import positions

import dynamics_node as dn
from dynamics_node.errors import InputError
from dynamics_node.functions.contact_wrenches import build_contact_wrenches
from dynamics_node.robot import sensors as s

XYZ, RPY = (0.03, -0.05, 0.11), (0.4, -0.7, 1.9)
ACCURATE = 1e-9  # error of an estimate relative to the largest entry
DENSE = 1e-7  # accuracy of the dense system


def redundant(model):
    """Redundant sensors: torques, accelerations, IMUs, and wrenches at two links, some with covariances and priors."""
    random = np.random.default_rng(3)
    A = random.normal(size=(6, 6))
    yield from (s.JointTorque(name, std=0.5) for name in driven(model))
    yield from (s.JointAcceleration(j.name, std=2.0) for j in model.independent_joints)
    first, last = tips(model)[0], tips(model)[-1]
    yield dn.Contact(first, "surface", xyz=XYZ, rpy=RPY)
    yield s.ExternalWrench(first, xyz=XYZ, rpy=RPY, std=2.0, rows=("mx", "my", "fx", "fy"))
    yield s.ExternalWrench(first, xyz=XYZ, rpy=RPY, std=0.0, rows="fz", value=0.0, name="no force")
    if last != first:
        yield dn.Contact(last, "surface")
        yield s.ExternalWrench(last, covariance=A @ A.T + np.eye(6))
    yield s.ExternalWrench(first, rpy=XYZ, std=30.0, value=0.0, name="prior")
    yield s.Imu(first, xyz=XYZ, rpy=RPY, covariance=np.diag([1e-4] * 3 + [1e-2] * 3))
    yield s.AngularAcceleration(last, std=0.3, rpy=RPY)
    yield s.Gyro(last, std=0.01)


def without_priors(records):
    """Only exact values in advance are true."""
    return [x for x in records if isinstance(x, dn.Contact) or x.value is None or x.std == 0.0]


def truth_of(name, k=0, seed=7):
    """A motion with wrenches that suit the sensors of `redundant`."""
    model = ROBOTS[name].model()
    q, qd, qdd, _ = random_states(model, k + 1, seed=seed)
    random = np.random.default_rng(seed + k)
    first, last = tips(model)[0], tips(model)[-1]
    w = random.uniform(-20, 20, (2, 6))
    w[0, 5] = 0.0
    wrenches = [(first, XYZ, RPY, w[0])] + [(last, np.zeros(3), np.zeros(3), w[1])] * (last != first)
    supports = [(last, np.zeros(3), np.zeros(3), range(6))]
    return Truth(ROBOTS[name], model, q[k], qd[k], qdd[k], wrenches, supports)


def noise(problem, random, scale=1.0):
    """A random draw of the noise of all sensors."""
    parts = [np.zeros(0)]
    for sensor, labels in zip(problem.sensors, problem.labels, strict=True):
        if sensor.value is None:
            covariance = sensor.covariance
            draw = random.normal(size=len(labels))
            root = (
                np.diag(np.broadcast_to(sensor.std, len(labels)))
                if covariance is None
                else np.linalg.cholesky(covariance)
            )
            parts.append(scale * root @ draw)
    return np.concatenate(parts)  # fmt: skip


# --- without noise ------------------------------------------------------------------------------------------


class Motion(NamedTuple):
    """A moving robot with its torques and wrenches, sensors, and a function that returns the reading of a sensor."""

    robot: dn.Robot
    q: np.ndarray
    qd: np.ndarray
    qdd: np.ndarray
    tau: np.ndarray
    f_ext: np.ndarray
    sensors: list
    reading: Callable


LINKAGES = {
    "palletizer": lambda: palletizer(np.random.default_rng(3)),
    "stewart": lambda: stewart(np.random.default_rng(3)),
    "universal": lambda: spatial(np.random.default_rng(4), kinds=["universal"]),
    "rod": lambda: spatial(np.random.default_rng(1), kinds=["rod"]),
}


def tree_motion(name):
    truth = truth_of(name)
    robot, tau = truth.model, truth.tau.copy()
    for body in robot.bodies:
        if body.joint.type.is_free:
            tau[body.joint.v] = 0.0  # no motor
    sensors = without_priors(redundant(robot))
    return Motion(robot, *truth.state, tau, truth.f_ext, sensors, truth.reading)


def linkage_motion(name, folder):
    """A motion near home: Pinocchio gives readings on the tree, LoopOracle the torques."""
    linkage = LINKAGES[name]()
    robot, file = dn.parse_robot(linkage.text), folder / "robot.urdf"
    file.write_text(linkage.text)
    oracle, random = LoopOracle(linkage.text, robot), np.random.default_rng(5)
    q = list(positions(linkage._replace(floating_base=False), robot, random))[-1]
    qd, qdd = random.uniform(-1, 1, (2, robot.nv))
    G, g, _ = oracle.spread_over_bodies(q, qd)
    truth, tau = Truth(PublishedRobot(file), robot.tree, q, G @ qd, G @ qdd + g), oracle.inverse(q, qd, qdd)
    driven = {joint.name: tau[joint.v] for joint in robot.independent_joints}
    sensors = [s.JointTorque(j.name, std=0.1) for j in robot.independent_joints if j.type.is_scalar]
    sensors += [s.JointAcceleration(body.joint.name, std=0.5) for body in robot.bodies]
    sensors += [s.Imu(robot.bodies[-1].name, std=0.01, xyz=XYZ, rpy=RPY)]

    def reading(sensor):
        return driven[sensor.joint] if isinstance(sensor, s.JointTorque) else truth.reading(sensor)

    return Motion(robot, q, qd, qdd, tau, np.zeros((robot.nbodies, 6)), sensors, reading)


TREES = ("panda", "ur5", "baxter", "solo12", "simple_humanoid", "talos")


@pytest.mark.parametrize("name", [*TREES, *LINKAGES])
def test_exact_readings_reproduce_the_motion(name, tmp_path):
    """Linkages are also estimated without torque sensors."""
    own = tree_motion(name) if name in TREES else linkage_motion(name, tmp_path)
    accurate = ACCURATE if name in TREES else 10 * ACCURATE
    problem = sensor_problem_of(own.robot, own.sensors, ["tau"] if name in LINKAGES else ())
    estimator = dn.build(own.robot, problem, backend="numpy")
    estimate = estimator(own.q, own.qd, {x.name: own.reading(x) for x in measured_sensors(problem)})
    assert error(estimate.qdd, own.qdd) <= accurate
    assert error(estimate.tau, own.tau) <= accurate
    assert not estimate.tau[own.tau == 0].any(), "a floating base has no motor"
    assert error(estimate.f_ext, own.f_ext, 2) <= accurate
    assert estimate.chi_square <= (1e-12 if name in TREES else 1e-9)
    assert np.abs(estimate.residuals).max() <= 1e-8 if name in TREES else estimator.degrees_of_freedom > 0
    assert estimator.consistent(estimate)
    if name in LINKAGES:
        less = dn.sensor_problem(own.robot, [x for x in own.sensors if not isinstance(x, s.JointTorque)])
        readings = {x.name: own.reading(x) for x in measured_sensors(less)}
        again = dn.build(own.robot, less, backend="numpy")(own.q, own.qd, readings)
        assert error(again.tau, own.tau) <= accurate


def measured_sensors(problem):
    """The sensors that have readings."""
    return [x for x in problem.sensors if x.value is None]


@pytest.mark.parametrize("name", ["panda", "simple_humanoid"])
def test_sensor_problems_include_inverse_and_forward_dynamics(name):
    """Exact accelerations give inverse dynamics, exact torques forward dynamics."""
    truth = truth_of(name)
    model, (q, qd, qdd) = truth.model, truth.state
    wrenches = [s.ExternalWrench(link, std=0.0) for link in tips(model)]
    wrenches += [dn.Contact(link, "surface") for link in tips(model)]
    kinds = {
        "inverse": [s.JointAcceleration(joint, std=0.0) for joint in driven(model)],
        "forward": [s.JointTorque(joint, std=0.0) for joint in driven(model)],
    }
    for kind, sensors in kinds.items():
        if kind == "inverse" and model.floating_base:
            continue  # the torques determine the motion of its base
        problem = sensor_problem_of(model, [*sensors, *wrenches])
        estimate = dn.build(model, problem, backend="numpy")(q, qd, truth.readings(problem))
        assert error(estimate.qdd, qdd) <= ACCURATE, kind
        assert error(estimate.tau[-len(driven(model)) :], truth.tau[-len(driven(model)) :]) <= ACCURATE, kind
        assert estimate.chi_square == 0


@pytest.mark.parametrize("name", ROBOTS)
def test_torques_alone_are_forward_dynamics(name):
    """Without redundancy the estimate is always consistent, for exact and noisy torques."""
    model = ROBOTS[name].model()
    q, qd, qdd, _ = random_states(model, 2, seed=3)
    motors = [s.JointTorque(joint, std=0.1 * (k % 2)) for k, joint in enumerate(driven(model))]
    estimator = dn.build(model, dn.sensor_problem(model, motors), backend="numpy")
    tau = dn.build(model, dn.inverse_dynamics(model), backend="numpy")(q, qd, qdd)
    tau[:, : model.nv - len(driven(model))] = 0.0
    estimate = estimator(q, qd, tau[:, model.nv - len(driven(model)) :])
    right = dn.build(model, dn.forward_dynamics(model), backend="numpy")(q, qd, tau)
    assert np.all(error(estimate.qdd, right) <= solved(dn.evaluate(model, "mass_matrix", q, backend="numpy")))
    assert estimator.degrees_of_freedom == 0 and estimator.consistent(estimate).all()
    assert estimator.judge(q[0], qd[0], tau[0, model.nv - len(driven(model)) :]).consistent


# --- with noise ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["panda", "ur5", "solo12", "simple_humanoid"])
def test_estimates_agree_with_a_dense_system(name):
    truth = truth_of(name)
    problem = sensor_problem_of(truth.model, redundant(truth.model), ["qdd", "tau"])
    readings = truth.readings(problem) + noise(problem, np.random.default_rng(1))
    estimate = dn.build(truth.model, problem, backend="numpy")(*truth.state[:2], readings)
    right = Dense(truth, problem).solve(readings)
    for key in ("qdd", "tau", "chi_square", "qdd_covariance", "tau_covariance"):
        value = getattr(estimate, key)
        assert error(value, right[key], np.ndim(value)) <= DENSE, key


@pytest.mark.parametrize("name", ["ur5", "solo12"])
def test_gtsam_agrees(name):
    pytest.importorskip("gtsam", reason="pip install 'gtsam>=4.3'")
    truth = truth_of(name)
    problem = sensor_problem_of(truth.model, redundant(truth.model))
    readings = truth.readings(problem) + noise(problem, np.random.default_rng(1))
    routes = [dn.build(truth.model, problem, backend=backend) for backend in ("numpy", "gtsam")]
    ours, theirs = (route(*truth.state[:2], readings) for route in routes)
    for key in ("qdd", "tau", "f_ext", "residuals", "chi_square"):
        value = getattr(ours, key)
        assert error(value, getattr(theirs, key), np.ndim(value)) <= 1e-7, key


def test_gtsam_has_no_covariances():
    pytest.importorskip("gtsam", reason="pip install 'gtsam>=4.3'")
    model = ROBOTS["ur5"].model()
    with pytest.raises(ValueError, match="no covariances"):
        dn.build(model, sensor_problem_of(model, redundant(model), ["tau"]), backend="gtsam")


def test_missing_gtsam_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "gtsam", None)
    model = ROBOTS["ur5"].model()
    with pytest.raises(ImportError, match="'gtsam'.*pip install"):
        dn.build(model, sensor_problem_of(model, redundant(model)), backend="gtsam")


RUNS = 400


@pytest.mark.parametrize("name", ["ur5", "solo12"])
def test_errors_match_the_covariance(name):
    """The mean normalized squared errors of RUNS estimates are in their 99 % bands: qdd, tau, the wrench, chi-square."""
    stats = pytest.importorskip("scipy.stats")
    truth = truth_of(name)
    model = truth.model
    problem = sensor_problem_of(model, without_priors(redundant(model)), ["qdd", "tau", "f_ext"])
    estimator, random = dn.build(model, problem, backend="numpy"), np.random.default_rng(2)
    readings = truth.readings(problem) + np.array([noise(problem, random) for _ in range(RUNS)])
    estimates = estimator(*truth.state[:2], readings)
    own = slice(model.nv - len(driven(model)), model.nv)
    body = model.frames[tips(model)[-1]].body
    squares = {
        "qdd": nees(estimates.qdd - truth.state[2], estimates.qdd_covariance),
        "tau": nees((estimates.tau - truth.tau)[:, own], estimates.tau_covariance[:, own, own]),
        "f_ext": nees((estimates.f_ext - truth.f_ext)[:, body], estimates.f_ext_covariance[:, body]),
        "chi_square": (estimates.chi_square, estimator.degrees_of_freedom),
    }
    for what, (values, degrees) in squares.items():
        low, high = stats.chi2.ppf([0.005, 0.995], RUNS * degrees) / RUNS
        assert low <= np.mean(values) <= high, (what, low, np.mean(values), high)
    wrenches = estimator.external_wrenches(estimates)
    again = dn.external_wrenches(model, {own.link: own.wrench[0] for own in wrenches})
    assert np.allclose(again, estimates.f_ext[0], atol=1e-9)
    assert all(own.covariance.shape == (RUNS, 6, 6) for own in wrenches)
    alarms = np.count_nonzero(~estimator.consistent(estimates))
    assert alarms <= 4  # one in a thousand


def nees(errors, covariances):
    """e^T P^+ e of every run, and the rank of P."""
    ranks = np.linalg.matrix_rank(covariances, tol=1e-9 * np.abs(covariances).max(), hermitian=True)
    assert np.ptp(ranks) == 0
    inverse = np.linalg.pinv(covariances, rcond=1e-9, hermitian=True)
    return np.einsum("ki,kij,kj->k", errors, inverse, errors), int(ranks[0])


# --- faulty sensors -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["ur5", "solo12"])
def test_faulty_sensor_is_identified(name):
    """Each sensor in turn has an error of many standard deviations."""
    truth = truth_of(name)
    problem = sensor_problem_of(truth.model, redundant(truth.model))
    estimator, random = dn.build(truth.model, problem, backend="numpy"), np.random.default_rng(4)
    good = truth.readings(problem) + noise(problem, random, 0.3)
    judged = estimator.judge(*truth.state[:2], good)
    assert judged.consistent and judged.culprits == () and str(judged).startswith("sensors agree")
    assert judged.degrees_of_freedom == estimator.degrees_of_freedom
    for sensor, at in zip(problem.sensors, problem.places, strict=True):
        if at is None or at.stop == at.start:
            continue
        readings = good.copy()
        readings[at.start] += 3000 * np.mean(np.ravel(1.0 if sensor.std is None else sensor.std))
        estimate = estimator(*truth.state[:2], readings)
        judged = estimator.judge(*truth.state[:2], readings)
        assert not estimator.consistent(estimate) and not judged.consistent
        np.testing.assert_allclose(judged.chi_square, estimate.chi_square, rtol=1e-6)
        assert sensor.name in judged.culprits
        assert f"{sensor.name!r}" in str(judged)


def test_reduction_of_chi_square_matches_removal():
    """The computed reduction of chi-square without a sensor agrees with an estimate without it."""
    truth = truth_of("ur5")
    problem = sensor_problem_of(truth.model, redundant(truth.model))
    sensors = problem.sensors
    readings = truth.readings(problem) + noise(problem, np.random.default_rng(8), 2.0)
    whole = dn.build(truth.model, problem, backend="numpy").judge(*truth.state[:2], readings)
    reductions = {suspect.sensor: suspect.explains for suspect in whole.suspects}
    for left_out in (sensors[0], sensors[8]):
        others = [x for x in sensors if x is not left_out]
        less = dn.sensor_problem(truth.model, others, contacts=problem.contacts)
        remaining = np.delete(readings, problem.places[sensors.index(left_out)])
        rest = dn.build(truth.model, less, backend="numpy").judge(*truth.state[:2], remaining)
        np.testing.assert_allclose(whole.chi_square - rest.chi_square, reductions[left_out.name], rtol=1e-8)


# --- calls --------------------------------------------------------------------------------------------------


def test_estimator_calls_agree():
    truth = truth_of("ur5")
    model, (q, qd, _) = truth.model, truth.state
    problem = sensor_problem_of(model, redundant(model))
    estimator = dn.build(model, problem, backend="numpy")
    readings = truth.readings(problem) + np.random.default_rng(0).normal(size=(3, 2, len(problem.readings)))
    estimates = estimator(q, qd, readings)
    assert estimates.tau.shape == (3, 2, model.nv) and estimates.f_ext.shape == (3, 2, model.nbodies, 6)
    assert estimates.chi_square.shape == (3, 2)
    single = estimator(q, qd, readings[2, 1])
    np.testing.assert_allclose(single.tau, estimates.tau[2, 1], rtol=1e-12)
    pairs = zip(problem.sensors, problem.places, strict=True)
    by_name = {x.name: readings[..., at] for x, at in pairs if at is not None}
    np.testing.assert_array_equal(estimator(q, qd, by_name).tau, estimates.tau)
    again = pickle.loads(pickle.dumps(estimator))
    np.testing.assert_array_equal(again(q, qd, readings).tau, estimates.tau)
    up = estimator(q, qd, readings[0, 0], gravity=np.array([0.0, 0.0, 9.81]))
    assert np.abs(up.tau - estimator(q, qd, readings[0, 0]).tau).max() > 0.1


def test_inertias_change_without_a_new_build():
    truth = truth_of("ur5")
    problem = sensor_problem_of(truth.model, without_priors(redundant(truth.model)))
    heavy = dn.with_payload(truth.model, tips(truth.model)[0], 5.0, [0, 0, 0.1], 0.01 * np.eye(3))
    estimator = dn.build(truth.model, problem, backend="numpy", runtime_parameters=["inertia"])
    other = dn.build(heavy, problem, backend="numpy")
    state = (*truth.state[:2], truth.readings(problem))
    np.testing.assert_allclose(estimator.with_inertias(heavy)(*state).tau, other(*state).tau, rtol=1e-10)
    assert not np.allclose(estimator(*state).tau, other(*state).tau)


def test_invalid_readings_are_named():
    truth = truth_of("ur5")
    problem = sensor_problem_of(truth.model, redundant(truth.model))
    estimator = dn.build(truth.model, problem, backend="numpy")
    q, qd, _ = truth.state
    good = truth.readings(problem)
    bad = good.copy()
    bad[3] = np.nan
    with pytest.raises(InputError, match=rf"readings\[3\].*{problem.readings[3]}"):
        estimator(q, qd, bad)
    with pytest.raises(InputError, match="readings .*shape"):
        estimator(q, qd, good[:-1])
    with pytest.raises(dn.SensorError, match="no reading"):
        estimator(q, qd, {})
    with pytest.raises(InputError, match="judge.*one state"):
        estimator.judge(q, qd, np.stack([good, good]))
    estimates = estimator(q, qd, np.stack([bad, good]), errors="nan")
    assert np.isnan(estimates.tau[0]).all() and np.isfinite(estimates.tau[1]).all()
    assert list(estimator.consistent(estimates)) == [False, True]


@pytest.mark.parametrize(
    "choice", [{"solver": "cluster"}, {"ordering": "rnea"}, {"precision": "float32"}, {"backend": "tpu"}]
)
def test_invalid_choices_are_rejected(choice):
    model = ROBOTS["ur5"].model()
    with pytest.raises(ValueError, match="sensor problems"):
        dn.build(model, sensor_problem_of(model, redundant(model)), **choice)


# --- loops --------------------------------------------------------------------------------------------------


def test_floating_base_with_a_support_wrench():
    """The supporting wrench is measured, or follows from torques and accelerations."""
    linkage = palletizer(np.random.default_rng(3))._replace(floating_base=True)
    mechanism = dn.parse_robot(linkage.text, floating_base=True)
    reference, random = LoopOracle(linkage.text, mechanism), np.random.default_rng(5)
    q = list(positions(linkage, mechanism, random))[-1]
    qd, qdd = random.uniform(-1, 1, (2, mechanism.nv))
    tau = reference.inverse(q, qd, qdd)
    root, base = mechanism.bodies[0].name, slice(0, 6)
    motors = [s.JointTorque(name, std=0.1) for name in mechanism.joint_names]
    support = s.ExternalWrench(root, std=0.5)
    moving = [s.JointAcceleration(joint.name, std=0.1) for joint in mechanism.independent_joints]
    readings = {x.name: tau[6 + k] for k, x in enumerate(motors)} | {support.name: tau[base]}
    readings |= {x.name: qdd[joint.v] for x, joint in zip(moving, mechanism.independent_joints, strict=True)}
    for sensors in (
        [*motors, support],
        moving,
        [*motors, *moving, support],
    ):
        problem = dn.sensor_problem(mechanism, sensors, contacts=[dn.Contact(root, "surface")])
        given = {x.name: readings[x.name] for x in sensors}
        estimate = dn.build(mechanism, problem, backend="numpy")(q, qd, given)
        assert error(estimate.qdd, qdd) <= ACCURATE
        assert error(estimate.tau, np.append(np.zeros(6), tau[6:])) <= ACCURATE
        assert error(estimate.f_ext[0], tau[base]) <= ACCURATE


def test_forces_of_contacts_are_those_of_forward_dynamics():
    """Of two points and a surface, one of them between two links; exact torques and accelerations."""
    robot = ROBOTS["solo12"].model()
    contacts = [
        dn.Contact("FL_FOOT", normal=(0.1, 0.2, 1.0), xyz=(0.01, 0.0, 0.02)),
        dn.Contact("HR_LOWER_LEG", "surface", rpy=RPY, xyz=XYZ),
        dn.Contact("FR_FOOT", other="HL_UPPER_LEG", xyz=XYZ),
    ]
    q, qd, tau, _ = random_states(robot, 4, seed=9)
    tau[:, :6] = 0.0
    forward = dn.build(robot, dn.forward_dynamics(robot, contacts), backend="numpy")
    qdd, forces = forward(q, qd, tau, np.ones(3))
    sensors = [s.JointTorque(name, std=0.1) for name in driven(robot)]
    sensors += [s.JointAcceleration(joint.name, std=0.1) for joint in robot.independent_joints]
    readings = np.hstack([tau[:, 6:], qdd])
    problem = dn.sensor_problem(robot, sensors, ["f_ext"], contacts)
    wrenches = build_contact_wrenches(robot, contacts, "numpy")(q, forces)
    for backend in ("numpy", "c"):
        estimate = dn.build(robot, problem, backend=backend)(q, qd, readings)
        assert error(estimate.qdd, qdd).max() <= ACCURATE
        assert error(estimate.tau, tau).max() <= ACCURATE
        assert estimate.chi_square.max() <= 1e-9
        for k in range(4):
            pushed = dict(zip(("FL_FOOT", "HR_LOWER_LEG", "FR_FOOT"), wrenches[k], strict=True))
            R, p = dn.evaluate(robot, "frame_pose", q[k], link="FR_FOOT", backend="numpy")
            R_other, p_other = dn.evaluate(robot, "frame_pose", q[k], link="HL_UPPER_LEG", backend="numpy")
            force = -R @ pushed["FR_FOOT"][3:]
            moment = -R @ pushed["FR_FOOT"][:3] + np.cross(p - p_other, force)
            pushed["HL_UPPER_LEG"] = np.concatenate([R_other.T @ moment, R_other.T @ force])
            assert error(estimate.f_ext[k], dn.external_wrenches(robot, pushed), 2) <= ACCURATE


def test_a_contact_of_a_fixed_link_is_named():
    with pytest.raises(dn.ContactError, match="'panda_link0'.*fixed"):
        dn.sensor_problem(ROBOTS["panda"].model(), [], contacts=dn.Contact("panda_link0"))


@pytest.mark.parametrize("backend", ["numpy", "c", "gtsam"])
def test_forces_of_wheels_are_those_of_forward_dynamics(backend):
    """A wheel of the base and a roller at a foot; there is no estimate where the wheel lies flat."""
    if backend == "gtsam":
        pytest.importorskip("gtsam", reason="pip install 'gtsam>=4.3'")
    robot = ROBOTS["solo12"].model()
    wheels = [
        dn.Contact("base_link", "wheel", radius=0.2),
        dn.Contact("FL_FOOT", "wheel", radius=0.05, roller=0.6),
    ]
    q, qd, tau, _ = random_states(robot, 3, seed=9)
    q[:, 3:6] *= 0.1
    q[:, 3:7] /= np.linalg.norm(q[:, 3:7], axis=1, keepdims=True)
    q[:, 7:] *= 0.2
    tau[:, :6] = 0.0
    qdd, _ = dn.evaluate(robot, "forward_dynamics", q, qd, tau, [1, 1], contacts=wheels, backend="numpy")
    sensors = [s.JointTorque(name, std=0.1) for name in driven(robot)]
    sensors += [s.JointAcceleration(joint.name, std=0.1) for joint in robot.independent_joints]
    problem = dn.sensor_problem(robot, sensors, contacts=wheels)
    estimator = dn.build(robot, problem, backend=backend)
    q[2, 3:7] = np.sqrt(0.5), 0.0, 0.0, np.sqrt(0.5)  # the base on its side
    readings = np.hstack([tau[:, 6:], qdd])
    estimate = estimator(q, qd, readings, errors="nan")
    assert np.isnan(estimate.qdd[2]).all()
    assert error(estimate.qdd[:2], qdd[:2]).max() <= ACCURATE
    pushed = dn.evaluate(robot, "inverse_dynamics", q[:2], qd[:2], qdd[:2], backend="numpy") - tau[:2]
    acting = pushed - (
        dn.evaluate(
            robot, "inverse_dynamics", q[:2], qd[:2], qdd[:2], f_ext=estimate.f_ext[:2], backend="numpy"
        )
        - tau[:2]
    )
    assert error(acting, pushed).max() <= ACCURATE
    with pytest.raises(dn.SolutionError, match="'base_link' leans"):
        estimator(q[2], qd[2], readings[2])


def test_open_loops_have_no_result(tmp_path):
    own = linkage_motion("palletizer", tmp_path)
    moving = [s.JointAcceleration(joint.name, std=0.1) for joint in own.robot.independent_joints]
    estimator = dn.build(own.robot, problem := dn.sensor_problem(own.robot, moving), backend="numpy")
    ajar, readings = own.q + 0.01, np.zeros(len(problem.readings))
    with pytest.raises(dn.SolutionError, match="open|closed"):
        estimator(ajar, own.qd, readings)
    estimates = estimator(np.stack([own.q, ajar]), own.qd, readings, errors="nan")
    assert np.isfinite(estimates.tau[0]).all() and np.isnan(estimates.tau[1]).all()
