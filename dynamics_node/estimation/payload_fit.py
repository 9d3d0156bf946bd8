"""The least-squares fit of a payload: rows (W, F, y) of every torque.

y is the measured torque minus that of the robot without the payload, W (10,) the payload regressor, and F (1,
tanh, rate) the regressor of offset, Coulomb and viscous friction. Friction is too uncertain to be neglected,
and differs from joint to joint: it is eliminated from the sums of each.
"""

from typing import NamedTuple

import numpy as np

from dynamics_node.algorithms.joint_friction import SMOOTHING
from dynamics_node.algorithms.regressors import PER_BODY
from dynamics_node.identification.regression import column_scale, eliminated, spectrum
from dynamics_node.identification.sums import (
    StretchSums,
    free_rows,
    inflations,
    least_spread,
    reweighted,
)

FRICTION = 3  # columns: offset, Coulomb, viscous
COLUMNS = PER_BODY + FRICTION + 1
RANK_TOLERANCE = 1e-10  # of the sums before elimination, or of the largest eigenvalue: below is rounding
MOST_STRETCHES = 48
LEAST_STD = 1e-4  # fraction of a torque: least noise of a sensor


def friction_columns(qd):
    """Friction regressor (..., nv, 3) of rates (..., nv)."""
    return np.stack([np.ones_like(qd), np.tanh(qd / SMOOTHING), qd], axis=-1)


def payload_sums(nv) -> StretchSums:
    """Sums of rows (W, F, y) of every torque."""
    return StretchSums([np.arange(COLUMNS)] * nv, COLUMNS, MOST_STRETCHES)


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
    sums: StretchSums, friction=True, torque_std=None, tare: StretchSums | None = None, moved=True
) -> PayloadFit:
    """Fit the ten parameters, with or without unknown joint friction. torque_std: scalar or (nv,), N m or N,
    of one row, default from the residuals, which are larger and correlated if model or friction is wrong.
    tare: sums of rows without payload; the parameters that explain them are subtracted, and friction is
    fitted to both. moved: whether the robot moved; at rest, offsets hide the weight and the inertia is
    undetermined."""
    products, (S, count) = sums.filled(), sums.total()
    if tare is not None:  # rows (W of the payload, W of the model error, F, y)
        twice, extra = np.r_[:PER_BODY, :COLUMNS], ((0, 0), (PER_BODY, 0), (PER_BODY, 0))
        both = zip(products, tare.filled(), strict=True)
        products = [
            np.concatenate([stretches[:, twice[:, None], twice], np.pad(without, extra)])
            for stretches, without in both
        ]
        S = np.array([stretches.sum(axis=0) for stretches in products])
    if not moved:
        undetermined = np.arange(0 if friction else 4, PER_BODY)
        S[:, undetermined, :], S[:, :, undetermined] = 0.0, 0.0
    squares = np.einsum("jkk->jk", S)
    count = np.where(squares.any(axis=1), count + (0.0 if tare is None else tare.total()[1]), 0.0)
    last = S.shape[-1] - 1
    columns, left = np.arange(last - FRICTION, last), S.copy()
    if not friction:
        left[:, columns], left[:, :, columns] = 0.0, 0.0
    left, by_friction, rank = eliminated(left, columns, squares, RANK_TOLERANCE)
    squares = np.delete(squares, columns, axis=1)
    inflation = np.ones(len(S))
    if torque_std is None:
        least = least_spread(S, count, LEAST_STD)
        free = free_rows(np.maximum(count - rank, 0.0), left.shape[-1] - 1)
        x, spread = reweighted(left, free, least, lambda spread: _solved(left, squares, spread)[0])
        rubs = -by_friction @ np.append(x, -1.0)
        every = np.concatenate([np.tile(x, (len(S), 1)), rubs], axis=1)
        inflation = inflations(products, [np.arange(last + 1)] * len(S), S, every, spread, RANK_TOLERANCE)
    else:
        spread = np.broadcast_to(torque_std, inflation.shape).astype(float)
    x, information, condition = _solved(left, squares, spread * np.sqrt(inflation))
    return PayloadFit(x[:PER_BODY], information, spread, condition, inflation)


def _solved(S, squares, spread):
    """x of rows with these standard deviations (nv,); information and condition of the payload alone."""
    weights = 1.0 / spread**2
    total, size = np.einsum("j,jkl->kl", weights, S), weights @ squares
    total, by_error, _ = eliminated(total, np.arange(PER_BODY, len(total) - 1), size, RANK_TOLERANCE)
    information = 0.5 * (total + total.T)[:PER_BODY, :PER_BODY]
    directions = spectrum(information, column_scale(size[:PER_BODY]))
    half = directions.half_inverse(RANK_TOLERANCE)
    x = half @ (half.T @ total[:PER_BODY, -1])
    return (
        np.append(x, -by_error @ np.append(x, -1.0)),
        information,
        directions.condition(RANK_TOLERANCE),
    )
