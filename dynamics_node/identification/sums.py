"""Sums of squares of recordings of any length, and the base parameters that fit them best.

Sums by joint and stretch give the fit of any parameters to any part without the data: |tau - W x|^2 = z^T S z
with z = (x, -1) and S the sum of (W, tau)^T (W, tau). Every fifth stretch belongs to the same
cross-validation fold. Least squares is ordinary, weighted or robust; weights and covariances use the
effective number of rows: see `regression.inflation`.
"""

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from dynamics_node.identification import regression
from dynamics_node.identification.base_parameters import BaseParameters
from dynamics_node.identification.regressor_model import RegressorModel

FOLDS = 5
STRETCHES = 25  # dealt to the folds in turn: single rows would be correlated with their neighbors
FEWEST_ROWS = 20  # rows per stretch
ROWS = 2000  # rows per regressor evaluation
HUBER = 1.345  # standard deviations: larger residuals have linear instead of squared cost


class Sums:
    """Sums of squares of the rows passed to `add`: see `total`. rows: approximate number of rows. Nonfinite
    torques are skipped joint by joint.

    count (STRETCHES, nv): sums of weights; rows: number of rows; skipped: rows with a nonfinite state.
    """

    def __init__(self, linear: RegressorModel, base: BaseParameters, rows=2500):
        self.linear, self.base = linear, base
        nv = linear.robot.nv
        indices = (np.flatnonzero(base.dependence[joint, base.chosen]) for joint in range(nv))
        self.indices = tuple(indices)  # of each joint: base parameters that its torque depends on
        self.own = tuple(np.zeros((STRETCHES, len(own) + 1, len(own) + 1)) for own in self.indices)
        self.count = np.zeros((STRETCHES, nv))
        self._block = max(FEWEST_ROWS, -(-rows // STRETCHES))
        self.rows = 0
        self.skipped = 0

    def total(self, stretches=None):
        """S (nv, r + 1, r + 1) and count (nv,) of some stretches, default all."""
        which = np.arange(STRETCHES) if stretches is None else np.asarray(stretches, dtype=int)
        size = self.base.count + 1
        S = np.zeros((len(self.indices), size, size))
        for joint, (indices, own) in enumerate(zip(self.indices, self.own, strict=True)):
            places = np.append(indices, self.base.count)
            S[joint][np.ix_(places, places)] = own[which].sum(axis=0)
        return S, self.count[which].sum(axis=0)

    def add(self, q, qd, qdd, tau, fit=None):
        """Add rows (k, ...) of a recording, in order. fit: x (r,) and spread (nv,) of the residuals, for
        robust weights (Huber 1964)."""
        for start in range(0, len(q), ROWS):
            stop = start + ROWS
            self._add(q[start:stop], qd[start:stop], qdd[start:stop], tau[start:stop], fit)

    def _add(self, q, qd, qdd, tau, fit):
        good = np.all([np.isfinite(array).all(axis=1) for array in (q, qd, qdd)], axis=0)
        good = np.flatnonzero(good & np.isfinite(tau).any(axis=1))
        stretches = ((self.rows + good) // self._block) % STRETCHES
        self.rows += len(q)
        self.skipped += len(q) - len(good)
        if not len(good):
            return
        q, qd, qdd, tau = (np.ascontiguousarray(array[good]) for array in (q, qd, qdd, tau))
        W, left = self.linear.matrix(q, qd, qdd), tau - self.linear.known(q, qd, qdd)
        for joint, indices in enumerate(self.indices):
            rows = np.column_stack([W[:, joint, self.base.chosen[indices]], left[:, joint]])
            self.accumulate(joint, rows, stretches, fit)

    def accumulate(self, joint, rows, stretches, fit=None):
        """Add rows (k, indices + 1) of one joint, torques last; stretches (k,): their stretches."""
        indices = self.indices[joint]
        weights = np.ones(len(rows)) if fit is None else _weights(rows, fit[0][indices], fit[1][joint])
        if len(unknown := np.flatnonzero(~np.isfinite(rows[:, -1]))):
            rows[unknown], weights[unknown] = 0.0, 0.0
        if fit is not None:
            rows *= np.sqrt(weights)[:, None]
        edges = [0, *(np.flatnonzero(np.diff(stretches)) + 1), len(stretches)]
        for start, stop in pairwise(edges):
            part, stretch = rows[start:stop], stretches[start]
            self.own[joint][stretch] += part.T @ part
            self.count[stretch, joint] += weights[start:stop].sum()


def _weights(rows, x, spread):
    """Weights (k,) of rows (k, r + 1), whose last column is a torque."""
    residual = np.abs(rows[:, -1] - rows[:, :-1] @ x) / max(spread, 1e-300)
    return HUBER / np.maximum(residual, HUBER)


ROUNDS = 3  # reweighting iterations
UNKNOWN = 1e-3  # share of a rank-deficient direction in a parameter, above which it has no variance
FAINTEST = 1e-9  # fraction of a torque: smaller residuals are raised to it


class Solution(NamedTuple):
    """x (r,): base parameters; covariance (r, r); spread (nv,): standard deviation of the residuals of each
    torque; information (r, r): sum of W^T W / (inflation spread^2); inflation (nv,): rows per independent row
    of a torque."""

    x: np.ndarray
    covariance: np.ndarray
    spread: np.ndarray
    information: np.ndarray
    inflation: np.ndarray

    @property
    def std(self):
        """Standard deviations (r,); infinite for parameters without information of their own."""
        variances = np.diagonal(self.covariance)
        own = regression.spectrum(self.information)
        missing = np.abs(own.directions[:, ~own.kept()]).max(axis=1, initial=0.0) > UNKNOWN
        return np.where(missing, np.inf, np.sqrt(np.maximum(variances, 0.0)))


def ordinary(sums: Sums, start, stretches=None) -> Solution:
    """Ordinary least squares: all torques have the same weight. start (r,): described values, kept in
    undetermined directions. stretches: numbers of those that are used, default all."""
    S, count = sums.total(stretches)
    x, spread = _solved(S, count, start, np.ones(len(S)))
    same = np.full_like(spread, np.sqrt(np.mean(spread[count > 0] ** 2))) if count.any() else spread
    return _judged(sums, x, same, S, stretches)


def weighted(sums: Sums, start, stretches=None) -> Solution:
    """Weighted least squares: each torque is weighted by its residuals. Other arguments as in `ordinary`."""
    S, count = sums.total(stretches)
    weights = np.ones(len(S))
    for _ in range(1 + ROUNDS):
        x, spread = _solved(S, count, start, weights)
        weights = spread
    inflation = _inflation(sums, stretches, S, x, spread)
    x, spread = _solved(S, count, start, spread * np.sqrt(inflation))
    return _judged(sums, x, spread, S, stretches)


def residuals(S, count, x):
    """Root mean squares (nv,) of tau - W x."""
    z = np.append(x, -1.0)
    return np.sqrt(np.maximum(z @ S @ z, 0.0) / np.maximum(count, 1.0))


def folds():
    """(test stretches, training stretches) of a cross-validation."""
    every = np.arange(STRETCHES)
    return [(every[every % FOLDS == k], every[every % FOLDS != k]) for k in range(FOLDS)]


def _solved(S, count, start, spread):
    """x (r,) for given standard deviations (nv,) of the rows, and the resulting ones."""
    information, right = _normal(S, spread, start)
    x = start + regression.covariance_of(information) @ right
    freedom = count.sum() / max(1.0, count.sum() - len(x))  # corrects for the fitted degrees of freedom
    size = np.sqrt(S[:, -1, -1] / np.maximum(count, 1.0))
    return x, np.maximum(residuals(S, count, x) * np.sqrt(freedom), FAINTEST * np.maximum(size, 1e-3))


def _normal(S, spread, start):
    total = np.einsum("j,jkl->kl", 1.0 / spread**2, S)
    return total[:-1, :-1], total[:-1, -1] - total[:-1, :-1] @ start


def _judged(sums, x, spread, S, stretches=None):
    """The Solution x with its covariance."""
    inflation = _inflation(sums, stretches, S, x, spread)
    information, _ = _normal(S, spread * np.sqrt(inflation), x)
    return Solution(x, regression.covariance_of(information), spread, information, inflation)


def _inflation(sums, stretches, S, x, spread):
    """Inflation (nv,), at least 1."""
    which = np.arange(STRETCHES) if stretches is None else np.asarray(stretches, dtype=int)
    which = which[sums.count[which].any(axis=1)]
    factors, z = np.ones(len(S)), np.append(x, -1.0)
    for joint, (indices, own) in enumerate(zip(sums.indices, sums.own, strict=True)):
        if len(indices) and S[joint].any():
            scores = (own[which] @ z[np.append(indices, len(x))])[:, :-1]
            factors[joint] = regression.inflation(scores, S[joint][np.ix_(indices, indices)], spread[joint])
    return factors
