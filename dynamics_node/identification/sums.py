"""Sums of squares of recordings of any length, and the parameters that fit them best.

Sums by joint and stretch give the fit of any parameters to any part without the data: |tau - W x|^2 = z^T S z
with z = (x, -1) and S the sum of (W, tau)^T (W, tau). Every fifth stretch belongs to the same
cross-validation fold. Least squares is ordinary, weighted or robust; weights and covariances use the
effective number of rows: see `regression.inflation`.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from dynamics_node.errors import InputError
from dynamics_node.identification import regression
from dynamics_node.identification.base_parameters import BaseParameters
from dynamics_node.identification.filtering import ROWS, LowPass
from dynamics_node.identification.regressor_model import RegressorModel

FIRST_LENGTH = 20  # rows per stretch: single rows would be correlated with their neighbors
MOST_STRETCHES = 24  # stretches of `Sums` before pairs are merged: an even number
FOLDS = 5
HUBER = 1.345  # standard deviations: larger residuals have linear instead of squared cost
STATES = ("q", "qd", "qdd")


class StretchSums:
    """Sums of outer products of the rows (W, tau) of every torque, stretch by stretch.

    columns: of each torque, the indices of the columns of its rows, torque last; size: number of all columns;
    most: even number of stretches before pairs are merged. products: of each torque (most, columns, columns);
    count (most, nv): sums of weights.
    """

    def __init__(self, columns: Sequence[np.ndarray], size: int, most=MOST_STRETCHES):
        self.columns, self.size = tuple(columns), size
        self.products = tuple(np.zeros((most, len(at), len(at))) for at in self.columns)
        self.count = np.zeros((most, len(self.columns)))
        self._last, self._length, self._room = -1, FIRST_LENGTH, 0  # stretch, its rows, and those missing

    def accumulate(self, rows, weights=None):
        """Add rows of each torque (k, columns), in chronological order, with weights (k, nv)."""
        start, stop = 0, len(rows[0]) if rows else 0
        while start < stop:
            if self._room <= 0:
                self._begin()
            part = slice(start, min(start + self._room, stop))
            for products, of_torque in zip(self.products, rows, strict=True):
                products[self._last] += of_torque[part].T @ of_torque[part]
            self.count[self._last] += part.stop - start if weights is None else weights[part].sum(axis=0)
            start, self._room = part.stop, self._room - (part.stop - start)

    def _begin(self):
        """Begin a stretch; if there are too many, pairs are merged."""
        if self._last + 1 == len(self.count):
            self._merge_pairs()
        self._last, self._room = self._last + 1, self._length

    def _merge_pairs(self):
        half = len(self.count) // 2
        for sums in (*self.products, self.count):
            sums[:half], sums[half:] = sums[::2] + sums[1::2], 0.0
        if self._last % 2 == 0:  # the last one is the first of a pair
            self._room += self._length
        self._last, self._length = self._last // 2, 2 * self._length

    def append(self, other: "StretchSums"):
        """Add the sums of later rows, whose stretches are divided no further: some of ours may become longer
        than the others. other: of `accumulate` alone."""
        while self._length < other._length:
            self._merge_pairs()
        for k in range(other._last + 1):
            if self._room <= 0:
                self._begin()
            for ours, theirs in zip(
                (*self.products, self.count), (*other.products, other.count), strict=True
            ):
                ours[self._last] += theirs[k]
            self._room -= other._length - (other._room if k == other._last else 0)

    def fade(self, share):
        """Multiply the weight of all previous rows by this share."""
        for sums in (*self.products, self.count):
            sums *= share

    def total(self, stretches=slice(None)):
        """S (nv, size, size) and count (nv,) of some stretches, default all."""
        S = np.zeros((len(self.columns), self.size, self.size))
        for joint, (at, products) in enumerate(zip(self.columns, self.products, strict=True)):
            S[joint][np.ix_(at, at)] = products[stretches].sum(axis=0)
        return S, self.count[stretches].sum(axis=0)

    def filled(self, stretches=slice(None)):
        """Products of each torque (k, columns, columns) of those stretches that have rows."""
        begun = [products[: self._last + 1] for products in self.products]
        if isinstance(stretches, slice):
            return [products[stretches] for products in begun]
        which = stretches[stretches <= self._last]
        return [products[which] for products in begun]


class Sums(StretchSums):
    """Sums of the torques and base regressor of a recording in chunks; pickled without these.

    cutoff: Hz of a low-pass filter, None: no filter. rows: number of rows; skipped: rows with a nonfinite
    state. Without a filter, nonfinite torques are skipped joint by joint.
    """

    def __init__(self, linear: RegressorModel, base: BaseParameters, cutoff: float | None = None):
        self.linear, self.base = linear, base
        depends = base.dependence[:, base.chosen]
        columns = [np.append(np.flatnonzero(depends[joint]), base.count) for joint in range(linear.robot.nv)]
        super().__init__(columns, base.count + 1)
        self._filter = None
        if cutoff is not None:
            self._filter = LowPass(
                cutoff,
                lambda part: torque_rows(linear, base, part).reshape(len(part["q"]), -1),
                lambda rows, numbers: self._take(rows.reshape(len(rows), len(columns), -1)),
            )
        self.rows = self.skipped = 0
        self._fit = None

    def __getstate__(self):
        model = ("linear", "base", "_filter", "_fit")
        return {name: value for name, value in self.__dict__.items() if name not in model}

    def append(self, other):
        super().append(other)
        self.rows, self.skipped = self.rows + other.rows, self.skipped + other.skipped

    def add(self, chunk, fit=None):
        """Add rows {kind: (k, ...)} in order, with q, qd, qdd, tau, and time if filtered. fit: x (r,) and
        spread (nv,) of the residuals, for robust weights (Huber 1964). Raises InputError if the filter lacks
        the time, or the rate is too low."""
        chunk = {kind: np.asarray(rows, dtype=float) for kind, rows in chunk.items()}
        good = np.all([np.isfinite(chunk[kind]).all(axis=1) for kind in STATES], axis=0)
        good &= np.isfinite(chunk["tau"]).any(axis=1)
        self._fit = fit
        if self._filter is not None:
            if "time" not in chunk:
                raise InputError("a recording has no time, which the low-pass filter needs")
            self._filter.add(chunk, good)
            self.rows, self.skipped = self._filter.rows, self._filter.skipped
            return
        self.rows += len(good)
        self.skipped += len(good) - int(good.sum())
        every = np.flatnonzero(good)
        for start in range(0, len(every), ROWS):
            at = every[start : start + ROWS]
            part = {kind: chunk[kind][at] for kind in (*STATES, "tau")}
            self._take(torque_rows(self.linear, self.base, part))

    def _take(self, rows):
        """Add rows (k, nv, r + 1); those of unknown torques have no weight."""
        known = np.isfinite(rows[..., -1])
        weights = known.astype(float)
        if not known.all():
            rows[~known] = 0.0
        if self._fit is not None:
            x, spread = self._fit
            residual = np.abs(rows[..., -1] - rows[..., :-1] @ x) / np.maximum(spread, 1e-300)
            weights *= HUBER / np.maximum(residual, HUBER)
            rows *= np.sqrt(weights)[..., None]
        self.accumulate([rows[:, joint, at] for joint, at in enumerate(self.columns)], weights)


def torque_rows(linear: RegressorModel, base: BaseParameters, part):
    """Rows (k, nv, r + 1) of states {kind: (k, ...)}: the base regressor, and torques less known ones."""
    states = [np.ascontiguousarray(part[kind]) for kind in STATES]
    left = part["tau"] - linear.known(*states)
    return np.concatenate([base.reduced(linear.matrix(*states)), left[..., None]], axis=-1)


def squares_of(rows):
    """S (nv, size, size) of rows (k, nv, size)."""
    used = rows.any(axis=0)
    return packed_squares(rows[:, used], used)


def packed_squares(packed, used):
    """S (nv, size, size) of rows without columns of zeros: packed (k, columns) = rows[:, used]."""
    S, edges = np.zeros((*used.shape, used.shape[1])), np.cumsum(used.sum(axis=1))[:-1]
    for joint, (columns, at) in enumerate(zip(np.split(packed, edges, axis=1), used, strict=True)):
        S[joint][np.ix_(at, at)] = columns.T @ columns
    return S


# --- fits ---------------------------------------------------------------------------------------------------

ROUNDS = 4  # reweighting iterations
FEW_ROUNDS = 2  # ... of checks
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
        directions = regression.spectrum(self.information)
        missing = (
            np.abs(directions.directions[:, ~directions.determined()]).max(axis=1, initial=0.0) > UNKNOWN
        )
        return np.where(missing, np.inf, np.sqrt(np.maximum(variances, 0.0)))


def ordinary(sums: StretchSums, start, stretches=slice(None)) -> Solution:
    """Ordinary least squares: all torques have the same weight. start (r,): described values, kept in
    undetermined directions. stretches: numbers of those that are used, default all."""
    S, count = sums.total(stretches)
    x = solved(S, np.ones(len(S)), start)
    spread = np.maximum(residuals(S, free_rows(count, len(x)), x), least_spread(S, count, FAINTEST))
    if count.any():
        spread = np.full_like(spread, np.sqrt(np.mean(spread[count > 0] ** 2)))
    factors = inflations(sums.filled(stretches), sums.columns, S, x, spread)
    return _solution(S, spread, factors, x)


def weighted(sums: StretchSums, start, stretches=slice(None)) -> Solution:
    """Weighted least squares: each torque is weighted by its residuals. Other arguments as in `ordinary`."""
    S, count = sums.total(stretches)
    free, least = free_rows(count, len(start)), least_spread(S, count, FAINTEST)
    x, spread = reweighted(S, free, least, lambda spread: solved(S, spread, start))
    factors = inflations(sums.filled(stretches), sums.columns, S, x, spread)
    return _solution(S, spread, factors, solved(S, spread * np.sqrt(factors), start))


def reweighted(S, free, least, solve: Callable, rounds=ROUNDS, spread=1.0):
    """x (n,) = solve(spread) and the spread (nv,) of the residuals that it leaves. free (nv,): rows, less the
    fitted degrees of freedom; least (nv,): smaller residuals are raised to it; spread: the first one."""
    spread = spread * np.ones(len(S))
    for _ in range(rounds):
        spread = np.maximum(residuals(S, free, solve(spread)), least)
    return solve(spread), spread


def fit_of(S, count):
    """x (r,) for S of `count` rows, each torque weighted by its residuals, and their spread (nv,)."""
    size = np.sqrt(S[:, -1, -1] / count)
    least = FAINTEST * np.maximum(size, max(1e-3, size.max(initial=0.0)))
    start, counts = np.zeros(S.shape[-1] - 1), np.full(len(S), float(count))

    def solve(spread):
        return solved(S, spread, start)

    return reweighted(S, counts, least, solve, FEW_ROUNDS, np.maximum(size, least))


def residuals(S, count, x):
    """Root mean squares (nv,) of tau - W x."""
    z = np.append(x, -1.0)
    return np.sqrt(np.maximum(z @ S @ z, 0.0) / np.maximum(count, 1.0))


def free_rows(count, parameters):
    """Rows (nv,) less the degrees of freedom of fitted parameters."""
    total = max(1.0, count.sum())
    return count * max(1.0, total - parameters) / total


def least_spread(S, count, share):
    """Least residuals (nv,): a share of each torque."""
    return share * np.maximum(np.sqrt(S[:, -1, -1] / np.maximum(count, 1.0)), 1e-3)


def inflations(products, columns, S, x, spread, tolerance=regression.RANK):
    """`regression.inflation` (nv,) of each torque. products: of each torque (groups, c, c), of these columns;
    x (n,) or (nv, n)."""
    factors, x = np.ones(len(S)), np.broadcast_to(x, (len(S), S.shape[-1] - 1))
    for joint, (groups, at) in enumerate(zip(products, columns, strict=True)):
        if len(at := at[:-1]):
            scores = groups[:, :-1] @ np.append(x[joint, at], -1.0)
            factors[joint] = regression.inflation(scores, S[joint][np.ix_(at, at)], spread[joint], tolerance)
    return factors


def folds():
    """(test stretches, training stretches) of a cross-validation."""
    every = np.arange(MOST_STRETCHES)
    return [(every[every % FOLDS == k], every[every % FOLDS != k]) for k in range(FOLDS)]


def solved(S, spread, start):
    """x (r,) for given standard deviations (nv,) of the rows."""
    total = np.einsum("j,jkl->kl", 1.0 / spread**2, S)
    return start + regression.covariance_of(total[:-1, :-1]) @ (total[:-1, -1] - total[:-1, :-1] @ start)


def _solution(S, spread, factors, x):
    information = np.einsum("j,jkl->kl", 1.0 / (factors * spread**2), S)[:-1, :-1]
    return Solution(x, regression.covariance_of(information), spread, information, factors)
