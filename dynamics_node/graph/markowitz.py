"""The row and column permutation of a sparse system, found once at a few generic states.

Markowitz, The elimination form of the inverse, 1957: the next pivot is the one with the fewest products,
(entries in its row - 1) (entries in its column - 1), which bounds what fills in. An entry counts if it is not
zero at some state. What makes a pivot sound at other states than those tried: constants are; entries that
change sign vanish somewhere and are left for last; in between there is a threshold beside the rest of the row
(Duff, Erisman and Reid, Direct Methods for Sparse Matrices, sec. 5.4). Where a motion or a wrench is to be
carried against the direction in which its equation is written, the equation is turned first: its block is a
transform.
"""

import numpy as np

from dynamics_node.graph.factors import NATURAL
from dynamics_node.graph.permuted import Permuted, inverse_of_transform, scalar_columns, scalar_rows
from dynamics_node.graph.pivot_search import PivotSearch
from dynamics_node.graph.sparse_rows import Block, structure
from dynamics_node.graph.variables import JOINT_ACCELERATION

WORTHLESS = 20  # times the products of another plan: not worth a sounder one


class NoPivotError(ValueError):
    """Rows that do not determine all columns. open: columns without a pivot."""

    def __init__(self, open_columns):
        self.open = tuple(open_columns)
        super().__init__(f"no equation is left for {', '.join(sorted({str(x) for x, _ in self.open}))}")


def best_plan(factors, kept=None) -> Permuted:
    """The cheapest of some searches, of those that take the fewest pivots that vanish somewhere: body by body
    towards the root, as articulated bodies do, or free.

    factors: at several generic states (one leading axis); kept: numbers of the rows that may be pivots, by
    default all. Raises NoPivotError.
    """
    best = plan_permuted(factors, kept, inward=True)
    for own in (True, False) if best.fill or best.weak else ():
        most = (WORTHLESS if best.weak else 1) * best.products
        other = plan_permuted(factors, kept, own=own, most=most)
        if (other.weak, other.products) < (best.weak, best.products):
            best = other
    return best


def plan_permuted(factors, kept=None, inward=False, own=True, most=np.inf) -> Permuted:
    """The plan of one search. inward: body by body towards the root; own: what has an equation of its own,
    as an acceleration, is solved from it; most: products beyond which it gives up, with a plan that takes
    infinitely many. Other arguments and errors as of `best_plan`."""
    columns = scalar_columns(dict.fromkeys(x for factor in factors for x in factor.blocks))
    rows, _ = scalar_rows(factors, columns)
    states = max((len(f.rhs) for f in factors if f.rhs.ndim > 1), default=1)
    whole = [structure(row, states) for row in rows]
    active = {k: dict(whole[k]) for k in (range(len(rows)) if kept is None else kept)}
    search = PivotSearch(active, columns, inward)
    search.own = _own_columns(factors, columns) if own else {}
    search.blocks = [b for b in _transforms(factors, columns, states) if active.keys() >= set(b.rows)]
    steps = search.run(most)
    pattern = tuple(tuple(row) for row in whole)
    found = Permuted(columns, pattern, tuple(steps), search.fill, search.products)
    if search.products > most:
        return found._replace(products=np.inf)
    pivoted = {pivot.column for pivot in found.pivots}
    if len(pivoted) < len(columns):
        raise NoPivotError([column for k, column in enumerate(columns) if k not in pivoted])
    return found


def _own_columns(factors, columns):
    """{row: column} of the equations that say what a variable is: (5) of A, (6) of F, (7) of tau."""
    number, top = {column: k for k, column in enumerate(columns)}, 0
    found: dict[int, int] = {}
    for factor in factors:
        for x in factor.blocks:
            if (
                x.body == factor.body
                and NATURAL.get(x.kind, x.kind) == factor.kind
                and x.kind != JOINT_ACCELERATION
            ):
                found |= {top + k: number[x, k] for k in range(x.dim)}
        top += factor.rows
    return found


def _transforms(factors, columns, states):
    """The Blocks of factors."""
    number, top = {column: k for k, column in enumerate(columns)}, 0
    for factor in factors:
        for x, block in factor.blocks.items():
            if x.dim == factor.rows == 6 and _is_transform(block):
                X = np.broadcast_to(block, (states, 6, 6))
                yield Block(tuple(range(top, top + 6)), tuple(number[x, k] for k in range(6)), X)
        top += factor.rows


def _is_transform(X):
    """Whether (..., 6, 6) is one, and not the identity, which needs no turning."""
    X = X.reshape(-1, 6, 6)
    if np.array_equal(np.abs(X[0]), np.eye(6)):
        return False
    product = np.array(inverse_of_transform(np.moveaxis(X, 0, -1))).transpose(2, 0, 1) @ X
    return bool(np.abs(product - np.eye(6)).max() < 1e-9 * max(1.0, np.abs(X).max()))
