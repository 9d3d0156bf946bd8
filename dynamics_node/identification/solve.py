"""Base parameters that fit best: ordinary, weighted and robust least squares.

Weights and covariances count effective rows, not rows: see `regression.inflation`.
"""

from typing import NamedTuple

import numpy as np

from dynamics_node.identification import regression
from dynamics_node.identification.sums import FOLDS, STRETCHES, Sums

ROUNDS = 3  # of weights from residuals, residuals from weights
LEAST = 1e-9  # of a torque: a residual that is not larger counts as that


class Solution(NamedTuple):
    """x (r,): values of the base parameters; covariance (r, r); spread (nv,): standard deviation of the
    residuals of each torque; information (r, r): sum of W^T W / (inflation spread^2); inflation (nv,): how
    many rows of a torque say what one says that is independent of the others."""

    x: np.ndarray
    covariance: np.ndarray
    spread: np.ndarray
    information: np.ndarray
    inflation: np.ndarray

    @property
    def std(self):
        """(r,) standard deviations."""
        return np.sqrt(np.maximum(np.diagonal(self.covariance), 0.0))


def ordinary(sums: Sums, start, stretches=None) -> Solution:
    """All torques count the same. start (r,): described values, kept in directions that nothing tells
    about. stretches: numbers of those that count, all by default."""
    S, count = sums.total(stretches)
    x, spread = _solved(S, count, start, np.ones(len(S)))
    same = np.full_like(spread, np.sqrt(np.mean(spread[count > 0] ** 2))) if count.any() else spread
    return _judged(sums, x, same, S, stretches)


def weighted(sums: Sums, start, stretches=None) -> Solution:
    """Each torque counts by its residuals. Other arguments as of `ordinary`."""
    S, count = sums.total(stretches)
    weights = np.ones(len(S))
    for _ in range(1 + ROUNDS):
        x, spread = _solved(S, count, start, weights)
        weights = spread
    inflation = _inflation(sums, stretches, S, x, spread)
    x, spread = _solved(S, count, start, spread * np.sqrt(inflation))
    return _judged(sums, x, spread, S, stretches)


def residuals(S, count, x):
    """(nv,) root mean squares of tau - W x."""
    z = np.append(x, -1.0)
    return np.sqrt(np.maximum(z @ S @ z, 0.0) / np.maximum(count, 1.0))


def folds():
    """(stretches that are held out, the others) of a cross-validation."""
    every = np.arange(STRETCHES)
    return [(every[every % FOLDS == k], every[every % FOLDS != k]) for k in range(FOLDS)]


def _solved(S, count, start, spread):
    """x (r,) of rows with such standard deviations (nv,), and those that it leaves."""
    information, right = _normal(S, spread, start)
    x = start + regression.covariance_of(information) @ right
    freedom = count.sum() / max(1.0, count.sum() - len(x))  # residuals of a fit are too small
    size = np.sqrt(S[:, -1, -1] / np.maximum(count, 1.0))
    return x, np.maximum(residuals(S, count, x) * np.sqrt(freedom), LEAST * np.maximum(size, 1e-3))


def _normal(S, spread, start):
    total = np.einsum("j,jkl->kl", 1.0 / spread**2, S)
    return total[:-1, :-1], total[:-1, -1] - total[:-1, :-1] @ start


def _judged(sums, x, spread, S, stretches=None):
    """The Solution x with what it is worth."""
    inflation = _inflation(sums, stretches, S, x, spread)
    information, _ = _normal(S, spread * np.sqrt(inflation), x)
    return Solution(x, regression.covariance_of(information), spread, information, inflation)


def _inflation(sums, stretches, S, x, spread):
    """(nv,), at least 1."""
    which = np.arange(STRETCHES) if stretches is None else np.asarray(stretches, dtype=int)
    which = which[sums.count[which].any(axis=1)]
    found, z = np.ones(len(S)), np.append(x, -1.0)
    for joint, (felt, own) in enumerate(zip(sums.felt, sums.own, strict=True)):
        if len(felt) and S[joint].any():
            scores = (own[which] @ z[np.append(felt, len(x))])[:, :-1]
            found[joint] = regression.inflation(scores, S[joint][np.ix_(felt, felt)], spread[joint])
    return found
