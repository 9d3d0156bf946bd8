"""M X + R = 0 in stages for the mass matrix M of a tree, one branch after the other.

A branch is a longest run of coordinates in which the elimination does not fork. Only the coordinates above
couple branches. A column of derivatives of inverse dynamics is zero in most branches, and takes part in the
elimination of the others alone. What follows is a product for each branch: the solution there depends on
other branches through the coordinates above. Equal branches, such as legs, are factored side by side.
"""

from collections import defaultdict
from functools import reduce
from typing import NamedTuple

import numpy as np

from dynamics_node.symbolic import Staging, Value, half_solved, symmetric


class Branch(NamedTuple):
    """inside: its coordinates; above: those between it and the root. Both (n,), in ascending order."""

    inside: np.ndarray
    above: np.ndarray


class Factors(NamedTuple):
    """M = L^T D L: L (n, n), strictly lower, and -1 / D (n,)."""

    L: np.ndarray
    inverse: np.ndarray


def factors(M) -> Factors:
    """The Factors of a symmetric M (n, n) of symbols."""
    L, D, _ = half_solved(M, np.zeros((len(M), 0)))
    return Factors(np.tril(L, -1), np.array([-1.0 / d for d in D], dtype=object))


def solution(right, L, inverse):
    """x (n,) of M x + right = 0."""
    x = right.copy()
    for k in reversed(range(len(x))):
        x[:k] = x[:k] - L[k, :k] * x[k]
    x = x * inverse
    for k in range(len(x)):
        for i in range(k):
            x[k] = x[k] - L[k, i] * x[i]
    return x


class BranchSolver:
    """Solves M x + right = 0 for a symmetric M (n, n) of Values and floats; factored: its Factors, of
    Values."""

    def __init__(self, staging: Staging, M):
        self._staging, M = staging, np.array(M, dtype=object)
        self._branches = branches_of(M)
        self._couplings: dict[int, np.ndarray] = {}
        self.factored = Factors(np.zeros(M.shape, dtype=object), np.zeros(len(M), dtype=object))
        for alike in _from_below(self._branches):
            self._factor(alike, M)

    def _factor(self, alike, M):
        """Factor branches (their numbers), and take what they lose from M above them."""
        inside, above = (np.stack(part) for part in zip(*(self._branches[k] for k in alike), strict=True))
        blocks = M[inside[:, :, None], inside[:, None]], M[inside[:, :, None], above[:, None]]
        own, outside, inverse, couplings, losses = self._staging.side_by_side(_factored, *blocks)
        L, inverses = self.factored
        L[inside[:, :, None], inside[:, None]], L[inside[:, :, None], above[:, None]] = own, outside
        inverses[inside] = inverse
        self._couplings.update(zip(alike, couplings, strict=True))
        lost = defaultdict(list)
        for at, loss in zip(above.tolist(), losses, strict=True):
            lost[tuple(at)].append(loss)
        for at, parts in lost.items():
            places = np.ix_(at, at)
            M[places] = self._staging.alone(_rest, M[places], tuple(parts))

    def solution(self, right):
        """x (n,)"""
        return self._staging.alone(solution, right, *self.factored)

    def solutions(self, right):
        """X (n, m) of right (n, m)."""
        X, right = np.zeros(right.shape, dtype=object), np.array(right, dtype=object)
        side_by_side, (L, inverse) = self._staging.side_by_side, self.factored
        for k, (inside, above) in reversed(list(enumerate(self._branches))):
            columns = np.flatnonzero([any(map(_is_nonzero, column)) for column in right[inside].T])
            if not len(columns):
                continue
            rows = right[inside][:, columns].T, right[above][:, columns].T
            shared = L[inside[:, None], inside], inverse[inside], self._couplings[k]
            ahead, rest = side_by_side(_eliminated, *rows, shared=shared)
            X[inside[:, None], columns], right[above[:, None], columns] = ahead.T, rest.T
        for k, (inside, above) in enumerate(self._branches):
            if len(above):
                lanes = X[inside].T, X[above].T
                X[inside] = side_by_side(_completed, *lanes, shared=(self._couplings[k],)).T
        return X


def branches_of(M) -> list[Branch]:
    """The Branches of the factor of a symmetric matrix, those above before those below."""
    there = np.vectorize(_is_nonzero, otypes=[bool])(M)
    for k in reversed(range(len(M))):  # what the elimination fills
        before = np.flatnonzero(there[k, :k])
        there[before[:, None], before] = True
    parents = [int(max(np.flatnonzero(there[k, :k]), default=-1)) for k in range(len(M))]
    forks = np.bincount(np.array(parents) + 1, minlength=len(M) + 1) != 1  # of a parent + 1
    paths: list[list[int]] = []  # from the root to a coordinate
    branches: dict[int, list[int]] = {}  # by their first coordinate
    first: list[int] = []
    for k, parent in enumerate(parents):
        alone = parent < 0 or forks[parent + 1]
        first.append(k if alone else first[parent])
        branches.setdefault(first[k], []).append(k)
        paths.append([*(paths[parent] if parent >= 0 else []), k])
    return [Branch(np.array(inside), np.array(paths[k][:-1], dtype=int)) for k, inside in branches.items()]


def _from_below(branches):
    """Numbers of branches of equal sizes, all of which can be eliminated at once."""
    heights = [0] * len(branches)
    of_coordinate = {k: n for n, branch in enumerate(branches) for k in branch.inside.tolist()}
    for n, (_, above) in reversed(list(enumerate(branches))):
        if len(above):
            parent = of_coordinate[int(above[-1])]
            heights[parent] = max(heights[parent], heights[n] + 1)
    alike = defaultdict(list)
    for n, (inside, above) in enumerate(branches):
        alike[heights[n], len(inside), len(above)].append(n)
    return [alike[key] for key in sorted(alike)]


def _is_nonzero(x):
    return isinstance(x, Value) or x != 0.0


# --- functions of stages ------------------------------------------------------------------------------------


def _factored(M, outside):
    """Of a branch, M (n, n) and M outside (n, above): the factor L there, -1 / D, G, and what M loses above.
    Without other forces the solution of the branch is -G times the one above."""
    L, D, half = half_solved(M, outside)
    inverse = np.array([-1.0 / d for d in D], dtype=object)
    scaled = half * np.array([1.0 / d for d in D], dtype=object)[:, None]
    G = scaled.copy()
    for k in range(len(G)):
        for i in range(k):
            G[k] = G[k] - L[k, i] * G[i]
    return np.tril(L, -1), scaled, inverse, G, symmetric(half.T @ scaled)


def _rest(M, losses):
    return reduce(np.subtract, losses, M)


def _eliminated(inside, above, L, inverse, coupling):
    """A column: the solution of the branch alone, and the rest of the right-hand side above."""
    for row, x in zip(coupling, inside, strict=True):
        above = above - row * x
    return solution(inside, L, inverse), above


def _completed(inside, above, coupling):
    """A column: the solution of the branch with the one above."""
    for column, x in zip(coupling.T, above, strict=True):
        inside = inside - column * x
    return inside
