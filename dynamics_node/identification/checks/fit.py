"""A sample of the rows of a recording, a fit of its torques, and what else explains the residuals."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dynamics_node.identification.base_parameters import BaseParameters
from dynamics_node.identification.regression import covariance_of
from dynamics_node.identification.regressor_model import RegressorModel

LENGTH = 150  # rows of a stretch
MOST = 14  # stretches; of robots with large regressors fewer
FINE = 0.004  # s between rows: denser ones say the same
NUMBERS = 2e7  # of all regressors of a sample at most
KINDS = ("q", "qd", "qdd", "tau")


class Sample:
    """Of a recording however long, chunk by chunk. numbers: of the regressor of one row. Torques that are
    never known are zero in it."""

    def __init__(self, numbers=1):
        self._most = int(np.clip(NUMBERS / (LENGTH * numbers), 2, MOST))
        self._every = self._stride = 0
        self._row = self._next = 0
        self._kept: list[dict[str, np.ndarray]] = []

    def add(self, chunk):
        """chunk: {kind: (k, ...)} with q, qd, qdd, tau, and time where it is known."""
        if not self._every:
            self._every = _every(chunk.get("time"))
            self._stride = LENGTH * self._every
        first, self._row = self._row, self._row + len(chunk["qd"])
        self._next = max(self._next, first)
        span = min(LENGTH * self._every, self._row - first)
        while span and self._next + span <= self._row:
            start = self._next - first
            self._keep({kind: rows[start : start + span : self._every] for kind, rows in chunk.items()})
            self._next += self._stride

    def _keep(self, stretch):
        stretch["tau"] = np.where(np.isfinite(stretch["tau"]).any(axis=0), stretch["tau"], 0.0)
        good = np.all([np.isfinite(stretch[kind]).all(axis=1) for kind in KINDS], axis=0)
        if "time" in stretch:
            good &= np.diff(stretch["time"], prepend=-np.inf) > 0
        if good.sum() < 2:
            return
        self._kept.append({kind: np.ascontiguousarray(rows[good]) for kind, rows in stretch.items()})
        if len(self._kept) > self._most:
            del self._kept[1::2]
            self._stride *= 2

    @property
    def stretches(self):
        """Finite rows alone, each later than the one before."""
        return tuple(self._kept)

    @property
    def rows(self):
        """{kind: (n, ...)} of all stretches."""
        return {kind: np.concatenate([own[kind] for own in self._kept]) for kind in KINDS}


def _every(time):
    """How many rows later the next one tells more."""
    steps = np.diff(time) if time is not None else np.zeros(0)
    usual = float(np.median(steps)) if len(steps) else 0.0
    return max(1, round(FINE / usual)) if usual > 0 else 1


def together(samples):
    """{kind: (n, ...)} of the rows of several samples; {} without any."""
    rows = [one.rows for one in samples if one.stretches]
    return {kind: np.concatenate([own[kind] for own in rows]) for kind in KINDS} if rows else {}


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


def fit_of(linear: RegressorModel, base: BaseParameters, rows) -> Fit:
    """Of rows {kind: (n, ...)}."""
    q, qd, qdd = (rows[kind] for kind in ("q", "qd", "qdd"))
    columns = columns_of(base.reduced(linear.matrix(q, qd, qdd)))
    return Fit(columns, rows["tau"] - linear.known(q, qd, qdd))
