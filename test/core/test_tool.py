"""Bias, mass and center of mass of a tool from poses, against tools on Pinocchio's robot."""

import numpy as np
import pytest
from robots import ROBOTS, random_states
from sensed import JointWrench, pin
from tolerances import EXACT, error

import dynamics_node as dn
from dynamics_node.robot.subtree import mass_and_moment, subtree

JOINT = "panda_hand_joint"
SENSOR = {"xyz": (0.0, 0.0, -0.03), "rpy": (0.0, 0.0, 0.7)}
BIAS = np.array([0.3, -0.2, 0.1, 4.0, -6.0, 2.5])
MASS, COM, MOMENTS = 1.5, np.array([0.02, -0.03, 0.1]), np.diag([0.004, 0.005, 0.003])
STD = np.array([0.02, 0.02, 0.02, 0.3, 0.3, 0.3])  # N m, N


@pytest.fixture(scope="module")
def model():
    return ROBOTS["panda7"].model()


@pytest.fixture(scope="module")
def truth(model):
    """Pinocchio's robot with another tool on its hand; mass and center of mass of the whole tool at the sensor."""
    oracle = JointWrench(ROBOTS["panda7"], model, JOINT)
    joint = oracle.pin.getJointId(JOINT)
    oracle.pin.inertias[joint] += pin.Inertia(MASS, COM, MOMENTS)
    whole = pin.SE3(pin.rpy.rpyToMatrix(*SENSOR["rpy"]), np.array(SENSOR["xyz"])).actInv(
        oracle.pin.inertias[joint]
    )
    return oracle, whole.mass, whole.lever


def readings(oracle, q, qd=None, qdd=None):
    zero = np.zeros_like(q)
    states = zip(q, zero if qd is None else qd, zero if qdd is None else qdd, strict=True)
    return np.array([oracle(*state, **SENSOR) for state in states]) + BIAS


def test_exact_poses_identify_the_tool(model, truth):
    oracle, mass, com = truth
    q, *_ = random_states(model, 8, seed=11)
    tool = dn.identify_tool(model, JOINT, q, readings(oracle, q), std=STD, **SENSOR)
    assert error(tool.bias, BIAS) <= EXACT and tool.mass == pytest.approx(mass, rel=EXACT)
    assert error(tool.com, com) <= EXACT and tool.condition < 20
    assert tool.dof == 8 * 6 - 10 and tool.chi_square < 1e-12


def test_slow_motions_identify_the_tool(model, truth):
    """The effect of velocities and accelerations uses the moments of inertia of the description."""
    oracle, mass, com = truth
    q, qd, qdd, _ = random_states(model, 40, seed=12)
    qd, qdd = 0.1 * qd, 0.1 * qdd
    tool = dn.identify_tool(model, JOINT, q, readings(oracle, q, qd, qdd), qd, qdd, **SENSOR)
    still = dn.identify_tool(model, JOINT, q, readings(oracle, q, qd, qdd), **SENSOR)
    assert tool.mass == pytest.approx(mass, rel=1e-3) and np.abs(tool.com - com).max() < 1e-3
    assert abs(still.mass - mass) > 3 * abs(tool.mass - mass)


def test_errors_match_the_covariance(model, truth):
    """Over many trials the normalized squared error has the mean of chi-square with ten degrees of freedom."""
    oracle, mass, com = truth
    random, q = np.random.default_rng(13), random_states(model, 12, seed=13)[0]
    clean, true = readings(oracle, q), np.concatenate([BIAS, [mass], com])
    squares, chi_squares = [], []
    for _ in range(200):
        noisy = clean + STD * random.normal(size=clean.shape)
        tool = dn.identify_tool(model, JOINT, q, noisy, std=STD, **SENSOR)
        wrong = np.concatenate([tool.bias, [tool.mass], tool.com]) - true
        squares.append(wrong @ np.linalg.solve(tool.covariance, wrong))
        chi_squares.append(tool.chi_square)
    assert 9.0 < np.mean(squares) < 11.0, "95 % of such means are within 9.4 and 10.6"
    assert np.mean(chi_squares) == pytest.approx(62, abs=3)


def test_noise_is_estimated_from_residuals(model, truth):
    oracle, *_ = truth
    random, q = np.random.default_rng(14), random_states(model, 60, seed=14)[0]
    noisy = readings(oracle, q) + 0.1 * random.normal(size=(60, 6))
    estimated, known = (dn.identify_tool(model, JOINT, q, noisy, std=std, **SENSOR) for std in (None, 0.1))
    assert np.allclose(estimated.std, known.std, rtol=0.15) and np.isnan(estimated.chi_square)


