"""A fit of the torques of a sample, and what else would explain what it leaves."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dynamics_node.identification.base_parameters import BaseParameters
from dynamics_node.identification.linear import LinearModel
from dynamics_node.identification.regression import covariance_of

ROUNDS = 2  # of weights from residuals, residuals from weights
LEAST = 1e-9  # of a torque: a residual that is not larger counts as that


class Columns(NamedTuple):
    """A regressor W (n, nv, r) joint by joint, without the columns that are zero for a joint.

    own: of each joint (n, k); felt: of each joint, which of the r base parameters these k belong to.
    """

    own: Sequence[np.ndarray]
    felt: Sequence[np.ndarray]
    parameters: int  # r


def columns_of(W) -> Columns:
    """Of a regressor (n, nv, r)."""
    felt = [np.flatnonzero(one) for one in W.any(axis=0)]
    return Columns([W[:, joint, which] for joint, which in enumerate(felt)], felt, W.shape[2])


class Fit:
    """tau (n, nv) by columns, each torque weighted by its residuals: x (r,), what is left (n, nv) and its
    spread (nv,)."""

    def __init__(self, columns: Columns, tau):
        self.columns, self.tau = columns, tau
        size = tau.std(axis=0)
        least = LEAST * np.maximum(size, max(1e-3, size.max(initial=0.0)))
        self.spread = np.maximum(size, least)
        self._squares = [own.T @ own for own in columns.own]
        products = [own.T @ one for own, one in zip(columns.own, tau.T, strict=True)]
        for _ in range(ROUNDS):
            self.x = self._inverse() @ self._sum(products)
            self.left = tau - self._torques(self.x)
            self.spread = np.maximum(np.sqrt(np.mean(self.left**2, axis=0)), least)

    def explained_by(self, columns):
        """Factors (k,) of columns (n, nv, k) beside the regressor, their standard deviations, and the share
        of what is left that they explain."""
        products = [own.T @ columns[:, joint] for joint, own in enumerate(self.columns.own)]
        shared = self._inverse() @ self._sum(products)
        D = (columns - self._torques(shared)) / self.spread[:, None]
        D, b = D.reshape(-1, columns.shape[-1]), (self.left / self.spread).ravel()
        covariance = covariance_of(D.T @ D)
        y = covariance @ (D.T @ b)
        before, rest = max(float(b @ b), 1e-300), float(np.sum((b - D @ y) ** 2))
        return y, np.sqrt(np.maximum(np.diagonal(covariance), 0.0) * rest / len(b)), 1.0 - rest / before

    def _torques(self, x):
        """(n, nv, ...) of x (r, ...)."""
        columns = zip(self.columns.own, self.columns.felt, strict=True)
        return np.stack([own @ x[felt] for own, felt in columns], axis=1)

    def _inverse(self):
        """(r, r) of the information, weighted by the spread."""
        information = np.zeros((self.columns.parameters, self.columns.parameters))
        for own, felt, spread in zip(self._squares, self.columns.felt, self.spread, strict=True):
            information[np.ix_(felt, felt)] += own / spread**2
        return covariance_of(information)

    def _sum(self, products):
        """(r, ...) of what the columns of each joint (k, ...) are multiplied with, weighted by the spread."""
        total = np.zeros((self.columns.parameters, *products[0].shape[1:]))
        for own, felt, spread in zip(products, self.columns.felt, self.spread, strict=True):
            total[felt] += own / spread**2
        return total


def fit_of(linear: LinearModel, base: BaseParameters, rows) -> Fit:
    """Of rows {kind: (n, ...)}."""
    q, qd, qdd = (rows[kind] for kind in ("q", "qd", "qdd"))
    columns = columns_of(base.reduced(linear.matrix(q, qd, qdd)))
    return Fit(columns, rows["tau"] - linear.known(q, qd, qdd))
