"""Criteria of an information matrix, each with its derivative by it."""

import numpy as np

POWER = 8.0  # of eigenvalues, by whose sum the extreme ones are told smoothly
LEAST = 1e-14  # of the largest eigenvalue: below is rounding


def volume(information):
    """-log det / size, the mean of log variances, and its derivative (r, r): D-optimality (Kiefer and
    Wolfowitz 1959)."""
    values, vectors = _spectrum(information)
    size = len(values)
    return -np.log(values).sum() / size, -(vectors / values) @ vectors.T / size


def roundness(information):
    """The logarithm of the condition number of the regressor, the root of that of its information, and its
    derivative (r, r). The extreme eigenvalues count by the norm with exponent POWER, which has one where
    they are multiple, too."""
    values, vectors = _spectrum(information)
    large, small = (values / values[-1]) ** POWER, (values[0] / values) ** POWER
    norms = np.log(values[-1] / values[0]) + np.log(large.sum() * small.sum()) / POWER
    slope = 0.5 * (large / large.sum() - small / small.sum()) / values
    return 0.5 * norms, (vectors * slope) @ vectors.T


def _spectrum(information):
    values, vectors = np.linalg.eigh(information)
    return np.maximum(values, LEAST * max(values[-1], 1e-300)), vectors
