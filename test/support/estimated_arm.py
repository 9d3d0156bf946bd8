"""A simulated Panda with noisy sensors: the accuracy of a JointSmoother.

Standard deviations of the noise: encoders 5e-4 rad, motor torques 0.1 N m. Two IMUs, on the fourth link and on the
hand: gyros 0.002 rad/s, accelerometers 0.02 m/s^2. Every sensor has 500 readings a second.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.signal import butter, lfilter, savgol_filter
from scipy.stats import chi2

import dynamics_node as dn
from dynamics_demo.panda import description
from dynamics_demo.pushed_arm import CENTER
from dynamics_node.robot.sensors import Imu
from dynamics_node.trajectory.gate import Gate
from dynamics_node.trajectory.joint_graph import walk_variances
from dynamics_node.trajectory.joint_smoother import JointSmoother, Smoothed, SmootherOptions

ENCODER, TORQUE, GYRO, ACCELEROMETER = 5e-4, 0.1, 0.002, 0.02
OPTIONS = SmootherOptions(
    encoder_std=ENCODER, torque_std=TORQUE, jerk_density=1e3, external_torque_density=1e3
)
T = OPTIONS.period
LAG = 5  # steps
IMUS = tuple(
    Imu(link=link, std=(GYRO,) * 3 + (ACCELEROMETER,) * 3, name=link)
    for link in ("panda_link4", "panda_hand")
)
FREQUENCY = 2 * np.pi * np.array([1.1, 1.4, 1.7, 2.0, 2.3, 2.6, 2.9])  # rad/s, of the motion
ACCELERATION = 8.0  # rad/s^2
STIFFNESS, DAMPING = 400.0, 40.0  # 1/s^2, 1/s, of the controller
SUBSTEPS = 4
CONTACT = (3, 5.0)  # joint and its torque, N m


class Motion(NamedTuple):
    """q, qd, qdd, motor torques and external torques at every step, (count, n)."""

    q: np.ndarray
    qd: np.ndarray
    qdd: np.ndarray
    tau: np.ndarray
    push: np.ndarray


@lru_cache
def arm():
    return dn.parse_robot(description())


@lru_cache
def smoothed(backend="auto"):
    return Smoothed(arm(), IMUS, backend)


# --- motions ------------------------------------------------------------------------------------------------


def tracked(seconds, contact_at=None) -> Motion:
    """The arm follows sines in every joint; from contact_at (s) on, an external torque acts as in CONTACT."""
    forward = dn.build(arm(), dn.forward_dynamics(arm()))
    inverse = dn.build(arm(), dn.inverse_dynamics(arm()))
    q, qd, _ = _desired(0.0)
    rows = []
    for k in range(round(seconds / T)):
        push = np.zeros(7)
        if contact_at is not None and k * T >= contact_at:
            push[CONTACT[0]] = CONTACT[1]
        target, rate, acceleration = _desired(k * T)
        commanded = acceleration + STIFFNESS * (target - q) + DAMPING * (rate - qd)
        tau = inverse(q, qd, commanded)
        rows.append((q, qd, forward(q, qd, tau + push), tau, push))
        for _ in range(SUBSTEPS):
            q, qd = _runge_kutta(lambda q, qd, u=tau + push: forward(q, qd, u), q, qd, T / SUBSTEPS)
    return Motion(*(np.array(column) for column in zip(*rows, strict=True)))


def _desired(t):
    """Desired q, qd, qdd: sines with an amplitude of ACCELERATION rad/s^2 in every joint, at rest at t = 0."""
    phase = FREQUENCY * t
    a = ACCELERATION * np.cos(phase)
    return CENTER - a / FREQUENCY**2, ACCELERATION / FREQUENCY * np.sin(phase), a


def _runge_kutta(acceleration, q, qd, h):
    k1 = acceleration(q, qd)
    k2 = acceleration(q + h / 2 * qd, qd + h / 2 * k1)
    k3 = acceleration(q + h / 2 * qd + h * h / 4 * k1, qd + h / 2 * k2)
    k4 = acceleration(q + h * qd + h * h / 2 * k2, qd + h * k3)
    return q + h * qd + h * h / 6 * (k1 + k2 + k3), qd + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)


def drawn(count, random, options=OPTIONS) -> Motion:
    """A motion drawn from the smoother's own model: the noise has the variances of its factors."""
    variances = walk_variances(options)

    def noise(name):
        return np.sqrt(variances[name]) * random.standard_normal(7)

    q, qd = CENTER + random.standard_normal(7) * 0.1, options.start_velocity * random.standard_normal(7)
    qdd, push = 10.0 * random.standard_normal(7), 10.0 * random.standard_normal(7)
    rows = []
    for _ in range(count):
        rows.append((q, qd, qdd, push))
        later = qdd + noise("random walk qdd")
        faster = qd + T / 2 * (qdd + later) + noise("trapezoidal qd")
        q = q + T / 2 * (qd + faster) + noise("trapezoidal q")
        qd, qdd, push = faster, later, push + noise("random walk external_torque")
    q, qd, qdd, push = (np.array(column) for column in zip(*rows, strict=True))
    return Motion(q, qd, qdd, dn.build(arm(), dn.inverse_dynamics(arm()))(q, qd, qdd) - push, push)


