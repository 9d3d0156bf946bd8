"""What least squares needs of a recording, however long: sums of squares, joint by joint and fold by fold.

With them the fit of any parameters to any part is known without another look at the data: |tau - W x|^2 =
z^T S z, z = (x, -1), S the sum of (W, tau)^T (W, tau).
"""

from itertools import pairwise

import numpy as np

from dynamics_node.identification.base_parameters import BaseParameters
from dynamics_node.identification.linear import LinearModel

FOLDS = 5
STRETCHES = 5  # of each fold: rows that lie between others are not unknown to them
LEAST = 20  # rows of a stretch
ROWS = 2000  # in memory at a time, as regressors
HUBER = 1.345  # standard deviations from which on a residual counts by its size instead of its square


class Sums:
    """S (folds, nv, r + 1, r + 1) and count (folds, nv), the sum of weights, of what `add` was given. rows:
    about how many there will be. Torques that are not finite are left out, of each joint by itself."""

    def __init__(self, linear: LinearModel, base: BaseParameters, rows=2500):
        self.linear, self.base = linear, base
        nv, size = linear.robot.nv, base.count + 1
        self.S = np.zeros((FOLDS, nv, size, size))
        self.count = np.zeros((FOLDS, nv))
        self._block = max(LEAST, -(-rows // (FOLDS * STRETCHES)))
        self.rows = 0
        self.skipped = 0  # of these, because something is not finite
        self._felt = [np.flatnonzero(base.felt[joint, base.chosen]) for joint in range(nv)]

    def add(self, q, qd, qdd, tau, fit=None):
        """Rows (k, ...) of a recording, in order. fit: x (r,) and spread (nv,) of the residuals: what is
        far from it counts less (Huber 1964)."""
        for start in range(0, len(q), ROWS):
            stop = start + ROWS
            self._add(q[start:stop], qd[start:stop], qdd[start:stop], tau[start:stop], fit)

    def _add(self, q, qd, qdd, tau, fit):
        good = np.all([np.isfinite(array).all(axis=1) for array in (q, qd, qdd)], axis=0)
        good = np.flatnonzero(good & np.isfinite(tau).any(axis=1))
        folds = ((self.rows + good) // self._block) % FOLDS
        self.rows += len(q)
        self.skipped += len(q) - len(good)
        if not len(good):
            return
        q, qd, qdd, tau = (np.ascontiguousarray(array[good]) for array in (q, qd, qdd, tau))
        W, left = self.linear.matrix(q, qd, qdd), tau - self.linear.known(q, qd, qdd)
        for joint, felt in enumerate(self._felt):
            rows = np.column_stack([W[:, joint, self.base.chosen[felt]], left[:, joint]])
            self._accumulate(joint, rows, folds, fit)

    def _accumulate(self, joint, rows, folds, fit):
        """Rows (k, felt + 1) of one joint, torques last; folds (k,)."""
        felt = self._felt[joint]
        weights = np.ones(len(rows)) if fit is None else _weights(rows, fit[0][felt], fit[1][joint])
        if len(unknown := np.flatnonzero(~np.isfinite(rows[:, -1]))):
            rows[unknown], weights[unknown] = 0.0, 0.0
        if fit is not None:
            rows *= np.sqrt(weights)[:, None]
        own = np.append(felt, self.base.count)
        edges = [0, *(np.flatnonzero(np.diff(folds)) + 1), len(folds)]
        for start, stop in pairwise(edges):
            part, fold = rows[start:stop], folds[start]
            self.S[fold, joint][np.ix_(own, own)] += part.T @ part
            self.count[fold, joint] += weights[start:stop].sum()


def _weights(rows, x, spread):
    """(k,) of rows (k, r + 1), whose last column is a torque."""
    residual = np.abs(rows[:, -1] - rows[:, :-1] @ x) / max(spread, 1e-300)
    return HUBER / np.maximum(residual, HUBER)
