"""Base parameters that fit best: ordinary, weighted and robust least squares.

Rows close in time say nearly the same where what is left of the torques is an error of the model, or noise
that lasts. So weights and covariances count effective rows, not rows: the scores W^T (tau - W x) of
independent rows vary from stretch to stretch by as much as W^T W says, and those of dependent rows by more;
how much more, averaged over all directions, is the inflation of a torque's variance (a cluster-robust
covariance: Liang, Zeger 1986).
"""

from typing import NamedTuple

import numpy as np

from dynamics_node.identification.sums import FOLDS, STRETCHES, Sums

KEPT = (
    1e-12  # of the largest eigenvalue of the scaled information: directions below stay as they are described
)
SURE = 0.1  # of the condition number from which on directions are dropped: below, none is
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
    x = start + told_inverse(information) @ right
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
    return Solution(x, told_inverse(information), spread, information, inflation)


def _inflation(sums, stretches, S, x, spread):
    """(nv,), at least 1."""
    which = np.arange(STRETCHES) if stretches is None else np.asarray(stretches, dtype=int)
    which = which[sums.count[which].any(axis=1)]
    found, z = np.ones(len(S)), np.append(x, -1.0)
    if len(which) < 2:
        return found
    for joint, (felt, own) in enumerate(zip(sums.felt, sums.own, strict=True)):
        if len(felt) and S[joint].any():
            scores = (own[which] @ z[np.append(felt, len(x))])[:, :-1]
            inverse = told_inverse(S[joint][np.ix_(felt, felt)])
            rank = np.linalg.matrix_rank(inverse, hermitian=True)
            squares = np.einsum("ga,ab,gb->", scores, inverse, scores) / (max(1, rank) * spread[joint] ** 2)
            found[joint] = max(1.0, squares * len(which) / (len(which) - 1.0))
    return found


def told_inverse(information):
    """Of what is told; zero in other directions."""
    scale = 1.0 / np.sqrt(np.maximum(np.diagonal(information), 1e-300))
    outer = np.outer(scale, scale)
    scaled = information * outer
    if (inverse := _regular_inverse(scaled)) is not None:
        return inverse * outer
    values, vectors = np.linalg.eigh(scaled)
    told = values > KEPT * values.max(initial=0.0)
    return (vectors[:, told] / values[told]) @ vectors[:, told].T * outer


def _regular_inverse(information):
    """Of information in all directions, by Cholesky factors: several times faster than eigenvectors. None
    where some direction could be untold: Frobenius norms are no less than the largest eigenvalues."""
    from scipy.linalg.lapack import dpotrf, dpotri  # 0.1 s that a node need not wait

    root, failed = dpotrf(information, lower=True)
    if failed or not len(information):
        return None
    lower = dpotri(root, lower=True)[0]  # zero above the diagonal, as the root is
    inverse = lower + lower.T
    np.fill_diagonal(inverse, np.diagonal(lower))
    condition = np.linalg.norm(inverse) * np.linalg.norm(information)
    return inverse if condition * KEPT < SURE else None
