"""Estimated joint states and external torques of a simulated Panda with noisy encoders, torques and two
IMUs."""

import time

import harness
import numpy as np
import robots  # noqa: F401  adds test/support to the path

import estimated_arm as arm  # isort: skip


def estimation():
    """Rows of the accuracy, time and consistency of estimates, see estimated_arm."""
    motion = arm.tracked(1.0)
    readings = arm.read(motion, np.random.default_rng(1))
    arm.estimated({name: values[:10] for name, values in readings.items()})  # compiles the Programs
    begin = time.thread_time()
    estimates = arm.estimated(readings)
    period = (time.thread_time() - begin) / len(motion.q)
    ours, filtered = arm.acceleration_error(estimates, motion), arm.difference_error(readings, motion)
    yield harness.Row(
        "estimation, acceleration", ours, "rad/s^2", "lower", "filtered differences", filtered, target=0.2,
        reason=f"rms, both {arm.LAG} steps late; the best of 66 filters, chosen with the truth",
    )  # fmt: skip
    yield harness.Row(
        "estimation, a step with covariances", 1e6 * period, "us", "lower", target=5000.0, reason="200 Hz"
    )
    pushed = arm.tracked(1.0, contact_at=0.5)
    estimates = arm.estimated(arm.read(pushed, np.random.default_rng(2)))
    delay = arm.settling_time(estimates, round(0.5 / arm.T))
    yield harness.Row(
        f"estimation, {arm.CONTACT[1]:g} N m within 10 %",
        delay,
        "s",
        "lower",
        target=0.2,
        reason="after the onset, with the lag",
    )
    yield from _consistent(*arm.nees(30))


def _consistent(values, band):
    for name, value in zip(("q", "qd", "qdd", "external torque"), values, strict=True):
        outside = max(band[0] - value, value - band[1], 0.0)
        note = f"NEES {value:.2f}, 95 % band {band[0]:.2f} to {band[1]:.2f}"
        yield harness.Row(
            f"estimation, covariance of {name}, excess over the band",
            outside,
            "",
            "lower",
            target=0.0,
            reason=note,
        )
