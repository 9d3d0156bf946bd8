"""What least squares needs of a recording, however long: sums of squares, joint by joint and fold by fold.

With them the fit of any parameters to any part is known without another look at the data: |tau - W x|^2 =
z^T S z, z = (x, -1), S the sum of (W, tau)^T (W, tau).
"""

import numpy as np

from dynamics_node.identification.base_parameters import BaseParameters
from dynamics_node.identification.linear import LinearModel

FOLDS = 5
BLOCK = 500  # rows in a row that go to one fold: what lies between others would not be unknown to them
ROWS = 4096  # in memory at a time, as regressors
HUBER = 1.345  # standard deviations from which on a residual counts by its size instead of its square


class Sums:
    """S (folds, nv, r + 1, r + 1) and count (folds, nv), the sum of weights, of what `add` was given."""

    def __init__(self, linear: LinearModel, base: BaseParameters):
        self.linear, self.base = linear, base
        nv, size = linear.robot.nv, base.count + 1
        self.S = np.zeros((FOLDS, nv, size, size))
        self.count = np.zeros((FOLDS, nv))
        self.rows = 0
        self.skipped = 0  # of these, because something is not finite

    def add(self, q, qd, qdd, tau, fit=None):
        """Rows (k, ...) of a recording, in order. fit: x (r,) and spread (nv,) of the residuals: what is
        far from it counts less (Huber 1964)."""
        for start in range(0, len(q), ROWS):
            stop = start + ROWS
            self._add(q[start:stop], qd[start:stop], qdd[start:stop], tau[start:stop], fit)

    def _add(self, q, qd, qdd, tau, fit):
        good = np.flatnonzero(np.all([np.isfinite(array).all(axis=1) for array in (q, qd, qdd, tau)], axis=0))
        fold = ((self.rows + good) // BLOCK) % FOLDS
        self.rows += len(q)
        self.skipped += len(q) - len(good)
        if not len(good):
            return
        q, qd, qdd, tau = (np.ascontiguousarray(array[good]) for array in (q, qd, qdd, tau))
        W = self.base.reduced(self.linear.matrix(q, qd, qdd))
        rows = np.concatenate([W, (tau - self.linear.known(q, qd, qdd))[..., None]], axis=-1)
        weights = _weights(rows, fit)
        for k in np.unique(fold):
            own = fold == k
            self.count[k] += weights[own].sum(axis=0)
            for joint in range(rows.shape[1]):
                block = rows[own, joint]
                self.S[k, joint] += block.T @ (block * weights[own, joint, None])


def _weights(rows, fit):
    if fit is None:
        return np.ones(rows.shape[:2])
    x, spread = fit
    residual = np.abs(rows[..., -1] - rows[..., :-1] @ x) / np.maximum(spread, 1e-300)
    return HUBER / np.maximum(residual, HUBER)
