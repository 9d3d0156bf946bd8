"""Sufficient statistics of payload identification: sums of squares, joint by joint.

A row of a joint is (W, F, y). y is the measured torque minus that of the robot without the payload, W (10,)
the payload regressor, and F (1, tanh, rate) the regressor of offset, Coulomb and viscous friction, which are
too uncertain to be neglected.
"""

from typing import NamedTuple

import numpy as np

from dynamics_node.algorithms.actuation import SMOOTHING
from dynamics_node.algorithms.regressors import PER_BODY
from dynamics_node.identification import regression

FRICTION = 3  # columns: offset, Coulomb, viscous
COLUMNS = PER_BODY + FRICTION + 1
ROUNDS = 4  # reweighting iterations
RANK_TOLERANCE = 1e-10  # of the sums before elimination, or of the largest eigenvalue: below is rounding
LEAST_STD = 1e-4  # fraction of a torque: least noise of a sensor
FIRST_LENGTH = 20  # rows per stretch
MOST_STRETCHES = 48  # stretches before pairs are merged
FEWEST_STRETCHES = 4  # stretches needed to estimate the correlation of residuals


def friction_columns(qd):
    """Friction regressor (..., nv, 3) of rates (..., nv)."""
    return np.stack([np.ones_like(qd), np.tanh(qd / SMOOTHING), qd], axis=-1)


class PayloadSums:
    """Sums of the rows' outer products, stretch by stretch: S (nv, COLUMNS, COLUMNS) each, and count of
    rows."""

    def __init__(self, nv):
        self.shape = (nv, COLUMNS, COLUMNS)
        self.stretches: list[np.ndarray] = []
        self.count = 0.0
        self._length, self._room = (
            FIRST_LENGTH,
            0,
        )  # rows per stretch, and missing rows of the last one

    def total(self):
        """Sum (nv, COLUMNS, COLUMNS) of all stretches."""
        return sum(self.stretches, np.zeros(self.shape))

    def add(self, rows):
        """rows (k, nv, COLUMNS), in chronological order."""
        start = 0
        while start < len(rows):
            if not self._room:
                self._begin()
            own = rows[start : start + self._room].transpose(1, 2, 0)
            self.stretches[-1] += own @ own.transpose(0, 2, 1)
            start, self._room = start + own.shape[2], self._room - own.shape[2]
        self.count += len(rows)

    def _begin(self):
        """Start a stretch; if there are too many, pairs are merged."""
        if len(self.stretches) == MOST_STRETCHES:
            self.stretches = [a + b for a, b in zip(self.stretches[::2], self.stretches[1::2], strict=True)]
            self._length *= 2
        self.stretches.append(np.zeros(self.shape))
        self._room = self._length

    def fade(self, share):
        """Multiply the weight of all previous rows by this share."""
        for own in self.stretches:
            own *= share
        self.count *= share


class PayloadFit(NamedTuple):
    """x (10,): least-squares parameters, zero in undetermined directions; information (10, 10); spread (nv,):
    standard deviations of the torques; condition: of the equations with columns of unit length; inflation
    (nv,): rows per independent row of a torque."""

    x: np.ndarray
    information: np.ndarray
    spread: np.ndarray
    condition: float
    inflation: np.ndarray


