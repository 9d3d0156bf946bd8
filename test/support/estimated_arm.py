"""A simulated Panda whose joints and links are read with noise: how well a JointSmoother knows its motion.

Noise, standard deviations: encoders 5e-4 rad, torques of the motors 0.1 N m, gyros 0.002 rad/s and
accelerometers 0.02 m/s^2 of two IMUs, on the fourth link and on the hand; 500 readings a second of each.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.signal import butter, lfilter, savgol_filter
from scipy.stats import chi2

import dynamics_node as dn
from dynamics_demo.panda import description
from dynamics_demo.pushed_arm import CENTRE
from dynamics_node.robot.sensors import Imu
from dynamics_node.trajectory.gate import Gate
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
    """At every step: q, qd, qdd, torques of the motors and external torques, (count, n)."""

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


# --- what happens -------------------------------------------------------------------------------------------


def tracked(seconds, contact_at=None) -> Motion:
    """The arm follows sines in every joint; from contact_at on, s, something pushes joint CONTACT."""
    forward, inverse = (
        dn.build(arm(), dn.forward_dynamics(arm())),
        dn.build(arm(), dn.inverse_dynamics(arm())),
    )
    q, qd, _ = _wanted(0.0)
    rows = []
    for k in range(round(seconds / T)):
        push = np.zeros(7)
        if contact_at is not None and k * T >= contact_at:
            push[CONTACT[0]] = CONTACT[1]
        wanted, rate, acceleration = _wanted(k * T)
        asked = acceleration + STIFFNESS * (wanted - q) + DAMPING * (rate - qd)
        tau = inverse(q, qd, asked)
        rows.append((q, qd, forward(q, qd, tau + push), tau, push))
        for _ in range(SUBSTEPS):
            q, qd = _runge_kutta(lambda q, qd, u=tau + push: forward(q, qd, u), q, qd, T / SUBSTEPS)
    return Motion(*(np.array(column) for column in zip(*rows, strict=True)))


def _wanted(t):
    """Sines in every joint, with accelerations of ACCELERATION rad/s^2 each, from where they are at rest."""
    phase = FREQUENCY * t
    a = ACCELERATION * np.cos(phase)
    return CENTRE - a / FREQUENCY**2, ACCELERATION / FREQUENCY * np.sin(phase), a


def _runge_kutta(acceleration, q, qd, h):
    k1 = acceleration(q, qd)
    k2 = acceleration(q + h / 2 * qd, qd + h / 2 * k1)
    k3 = acceleration(q + h / 2 * qd + h * h / 4 * k1, qd + h / 2 * k2)
    k4 = acceleration(q + h * qd + h * h / 2 * k2, qd + h * k3)
    return q + h * qd + h * h / 6 * (k1 + k2 + k3), qd + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)


def drawn(count, random, options=OPTIONS) -> Motion:
    """A motion that is as random as the smoother believes: drawn from the very variances of its factors."""
    variances = options.variances()

    def noise(name):
        return np.sqrt(variances[name]) * random.standard_normal(7)

    q, qd = CENTRE + random.standard_normal(7) * 0.1, options.start_velocity * random.standard_normal(7)
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


# --- what is read of it -------------------------------------------------------------------------------------


def read(motion, random) -> dict:
    """{name as JointSmoother.read has it: (count, rows)}, with noise."""
    found = {"encoder": motion.q + ENCODER * random.standard_normal(motion.q.shape)}
    found["torque"] = motion.tau + TORQUE * random.standard_normal(motion.q.shape)
    for sensor in IMUS:
        true = np.array(
            [_imu(sensor.link, *state) for state in zip(motion.q, motion.qd, motion.qdd, strict=True)]
        )
        found[sensor.name] = true + np.array(sensor.std) * random.standard_normal(true.shape)
    return found


@lru_cache
def _pinocchio():
    import pinocchio

    model = pinocchio.buildModelFromXML(description())
    return pinocchio, model, model.createData()


def _imu(link, q, qd, qdd):
    """What an ideal IMU at the link's frame reads, by Pinocchio."""
    pin, model, data = _pinocchio()
    pin.forwardKinematics(model, data, q, qd, qdd)
    pin.updateFramePlacements(model, data)
    frame = model.getFrameId(link)
    omega = pin.getFrameVelocity(model, data, frame, pin.LOCAL).angular
    a = pin.getFrameClassicalAcceleration(model, data, frame, pin.LOCAL).linear
    return np.concatenate([omega, a - data.oMf[frame].rotation.T @ model.gravity.linear])


