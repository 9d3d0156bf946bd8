"""Rates and accelerations from encoders: errors match the covariance."""

import numpy as np
import pytest
import urdf_text
from pushes import nees
from robots import robot_of
from scipy.stats import chi2

import dynamics_node as dn

COUNT, RUNS = 7, 30


def joints_of(kind, count):
    """Joints of one kind."""
    text = urdf_text.robot(*map(urdf_text.link, "ab"), urdf_text.joint("j", "a", "b", kind))
    return dn.parse_robot(text).independent_joints * count


def truth(steps, density, random):
    """Integrators of white noise: x (3, COUNT) after each step, exactly sampled."""
    x = np.zeros((3, COUNT)) + np.array([[0.3], [0.5], [1.0]]) * random.standard_normal((3, COUNT))
    for dt in steps:
        F = np.array([[1, dt, dt * dt / 2], [0, 1, dt], [0, 0, 1]])
        powers = np.array([[5, 4, 3], [4, 3, 2], [3, 2, 1]])
        noise = density * dt**powers / [[20, 8, 6], [8, 3, 2], [6, 2, 1]]
        scale = np.sqrt(np.diag(noise))
        correlation = np.linalg.cholesky(noise / np.outer(scale, scale) + 1e-12 * np.eye(3))
        x = F @ x + scale[:, None] * (correlation @ random.standard_normal((3, COUNT)))
        yield x


@pytest.mark.parametrize("samples", [5, 400])
def test_covariance(samples):
    """NEES over 210 joints with the given jerk density and reading noise, and steps that vary a hundredfold.
    Accelerations at the start have the standard deviation first_std."""
    random = np.random.default_rng(samples)
    joint_filter = dn.JointFilter(joints_of("revolute", COUNT), 1e-4, 50.0, first_std=(0.5, 1.0))
    errors, covariances = [], []
    for _ in range(RUNS):
        joint_filter.reset()
        steps = np.exp(random.uniform(np.log(1e-4), np.log(1e-2), samples))
        x, time = np.zeros((3, COUNT)), np.cumsum(steps)
        for now, x in zip(time, truth(steps, 50.0, random), strict=True):
            joint_filter.step(now, x[0] + 1e-4 * random.standard_normal(COUNT))
        errors.append(
            np.stack([joint_filter.position, joint_filter.velocity, joint_filter.acceleration], axis=-1) - x.T
        )
        covariances.append(joint_filter.covariance.copy())
        assert np.array_equal(joint_filter.velocity_variance, joint_filter.covariance[:, 1, 1])
    low, high = chi2.ppf([0.025, 0.975], 3 * COUNT * RUNS) / (3 * COUNT * RUNS)
    assert low <= nees(np.concatenate(errors), np.concatenate(covariances)) <= high
    assert np.linalg.eigvalsh(covariances).min() > 0


def test_constant_acceleration_has_no_lag():
    joint_filter, t = dn.JointFilter(joints_of("revolute", 2), 1e-5, 1e-2), 1e-3 * np.arange(2000)
    for now in t:
        joint_filter.step(now, np.array([1.0, 2.0]) * (0.5 * now**2))
    assert np.allclose(joint_filter.acceleration, [1.0, 2.0], atol=1e-3)
    assert np.allclose(joint_filter.velocity, np.array([1.0, 2.0]) * t[-1], atol=1e-4)


def test_angles_wrapped_by_a_turn():
    joints = joints_of("continuous", 1) + joints_of("revolute", 1)
    joint_filter = dn.JointFilter(joints, 1e-4, 1.0)
    for k in range(500):
        angle = 3.0 + 2e-3 * k
        joint_filter.step(k * 1e-3, [(angle + np.pi) % (2 * np.pi) - np.pi, angle])
    assert np.allclose(joint_filter.velocity, 2.0, atol=1e-3)


def test_joints_of_a_robot():
    """One filter for all its joints with one coordinate, by their kinds: the base is none of them."""
    robot = robot_of("solo12")
    joint_filter = dn.JointFilter(robot, 1e-4, 1.0)
    assert joint_filter.step(0.0, np.zeros(12)) is False and joint_filter.velocity.shape == (12,)
    for joints, match in (
        (7, "robot"),
        ([], "robot"),
        (["j"], "robot"),
        (robot.independent_joints, "coordinates"),
    ):
        with pytest.raises(dn.InputError, match=match):
            dn.JointFilter(joints, 1e-4, 1.0)
    for longest_gap in (0.0, np.nan, "a", None):
        with pytest.raises(dn.InputError, match="longest_gap"):
            dn.JointFilter(robot, 1e-4, 1.0, longest_gap=longest_gap)


def test_invalid_readings():
    joint_filter = dn.JointFilter(joints_of("revolute", 2), 1e-4, 1.0)
    assert not joint_filter.step(0.0, [0.0, 0.0]) and joint_filter.step(0.001, [0.001, 0.0])
    before = joint_filter.velocity.copy()
    for bad in ([np.nan, 0.0], [0.0], [np.inf, 0.0]):
        with pytest.raises(dn.InputError, match="position.* 2 .*finite"):
            joint_filter.step(0.002, bad)
    assert np.array_equal(joint_filter.velocity, before)
    assert not joint_filter.step(0.001, [5.0, 5.0]) and np.array_equal(joint_filter.velocity, before), (
        "the same time again"
    )
    assert not joint_filter.step(3.0, [1.0, 1.0]) and not joint_filter.velocity.any(), "a gap"
    with pytest.raises(ValueError, match="jerk_density.* 2 "):
        dn.JointFilter(joints_of("revolute", 2), 1e-4, -1.0)


def test_numpy_equals_compiled_filter():
    random = np.random.default_rng(0)
    filters = [
        dn.JointFilter(joints_of("revolute", 3), 1e-3, 10.0, backend=backend) for backend in ("c", "numpy")
    ]
    for k in range(50):
        reading = random.standard_normal(3)
        for joint_filter in filters:
            joint_filter.step(k * 1e-2, reading)
    assert np.allclose(filters[0].covariance, filters[1].covariance, rtol=1e-9)
    assert np.allclose(filters[0].acceleration, filters[1].acceleration, rtol=1e-9)
