"""Sums of squares of a recording of any length, and the base parameters that fit them best.

With sums by joint and stretch the fit of any parameters to any part is known without the data: |tau - W x|^2
= z^T S z, z = (x, -1), S the sum of (W, tau)^T (W, tau). Every fifth stretch belongs to one fold of the
cross-validation. Least squares is ordinary, weighted or robust; weights and covariances count effective rows,
not rows: see `regression.inflation`.
"""

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from dynamics_node.identification import regression
from dynamics_node.identification.base_parameters import BaseParameters
from dynamics_node.identification.regressor_model import RegressorModel

FOLDS = 5
STRETCHES = 25  # fold after fold: rows that lie between others are not unknown to them
FEWEST_ROWS = 20  # rows of a stretch
ROWS = 2000  # in memory at a time, as regressors
HUBER = 1.345  # standard deviations from which on a residual counts by its size instead of its square


class Sums:
    """Sums of squares of what `add` was given: `total`. rows: about how many there will be. Torques that are
    not finite are left out, of each joint by itself.

    count (STRETCHES, nv): sums of weights; rows: how many; skipped: of these, because something is not
    finite.
    """

    def __init__(self, linear: RegressorModel, base: BaseParameters, rows=2500):
        self.linear, self.base = linear, base
        nv = linear.robot.nv
        felt = (np.flatnonzero(base.felt[joint, base.chosen]) for joint in range(nv))
        self.felt = tuple(felt)  # of each joint: on which base parameters its torque depends
        self.own = tuple(np.zeros((STRETCHES, len(own) + 1, len(own) + 1)) for own in self.felt)
        self.count = np.zeros((STRETCHES, nv))
        self._block = max(FEWEST_ROWS, -(-rows // STRETCHES))
        self.rows = 0
        self.skipped = 0

    def total(self, stretches=None):
        """S (nv, r + 1, r + 1) and count (nv,) of some stretches, of all by default."""
        which = np.arange(STRETCHES) if stretches is None else np.asarray(stretches, dtype=int)
        size = self.base.count + 1
        S = np.zeros((len(self.felt), size, size))
        for joint, (felt, own) in enumerate(zip(self.felt, self.own, strict=True)):
            places = np.append(felt, self.base.count)
            S[joint][np.ix_(places, places)] = own[which].sum(axis=0)
        return S, self.count[which].sum(axis=0)

    def add(self, q, qd, qdd, tau, fit=None):
        """Rows (k, ...) of a recording, in order. fit: x (r,) and spread (nv,) of the residuals: what is
        far from it counts less (Huber 1964)."""
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
        for joint, felt in enumerate(self.felt):
            rows = np.column_stack([W[:, joint, self.base.chosen[felt]], left[:, joint]])
            self.accumulate(joint, rows, stretches, fit)

    def accumulate(self, joint, rows, stretches, fit=None):
        """Rows (k, felt + 1) of one joint, torques last; stretches (k,): where they belong."""
        felt = self.felt[joint]
        weights = np.ones(len(rows)) if fit is None else _weights(rows, fit[0][felt], fit[1][joint])
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
    """(k,) of rows (k, r + 1), whose last column is a torque."""
    residual = np.abs(rows[:, -1] - rows[:, :-1] @ x) / max(spread, 1e-300)
    return HUBER / np.maximum(residual, HUBER)


ROUNDS = 3  # of weights from residuals, residuals from weights
FAINTEST = 1e-9  # of a torque: a residual that is not larger counts as that


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
    return x, np.maximum(residuals(S, count, x) * np.sqrt(freedom), FAINTEST * np.maximum(size, 1e-3))


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