def fit_payload(
    sums: PayloadSums, friction=True, torque_std=None, tare: PayloadSums | None = None, moved=True
) -> PayloadFit:
    """Fit the ten parameters, with or without unknown joint friction. torque_std: scalar or (nv,), N m or N,
    of one row, default from the residuals, which are larger and correlated if model or friction is wrong.
    tare: sums of rows without payload; the parameters that explain them are subtracted, and friction is
    fitted to both. moved: whether the robot moved; at rest, offsets hide the weight and the inertia is
    undetermined."""
    stretches = sums.stretches if tare is None else [_tared(own) for own in sums.stretches]
    if tare is not None:
        stretches = stretches + [_empty(own) for own in tare.stretches]
    full = sum(stretches, np.zeros(sums.shape) if tare is None else _tared(np.zeros(sums.shape)))
    if not moved:
        undetermined = np.arange(0 if friction else 4, PER_BODY)
        full[:, undetermined, :], full[:, :, undetermined] = 0.0, 0.0
    count = np.where(np.diagonal(full, axis1=1, axis2=2).any(axis=1), sums.count, 0.0)
    count += 0.0 if tare is None else np.where(count > 0, tare.count, 0.0)
    columns = np.arange(full.shape[-1])
    nuisance, rest = columns[-1 - FRICTION : -1], np.delete(columns, np.s_[-1 - FRICTION : -1])
    before, freedom = np.einsum("jkk->jk", full)[:, rest], count
    S, B = full[:, rest[:, None], rest], np.zeros((len(full), FRICTION, len(rest)))
    if friction:
        B, rank = regression.nuisance_fit(full, nuisance, rest, np.einsum("jkk->jk", full), RANK_TOLERANCE)
        S, freedom = S - full[:, rest[:, None], nuisance] @ B, np.maximum(freedom - rank, 0.0)
    share = max(freedom.sum() - len(rest) + 1, 1.0) / max(
        freedom.sum(), 1.0
    )  # corrects for the fitted degrees of freedom
    least = LEAST_STD * np.maximum(np.sqrt(before[:, -1] / np.maximum(count, 1.0)), 1e-3)
    given = None if torque_std is None else np.broadcast_to(torque_std, least.shape).astype(float)
    spread, inflation = np.ones(len(S)) if given is None else given, np.ones(len(S))
    for _ in range(ROUNDS if given is None else 0):
        z = _solved(S, before, spread)[0]
        squares = np.maximum(z @ S @ z, 0.0) / np.maximum(freedom * share, 1.0)
        spread = np.maximum(np.sqrt(squares), least)
    if given is None:
        z = _solved(S, before, spread)[0]
        all_of = np.column_stack([np.tile(z[:-1], (len(S), 1)), -B @ z, np.full(len(S), z[-1])])
        inflation = _inflation(stretches, full, all_of, spread)
    z, information, condition = _solved(S, before, spread * np.sqrt(inflation))
    return PayloadFit(z[:PER_BODY], information, spread, condition, inflation)


def _inflation(stretches, full, z, spread):
    """`regression.inflation` (nv,) of each torque. z (nv, columns): its coefficients, -1 last."""
    factors = np.ones(len(full))
    if len(stretches) < FEWEST_STRETCHES:
        return factors
    scores = np.einsum("gjkl,jl->jgk", np.array(stretches), z)[..., :-1]
    for joint, own in enumerate(scores):
        factors[joint] = regression.inflation(own, full[joint, :-1, :-1], spread[joint], RANK_TOLERANCE)
    return factors


def _tared(S):
    """Sums of rows (W of the payload, W of the model error, F, y)."""
    twice = np.r_[:PER_BODY, :COLUMNS]
    return S[:, twice[:, None], twice]


def _empty(own):
    """The same for rows without payload."""
    full = np.zeros((len(own), PER_BODY + COLUMNS, PER_BODY + COLUMNS))
    full[:, PER_BODY:, PER_BODY:] = own
    return full


def _solved(S, before, spread):
    """z = (x, -1) of rows with these standard deviations; information and condition of the payload alone."""
    weights = 1.0 / spread**2
    total, size = np.einsum("j,jkl->kl", weights, S), weights @ before
    gone, own = np.arange(PER_BODY, len(total) - 1), np.r_[:PER_BODY, len(total) - 1]
    B, _ = regression.nuisance_fit(total, gone, own, size, RANK_TOLERANCE)
    total = total[own[:, None], own] - total[own[:, None], gone] @ B
    information = 0.5 * (total + total.T)[:PER_BODY, :PER_BODY]
    directions = regression.spectrum(information, regression.column_scale(size[:PER_BODY]))
    half = directions.half_inverse(RANK_TOLERANCE)
    x = np.append(half @ (half.T @ total[:PER_BODY, -1]), -1.0)
    return np.concatenate([x[:-1], -B @ x, x[-1:]]), information, directions.condition(RANK_TOLERANCE)
