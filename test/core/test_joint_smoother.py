"""The smoother of joint states: the optimum and covariance of dense least squares, and errors."""

from dataclasses import replace

import numpy as np
import pytest
from two_links import ARM, NAMES, PUSH, Swing

import dynamics_node as dn
from dynamics_node.errors import SensorError, Unobservable
from dynamics_node.robot.sensors import Gyro, Imu, JointTorque
from dynamics_node.trajectory.joint_smoother import JointSmoother, Smoothed, SmootherOptions

STEPS, WINDOW = 8, 8
OPTIONS = SmootherOptions(
    period=0.004, lag_steps=WINDOW, encoder_std=(1e-4, 2e-4), torque_std=0.3, jerk_density=1e3
)
IMU = Imu(link="lower", std=(0.01, 0.01, 0.01, 0.05, 0.05, 0.05), name="imu")


@pytest.fixture(scope="module")
def smoothed():
    return Smoothed(dn.parse_robot(ARM), [IMU])


@pytest.fixture(scope="module")
def readings():
    """(STEPS, rows) of every sensor, with noise; some readings are missing."""
    swing, random = Swing(), np.random.default_rng(3)
    times = OPTIONS.period * np.arange(STEPS)
    rows = {
        "encoder": np.array([swing.state(t)[0] for t in times]) + 1e-4 * random.standard_normal((STEPS, 2)),
        "torque": np.array([swing.torque(t) for t in times]) + 0.3 * random.standard_normal((STEPS, 2)),
        "imu": np.array([swing.imu(t) for t in times]) + 0.02 * random.standard_normal((STEPS, 6)),
    }
    rows["encoder"][3, 1] = np.nan
    rows["torque"][4] = rows["imu"][5] = np.nan
    return rows


def run(smoothed, readings, options=OPTIONS):
    smoother = JointSmoother(smoothed, options, readings["encoder"][0])
    for k in range(len(readings["encoder"])):
        smoother.step()
        for name, values in readings.items():
            smoother.read(k, name, values[k])
        smoother.solve()
    return smoother


def dense(readings, options=OPTIONS):
    """x (STEPS, 8) of q, qd, qdd, external torque, and their covariance. Gauss-Newton with numeric derivatives of all
    errors over their standard deviations; the factors are written independently."""
    swing, T, S = Swing(), options.period, options.jerk_density
    model = swing.model
    start = np.zeros((STEPS, 8))
    start[:, :2] = readings["encoder"][0]
    q_std = np.sqrt(max(S * T**5 / 120, (0.01 * 1e-4) ** 2))
    deviations = q_std, np.sqrt(S * T**3 / 12), np.sqrt(S * T), np.sqrt(options.external_torque_density * T)

    def errors(flat):
        x = flat.reshape(STEPS, 4, 2)
        q, qd, qdd, external_torque = x.transpose(1, 0, 2)
        parts = [q[0] - readings["encoder"][0], qd[0] / options.start_velocity]
        parts += [qdd[0] / options.start_acceleration, external_torque[0] / options.start_external_torque]
        steps = (
            np.diff(q, axis=0) - T / 2 * (qd[1:] + qd[:-1]),
            np.diff(qd, axis=0) - T / 2 * (qdd[1:] + qdd[:-1]),
        )
        steps += (np.diff(qdd, axis=0), np.diff(external_torque, axis=0))
        parts += [(error / std).ravel() for error, std in zip(steps, deviations, strict=True)]
        parts.append(((q - readings["encoder"]) / options.encoder_std).ravel())
        tau = np.array([swing.inverse(*state) for state in zip(q, qd, qdd, strict=True)])
        parts.append(((tau - external_torque - readings["torque"]) / options.torque_std).ravel())
        predicted = np.array([imu(*state) for state in zip(q, qd, qdd, strict=True)])
        parts.append(((predicted - readings["imu"]) / IMU.std).ravel())
        return np.nan_to_num(np.concatenate(parts))

    x = start.ravel()
    for _ in range(12):
        h = 1e-6
        J = np.array([(errors(x + h * e) - errors(x - h * e)) / (2 * h) for e in np.eye(len(x))]).T
        step = np.linalg.lstsq(J, errors(x), rcond=None)[0]
        x = x - step
        if np.linalg.norm(J @ step) < 1e-6:  # standard deviations
            break
    assert model.nv == 2 and np.linalg.norm(J @ step) < 1e-6
    return x.reshape(STEPS, 4, 2), np.linalg.inv(J.T @ J).reshape(STEPS, 4, 2, STEPS, 4, 2)


