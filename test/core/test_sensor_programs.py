"""Sensor problems as Programs: against Pinocchio, least squares by NumPy, and at rank deficiencies."""

import pickle

import numpy as np
import pytest

pytest.importorskip("pinocchio", reason="the oracle: pip install pin")

from mechanisms import joint, link, robot
from parallel_robots import chain
from robots import ROBOTS, closed_states, random_states, robot_of
from sensor_truth import Truth, driven, sensor_problem_of, tips
from tolerances import EXACT, error
from two_links import ARM

import dynamics_node as dn
from dynamics_node.graph import sensor_program
from dynamics_node.robot import sensors as s
from dynamics_node.symbolic import interpret

XYZ, RPY = (0.03, -0.05, 0.11), (0.4, -0.7, 1.9)
RESULTS = ("qdd", "tau", "f_ext")


def minimal(model):
    """As many readings as unknowns: accelerations, two sensors of the base motion, an unknown wrench at a foot."""
    sensors = [s.JointAcceleration(name, std=0.2) for name in driven(model)]
    if model.floating_base:
        root = model.bodies[0].name
        sensors += [s.Accelerometer(root, std=0.1, xyz=XYZ, rpy=RPY)]
        sensors += [s.AngularAcceleration(root, std=0.1, rpy=RPY)]
        sensors += [dn.Contact(tips(model)[-1], "surface", xyz=XYZ, rpy=RPY)]
    return sensors


def redundant(model):
    """Redundant sensors: torques, a wrench at the first joint, an IMU at the tip and a prior, too."""
    sensors = [s.JointTorque(name, std=0.5) for name in driven(model)]
    covariance = np.diag([0.1] * 3 + [2.0] * 3) + 0.01
    sensors += [s.ForceTorque(driven(model)[0], measures="parent_to_child", covariance=covariance)]
    sensors += [s.Imu(tips(model)[-1], std=0.05, xyz=XYZ, rpy=RPY)]
    sensors += [s.JointAcceleration(driven(model)[-1], std=3.0, value=0.0, name="prior")]
    return minimal(model) + sensors


def from_the_root(model):
    """A wrench sensor at the first joint, and an unknown wrench at the tip."""
    first = model.bodies[0].joint.name
    return [
        *(s.JointAcceleration(name, std=0.2) for name in driven(model)),
        s.ForceTorque(first, measures="parent_to_child", std=0.1, xyz=XYZ, rpy=RPY),
        dn.Contact(tips(model)[-1], "surface", xyz=XYZ, rpy=RPY),
    ]


@pytest.mark.parametrize(
    ("name", "sensors"),
    [
        ("panda", minimal),
        ("panda", from_the_root),
        ("panda", redundant),
        ("baxter", minimal),
        ("solo12", redundant),
    ],
)
def test_true_motion_is_estimated(name, sensors):
    model = ROBOTS[name].model()
    # without priors, whose values differ from the true motion
    chosen = [x for x in sensors(model) if isinstance(x, dn.Contact) or x.value is None]
    problem = sensor_problem_of(model, chosen)
    program = sensor_program(model, problem)
    q, qd, qdd, _ = random_states(model, 5, seed=5)
    touched = [(tips(model)[-1], XYZ, RPY, np.arange(1.0, 7.0))] if sensors is from_the_root else []
    supports = [(tips(model)[-1], XYZ, RPY, range(6))]
    for k in range(5):
        truth = Truth(ROBOTS[name], model, q[k], qd[k], qdd[k], touched, supports)
        results = interpret(
            program, q=q[k], qd=qd[k], readings=truth.readings(problem), gravity=model.gravity
        )
        assert error(results["qdd"], qdd[k]) <= EXACT
        free = [v for b in model.bodies if b.joint.type.is_free for v in range(*b.joint.v.indices(model.nv))]
        assert error(np.delete(results["tau"], free), np.delete(truth.tau, free)) <= 1e-9
        assert error(results["f_ext"], truth.f_ext, tail=2) <= 1e-9
        assert np.abs(results["residuals"]).max() <= 1e-8
        if program.limits:
            assert np.all(results["health"] <= program.limits)


