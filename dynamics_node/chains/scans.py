"""Scans along the tree in logarithmic depth, for parallel machines: x_i = B_i x_parent(i) + c_i, and with the
transpose.

The elements B are placements of bodies in their parents (`Poses`). A motion vector V = (w; v) of the parent
becomes Ad V in the body's frame, with w' = R^T w, v' = R^T (v - t x w); a wrench F = (n; f) on the body
becomes Ad^T F in the parent's. Twelve numbers replace the 36 of Ad, and a product takes 36 multiplications
instead of 216 (Yang, Wu, Pan, sec. III; RBDA 2.24).

`Bidiagonal` is Kogge and Stone's scan, by pointer doubling, so it works for trees as well as chains. In round
s every body has its element to the ancestor 2^s above, and adds the sum gathered by that ancestor, or that
descendant. Work O(n log n), ceil(log2 depth) rounds.
"""

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from dynamics_node.symbolic import matvec, skew


class Poses(NamedTuple):
    """R (..., n, 3, 3) from body axes to the parent's, t (..., n, 3) the body's origin in the parent; xp: the
    array module."""

    xp: Any
    R: Any
    t: Any

    def at(self, bodies):
        """Poses of some bodies, given by a slice or numbers."""
        return Poses(self.xp, self.R[..., bodies, :, :], self.t[..., bodies, :])

    def after(self, before):
        """Placements in the grandparents; `before`: those of the parents: Ad Ad_before."""
        return Poses(self.xp, before.R @ self.R, before.t + matvec(before.R, self.t))

    def forward(self, V):
        """Ad V: motion vectors (..., n, 6) of the parents, in the frames of the bodies."""
        w, v = V[..., :3], V[..., 3:]
        back = self.xp.swapaxes(self.R, -1, -2)
        slid = v - cross(self.xp, self.t, w)
        return self.xp.concatenate([matvec(back, w), matvec(back, slid)], axis=-1)

    def backward(self, F):
        """Ad^T F: wrenches (..., n, 6) on the bodies, in the frames of the parents."""
        f = matvec(self.R, F[..., 3:])
        n = matvec(self.R, F[..., :3]) + cross(self.xp, self.t, f)
        return self.xp.concatenate([n, f], axis=-1)

    def matrices(self):
        """Ad (..., n, 6, 6)."""
        xp, E = self.xp, self.xp.swapaxes(self.R, -1, -2)
        top = xp.concatenate([E, xp.zeros_like(E)], axis=-1)
        return xp.concatenate([top, xp.concatenate([-E @ skew(self.t, xp), E], axis=-1)], axis=-2)


class Matrices(NamedTuple):
    """General elements X (..., n, k, k): for articulated bodies."""

    xp: Any
    X: Any

    def at(self, bodies):
        return Matrices(self.xp, self.X[..., bodies, :, :])

    def after(self, before):
        return Matrices(self.xp, self.X @ before.X)

    def forward(self, x):
        return matvec(self.X, x)

    def backward(self, x):
        return matvec(self.xp.swapaxes(self.X, -1, -2), x)


class Same(NamedTuple):
    """Elements that change nothing: scans with them are sums along the tree."""

    xp: Any

    def at(self, bodies):
        return self

    def after(self, before):
        return self

    def forward(self, x):
        return x.copy()  # the sum must not alias its terms

    def backward(self, x):
        return x.copy()


def cross(xp, a, b):
    """a x b of (..., 3)."""
    (ax, ay, az), (bx, by, bz) = (tuple(v[..., k] for k in range(3)) for v in (a, b))
    return xp.stack([ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx], axis=-1)


class Round(NamedTuple):
    """bodies: those with an ancestor 2^s above; ancestors: of each; groups: (which of the bodies, their
    ancestors) in parts without duplicate ancestors; nearer, further: indices of the two halves of the next
    round's elements among the elements of this one."""

    bodies: Any
    ancestors: Any
    groups: tuple
    nearer: Any
    further: Any


class Bidiagonal:
    """Scans over n bodies. elements: B of every body, as Poses; parents (n,): -1 for a root, whose B is
    unused."""

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
        parent_values = self.xp.zeros_like(x)
        for step, elements in self.steps[:1]:
            parent_values[..., step.bodies, :] = elements.forward(x[..., step.ancestors, :])
        return parent_values

    def child_sums(self, x):
        """The sum over children k of B_k^T x_k (..., n, k)."""
        sums = self.xp.zeros_like(x)
        for step, elements in self.steps[:1]:
            added = elements.backward(x[..., step.bodies, :])
            for chosen, ancestors in step.groups:
                sums[..., ancestors, :] += added[..., chosen, :]
        return sums


def from_root(poses, parents):
    """Poses in the frame above the root, from poses in the parents."""
    R, t = poses.R.copy(), poses.t.copy()
    for step in rounds(tuple(parents)):
        gathered = poses._replace(R=R, t=t)
        further = gathered.at(step.bodies).after(gathered.at(step.ancestors))
        R[..., step.bodies, :, :], t[..., step.bodies, :] = further.R, further.t
    return poses._replace(R=R, t=t)


@lru_cache(maxsize=64)
def rounds(parents) -> tuple[Round, ...]:
    """The rounds of a scan over bodies with these parents (n,), every parent before its children."""
    steps, pointer = [], np.array(parents, dtype=int)
    bodies = np.flatnonzero(pointer >= 0)
    nearer = further = bodies
    while len(bodies):
        ancestors = pointer[bodies]
        chosen = (_range(bodies), _range(ancestors), _apart(ancestors), _range(nearer), _range(further))
        steps.append(Round(*chosen))
        pointer = np.where(pointer >= 0, pointer[pointer], -1)
        going_on = np.flatnonzero(pointer[bodies] >= 0)
        nearer, further = going_on, np.searchsorted(bodies, ancestors[going_on])
        bodies = bodies[going_on]
    return tuple(steps)


def _apart(ancestors):
    """Indices and numbers of ancestors in parts without duplicates; a chain has one part."""
    parts, left = [], np.arange(len(ancestors))
    while len(left):
        _, first = np.unique(ancestors[left], return_index=True)
        chosen = left[np.sort(first)]
        parts.append((_range(chosen), _range(ancestors[chosen])))
        left = np.setdiff1d(left, chosen)
    return tuple(parts)


def _range(numbers):
    """Consecutive numbers as a slice: a view in place of a copy."""
    if len(numbers) and np.array_equal(numbers, np.arange(numbers[0], numbers[0] + len(numbers))):
        return slice(int(numbers[0]), int(numbers[0]) + len(numbers))
    return numbers
