"""Block bi-diagonal systems in logarithmic depth: x_i = B_i x_parent(i) + c_i, and with the transpose.

Kogge and Stone's scan, by pointer doubling, so that trees go as chains do: in round s every body knows its
element to the ancestor 2^s above, and adds what that ancestor, or that descendant, has gathered. Work
O(n log n), ceil(log2 depth) rounds (Yang, Wu, Pan, sec. III).
"""

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np


class Round(NamedTuple):
    """bodies: those with an ancestor 2^s above; ancestors: it, of each; groups: (which of the bodies, their
    ancestors) in parts none of which names an ancestor twice; nearer, further: where the two halves of the
    next round's elements stand among the elements of this one."""

    bodies: Any
    ancestors: Any
    groups: tuple
    nearer: Any
    further: Any


class Bidiagonal:
    """Scans over n bodies. elements: B of every body, see poses.py; parents (n,): -1 of a root, whose B is
    not asked."""

    def __init__(self, elements, parents):
        self.xp = elements.xp
        self.steps: list[tuple[Round, Any]] = []
        for step in rounds(tuple(parents)):
            if self.steps:
                elements = elements.at(step.nearer).after(elements.at(step.further))
            else:
                elements = elements.at(step.bodies)
            self.steps.append((step, elements))

    def forward(self, c):
        """x (..., n, k) of x_i = B_i x_parent + c_i: from the root to the tips."""
        x = c.copy()
        for step, elements in self.steps:
            x[..., step.bodies, :] += elements.forward(x[..., step.ancestors, :])
        return x

    def backward(self, c):
        """x (..., n, k) of x_i = c_i + the sum over children k of B_k^T x_k: from the tips to the root."""
        x = c.copy()
        for step, elements in self.steps:
            added = elements.backward(x[..., step.bodies, :])
            for chosen, ancestors in step.groups:
                x[..., ancestors, :] += added[..., chosen, :]
        return x

    def inherited(self, x):
        """B_i x_parent (..., n, k), zero at roots."""
        found = self.xp.zeros_like(x)
        for step, elements in self.steps[:1]:
            found[..., step.bodies, :] = elements.forward(x[..., step.ancestors, :])
        return found

    def handed_on(self, x):
        """The sum over children k of B_k^T x_k (..., n, k)."""
        found = self.xp.zeros_like(x)
        for step, elements in self.steps[:1]:
            added = elements.backward(x[..., step.bodies, :])
            for chosen, ancestors in step.groups:
                found[..., ancestors, :] += added[..., chosen, :]
        return found


def from_root(poses, parents):
    """Poses in the frame that the root hangs on, of poses in the parents."""
    R, t = poses.R.copy(), poses.t.copy()
    for step in rounds(tuple(parents)):
        gathered = poses._replace(R=R, t=t)
        further = gathered.at(step.bodies).after(gathered.at(step.ancestors))
        R[..., step.bodies, :, :], t[..., step.bodies, :] = further.R, further.t
    return poses._replace(R=R, t=t)


@lru_cache(maxsize=64)
def rounds(parents) -> tuple[Round, ...]:
    """The rounds of a scan over bodies with these parents (n,), every parent before its children."""
    found, pointer = [], np.array(parents, dtype=int)
    bodies = np.flatnonzero(pointer >= 0)
    nearer = further = bodies
    while len(bodies):
        ancestors = pointer[bodies]
        chosen = (_range(bodies), _range(ancestors), _apart(ancestors), _range(nearer), _range(further))
        found.append(Round(*chosen))
        pointer = np.where(pointer >= 0, pointer[pointer], -1)
        going_on = np.flatnonzero(pointer[bodies] >= 0)
        nearer, further = going_on, np.searchsorted(bodies, ancestors[going_on])
        bodies = bodies[going_on]
    return tuple(found)


def _apart(ancestors):
    """Places and names of ancestors in parts none of which has one twice: one part of a chain."""
    parts, left = [], np.arange(len(ancestors))
    while len(left):
        _, first = np.unique(ancestors[left], return_index=True)
        chosen = left[np.sort(first)]
        parts.append((_range(chosen), _range(ancestors[chosen])))
        left = np.setdiff1d(left, chosen)
    return tuple(parts)


def _range(numbers):
    """Numbers as a slice where they follow each other: a view in place of a copy."""
    if len(numbers) and np.array_equal(numbers, np.arange(numbers[0], numbers[0] + len(numbers))):
        return slice(int(numbers[0]), int(numbers[0]) + len(numbers))
    return numbers
