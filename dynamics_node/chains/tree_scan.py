"""Scans along a tree in logarithmic depth, for parallel machines (Yang, Wu, Pan, sec. III).

Kogge and Stone's scan by pointer doubling works for trees as well as chains: in round s every body has its
transform to the ancestor 2^s above, and adds the sum of that ancestor, or gives its own to it. There are
ceil(log2 depth) rounds of O(n) work.
"""

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np


class Round(NamedTuple):
    """ancestors (n,): the body 2^s above each, any where there is none; groups: (bodies, their ancestors) in
    parts without duplicate ancestors, of which a chain has one."""

    ancestors: Any
    groups: tuple


class TreeScan:
    """Scans over n bodies with transforms X (..., n, 6, 6) from the parent, zero for a root; parents (n,): -1
    for a root. Motions and wrenches are columns (..., n, 6, k)."""

    def __init__(self, X, parents):
        self.X, self.parents = X, rounds(tuple(parents), 1)[0]
        self.steps: list[tuple[Round, Any]] = []
        for step in rounds(tuple(parents)):
            X = X @ X[..., self.steps[-1][0].ancestors, :, :] if self.steps else X
            self.steps.append((step, X))

    def forward(self, c):
        """x of x_i = X_i x_parent + c_i: from the root to the tips."""
        for step, X in self.steps:
            c = c + X @ c[..., step.ancestors, :, :]
        return c

    def backward(self, c):
        """x of x_i = c_i + the sum over children k of X_k^T x_k: from the tips to the root."""
        x = c.copy()
        for step, X in self.steps:
            _add(x, step, X, x)
        return x

    def inherited(self, x):
        """X_i x_parent, zero at roots."""
        return self.X @ x[..., self.parents.ancestors, :, :]

    def child_sums(self, x):
        """The sum over children k of X_k^T x_k."""
        return _add(0 * x, self.parents, self.X, x)


def _add(sums, step, X, x):
    """Add X^T x of bodies to the `sums` of their ancestors."""
    given = transposed(X) @ x
    for bodies, ancestors in step.groups:
        sums[..., ancestors, :, :] += given[..., bodies, :, :]
    return sums


def transposed(A):
    """The last two axes swapped."""
    return A.swapaxes(-1, -2)


@lru_cache(maxsize=64)
def rounds(parents, least=0) -> tuple[Round, ...]:
    """The rounds of a scan over bodies with these parents, every parent before its children; at least as many
    as `least`."""
    steps: list[Round] = []
    pointer = np.array(parents, dtype=int)
    while (pointer >= 0).any() or len(steps) < least:
        steps.append(Round(np.maximum(pointer, 0), _apart(pointer)))
        pointer = np.where(pointer >= 0, pointer[pointer], -1)
    return tuple(steps)


def _apart(pointer):
    """Bodies with an ancestor, and these, in parts without duplicate ancestors."""
    parts, left = [], np.flatnonzero(pointer >= 0)
    while len(left):
        first = np.unique(pointer[left], return_index=True)[1]
        chosen = left[np.sort(first)]
        parts.append((_range(chosen), _range(pointer[chosen])))
        left = np.setdiff1d(left, chosen)
    return tuple(parts)


def _range(numbers):
    """Consecutive numbers as a slice: a view in place of a copy."""
    consecutive = np.array_equal(numbers, np.arange(numbers[0], numbers[0] + len(numbers)))
    return slice(int(numbers[0]), int(numbers[-1]) + 1) if consecutive else numbers
