"""A fit of the torques of a sample, and what else would explain what it leaves."""

import numpy as np

from dynamics_node.identification.base_parameters import BaseParameters
from dynamics_node.identification.linear import LinearModel
from dynamics_node.identification.solve import told_inverse

ROUNDS = 2  # of weights from residuals, residuals from weights
LEAST = 1e-9  # of a torque: a residual that is not larger counts as that


class Fit:
    """tau (n, nv) by W (n, nv, r), each torque weighted by its residuals: x (r,), what is left (n, nv) and
    its spread (nv,)."""

    def __init__(self, W, tau):
        self.W, self.tau = W, tau
        size = tau.std(axis=0)
        least = LEAST * np.maximum(size, max(1e-3, size.max(initial=0.0)))
        self.spread = np.maximum(size, least)
        for _ in range(ROUNDS):
            self._A = self._weighted(W)
            self._inverse = told_inverse(self._A.T @ self._A)
            self.x = self._inverse @ (self._A.T @ self._weighted(tau[..., None])[:, 0])
            self.left = tau - W @ self.x
            self.spread = np.maximum(np.sqrt(np.mean(self.left**2, axis=0)), least)
        self._A = self._weighted(W)
        self._inverse = told_inverse(self._A.T @ self._A)

    def explained_by(self, columns):
        """Factors (k,) of columns (n, nv, k) beside W, their standard deviations, and the share of what is
        left that they explain."""
        D, b = self._weighted(columns), self._weighted(self.left[..., None])[:, 0]
        D = D - self._A @ (self._inverse @ (self._A.T @ D))
        inverse = told_inverse(D.T @ D)
        y = inverse @ (D.T @ b)
        before, rest = max(float(b @ b), 1e-300), float(np.sum((b - D @ y) ** 2))
        return y, np.sqrt(np.maximum(np.diagonal(inverse), 0.0) * rest / len(b)), 1.0 - rest / before

    def _weighted(self, columns):
        """(n nv, k)."""
        return (columns / self.spread[:, None]).reshape(-1, columns.shape[-1])


def fit_of(linear: LinearModel, base: BaseParameters, rows) -> Fit:
    """Of rows {kind: (n, ...)}."""
    q, qd, qdd = (rows[kind] for kind in ("q", "qd", "qdd"))
    return Fit(base.reduced(linear.matrix(q, qd, qdd)), rows["tau"] - linear.known(q, qd, qdd))