@pytest.mark.parametrize(
    ("name", "sensors", "backend"),
    [("panda", redundant, "interpreter"), ("panda", redundant, "c"), ("panda", from_the_root, "c")],
)
def test_contradicting_readings_give_the_least_squares_solution(name, sensors, backend):
    model = ROBOTS[name].model()
    requested = RESULTS if (name, backend) == ("panda", "interpreter") else ("f_ext",)
    problem = sensor_problem_of(model, sensors(model), covariance=requested)
    q, qd, _, _ = random_states(model, 16, seed=7)
    readings = np.random.default_rng(3).uniform(-10, 10, (16, len(problem.readings)))
    right = dn.build(model, problem, backend="numpy")(q, qd, readings)
    if backend == "c":
        estimator = dn.build(model, problem, backend="c")
        assert estimator.runner.backend == "c"
        results = estimator(q, qd, readings)._asdict()
        single = estimator(q[3], qd[3], readings[3])
        np.testing.assert_allclose(single.tau, results["tau"][3], rtol=1e-12, atol=1e-12)
        again = pickle.loads(pickle.dumps(estimator))(q, qd, readings)
        np.testing.assert_array_equal(again.tau, results["tau"])
    else:
        program = sensor_program(model, problem)
        results = interpret(program, q=q, qd=qd, readings=readings, gravity=model.gravity)
    for field in (*RESULTS, *(f"{x}_covariance" for x in requested)):
        tail = right._asdict()[field].ndim - 1
        assert error(results[field], right._asdict()[field], tail).max() <= 1e-9, field
    # residuals are differences of readings of this magnitude
    assert np.abs(results["residuals"] - right.residuals).max() <= 1e-9 * np.abs(readings).max() * 10
    # chi-square is a sum of terms of this magnitude
    size = max(1.0, np.abs(right.chi_square).max())
    assert np.abs(results["chi_square"] - right.chi_square).max() <= 1e-9 * size


def test_invalid_states_are_nan_and_others_unchanged():
    model = ROBOTS["panda"].model()
    estimator = dn.build(model, sensor_problem_of(model, minimal(model)), backend="c")
    q, qd, _, _ = random_states(model, 6, seed=2)
    readings = np.ones((6, model.nv))
    right = estimator(q, qd, readings)
    readings[4, 1] = np.nan
    results = estimator(q, qd, readings, errors="nan")
    assert np.isnan(results.tau[4]).all()
    np.testing.assert_array_equal(np.delete(results.tau, 4, 0), np.delete(right.tau, 4, 0))
    with pytest.raises(dn.InputError, match="readings"):
        estimator(q, qd, readings)


def test_payload_needs_no_new_build():
    model = ROBOTS["panda"].model()
    for sensors, changed in ((minimal, "tau"), (from_the_root, "f_ext")):
        problem = sensor_problem_of(model, sensors(model))
        estimator = dn.build(model, problem, backend="c", runtime_parameters=("inertia",))
        loaded = dn.with_payload(model, tips(model)[-1], 2.0, (0.0, 0.0, 0.1), 0.01 * np.eye(3))
        q, qd, _, _ = random_states(model, 3, seed=2)
        readings = np.random.default_rng(1).uniform(-2, 2, (3, len(problem.readings)))
        results = estimator.with_inertias(loaded)(q, qd, readings)
        right = dn.build(loaded, problem, backend="numpy")(q, qd, readings)
        assert error(results.tau, right.tau).max() <= EXACT
        assert error(results.f_ext, right.f_ext, tail=2).max() <= EXACT
        before = estimator(q, qd, readings)
        assert np.abs(getattr(results, changed) - getattr(before, changed)).max() > 0.1


@pytest.mark.parametrize("n", [2, 3, 7, 15, 30])
def test_operations_of_inverse_dynamics_are_at_most_the_textbook_count(n):
    """Figure 1 of paper 4: the generic search needs no more operations than the recursion, 93n - 69 multiplications and
    81n - 65 additions (Featherstone)."""
    model = chain(n)
    sensors = [s.JointAcceleration(name, std=1.0) for name in driven(model)]
    program = sensor_program(model, sensor_problem_of(model, sensors))
    counts = program.op_count()
    assert counts["add"] + counts["mul"] + counts["div"] <= 174 * n - 134
    q, qd, qdd, _ = random_states(model, 4, seed=3)
    results = interpret(program, q=q, qd=qd, readings=qdd, gravity=model.gravity)
    right = dn.build(model, dn.inverse_dynamics(model), backend="numpy")(q, qd, qdd)
    assert error(results["tau"], right).max() <= EXACT


# --- loops --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["four_bar", "five_bar", "geared_chain"])
def test_robots_with_loops(name):
    mechanism = robot_of(name)
    own = [joint.name for joint in mechanism.independent_joints]
    sensors = [s.JointAcceleration(name, std=0.1) for name in own]
    sensors += [s.JointTorque(name, std=0.3) for name in own]
    problem = dn.sensor_problem(mechanism, sensors)
    q, qd, _ = closed_states(mechanism, 5, reach=0.05)
    readings = np.random.default_rng(3).uniform(-2, 2, (5, len(problem.readings)))
    program = sensor_program(mechanism, problem)
    results = interpret(program, q=q, qd=qd, readings=readings, gravity=mechanism.gravity)
    assert np.all(results["health"] <= program.limits)
    right = dn.build(mechanism, problem, backend="numpy")(q, qd, readings)
    for field in ("qdd", "tau", "residuals"):
        assert error(results[field], getattr(right, field)).max() <= 1e-9, field


