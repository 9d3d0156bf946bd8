"""What least squares needs of a robot that carries something: sums of squares, joint by joint.

A row of a joint is (W, F, y): y is the measured torque less that of the robot without the payload, W (10,)
tells what the payload's parameters take, F (1, tanh, rate) what an offset, Coulomb and viscous friction of
the joint do, which nobody knows well enough to leave them out.
"""

from typing import NamedTuple

import numpy as np

from dynamics_node.algorithms.actuation import SMOOTHING
from dynamics_node.algorithms.regressors import PER_BODY
from dynamics_node.identification import regression

FRICTION = 3  # columns: offset, Coulomb, viscous
COLUMNS = PER_BODY + FRICTION + 1
ROUNDS = 4  # of weights from residuals, residuals from weights
LOST = 1e-10  # of what was there before friction was taken out, or of the largest eigenvalue: rounding
LEAST = 1e-4  # of a torque: no sensor is better
SHORTEST = 20  # rows of a stretch
MOST = 48  # stretches, before two and two become one
FEWEST = 4  # stretches that tell how far residuals depend on each other


def friction_columns(qd):
    """(..., nv, 3) of rates (..., nv)."""
    return np.stack([np.ones_like(qd), np.tanh(qd / SMOOTHING), qd], axis=-1)


class PayloadSums:
    """Sums of the rows' outer products, stretch by stretch: S (nv, COLUMNS, COLUMNS) of all, count of
    rows."""

    def __init__(self, nv):
        self.shape = (nv, COLUMNS, COLUMNS)
        self.stretches: list[np.ndarray] = []
        self.count = 0.0
        self._length, self._room = (
            SHORTEST,
            0,
        )  # rows of a stretch, and of the last one that are still to come

    def total(self):
        """(nv, COLUMNS, COLUMNS)"""
        return sum(self.stretches, np.zeros(self.shape))

    def add(self, rows):
        """rows (k, nv, COLUMNS), in order of time."""
        start = 0
        while start < len(rows):
            if not self._room:
                self._begin()
            own = rows[start : start + self._room].transpose(1, 2, 0)
            self.stretches[-1] += own @ own.transpose(0, 2, 1)
            start, self._room = start + own.shape[2], self._room - own.shape[2]
        self.count += len(rows)

    def _begin(self):
        """A stretch; where there are many, two and two become one."""
        if len(self.stretches) == MOST:
            self.stretches = [a + b for a, b in zip(self.stretches[::2], self.stretches[1::2], strict=True)]
            self._length *= 2
        self.stretches.append(np.zeros(self.shape))
        self._room = self._length

    def fade(self, share):
        """Let what was added count by this share from now on."""
        for own in self.stretches:
            own *= share
        self.count *= share


class Fitted(NamedTuple):
    """x (10,): parameters of least squares, zero in directions that nothing tells of; information (10, 10);
    spread (nv,): standard deviations of the torques; condition: of the equations, columns of length one;
    inflation (nv,): how many rows of a torque say what one says that is independent of the others."""

    x: np.ndarray
    information: np.ndarray
    spread: np.ndarray
    condition: float
    inflation: np.ndarray


def fitted(
    sums: PayloadSums, friction=True, torque_std=None, tare: PayloadSums | None = None, moved=True
) -> Fitted:
    """The ten parameters, with friction of the joints as unknown as they are, or with none. torque_std (nv,)
    or a number, N m or N, of one row; by default as residuals show it, which are larger and depend on each
    other where the model or friction is another one. tare: of rows with nothing on the link: what parameters
    explain them is taken off, friction is that of both. moved: whether the robot did; at rest offsets hide
    what weighs, and nothing tells what resists acceleration."""
    stretches = sums.stretches if tare is None else [_tared(own) for own in sums.stretches]
    if tare is not None:
        stretches = stretches + [_empty(own) for own in tare.stretches]
    full = sum(stretches, np.zeros(sums.shape) if tare is None else _tared(np.zeros(sums.shape)))
    if not moved:
        hidden = np.arange(0 if friction else 4, PER_BODY)
        full[:, hidden, :], full[:, :, hidden] = 0.0, 0.0
    count = np.where(np.diagonal(full, axis1=1, axis2=2).any(axis=1), sums.count, 0.0)
    count += 0.0 if tare is None else np.where(count > 0, tare.count, 0.0)
    columns = np.arange(full.shape[-1])
    rubs, rest = columns[-1 - FRICTION : -1], np.delete(columns, np.s_[-1 - FRICTION : -1])
    before, freedom = np.einsum("jkk->jk", full)[:, rest], count
    S, B = full[:, rest[:, None], rest], np.zeros((len(full), FRICTION, len(rest)))
    if friction:
        B, lost = regression.nuisance_fit(full, rubs, rest, np.einsum("jkk->jk", full), LOST)
        S, freedom = S - full[:, rest[:, None], rubs] @ B, np.maximum(freedom - lost, 0.0)
    share = max(freedom.sum() - len(rest) + 1, 1.0) / max(freedom.sum(), 1.0)  # residuals are too small
    least = LEAST * np.maximum(np.sqrt(before[:, -1] / np.maximum(count, 1.0)), 1e-3)
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
    return Fitted(z[:PER_BODY], information, spread, condition, inflation)


def _inflation(stretches, full, z, spread):
    """(nv,): `regression.inflation` of each torque. z (nv, columns): what it is fitted with, -1 last."""
    found = np.ones(len(full))
    if len(stretches) < FEWEST:
        return found
    scores = np.einsum("gjkl,jl->jgk", np.array(stretches), z)[..., :-1]
    for joint, own in enumerate(scores):
        found[joint] = regression.inflation(own, full[joint, :-1, :-1], spread[joint], LOST)
    return found


def _tared(loaded):
    """Of rows (W of what is carried, W of what the model lacks, F, y)."""
    twice = np.r_[:PER_BODY, :COLUMNS]
    return loaded[:, twice[:, None], twice]


def _empty(own):
    """The same of rows with nothing on the link."""
    full = np.zeros((len(own), PER_BODY + COLUMNS, PER_BODY + COLUMNS))
    full[:, PER_BODY:, PER_BODY:] = own
    return full


def _solved(S, before, spread):
    """z = (x, -1) of rows with these standard deviations, and of the payload alone, information and
    condition."""
    weights = 1.0 / spread**2
    total, size = np.einsum("j,jkl->kl", weights, S), weights @ before
    gone, own = np.arange(PER_BODY, len(total) - 1), np.r_[:PER_BODY, len(total) - 1]
    B, _ = regression.nuisance_fit(total, gone, own, size, LOST)
    total = total[own[:, None], own] - total[own[:, None], gone] @ B
    information = 0.5 * (total + total.T)[:PER_BODY, :PER_BODY]
    directions = regression.spectrum(information, regression.column_scale(size[:PER_BODY]))
    half = directions.half_inverse(LOST)
    x = np.append(half @ (half.T @ total[:PER_BODY, -1]), -1.0)
    return np.concatenate([x[:-1], -B @ x, x[-1:]]), information, directions.condition(LOST)
