"""What least squares needs of a robot that carries something: sums of squares, joint by joint.

A row of a joint is (W, F, y): y is the measured torque less that of the robot without the payload, W (10,)
tells what the payload's parameters take, F (1, tanh, rate) what an offset, Coulomb and viscous friction of
the joint do, which nobody knows well enough to leave them out.
"""

from typing import NamedTuple

import numpy as np

from dynamics_node.algorithms.friction import SMOOTHING
from dynamics_node.algorithms.regressors import PER_BODY

FRICTION = 3  # columns: offset, Coulomb, viscous
COLUMNS = PER_BODY + FRICTION + 1
ROUNDS = 4  # of weights from residuals, residuals from weights
LOST = 1e-10  # of what was there before friction was taken out, or of the largest eigenvalue: rounding
LEAST = 1e-4  # of a torque: no sensor is better


def friction_columns(qd):
    """(..., nv, 3) of rates (..., nv)."""
    return np.stack([np.ones_like(qd), np.tanh(qd / SMOOTHING), qd], axis=-1)


class PayloadSums:
    """S (nv, COLUMNS, COLUMNS): sum of the rows' outer products; count: of rows of each joint."""

    def __init__(self, nv):
        self.S, self.count = np.zeros((nv, COLUMNS, COLUMNS)), 0.0

    def add(self, rows):
        """rows (k, nv, COLUMNS)."""
        own = rows.transpose(1, 2, 0)
        self.S += own @ own.transpose(0, 2, 1)
        self.count += len(rows)

    def fade(self, share):
        """Let what was added count by this share from now on."""
        self.S *= share
        self.count *= share


class Fitted(NamedTuple):
    """x (10,): parameters of least squares, zero in directions that nothing tells of; information (10, 10);
    spread (nv,): standard deviations of the torques; condition: of the equations, columns of length one."""

    x: np.ndarray
    information: np.ndarray
    spread: np.ndarray
    condition: float


def fitted(sums: PayloadSums, friction=True, torque_std=None) -> Fitted:
    """The ten parameters, with friction of the joints as unknown as they are, or with none. torque_std (nv,)
    or a number, N m or N, of one row; by default as residuals show it."""
    places = np.r_[:PER_BODY, COLUMNS - 1]
    S, freedom = sums.S[:, places[:, None], places], sums.count * np.ones(len(sums.S))
    size = np.sqrt(S[:, -1, -1] / max(sums.count, 1.0))
    before = np.einsum("jkk->jk", S).copy()
    if friction:
        S, lost = _without_friction(sums.S, S)
        freedom -= lost
    S = _cleaned(S, before)
    share = max(freedom.sum() - PER_BODY, 1.0) / max(freedom.sum(), 1.0)  # residuals of a fit are too small
    least = LEAST * np.maximum(size, 1e-3)
    given = None if torque_std is None else np.broadcast_to(torque_std, size.shape).astype(float)
    spread = np.ones(len(S)) if given is None else given
    for _ in range(ROUNDS if given is None else 0):
        z = np.append(_solved(S, before, spread)[0], -1.0)
        squares = np.maximum(z @ S @ z, 0.0) / np.maximum(freedom * share, 1.0)
        spread = np.maximum(np.sqrt(squares), least)
    x, information, condition = _solved(S, before, spread)
    return Fitted(x, information, spread, condition)


def _without_friction(full, S):
    """S (nv, 11, 11) of what is left of the rows where friction's columns explain them best, and how many of
    these are independent (nv,)."""
    places = np.r_[:PER_BODY, COLUMNS - 1]
    own = slice(PER_BODY, PER_BODY + FRICTION)
    N, mixed = full[:, own, own], full[:, own][:, :, places]
    scale = 1.0 / np.sqrt(np.maximum(np.einsum("jkk->jk", N), 1e-300))
    values, vectors = np.linalg.eigh(N * scale[:, :, None] * scale[:, None, :])
    kept = values > LOST
    half = (vectors * scale[:, :, None]).transpose(0, 2, 1) @ mixed
    half *= np.where(kept, 1.0 / np.sqrt(np.where(kept, values, 1.0)), 0.0)[:, :, None]
    return S - half.transpose(0, 2, 1) @ half, kept.sum(axis=1)


def _cleaned(S, before):
    """Without what rounding has left of columns that friction explains."""
    left = np.einsum("jkk->jk", S)
    S = np.where((left > LOST * before)[:, :, None], S, 0.0)
    return np.where((left > LOST * before)[:, None, :], S, 0.0)


def _solved(S, before, spread):
    """x, information and condition of rows with these standard deviations."""
    weights = 1.0 / spread**2
    total = np.einsum("j,jkl->kl", weights, S)
    information, right = total[:-1, :-1], total[:-1, -1]
    scale = 1.0 / np.sqrt(np.maximum(weights @ before[:, :-1], 1e-300))
    values, vectors = np.linalg.eigh(information * np.outer(scale, scale))
    told = values > LOST * values.max(initial=0.0)
    half = (vectors[:, told] * scale[:, None]) / np.sqrt(values[told])
    condition = np.sqrt(values[-1] / values[0]) if told.all() else np.inf
    return half @ (half.T @ right), information, float(condition)
