"""The tolerances of the tests. The error of a state is max|x - r| / max(1e-6, max|r|)."""

import numpy as np

EXACT = 1e-10  # inverse dynamics, M, bias, J
OUT_OF_GTSAM = 1e-8
OPTIMUM = 1e-8  # of a trajectory: the remaining error of iterations that converge linearly (losses)
SPREAD = 1e-7  # of its covariances, with the weights of the losses
EPS = np.finfo(float).eps


def solved(M):
    """The tolerance of results of a solve with M (forward, hybrid), per state."""
    return np.maximum(1e-9, 100 * EPS * np.linalg.cond(M))


def error(x, reference, tail=1):
    """Error per state; tail: how many last axes belong to one state."""
    x, reference = np.asarray(x), np.asarray(reference)
    assert x.shape == reference.shape, (x.shape, reference.shape)
    axes = tuple(range(-tail, 0))
    return np.abs(x - reference).max(axes) / np.maximum(1e-6, np.abs(reference).max(axes))