@pytest.mark.parametrize("backend", ["numpy", "c"])
def test_compensated_readings_are_the_bias(model, truth, backend):
    oracle, mass, com = truth
    q, *_ = random_states(model, 8, seed=15)
    tool = dn.identify_tool(model, JOINT, q, readings(oracle, q), **SENSOR)
    function = dn.build(
        model, "sensor_wrench", backend=backend, runtime_parameters=["inertia"], joint=JOINT, **SENSOR
    )
    zero = np.zeros_like(q)
    residual = readings(oracle, q) - function.with_inertias(tool.on(model))(q, zero, zero)
    assert np.allclose(residual, BIAS, atol=1e-9)
    loaded = tool.on(model)
    assert mass_and_moment(subtree(loaded, JOINT).inertia)[0] == pytest.approx(mass)
    assert dn.evaluate(loaded, "mass_matrix", q[0], backend="numpy") == pytest.approx(
        dn.evaluate(tool.on(loaded), "mass_matrix", q[0], backend="numpy")
    ), "a tool replaces the previous one"


def test_tool_lighter_than_described(model):
    """A described tool that is too heavy becomes lighter."""
    oracle = JointWrench(ROBOTS["panda7"], model, JOINT)
    joint = oracle.pin.getJointId(JOINT)
    oracle.pin.inertias[joint] = pin.Inertia(0.3, COM, MOMENTS)
    q, *_ = random_states(model, 8, seed=16)
    tool = dn.identify_tool(model, JOINT, q, readings(oracle, q), **SENSOR)
    assert tool.mass == pytest.approx(0.3) and mass_and_moment(subtree(model, JOINT).inertia)[0] > 0.7
    assert mass_and_moment(subtree(tool.on(model), JOINT).inertia)[0] == pytest.approx(0.3)


def test_poorly_exciting_poses_raise_an_error(model, truth):
    oracle, mass, _ = truth
    q = np.tile(random_states(model, 1, seed=17)[0], (8, 1))
    q[:, 0] = np.linspace(-1, 1, 8)  # about the vertical, so that gravity is constant
    with pytest.raises(ValueError, match=r"excite.*force x.*mass.*condition"):
        dn.identify_tool(model, JOINT, q, readings(oracle, q), **SENSOR)
    regularized = dn.identify_tool(
        model, JOINT, q, readings(oracle, q), std=STD, prior=(1e-3, 1e-4), max_condition=1e6, **SENSOR
    )
    assert regularized.mass == pytest.approx(mass_and_moment(subtree(model, JOINT).inertia)[0], rel=1e-2), (
        "as described"
    )


def test_bias_from_one_pose(model):
    oracle = JointWrench(ROBOTS["panda7"], model, JOINT)
    q = random_states(model, 1, seed=19)[0]
    tool = dn.identify_tool(model, JOINT, q, readings(oracle, q), std=STD, tool=False, **SENSOR)
    assert error(tool.bias, BIAS) <= EXACT and np.allclose(tool.std, STD)
    assert tool.mass == pytest.approx(mass_and_moment(subtree(model, JOINT).inertia)[0])


def test_touched_pose_is_identified(model, truth):
    oracle, *_ = truth
    random, q = np.random.default_rng(20), random_states(model, 12, seed=20)[0]
    touched = readings(oracle, q) + STD * random.normal(size=(12, 6))
    touched[7, 4] += 10.0
    tool = dn.identify_tool(model, JOINT, q, touched, std=STD, **SENSOR)
    assert tool.worst == 7 and tool.chi_square > 200


@pytest.mark.parametrize(
    "change, reason",
    [
        ({"std": -1.0}, "std.*positive"),
        ({"std": np.ones((6, 6))}, "positive definite"),
        ({"std": np.triu(np.ones((6, 6)))}, "std.*covariance"),
        ({"prior": (1.0, 0.0)}, "prior"),
        ({"joint": "wrist"}, "'wrist'"),
        ({"q": np.zeros((5, 7))}, "5 poses.* 6"),
        ({"q": np.full((8, 7), np.nan)}, "q"),
        ({"readings": np.zeros((8, 5))}, "readings .*shape"),
        ({"readings": np.full((8, 6), np.inf)}, "reading 0 .*finite"),
    ],
)
def test_invalid_arguments_are_named(model, change, reason):
    q = random_states(model, 8, seed=21)[0]
    given = {"joint": JOINT, "q": q, **change}
    given.setdefault("readings", np.zeros((len(given["q"]), 6)))
    with pytest.raises((ValueError, KeyError), match=reason):
        dn.identify_tool(model, **given)


def test_weightless_tool_is_rejected(model):
    q = random_states(model, 8, seed=22)[0]
    noise = 0.1 * np.random.default_rng(22).normal(size=(8, 6))
    with pytest.raises(ValueError, match="kg.*tool=False"):
        dn.identify_tool(model, JOINT, q, noise + BIAS)
    with pytest.raises(ValueError, match="positive mass"):
        dn.with_tool(model, JOINT, 0.0, np.zeros(3))
