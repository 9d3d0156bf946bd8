"""The limit of health of a Program, found by trying it at random states with fewer digits.

What is lost then does not depend on the last digits of a state, in which processors may differ; and what
comes out is a power of two.
"""

import numpy as np

from dynamics_node.symbolic import interpret_portable, power_of_two

TRIED = 32  # states
ERROR = 1e-10  # of a result that its health lets pass, beside the largest entry
ROUNDING = 1e-15  # of results of which nothing is lost
BITS = 36  # binary digits that are tried with
ALL = 1e-2  # a result that misses by more has none left
NOTHING = 1e-20  # the square of what is rounding of a zero


def usual_size(values) -> float:
    """The median of what is lost (states,), about; 1 where that is nothing."""
    found = float(np.nanmedian(values))
    return float(power_of_two(found)) if found > NOTHING else 1.0


def health_limit(program, state, results) -> float:
    """Of the last entry of health: what it is where a result misses the right one by ERROR, if what is missed
    is lost by growing elements. state: {input: (TRIED, ...)}; results: tuples of names of outputs, of which
    those in a tuple are seen beside their largest entry."""
    right = interpret_portable(program, **state)
    found = interpret_portable(program, BITS, **state)
    missed = [_missed(_beside(found, names), _beside(right, names)) for names in results]
    lost = np.fmin(np.max(missed, axis=0), ALL) * 2.0 ** (BITS - 53)
    lost = np.maximum(lost, ROUNDING) / np.sqrt(right["health"][:, -1])
    return float(power_of_two((ERROR / np.nanmax(lost)) ** 2))


def _beside(found, names):
    """(states, all entries)."""
    return np.hstack([found[name].reshape(TRIED, -1) for name in names])


def _missed(found, right):
    """(states,): by how much results (states, n) miss the right ones, beside the largest entry of these."""
    size = np.maximum(np.abs(right).max(axis=1, initial=0.0), 1e-6)
    with np.errstate(invalid="ignore"):
        return np.abs(found - right).max(axis=1, initial=0.0) / size
