"""The limit of health of a Program, found by trying it at random states."""

import numpy as np

TRIED = 32  # states
ERROR = 1e-10  # of a result that its health lets pass, beside the largest entry
ROUNDING = 1e-15  # of results of which nothing is lost


def missed_by(found, right):
    """(states,): by how much results (states, ...) miss the right ones, beside the largest entry of these."""
    axes = tuple(range(1, right.ndim))
    size = np.maximum(np.abs(right).max(axis=axes, initial=0.0), 1e-6)
    return np.abs(found - right).max(axis=axes, initial=0.0) / size


def health_limit(missed, health) -> float:
    """Of the last entry of health (states, k): what it is where a result misses the refined one by ERROR, if
    what they miss, `missed` (states,), is lost by growing elements."""
    lost = np.maximum(missed, ROUNDING) / np.sqrt(health[:, -1])
    return float((ERROR / np.nanmax(lost)) ** 2)
