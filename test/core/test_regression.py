"""Regression against NumPy's, in units of any size; ranks, weak directions by name, dependent rows."""

import numpy as np
import pytest

from dynamics_node.identification.regression import (
    covariance_of,
    eliminated,
    fit_rows,
    inflation,
    named_in,
    spectrum,
)

UNITS = np.array([1e-6, 1.0, 1e7, 30.0])


def rows_and_right(seed=0, rows=40):
    random = np.random.default_rng(seed)
    return random.normal(size=(rows, 4)) * UNITS, random.normal(size=rows)


def test_rows_and_normal_equations_agree_with_numpy():
    W, y = rows_and_right()
    x, covariance, own = fit_rows(W, y)
    expected = np.linalg.lstsq(W / UNITS, y, rcond=None)[0] / UNITS
    np.testing.assert_allclose(x * UNITS, expected * UNITS, atol=1e-12)
    reference = np.linalg.inv((W / UNITS).T @ (W / UNITS)) / np.outer(UNITS, UNITS)
    np.testing.assert_allclose(covariance, reference, rtol=1e-10)
    np.testing.assert_allclose(covariance_of(W.T @ W), reference, rtol=1e-10)
    scaled = W / np.linalg.norm(W, axis=0)
    assert own.condition() == pytest.approx(np.linalg.cond(scaled), rel=1e-10)
    assert spectrum(W.T @ W).condition() == pytest.approx(np.linalg.cond(scaled), rel=1e-10)


@pytest.mark.parametrize("column", [None, 2])
def test_unidentifiable_direction_is_zero_and_named(column):
    W, y = rows_and_right()
    W[:, 3] = W[:, 1] if column is None else W[:, 3]
    if column is not None:
        W[:, column] = 0.0
    x, covariance, own = fit_rows(W, y)
    lost = ("b", "d") if column is None else ("c",)
    assert named_in(own.directions[:, ~own.determined()], "abcd", 0.2) == lost
    assert own.condition() == np.inf
    expected = W / UNITS @ np.linalg.lstsq(W / UNITS, y, rcond=None)[0]
    np.testing.assert_allclose(W @ x, expected, atol=1e-10)
    outer = np.outer(UNITS, UNITS)
    np.testing.assert_allclose(covariance_of(W.T @ W) * outer, covariance * outer, rtol=1e-6, atol=1e-12)


def test_nuisance_columns_are_projected_out():
    W, y = rows_and_right()
    W = np.column_stack([W, W[:, 0], y])  # the second nuisance repeats the first
    S, nuisance, others = W.T @ W, np.array([0, 4]), np.array([1, 2, 3, 5])
    left, B, rank = eliminated(S, nuisance, np.diagonal(S), 1e-10)
    expected = W[:, others] - np.outer(W[:, 0], W[:, 0] @ W[:, others]) / (W[:, 0] @ W[:, 0])
    assert rank == 1
    size = np.linalg.norm(W[:, others], axis=0)
    np.testing.assert_allclose((W[:, others] - W[:, nuisance] @ B) / size, expected / size, atol=1e-12)
    np.testing.assert_allclose(
        left / np.outer(size, size), expected.T @ expected / np.outer(size, size), atol=1e-12
    )


def test_repeated_rows_count_once():
    random, groups, repeats = np.random.default_rng(3), 4000, 6
    W, e = random.normal(size=(groups, 2)), random.normal(size=groups)
    once = inflation(W * e[:, None], W.T @ W, 1.0)
    often = inflation(repeats * W * e[:, None], repeats * W.T @ W, 1.0)
    assert once == pytest.approx(1.0, abs=0.05)
    assert often == pytest.approx(repeats * once if once > 1.0 else repeats, rel=0.05)
