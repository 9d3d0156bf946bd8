"""Issue 14: the accuracy of a simulated arm's state from noisy sensors. Short runs of support/estimated_arm.py."""

import numpy as np
import pytest

pytest.importorskip("pinocchio", reason="the oracle of IMUs: pip install pin")
pytest.importorskip("mujoco", reason="the demo's arm: pip install mujoco")

import estimated_arm as arm


@pytest.fixture(scope="module")
def contact():
    """Free motion for 0.4 s, then a contact."""
    motion = arm.tracked(0.7, contact_at=0.4)
    readings = arm.read(motion, np.random.default_rng(1))
    return motion, readings, arm.estimated(readings)


@pytest.mark.timeout(600)
def test_accelerations_are_five_times_better_than_filtered_differences(contact):
    motion, readings, estimates = contact
    assert 5.0 * arm.acceleration_error(estimates, motion) < arm.difference_error(readings, motion)


def test_contact_is_estimated_within_ten_percent_in_a_fifth_of_a_second(contact):
    _, _, estimates = contact
    assert arm.settling_time(estimates, onset=200) < 0.2
    before = np.array([estimate.external_torque for estimate in estimates[100:195]])
    assert np.abs(before.mean(axis=0)).max() < 0.2


def test_covariances_are_consistent():
    """NEES of few runs lies in the 99.99 % band; the benchmark has many runs and the 95 % band."""
    mean, _ = arm.nees(15, steps=40)
    low, high = arm.band(15, 1e-4)
    assert (low < mean).all() and (mean < high).all()