def imu(q, qd, qdd):
    """As Swing.imu, at any state."""
    (a, b), (da, db), (dda, _) = q, qd, qdd
    x = 0.6 * (-np.sin(a) * dda - np.cos(a) * da**2)
    z = 0.6 * (-np.cos(a) * dda + np.sin(a) * da**2) + 9.81
    c, s = np.cos(a + b), np.sin(a + b)
    return np.array([0, da + db, 0, c * x - s * z, 0, s * x + c * z])


def test_optimum_and_covariance_match_dense_least_squares(smoothed, readings):
    smoother = run(smoothed, readings)
    smoother.lag.tolerance = 1e-9
    smoother.solve()
    x, P = dense(readings)
    for k in (0, 3, 5, STEPS - 1):
        estimate = smoother.estimate(k)
        means = (estimate.position, estimate.velocity, estimate.acceleration, estimate.external_torque)
        for i in range(4):
            expected = P[k, i, :, k, i, :]
            np.testing.assert_allclose(means[i], x[k, i], atol=1e-4 * np.sqrt(expected.max()) + 1e-9)
            np.testing.assert_allclose(
                estimate.covariances[i], expected, rtol=1e-4, atol=1e-5 * expected.max()
            )


def test_short_window_keeps_the_information_of_older_readings(smoothed, readings):
    """The newest step of a short window has the information of all readings."""
    whole = run(smoothed, readings).estimate(STEPS - 1)
    short = run(smoothed, readings, replace(OPTIONS, lag_steps=3)).estimate(STEPS - 1)
    for value, expected, P in zip(short[1:5], whole[1:5], whole.covariances, strict=True):
        assert (np.abs(value - expected) < 0.02 * np.sqrt(np.diag(P))).all()
    for value, expected in zip(short.covariances, whole.covariances, strict=True):
        np.testing.assert_allclose(value, expected, rtol=1e-2, atol=1e-3 * np.abs(expected).max())


def test_two_readings_at_a_step_have_twice_the_weight(smoothed, readings):
    smoother = JointSmoother(smoothed, OPTIONS, readings["encoder"][0])
    for k in range(4):
        smoother.step()
        smoother.read(k, "encoder", [0.5, np.nan])
        smoother.read(k, "encoder", [0.502, 0.1])
    steps = smoother.lag.steps
    np.testing.assert_allclose(steps["reading encoder"][3], [0.501, 0.1])
    np.testing.assert_allclose(steps["weights encoder"][3], [2e8, 0.25e8])


@pytest.mark.parametrize("torque_std", [1e-2, 1e-4, 1e-6])
@pytest.mark.parametrize("start_external_torque", [100.0, np.inf])
def test_accurate_torques_leave_everything_observable(smoothed, torque_std, start_external_torque):
    """Torques as accurate as in simulated recordings determine the external torque, and degrade nothing else."""
    swing = Swing()
    options = replace(OPTIONS, torque_std=torque_std, start_external_torque=start_external_torque)
    times = OPTIONS.period * np.arange(STEPS)
    exact = {"encoder": np.array([swing.state(t)[0] for t in times])}
    exact["torque"] = np.array([swing.torque(t) for t in times])
    exact["imu"] = np.array([swing.imu(t) for t in times])
    estimate = run(smoothed, exact, options).estimate(STEPS - 3)
    truth = (*swing.state(times[STEPS - 3]), PUSH)
    for value, true, P in zip(estimate[1:5], truth, estimate.covariances, strict=True):
        assert (np.abs(value - true) <= 0.5 * np.sqrt(np.diag(P))).all()
    M = dn.evaluate(swing.model, "mass_matrix", estimate.position, backend="numpy")
    of_accelerations = M @ estimate.covariances[2] @ M.T
    np.testing.assert_allclose(np.diag(estimate.covariances[3]), np.diag(of_accelerations), rtol=0.1)


