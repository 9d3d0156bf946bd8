"""Consistency of all joint torques with one common set of parameters, independent of the description.

The torque of each joint is fitted alone with its own parameters, and all torques are fitted together. For
consistent torques, both residuals are about equal. A torque with another sign or unit, or the column of
another joint, does not fit the others. The factor of a torque is an unknown like the parameters and follows
from the sums of squares.
"""

from typing import NamedTuple

import numpy as np

from dynamics_node.identification.regression import covariance_of
from dynamics_node.identification.sums import Sums, folds, residuals

MISFIT = 1.5  # times the residual of a torque alone: above it, the torque does not fit the others
CONSISTENT = 1.3  # likewise: below it, torques are consistent
UNITY = 0.67, 1.5  # factors that count as 1
MOST_STD = 0.3  # fraction of a factor: largest standard deviation
LEAST_GAIN = 0.7  # fraction of the excess residual: a factor must reduce it below this
SEARCH_RANGE = 4.0  # factor around the initial guess, which noise biases toward zero


class TorqueFit(NamedTuple):
    """Per torque (nv,): root mean square residuals of the joint fit of all, and of its own fit."""

    all: np.ndarray
    own: np.ndarray

    @property
    def apart(self):
        """Ratio (nv,) of the residuals of the fit of all to those of its own fit."""
        return self.all / self.own

    @property
    def worst(self):
        return float(np.max(self.apart, initial=0.0))

    @property
    def too_much(self):
        """Excess residual: sum of the logarithms of `apart`."""
        return float(np.log(self.apart).sum())


def cross_validated(sums: Sums):
    """Root mean squares (nv,) of residuals of each torque's own fit on unseen stretches. The training
    residuals of few or redundant rows are too small."""
    squares = np.zeros(len(sums.own))
    for test, train in folds():
        for joint, own in enumerate(sums.own):
            S, rest = own[test].sum(axis=0), own[train].sum(axis=0)
            x = covariance_of(rest[:-1, :-1]) @ rest[:-1, -1]
            z = np.append(x, -1.0)
            squares[joint] += max(float(z @ S @ z), 0.0)
    return np.sqrt(squares / np.maximum(sums.count.sum(axis=0), 1.0))


def left_by_each_other(W, tau, joints):
    """(nv, nv): root mean square residuals of the torque of one joint, tau (n, nv), fitted by the columns of
    another, W (n, nv, r); infinite if they are not compared."""
    left = np.full((tau.shape[1], tau.shape[1]), np.inf)
    for joint in joints:
        columns = W[:, joint, W[:, joint].any(axis=0)]
        rest = tau[:, joints] - columns @ (covariance_of(columns.T @ columns) @ (columns.T @ tau[:, joints]))
        left[joint, joints] = np.sqrt(np.mean(rest**2, axis=0)) + 1e-12
    return left


def fitted(S, count) -> TorqueFit:
    """Fits of sums of squares S (nv, r + 1, r + 1) over count (nv,) rows; torques are weighted by their own
    fit."""
    own = np.array([_own(one, rows) for one, rows in zip(S, count, strict=True)])
    total = np.einsum("j,jkl->kl", 1.0 / own**2, S)
    x = covariance_of(total[:-1, :-1]) @ total[:-1, -1]
    return TorqueFit(np.maximum(residuals(S, count, x), own), own)


def factors(S, count, guess):
    """Factors (nv,) that make the torques consistent, and the TorqueFit with them. guess (nv,): tried first;
    then factors are searched one by one."""
    for estimate in (np.array(guess), np.ones(len(S))):
        estimate = _all_refined(S, count, estimate)
        state = fitted(_scaled(S, estimate), count)
        if state.worst <= CONSISTENT:
            return estimate, state
    while state.worst > MISFIT and np.count_nonzero(estimate != 1.0) < len(S) - 1:
        scaled = _scaled(S, estimate)
        trials = []
        for joint in np.flatnonzero(estimate == 1.0):
            factor, spread = _factor(scaled, state.own, joint)
            if spread <= MOST_STD * abs(factor) and not UNITY[0] < factor < UNITY[1]:
                tried = np.where(np.arange(len(S)) == joint, factor, estimate)
                trials.append((fitted(_scaled(S, tried), count).too_much, int(joint), factor))
        if not trials or min(trials)[0] > LEAST_GAIN * state.too_much:
            break
        _, joint_index, estimate[joint_index] = min(trials)
        estimate = _all_refined(S, count, estimate)
        state = fitted(_scaled(S, estimate), count)
    return estimate, state


def _own(S, count):
    """Root mean square residual of one torque fitted alone."""
    nonzero = np.diagonal(S) > 0
    nonzero[-1] = True
    S = S[np.ix_(nonzero, nonzero)]
    x = covariance_of(S[:-1, :-1]) @ S[:-1, -1]
    least = 1e-6 * np.sqrt(S[-1, -1] / max(1.0, count)) + 1e-12
    freedom = np.sqrt(count / max(1.0, count - len(x)))  # corrects for the fitted degrees of freedom
    return max(freedom * float(residuals(S[None], np.array([count]), x)[0]), least)


def _factor(S, own, joint):
    """Factor of a torque estimated together with the parameters, and its standard deviation."""
    weights = 1.0 / own**2
    mine = weights[joint] * S[joint]
    A = np.einsum("j,jkl->kl", weights, S)
    right = np.append((A - mine)[:-1, -1], 0.0)
    A[-1, -1], A[-1, :-1], A[:-1, -1] = mine[-1, -1], -mine[-1, :-1], -mine[:-1, -1]
    inverted = covariance_of(A)
    return float((inverted @ right)[-1]), float(np.sqrt(max(inverted[-1, -1], 0.0)))


def _all_refined(S, count, estimate):
    for joint in np.flatnonzero(estimate != 1.0):
        estimate = np.where(np.arange(len(S)) == joint, _refined(S, count, estimate, joint), estimate)
    return estimate


def _refined(S, count, estimate, joint):
    """Best factor, which unlike `_factor` accounts for noise on both sides of the equation."""
    from scipy.optimize import minimize_scalar  # takes 0.2 s to import

    def too_much(exponent):
        tried = np.where(np.arange(len(S)) == joint, estimate[joint] * np.exp(exponent), estimate)
        return fitted(_scaled(S, tried), count).too_much

    far = np.log(SEARCH_RANGE)
    return estimate[joint] * float(np.exp(minimize_scalar(too_much, bounds=(-far, far), method="bounded").x))


def _scaled(S, scale):
    """Sums of squares of torques times scale (nv,)."""
    S = S.copy()
    S[:, -1, :] *= scale[:, None]
    S[:, :, -1] *= scale[:, None]
    return S
