"""A sample of the rows of a recording, a fit of its torques, and alternative explanations of the
residuals."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dynamics_node.identification.base_parameters import BaseParameters
from dynamics_node.identification.regression import covariance_of
from dynamics_node.identification.regressor_model import RegressorModel
from dynamics_node.io.tables import later

STRETCH_ROWS = 150  # rows per stretch
MOST_STRETCHES = 14  # stretches; fewer for robots with large regressors
SPACING = 0.004  # s between rows: denser ones are redundant
NUMBERS = 2e7  # regressor entries of a sample, at most
KINDS = ("q", "qd", "qdd", "tau")


class Sample:
    """Sample of a recording of any length, collected chunk by chunk. numbers: regressor entries per row.
    Torques that are never measured are zero in it."""

    def __init__(self, numbers=1):
        self._most = int(np.clip(NUMBERS / (STRETCH_ROWS * numbers), 2, MOST_STRETCHES))
        self._every = self._stride = 0
        self._row = self._next = 0
        self._kept: list[dict[str, np.ndarray]] = []

    def add(self, chunk):
        """chunk: {kind: (k, ...)} with q, qd, qdd, tau, and time if known."""
        if not self._every:
            self._every = _every(chunk.get("time"))
            self._stride = STRETCH_ROWS * self._every
        first, self._row = self._row, self._row + len(chunk["qd"])
        self._next = max(self._next, first)
        span = min(STRETCH_ROWS * self._every, self._row - first)
        while span and self._next + span <= self._row:
            start = self._next - first
            self._keep({kind: rows[start : start + span : self._every] for kind, rows in chunk.items()})
            self._next += self._stride

    def _keep(self, stretch):
        stretch["tau"] = np.where(np.isfinite(stretch["tau"]).any(axis=0), stretch["tau"], 0.0)
        good = np.all([np.isfinite(stretch[kind]).all(axis=1) for kind in KINDS], axis=0)
        if "time" in stretch:
            good &= later(stretch["time"])
        if good.sum() < 2:
            return
        self._kept.append({kind: np.ascontiguousarray(rows[good]) for kind, rows in stretch.items()})
        if len(self._kept) > self._most:
            del self._kept[1::2]
            self._stride *= 2

    @property
    def stretches(self):
        """Stretches of finite rows with increasing time."""
        return tuple(self._kept)

    @property
    def rows(self):
        """{kind: (n, ...)} of all stretches."""
        return {kind: np.concatenate([own[kind] for own in self._kept]) for kind in KINDS}


def _every(time):
    """Stride to the next row that is not redundant."""
    steps = np.diff(time) if time is not None else np.zeros(0)
    usual = float(np.median(steps)) if len(steps) else 0.0
    return max(1, round(SPACING / usual)) if usual > 0 else 1


def together(samples):
    """{kind: (n, ...)} of the rows of several samples; {} if there are none."""
    rows = [one.rows for one in samples if one.stretches]
    return {kind: np.concatenate([own[kind] for own in rows]) for kind in KINDS} if rows else {}


ROUNDS = 2  # reweighting iterations
SMALLEST_RESIDUAL = 1e-9  # fraction of a torque: smaller residuals are raised to it


class Columns(NamedTuple):
    """A regressor W (n, nv, r) joint by joint, without the zero columns of each joint.

    own: the columns (n, k) of each joint; indices: the k base parameters, out of r, that they belong to.
    """

    own: Sequence[np.ndarray]
    indices: Sequence[np.ndarray]
    parameters: int  # r


def columns_of(W) -> Columns:
    """Columns of a regressor (n, nv, r)."""
    indices = [np.flatnonzero(one) for one in W.any(axis=0)]
    return Columns([W[:, joint, which] for joint, which in enumerate(indices)], indices, W.shape[2])


class Fit:
    """Fit of tau (n, nv), each torque weighted by its residuals: x (r,), residuals `left` (n, nv) and their
    spread (nv,)."""

    def __init__(self, columns: Columns, tau):
        self.columns, self.tau = columns, tau
        size = tau.std(axis=0)
        least = SMALLEST_RESIDUAL * np.maximum(size, max(1e-3, size.max(initial=0.0)))
        self.spread = np.maximum(size, least)
        self._squares = [own.T @ own for own in columns.own]
        products = [own.T @ one for own, one in zip(columns.own, tau.T, strict=True)]
        for _ in range(ROUNDS):
            self.x = self._inverse() @ self._sum(products)
            self.left = tau - self._torques(self.x)
            self.spread = np.maximum(np.sqrt(np.mean(self.left**2, axis=0)), least)

    def explained_by(self, columns):
        """Factors (k,) of additional columns (n, nv, k), their standard deviations, and the share of the
        residual variance that they explain."""
        products = [own.T @ columns[:, joint] for joint, own in enumerate(self.columns.own)]
        shared = self._inverse() @ self._sum(products)
        D = (columns - self._torques(shared)) / self.spread[:, None]
        D, b = D.reshape(-1, columns.shape[-1]), (self.left / self.spread).ravel()
        covariance = covariance_of(D.T @ D)
        y = covariance @ (D.T @ b)
        before, rest = max(float(b @ b), 1e-300), float(np.sum((b - D @ y) ** 2))
        return y, np.sqrt(np.maximum(np.diagonal(covariance), 0.0) * rest / len(b)), 1.0 - rest / before

    def _torques(self, x):
        """(n, nv, ...) for x (r, ...)."""
        columns = zip(self.columns.own, self.columns.indices, strict=True)
        return np.stack([own @ x[indices] for own, indices in columns], axis=1)

    def _inverse(self):
        """Inverse information (r, r), weighted by the spread."""
        information = np.zeros((self.columns.parameters, self.columns.parameters))
        for own, indices, spread in zip(self._squares, self.columns.indices, self.spread, strict=True):
            information[np.ix_(indices, indices)] += own / spread**2
        return covariance_of(information)

    def _sum(self, products):
        """(r, ...): sum of the products (k, ...) of each joint, weighted by the spread."""
        total = np.zeros((self.columns.parameters, *products[0].shape[1:]))
        for own, indices, spread in zip(products, self.columns.indices, self.spread, strict=True):
            total[indices] += own / spread**2
        return total


def fit_of(linear: RegressorModel, base: BaseParameters, rows) -> Fit:
    """Fit of rows {kind: (n, ...)}."""
    q, qd, qdd = (rows[kind] for kind in ("q", "qd", "qdd"))
    columns = columns_of(base.reduced(linear.matrix(q, qd, qdd)))
    return Fit(columns, rows["tau"] - linear.known(q, qd, qdd))