@pytest.mark.parametrize("torque_std", [1e-2, 1e-6])
def test_unobservable_torques_are_named(smoothed, readings, torque_std):
    """Without a prior and without a reading, for any accuracy of the other readings."""
    options = replace(OPTIONS, torque_std=torque_std, start_external_torque=np.inf)
    incomplete = readings | {"torque": np.full((STEPS, 2), np.nan)}
    with pytest.raises(Unobservable, match="tau joint1, tau joint2"):
        run(smoothed, incomplete, options)
    incomplete["torque"][:, 0] = readings["torque"][:, 0]
    with pytest.raises(Unobservable, match="step 0.*tau joint2"):
        run(smoothed, incomplete, options)


def test_estimate_names_the_worst_sensor(smoothed, readings):
    faulty = {name: values.copy() for name, values in readings.items()}
    faulty["imu"][6, 1] += 1.0  # rad/s at one step
    estimate = run(smoothed, faulty).estimate(6)
    assert estimate.worst == "imu" and estimate.chi_square > 100 > estimate.readings
    assert run(smoothed, readings).estimate(6).chi_square < 30


@pytest.mark.parametrize(
    "sensor, words",
    [
        (JointTorque(joint="joint1", std=0.1), "imu, gyro and accelerometer.*torque"),
        (Gyro(link="lower", std=0.0), "std 0 .*0.0001"),
        (Gyro(link="lower", name="hand", std=(0.1, 1e-9, 0.1)), "'hand'.*1e-09.*0.0001"),
        (Gyro(link="lower", covariance=np.eye(3).tolist()), "std"),
        (Gyro(link="lower", std=0.1, value=(0.0, 0.0, 0.0)), "gyro"),
        (Gyro(link="base", std=0.1), "fixed"),
    ],
)
def test_unsupported_sensors_raise(sensor, words):
    with pytest.raises(ValueError, match=words):
        Smoothed(dn.parse_robot(ARM), [sensor])


def test_unsupported_robots_and_counts_raise(smoothed):
    with pytest.raises(ValueError, match="several coordinates"):
        Smoothed(dn.parse_robot(ARM.replace('type="revolute"', 'type="floating"')))
    with pytest.raises(ValueError, match=" ?3 .* 2 joints"):
        JointSmoother(smoothed, SmootherOptions(encoder_std=(1e-4,) * 3), np.zeros(2))
    assert smoothed.independent == NAMES and len(PUSH) == 2 and issubclass(SensorError, ValueError)


def test_estimate_of_a_closed_loop():
    """A four-bar: its dependent joints have encoders, too, and follow exactly."""
    from dynamics_demo.robots import four_bar

    robot = dn.parse_robot(four_bar())
    linkage = Smoothed(robot, backend="numpy")
    closed = dn.close_loops(robot, np.full(3, 0.1))
    smoother = JointSmoother(linkage, SmootherOptions(period=0.01, lag_steps=4), closed)
    tau = dn.build(robot, dn.inverse_dynamics(robot), backend="numpy")(closed, np.zeros(1), np.zeros(1))
    for k in range(8):
        smoother.step()
        smoother.read(k, "encoder", closed)
        smoother.read(k, "torque", tau - 2.0)
        smoother.solve()
    estimate = smoother.estimate(6)
    np.testing.assert_allclose(estimate.q, closed, atol=1e-6)
    np.testing.assert_allclose(estimate.external_torque, [2.0], atol=1e-2)
    assert estimate.names == ("crank_j",)
