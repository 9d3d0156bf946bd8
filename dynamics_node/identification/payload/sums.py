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


def fitted(sums: PayloadSums, friction=True, torque_std=None, tare: PayloadSums | None = None) -> Fitted:
    """The ten parameters, with friction of the joints as unknown as they are, or with none. torque_std (nv,)
    or a number, N m or N, of one row; by default as residuals show it. tare: of rows with nothing on the
    link: what parameters explain them is taken off, friction is that of both."""
    full = sums.S if tare is None else _tared(sums.S, tare.S)
    count = sums.count + (0.0 if tare is None else tare.count)
    columns = np.arange(full.shape[-1])
    rubs, rest = columns[-1 - FRICTION : -1], np.delete(columns, np.s_[-1 - FRICTION : -1])
    before, freedom = np.einsum("jkk->jk", full)[:, rest], np.full(len(full), count)
    S = full[:, rest[:, None], rest]
    if friction:
        B, lost = _explained(full, rubs, rest, np.einsum("jkk->jk", full))
        S, freedom = S - full[:, rest[:, None], rubs] @ B, freedom - lost
    share = max(freedom.sum() - len(rest) + 1, 1.0) / max(freedom.sum(), 1.0)  # residuals are too small
    least = LEAST * np.maximum(np.sqrt(before[:, -1] / max(count, 1.0)), 1e-3)
    given = None if torque_std is None else np.broadcast_to(torque_std, least.shape).astype(float)
    spread = np.ones(len(S)) if given is None else given
    for _ in range(ROUNDS if given is None else 0):
        z = _solved(S, before, spread)[0]
        squares = np.maximum(z @ S @ z, 0.0) / np.maximum(freedom * share, 1.0)
        spread = np.maximum(np.sqrt(squares), least)
    z, information, condition = _solved(S, before, spread)
    return Fitted(z[:PER_BODY], information, spread, condition)


def _tared(loaded, empty):
    """Sums of both over (W of what is carried, W of what the model lacks, F, y)."""
    twice = np.r_[:PER_BODY, :COLUMNS]
    full = loaded[:, twice[:, None], twice]
    full[:, PER_BODY:, PER_BODY:] += empty
    return full


def _explained(S, gone, rest, before):
    """B (..., gone, rest): how columns `gone` explain the rest best, and how many of them are independent.
    before (..., k): squares of all columns, beside which what is left may be rounding."""
    scale = 1.0 / np.sqrt(np.maximum(before[..., gone], 1e-300))
    values, vectors = np.linalg.eigh(S[..., gone[:, None], gone] * scale[..., None] * scale[..., None, :])
    kept = values > LOST
    half = (
        vectors
        * scale[..., None]
        * np.where(kept, 1.0 / np.sqrt(np.where(kept, values, 1.0)), 0.0)[..., None, :]
    )
    return half @ (np.swapaxes(half, -1, -2) @ S[..., gone[:, None], rest]), kept.sum(axis=-1)


def _solved(S, before, spread):
    """z = (x, -1) of rows with these standard deviations, and of the payload alone, information and
    condition."""
    weights = 1.0 / spread**2
    total, size = np.einsum("j,jkl->kl", weights, S), weights @ before
    gone, own = np.arange(PER_BODY, len(total) - 1), np.r_[:PER_BODY, len(total) - 1]
    B, _ = _explained(total, gone, own, size)
    total = total[own[:, None], own] - total[own[:, None], gone] @ B
    scale = 1.0 / np.sqrt(np.maximum(size[:PER_BODY], 1e-300))
    information = 0.5 * (total + total.T)[:PER_BODY, :PER_BODY]
    values, vectors = np.linalg.eigh(information * np.outer(scale, scale))
    told = values > LOST * values.max(initial=0.0)
    half = (vectors[:, told] * scale[:, None]) / np.sqrt(values[told])
    x = np.append(half @ (half.T @ total[:PER_BODY, -1]), -1.0)
    condition = np.sqrt(values[-1] / values[0]) if told.all() else np.inf
    return np.concatenate([x[:-1], -B @ x, x[-1:]]), information, float(condition)