# --- rank deficiency ----------------------------------------------------------------------------------------


def two_links():
    """A planar arm with an unknown force along the second link; the torque of the first joint determines it unless the
    arm is straight."""
    text = robot(
        link("base"), joint("j1", "base", "upper"), link("upper", 1, 1.0),
        joint("j2", "upper", "lower", xyz="0.5 0 0"), link("lower", 2, 1.0),
    )  # fmt: skip
    model = dn.parse_robot(text)
    known = ("mx", "my", "mz", "fy", "fz")
    sensors = [s.JointAcceleration("j1", std=0.1), s.JointAcceleration("j2", std=0.1)]
    at = {"xyz": (0.4, 0.0, 0.0)}
    sensors += [s.JointTorque("j1", std=0.1), s.ExternalWrench("lower", rows=known, std=0.0, value=0.0, **at)]
    return model, dn.sensor_problem(model, sensors, contacts=[dn.Contact("lower", "surface", **at)])


@pytest.mark.parametrize("backend", ["c", "auto", "numpy"])
def test_pose_with_a_rank_deficiency_has_no_result(backend):
    model, problem = two_links()
    estimator = dn.build(model, problem, backend=backend)
    readings = np.array([0.1, -0.2, 3.0])
    still = np.zeros(2)
    bent = estimator([0.3, 0.7], still, readings)
    tau = dn.build(model, dn.inverse_dynamics(model), f_ext=True)([0.3, 0.7], still, readings[:2], bent.f_ext)
    np.testing.assert_allclose(tau[0], 3.0, atol=1e-9)
    with pytest.raises(dn.SolutionError, match="lower"):
        estimator([0.3, 0.0], still, readings)
    q = np.array([[0.3, 0.7], [0.3, 0.0], [0.3, -0.4]])
    results = estimator(q, np.zeros((3, 2)), np.tile(readings, (3, 1)), errors="nan")
    assert np.isnan(results.f_ext[1]).all()
    assert np.isfinite(results.f_ext[[0, 2]]).all()


def test_health_exceeds_its_limit_before_digits_are_lost():
    """Closer to the singular pose, results within the limit are accurate, and the closest states exceed it."""
    model, problem = two_links()
    program = sensor_program(model, problem)
    readings, gravity = np.array([0.1, -0.2, 3.0]), np.zeros(3)
    angles = 10.0 ** -np.arange(0, 17)
    q = np.stack([np.full_like(angles, 0.3), angles], axis=1)
    results = interpret(program, q=q, qd=np.zeros_like(q), readings=readings, gravity=gravity)
    passed = results["health"][:, -1] <= program.limits[-1]
    assert passed[0]
    assert not passed[-3:].any()
    tau = dn.build(model, dn.inverse_dynamics(model), backend="numpy", f_ext=True)(
        q[passed], np.zeros_like(q[passed]), np.tile(readings[:2], (passed.sum(), 1)), results["f_ext"][passed], gravity=gravity
    )  # fmt: skip
    assert np.abs(tau[:, 0] - 3.0).max() <= 1e-8


def crowded(model, count):
    """Torques and `count` IMUs on both links; every third one has correlated noise."""
    random = np.random.default_rng(3)
    sensors: list = [s.JointTorque(name, std=0.5) for name in driven(model)]
    for k in range(count):
        std = random.uniform(0.02, 0.5, 6)
        own = {"covariance": np.diag(std**2) + 0.01} if k % 3 == 0 else {"std": std.tolist()}
        pose = {"xyz": random.uniform(-0.2, 0.2, 3).tolist(), "rpy": random.uniform(-3, 3, 3).tolist()}
        sensors.append(s.Imu(model.bodies[k % 2].name, name=f"imu{k}", **pose, **own))
    return sensors


def test_many_redundant_readings():
    """60 IMUs: the estimate equals weighted least squares, and operations grow linearly with their number."""
    model, programs = dn.parse_robot(ARM), {}
    for count in (10, 20, 60):
        problem = sensor_problem_of(model, crowded(model, count), covariance=["qdd", "tau"])
        programs[count] = sensor_program(model, problem)
    least, few, many = (len(program.ops) for program in programs.values())
    assert many <= few + 1.1 * (60 - 20) / (20 - 10) * (few - least)
    random = np.random.default_rng(4)
    q, qd = random.uniform(-1, 1, (2, 5, 2))
    readings = random.uniform(-3, 3, (5, len(problem.readings)))
    expected = dn.build(model, problem, backend="numpy")(q, qd, readings)
    results = interpret(programs[60], q=q, qd=qd, readings=readings, gravity=np.tile(model.gravity, (5, 1)))
    for name, value in expected._asdict().items():
        if value is not None:
            assert error(results[name].ravel(), value.ravel()) <= 1e-9, name
