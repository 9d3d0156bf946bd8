"""M X + R = 0 in stages for the mass matrix M of a tree, one branch after the other.

A branch is a longest run of coordinates in which the elimination does not fork. Only the coordinates above
couple branches. A column of derivatives of inverse dynamics is zero in most branches, and takes part in the
elimination of the others alone. What follows is a product for each branch: the solution there depends on
other branches through the coordinates above.
"""

from functools import partial
from typing import NamedTuple

import numpy as np

from dynamics_node.symbolic import Staging, Value, half_solved


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


def solution_by_branches(staging: Staging, of: Factors, right):
    """X (n, m) of M X + right = 0, arrays of Values and floats."""
    X, right = np.zeros(right.shape, dtype=object), np.array(right, dtype=object)
    branches = _branches(of.L)
    couplings = staging.alone(partial(_couplings, branches), of.L)
    for (inside, above), coupling in reversed(list(zip(branches, couplings, strict=True))):
        columns = np.flatnonzero([any(map(_is_nonzero, column)) for column in right[inside].T])
        if not len(columns):
            continue
        rows = right[inside][:, columns].T, right[above][:, columns].T
        shared = of.L[inside[:, None], inside], of.inverse[inside], coupling
        ahead, rest = staging.side_by_side(_eliminated, *rows, shared=shared)
        X[inside[:, None], columns], right[above[:, None], columns] = ahead.T, rest.T
    for (inside, above), coupling in zip(branches, couplings, strict=True):
        if len(above):
            X[inside] = staging.side_by_side(_completed, X[inside].T, X[above].T, shared=(coupling,)).T
    return X


def _branches(L):
    """The Branches of a factor L, those above before those below."""
    parents = [max((i for i in range(k) if _is_nonzero(L[k, i])), default=-1) for k in range(len(L))]
    forks = np.bincount(np.array(parents) + 1, minlength=len(L) + 1) != 1  # of a parent + 1
    paths: list[list[int]] = []  # from the root to a coordinate
    branches: dict[int, list[int]] = {}  # by their first coordinate
    first: list[int] = []
    for k, parent in enumerate(parents):
        alone = parent < 0 or forks[parent + 1]
        first.append(k if alone else first[parent])
        branches.setdefault(first[k], []).append(k)
        paths.append([*(paths[parent] if parent >= 0 else []), k])
    return [Branch(np.array(inside), np.array(paths[k][:-1], dtype=int)) for k, inside in branches.items()]


def _is_nonzero(x):
    return isinstance(x, Value) or x != 0.0


# --- functions of stages ------------------------------------------------------------------------------------


def _couplings(branches, L):
    """For every branch G (inside, above): without other forces its solution is -G times the one above."""
    return tuple(
        _coupling(L[inside[:, None], inside], L[inside[:, None], above]) for inside, above in branches
    )


def _coupling(L, outside):
    G = np.array(outside, dtype=object)
    for k in range(len(G)):
        for i in range(k):
            G[k] = G[k] - L[k, i] * G[i]
    return G


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
