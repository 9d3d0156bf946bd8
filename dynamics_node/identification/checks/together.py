"""Whether torques of all joints follow from one set of parameters, whatever the description says.

The torque of each joint is fitted alone, with parameters of its own, and all of them together. Bodies that
are the same for all joints leave about the same either way; a torque of another sign or unit, or the column
of another joint, does not fit the others. A factor of one torque is an unknown like the parameters: the sums
of squares tell it.
"""

from typing import NamedTuple

import numpy as np

from dynamics_node.identification.regression import covariance_of
from dynamics_node.identification.sums import Sums, folds, residuals

APART = 1.5  # times what is left of a torque alone: beyond, it does not fit the others
CLOSE = 1.3  # what is left when the reason is found
SAME = 0.67, 1.5  # factors that are none
TRUSTED = 0.3  # of a factor: its standard deviation at most
BETTER = 0.7  # of the logarithms of what is left too much, for a factor to count
NEARBY = 4.0  # how far from a first guess, which noise makes small, a factor is looked for


class Together(NamedTuple):
    """Of each torque (nv,): root mean squares of what is left by a fit of all, by one of its own."""

    all: np.ndarray
    own: np.ndarray

    @property
    def apart(self):
        """(nv,): how much worse the fit of all is."""
        return self.all / self.own

    @property
    def worst(self):
        return float(np.max(self.apart, initial=0.0))

    @property
    def too_much(self):
        """One number for all."""
        return float(np.log(self.apart).sum())


def cross_validated(sums: Sums):
    """(nv,): root mean squares that fits of each torque alone leave at stretches that they have not seen:
    what fits of few rows, or of rows that say the same, leave of their own is too little."""
    squares = np.zeros(len(sums.own))
    for held, others in folds():
        for joint, own in enumerate(sums.own):
            S, rest = own[held].sum(axis=0), own[others].sum(axis=0)
            x = covariance_of(rest[:-1, :-1]) @ rest[:-1, -1]
            z = np.append(x, -1.0)
            squares[joint] += max(float(z @ S @ z), 0.0)
    return np.sqrt(squares / np.maximum(sums.count.sum(axis=0), 1.0))


def left_by_each_other(W, tau, joints):
    """(nv, nv): root mean squares that the columns of one joint, W (n, nv, r), leave of the torque of
    another, tau (n, nv); infinite where none is compared."""
    left = np.full((tau.shape[1], tau.shape[1]), np.inf)
    for joint in joints:
        columns = W[:, joint, W[:, joint].any(axis=0)]
        rest = tau[:, joints] - columns @ (covariance_of(columns.T @ columns) @ (columns.T @ tau[:, joints]))
        left[joint, joints] = np.sqrt(np.mean(rest**2, axis=0)) + 1e-12
    return left


def fitted(S, count) -> Together:
    """Of sums of squares S (nv, r + 1, r + 1) over count (nv,) rows; torques count by their own fit."""
    own = np.array([_own(one, rows) for one, rows in zip(S, count, strict=True)])
    total = np.einsum("j,jkl->kl", 1.0 / own**2, S)
    x = covariance_of(total[:-1, :-1]) @ total[:-1, -1]
    return Together(np.maximum(residuals(S, count, x), own), own)


def factors(S, count, guess):
    """Factors (nv,) that the torques need to fit each other, and how well they do then. guess (nv,): tried
    before any others are looked for, one by one."""
    for found in (np.array(guess), np.ones(len(S))):
        found = _all_refined(S, count, found)
        state = fitted(_scaled(S, found), count)
        if state.worst <= CLOSE:
            return found, state
    while state.worst > APART and np.count_nonzero(found != 1.0) < len(S) - 1:
        now = _scaled(S, found)
        trials = []
        for joint in np.flatnonzero(found == 1.0):
            factor, spread = _factor(now, state.own, joint)
            if spread <= TRUSTED * abs(factor) and not SAME[0] < factor < SAME[1]:
                tried = np.where(np.arange(len(S)) == joint, factor, found)
                trials.append((fitted(_scaled(S, tried), count).too_much, int(joint), factor))
        if not trials or min(trials)[0] > BETTER * state.too_much:
            break
        _, worst, found[worst] = min(trials)
        found = _all_refined(S, count, found)
        state = fitted(_scaled(S, found), count)
    return found, state


def _own(S, count):
    """Of one torque."""
    felt = np.diagonal(S) > 0
    felt[-1] = True
    S = S[np.ix_(felt, felt)]
    x = covariance_of(S[:-1, :-1]) @ S[:-1, -1]
    least = 1e-6 * np.sqrt(S[-1, -1] / max(1.0, count)) + 1e-12
    freedom = np.sqrt(count / max(1.0, count - len(x)))  # residuals of a fit are too small
    return max(freedom * float(residuals(S[None], np.array([count]), x)[0]), least)


def _factor(S, own, joint):
    """Of a torque, with the parameters of all, and its standard deviation."""
    weights = 1.0 / own**2
    mine = weights[joint] * S[joint]
    A = np.einsum("j,jkl->kl", weights, S)
    right = np.append((A - mine)[:-1, -1], 0.0)
    A[-1, -1], A[-1, :-1], A[:-1, -1] = mine[-1, -1], -mine[-1, :-1], -mine[:-1, -1]
    inverted = covariance_of(A)
    return float((inverted @ right)[-1]), float(np.sqrt(max(inverted[-1, -1], 0.0)))


def _all_refined(S, count, found):
    for joint in np.flatnonzero(found != 1.0):
        found = np.where(np.arange(len(S)) == joint, _refined(S, count, found, joint), found)
    return found


def _refined(S, count, found, joint):
    """A factor that fits best: what noise does to both sides of the equation counts."""
    from scipy.optimize import minimize_scalar  # 0.2 s that a node need not wait

    def too_much(exponent):
        tried = np.where(np.arange(len(S)) == joint, found[joint] * np.exp(exponent), found)
        return fitted(_scaled(S, tried), count).too_much

    far = np.log(NEARBY)
    return found[joint] * float(np.exp(minimize_scalar(too_much, bounds=(-far, far), method="bounded").x))


def _scaled(S, scale):
    """Of torques times scale (nv,)."""
    S = S.copy()
    S[:, -1, :] *= scale[:, None]
    S[:, :, -1] *= scale[:, None]
    return S
