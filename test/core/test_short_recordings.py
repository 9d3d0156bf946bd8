"""Identification from realistic recordings: short, slow, with joints that do not reverse, correlated noise and another
friction law. The tests evaluate the parameters that would be written."""

import re

import numpy as np
import pytest
from identified import Truth, as_measured, in_chunks, torque_rmse
from robots import ROBOTS
from scipy.optimize import lsq_linear

from dynamics_node.identification import (
    ConsistentFit,
    RegressorModel,
    Solution,
    Sums,
    base_parameters,
    identify,
    summary,
    weighted,
)
from dynamics_node.identification.consistent import joint_prior

RATE = 30.0


@pytest.fixture(scope="module")
def arm():
    return Truth(ROBOTS["panda7"].model(), backend="c")


@pytest.fixture(scope="module")
def base(arm):
    return base_parameters(arm.linear)


def recorded(arm, seconds, seed=1, reversing=True, noise=0.3):
    """A recording of a Panda at 30 Hz. reversing: the first joint moves back and forth."""
    time = np.arange(0.0, seconds, 1.0 / RATE)
    recording = arm.recording(seed, noise=0.0, time=time)
    if not reversing:
        recording["q"][:, 0] = 0.09 * time + 0.01 * np.sin(3.0 * time)
        recording["qd"][:, 0] = 0.09 + 0.03 * np.cos(3.0 * time)
        recording["qdd"][:, 0] = -0.09 * np.sin(3.0 * time)
        states = (recording[kind] for kind in ("q", "qd", "qdd"))
        recording["tau"] = arm.linear.matrix(*states) @ arm.parameters
    return as_measured(arm, recording, seed, noise)


@pytest.fixture(scope="module")
def forced(arm):
    recordings = [in_chunks(recorded(arm, 4.0, seed=2, reversing=False))]
    return identify(arm.robot, recordings, backend="c")


def test_poorly_excited_friction_is_plausible(arm, forced):
    """After four seconds, with a joint that does not reverse, friction stays below the torques and is not attributed to
    offsets."""
    terms = {term: forced.parameters[arm.linear.places(term)] for term in ("viscous", "coulomb", "offset")}
    assert (
        terms["coulomb"].max() < 10.0
        and np.abs(terms["offset"]).max() < 5.0
        and terms["viscous"].max() < 10.0
    )
    assert abs(terms["offset"][0]) < 0.2 * max(terms["coulomb"][0], 0.5)
    unseen = recorded(arm, 12.0, seed=9)
    fitted, nominal = (
        torque_rmse(arm, forced.parameters, unseen),
        torque_rmse(arm, arm.linear.described, unseen),
    )
    assert np.all(fitted < 2.0 * nominal) and np.mean((fitted / nominal) ** 2) < 1.0


def test_cross_validation_predicts_unseen_errors(arm):
    """Eight seconds at 30 Hz are too short for free base parameters, but suffice for bodies near the description."""
    identified = identify(arm.robot, [in_chunks(recorded(arm, 8.0))], backend="c")
    unseen = torque_rmse(arm, identified.parameters, recorded(arm, 40.0, seed=9))
    assert np.all(identified.rmse_cross_validated > 0.9 * identified.rmse_fitted) and identified.better
    assert np.all(identified.rmse_cross_validated < 3.0 * unseen) and np.all(
        unseen < 3.0 * identified.rmse_cross_validated
    )


@pytest.mark.parametrize("method", ["ordinary", "weighted", "robust"])
def test_summary_compares_bodies_with_base_parameters(arm, method):
    """The printed ratio refers to the same data for every method."""
    identified = identify(arm.robot, [in_chunks(recorded(arm, 20.0))], method=method, backend="c")
    (message,) = [verdict.text for verdict in summary(identified) if verdict.stage == "bodies"]
    more = float(re.search(r"at most (\S+) times", message)[1])
    assert (
        more == pytest.approx(np.max(identified.rmse_fitted / identified.rmse_base), rel=1e-2)
        and 0.99 <= more < 1.5
    )


def test_standard_deviations_account_for_correlated_noise(arm, base):
    """Rows are unfiltered at 60 Hz, with a correlation time of 0.3 s. Assuming independent rows, too few parameters would
    be within three standard deviations."""
    true_values, start, inside, alone = base.values(arm.parameters), base.values(arm.linear.described), [], []
    for seed in range(6):
        clean = arm.recording(seed, noise=0.0, time=np.arange(0.0, 20.0, 1 / 60))
        sums, noisy = Sums(arm.linear, base), as_measured(arm, clean, seed, 0.3)
        more = noisy["tau"] - as_measured(arm, clean, seed, 0.0)["tau"]  # the noise alone
        sums.add(clean | {"tau": clean["tau"] + more})
        solution = weighted(sums, start)
        off = np.abs(solution.x - true_values)
        inside.append(off < 3.0 * solution.std)
        alone.append(off < 3.0 * solution.std / np.sqrt(solution.inflation.mean()))
    assert np.mean(inside) > 0.95 > 0.75 > np.mean(alone)


# --- bounds -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def friction_model():
    """Friction of two joints of an arm, no bodies."""
    return RegressorModel(ROBOTS["ur5"].model(), ("viscous", "coulomb", "offset"), "numpy")


@pytest.mark.parametrize("seed", range(8))
def test_bounded_friction_is_the_constrained_minimum(friction_model, seed):
    """The result agrees with SciPy's bounded least squares; one case must leave a bound again."""
    base, random = base_parameters(friction_model), np.random.default_rng(seed)
    A = random.normal(size=(3 * base.count, base.count))
    A[:, 1] = 0.2 * A[:, 1] - A[:, 0]
    x = random.normal(size=base.count)
    if seed == 0:
        x[:2] = -1.0, -0.5
    solution = Solution(x, np.eye(len(x)), np.ones(6), A.T @ A, np.ones(6))
    prior = np.full(len(friction_model.names), 3.0)
    parameters = ConsistentFit(friction_model, base, prior=prior).parameters(solution).parameters
    bound = np.where(["offset" in name for name in friction_model.names], -np.inf, 0.0)
    K = np.vstack([A @ base.combinations, np.diag(1.0 / prior)])
    right = np.concatenate([A @ x, friction_model.described / prior])
    expected = lsq_linear(K, right, (bound, np.inf), tol=1e-14).x
    assert np.abs(parameters - expected).max() < 1e-4
    gradient = K.T @ (K @ parameters - right)
    assert np.all(np.abs(gradient[parameters != 0]) < 1e-3) and np.all(gradient[parameters == 0] > -1e-9)


def test_priors_scale_with_torques(arm, base):
    recording, sums = recorded(arm, 8.0), Sums(arm.linear, base)
    sums.add(recording)
    prior = joint_prior(arm.linear, base, *sums.total())
    size = np.sqrt(np.mean(recording["tau"] ** 2, axis=0))
    assert np.allclose(prior[arm.linear.places("coulomb")], size, rtol=1e-6)
    assert np.allclose(prior[arm.linear.places("offset")], 0.1 * size, rtol=1e-6)
    assert np.all(prior[arm.linear.places("viscous")] < size / 0.2)
