"""Whether a graph determines its variables: rank, and which variables or equations are to blame."""

from typing import NamedTuple

import numpy as np

from dynamics_node.graph.factor_graph import FactorGraph

ZERO = 1e-9  # singular values beside the largest, and entries of unit vectors, that count as zero


class IllPosedError(ValueError):
    """A problem whose equations leave variables open or contradict each other; tells rank and names."""


class Rank(NamedTuple):
    """rows, columns, rank of the equations at a generic state; open: the variables they do not determine;
    contradicting: the factors that cannot hold together."""

    rows: int
    columns: int
    rank: int
    open: tuple[str, ...]
    contradicting: tuple[str, ...]

    def __str__(self):
        size = f"{self.rows} equations of rank {self.rank} for {self.columns} unknowns"
        if self.open:
            return f"under-determined: {size}; open are {', '.join(self.open)}"
        if self.contradicting:
            return f"inconsistent: {size}; these contradict each other: {', '.join(self.contradicting)}"
        return f"well posed: {size}"


def graph_rank(graph: FactorGraph) -> Rank:
    """The Rank of a graph at one state, or at the first of several."""
    A, b = dense_system(graph)
    U, sizes, V = np.linalg.svd(A)
    rank = int((sizes > ZERO * sizes.max(initial=0.0)).sum())
    free = np.abs(V[rank:]).max(axis=0, initial=0.0) > ZERO
    missed = U[:, rank:] @ (U[:, rank:].T @ b)  # the part of b that no values explain
    clash = np.abs(missed) > ZERO * max(1.0, np.abs(b).max(initial=0.0))
    variables = _marked(free, ((str(x), x.dim) for x in graph.variables))
    factors = _marked(clash, ((factor.name, factor.rows) for factor in graph.factors))
    return Rank(len(A), A.shape[1], rank, variables, factors)


def require_posed(graph: FactorGraph):
    """Raise IllPosedError unless the equations have exactly one solution."""
    found = graph_rank(graph)
    if found.open or found.contradicting:
        raise IllPosedError(str(found))


def dense_system(graph: FactorGraph):
    """A (rows, columns) and b (rows,) of a graph at one state, or at the first of several; rows and columns
    in the order of its factors and variables. Each row is scaled to length 1."""
    variables = graph.variables
    starts = dict(zip(variables, np.cumsum([0, *(x.dim for x in variables)]), strict=False))
    A = np.zeros((sum(f.rows for f in graph.factors), sum(x.dim for x in variables)))
    b, top = np.zeros(len(A)), 0
    for factor in graph.factors:
        rows = slice(top, top + factor.rows)
        for x, block in factor.blocks.items():
            A[rows, starts[x] : starts[x] + x.dim] = _first(block, 2)
        b[rows] = _first(factor.rhs, 1)
        top += factor.rows
    length = np.linalg.norm(A, axis=1)
    scale = np.where(length > 0, length, 1.0)
    return A / scale[:, None], b / scale


def _first(array, axes):
    """The array of the first state."""
    return array.reshape(-1, *array.shape[array.ndim - axes :])[0]


def _marked(flags, named):
    """Names of those that have a marked entry; named: (name, number of entries)."""
    found, start = [], 0
    for name, size in named:
        if flags[start : start + size].any():
            found.append(name)
        start += size
    return tuple(found)