# --- readings -----------------------------------------------------------------------------------------------


def read(motion, random) -> dict:
    """{name of JointSmoother.read: (count, rows)}, with noise."""
    readings = {"encoder": motion.q + ENCODER * random.standard_normal(motion.q.shape)}
    readings["torque"] = motion.tau + TORQUE * random.standard_normal(motion.q.shape)
    for sensor in IMUS:
        true = np.array(
            [_imu(sensor.link, *state) for state in zip(motion.q, motion.qd, motion.qdd, strict=True)]
        )
        readings[sensor.name] = true + np.array(sensor.std) * random.standard_normal(true.shape)
    return readings


@lru_cache
def _pinocchio():
    import pinocchio

    model = pinocchio.buildModelFromXML(description())
    return pinocchio, model, model.createData()


def _imu(link, q, qd, qdd):
    """The reading of an ideal IMU at the link's frame, by Pinocchio."""
    pin, model, data = _pinocchio()
    pin.forwardKinematics(model, data, q, qd, qdd)
    pin.updateFramePlacements(model, data)
    frame = model.getFrameId(link)
    omega = pin.getFrameVelocity(model, data, frame, pin.LOCAL).angular
    a = pin.getFrameClassicalAcceleration(model, data, frame, pin.LOCAL).linear
    return np.concatenate([omega, a - data.oMf[frame].rotation.T @ model.gravity.linear])


def estimated(readings, options=OPTIONS, lag=LAG) -> list:
    """JointEstimates of all steps but the last `lag`, in order."""
    count = len(readings["encoder"])
    smoother, estimates = JointSmoother(smoothed(), options, readings["encoder"][0]), []
    gate = Gate(smoother)
    for k in range(count):
        smoother.step()
        for name, values in readings.items():
            gate.read(k, name, values[k])
        smoother.solve()
        if k >= lag:
            estimates.append(smoother.estimate(k - lag))
    assert not gate.rejected, "noise of the specified variance makes no outliers"
    return estimates


# --- accuracy ------------------------------------------------------------------------------------------------


def accelerations(estimates):
    return np.array([estimate.acceleration for estimate in estimates])


def acceleration_error(estimates, motion, begin=50):
    """RMSE, rad/s^2, of all joints from step `begin` on."""
    a = accelerations(estimates)
    return float(np.sqrt(np.mean(np.square(a - motion.qdd[: len(a)])[begin:])))


def difference_error(readings, motion, lag=LAG, begin=50):
    """The least RMSE of filtered differences of the encoders, over filters with a delay of `lag` steps.

    Savitzky-Golay filters have order 2 to 4 over 2 lag + 1 readings. Butterworth filters of second differences have
    order 1 to 3 and cut-offs of 1 to 100 Hz. The truth chooses the best one.
    """
    q, count = readings["encoder"], len(readings["encoder"])
    candidates = [
        savgol_filter(q, 2 * lag + 1, order, deriv=2, delta=T, axis=0)[: count - lag] for order in (2, 3, 4)
    ]
    differences = np.diff(q, 2, axis=0, prepend=q[:1], append=q[-1:]) / T**2  # at k by k + 1
    for order in (1, 2, 3):
        for cutoff in np.geomspace(1.0, 100.0, 21):
            filtered = lfilter(*butter(order, cutoff, fs=1 / T), differences, axis=0)
            candidates.append(filtered[lag - 1 : count - 1])
    errors = [np.sqrt(np.mean(np.square(a - motion.qdd[: count - lag])[begin:])) for a in candidates]
    return float(min(errors))


def settling_time(estimates, onset, share=0.1, lag=LAG):
    """s from the onset (a step number) until the published contact torque settles.

    It has settled once its mean over 20 ms stays within `share` of the true torque.
    """
    joint, torque = CONTACT
    published = np.array([estimate.external_torque[joint] for estimate in estimates])
    smooth = np.convolve(published, np.full(10, 0.1), mode="full")[: len(published)]
    outside = np.flatnonzero(np.abs(smooth[onset:] - torque) > share * torque)
    return (outside[-1] + 1 + lag) * T if len(outside) else lag * T


def nees(runs, steps=60, seed=0):
    """The mean of e^T P^-1 e (4,), of q, qd, qdd and push at the end of `runs` drawn motions, and its 95 % band (2,)."""
    random = np.random.default_rng(seed)
    values = np.empty((runs, 4))
    for run in range(runs):
        motion = drawn(steps, random)
        last = estimated(read(motion, random))[-1]
        k = steps - 1 - LAG
        truth = motion.q[k], motion.qd[k], motion.qdd[k], motion.push[k]
        for i, (mean, true, P) in enumerate(zip(last[1:5], truth, last.covariances, strict=True)):
            values[run, i] = (mean - true) @ np.linalg.solve(P, mean - true)
    return values.mean(axis=0), band(runs)


def band(runs, outside=0.05):
    """The interval of the mean NEES over `runs` runs; outside: the probability of a value out of it."""
    return chi2.ppf([outside / 2, 1 - outside / 2], 7 * runs) / runs
