"""What least squares needs of a recording, however long: sums of squares, joint by joint and stretch by
stretch.

With them the fit of any parameters to any part is known without another look at the data: |tau - W x|^2 =
z^T S z, z = (x, -1), S the sum of (W, tau)^T (W, tau). Every fifth stretch belongs to one fold of the
cross-validation; what is left in stretches also tells how far residuals are from being independent.
"""

from itertools import pairwise

import numpy as np

from dynamics_node.identification.base_parameters import BaseParameters
from dynamics_node.identification.regressor_model import RegressorModel

FOLDS = 5
STRETCHES = 25  # fold after fold: rows that lie between others are not unknown to them
LEAST = 20  # rows of a stretch
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
        self._block = max(LEAST, -(-rows // STRETCHES))
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
