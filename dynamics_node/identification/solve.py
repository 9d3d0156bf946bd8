"""Base parameters that fit best: ordinary, weighted and robust least squares."""

from typing import NamedTuple

import numpy as np

from dynamics_node.identification.sums import FOLDS, Sums

KEPT = (
    1e-12  # of the largest eigenvalue of the scaled information: directions below stay as they are described
)
ROUNDS = 3  # of weights from residuals, residuals from weights
LEAST = 1e-9  # of a torque: a residual that is not larger counts as that


class Solution(NamedTuple):
    """x (r,): values of the base parameters; covariance (r, r); spread (nv,): standard deviation of the
    residuals of each torque; information (r, r): sum of W^T W / spread^2."""

    x: np.ndarray
    covariance: np.ndarray
    spread: np.ndarray
    information: np.ndarray

    @property
    def std(self):
        """(r,) standard deviations."""
        return np.sqrt(np.maximum(np.diagonal(self.covariance), 0.0))


def ordinary(sums: Sums, start) -> Solution:
    """All torques count the same. start (r,): described values, kept in directions that nothing tells
    about."""
    return _solved(sums.S.sum(axis=0), sums.count.sum(axis=0), start, np.ones(sums.S.shape[1]), same=True)


def weighted(sums: Sums, start, folds=None) -> Solution:
    """Each torque counts by its residuals. folds: numbers of those that count, all by default."""
    own = list(range(FOLDS)) if folds is None else list(folds)
    S, count = sums.S[own].sum(axis=0), sums.count[own].sum(axis=0)
    found = _solved(S, count, start, np.ones(S.shape[0]))
    for _ in range(ROUNDS):
        found = _solved(S, count, start, found.spread)
    return found


def residuals(S, count, x):
    """(nv,) root mean squares of tau - W x."""
    z = np.append(x, -1.0)
    return np.sqrt(np.maximum(z @ S @ z, 0.0) / np.maximum(count, 1.0))


def cross_validated(sums: Sums, start):
    """(nv,) root mean squares of torques over all folds, each of them unknown to the parameters it is held
    against."""
    squares = np.zeros(sums.S.shape[1])
    for k in range(FOLDS):
        if sums.count[k].any():
            x = weighted(sums, start, [fold for fold in range(FOLDS) if fold != k]).x
            squares += residuals(sums.S[k], sums.count[k], x) ** 2 * sums.count[k]
    return np.sqrt(squares / np.maximum(sums.count.sum(axis=0), 1.0))


def _solved(S, count, start, spread, same=False):
    weights = 1.0 / spread**2
    total = np.einsum("j,jkl->kl", weights, S)
    information, right = total[:-1, :-1], total[:-1, -1] - total[:-1, :-1] @ start
    inverse = told_inverse(information)
    x = start + inverse @ right
    freedom = count.sum() / max(1.0, count.sum() - len(x))  # residuals of a fit are too small
    size = np.sqrt(S[:, -1, -1] / np.maximum(count, 1.0))
    found = np.maximum(residuals(S, count, x) * np.sqrt(freedom), LEAST * np.maximum(size, 1e-3))
    if same:
        found = np.full_like(found, np.sqrt(np.mean(found**2)))
        return Solution(x, inverse * found[0] ** 2, found, information / found[0] ** 2)
    return Solution(x, inverse, found, information)


def told_inverse(information):
    """Of what is told; zero in other directions."""
    scale = 1.0 / np.sqrt(np.maximum(np.diagonal(information), 1e-300))
    values, vectors = np.linalg.eigh(information * np.outer(scale, scale))
    told = values > KEPT * values.max(initial=0.0)
    return (vectors[:, told] / values[told]) @ vectors[:, told].T * np.outer(scale, scale)