def estimated(readings, options=OPTIONS, lag=LAG) -> list:
    """JointEstimates of all steps that have `lag` later ones; the step's number is the place in the list."""
    count = len(readings["encoder"])
    smoother, found = JointSmoother(smoothed(), options, readings["encoder"][0]), []
    gate = Gate(smoother)
    for k in range(count):
        smoother.step()
        for name, values in readings.items():
            gate.read(k, name, values[k])
        smoother.solve()
        if k >= lag:
            found.append(smoother.estimate(k - lag))
    assert not gate.rejected, "noise that is as it is said to be makes no outliers"
    return found


# --- how good it is -----------------------------------------------------------------------------------------


def accelerations(found):
    return np.array([one.acceleration for one in found])


def acceleration_error(found, motion, begin=50):
    """RMSE, rad/s^2, of all joints from step `begin` on."""
    a = accelerations(found)
    return float(np.sqrt(np.mean(np.square(a - motion.qdd[: len(a)])[begin:])))


def difference_error(readings, motion, lag=LAG, begin=50):
    """The least RMSE of filtered differences of the encoders, whose filter is chosen with the truth at hand.
    Of those that tell, `lag` steps later, the acceleration of a step: second derivatives of polynomials
    (Savitzky and Golay), of order 2 to 4 over 2 lag + 1 readings, and second differences behind Butterworth
    filters of order 1 to 3 with cut-offs of 1 to 100 Hz."""
    q, count = readings["encoder"], len(readings["encoder"])
    found = [
        savgol_filter(q, 2 * lag + 1, order, deriv=2, delta=T, axis=0)[: count - lag] for order in (2, 3, 4)
    ]
    differences = np.diff(q, 2, axis=0, prepend=q[:1], append=q[-1:]) / T**2  # at k by k + 1
    for order in (1, 2, 3):
        for cutoff in np.geomspace(1.0, 100.0, 21):
            filtered = lfilter(*butter(order, cutoff, fs=1 / T), differences, axis=0)
            found.append(filtered[lag - 1 : count - 1])
    errors = [np.sqrt(np.mean(np.square(a - motion.qdd[: count - lag])[begin:])) for a in found]
    return float(min(errors))


def time_to_tell(found, onset, share=0.1, lag=LAG):
    """s from the onset (step number) until what is published of the contact's torque is within `share` of it,
    and stays there on average over 20 ms."""
    joint, torque = CONTACT
    told = np.array([one.external_torque[joint] for one in found])
    smooth = np.convolve(told, np.full(10, 0.1), mode="full")[: len(told)]
    outside = np.flatnonzero(np.abs(smooth[onset:] - torque) > share * torque)
    return (outside[-1] + 1 + lag) * T if len(outside) else lag * T


def nees(runs, steps=60, seed=0):
    """Of `runs` drawn motions at their last estimate: the mean of e^T P^-1 e over q, qd, qdd and push (4,); its
    95 % band (2,)."""
    random = np.random.default_rng(seed)
    values = np.empty((runs, 4))
    for run in range(runs):
        motion = drawn(steps, random)
        last = estimated(read(motion, random))[-1]
        k = steps - 1 - LAG
        truth = motion.q[k], motion.qd[k], motion.qdd[k], motion.push[k]
        for i, (one, true, P) in enumerate(zip(last[1:5], truth, last.covariances, strict=True)):
            values[run, i] = (one - true) @ np.linalg.solve(P, one - true)
    return values.mean(axis=0), band(runs)


def band(runs, outside=0.05):
    """Where the mean NEES of so many runs is, but for a share of chance."""
    return chi2.ppf([outside / 2, 1 - outside / 2], 7 * runs) / runs
