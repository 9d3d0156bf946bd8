"""Solves A x = b of a cluster's constraints on symbols, without a pivot that may vanish while A is regular.

No order of pivots is good at every position: one of them vanishes somewhere, often at the drawn position of a
linkage (right angles, parallelograms). So connected loops are solved one after the other (block triangular
form: Duff, Erisman and Reid, Direct Methods for Sparse Matrices, ch. 6). Up to three unknowns are solved by
cofactors, more by orthogonal columns (modified Gram-Schmidt, backward stable without pivots: Bjorck,
Numerical Methods for Least Squares Problems, sec. 2.4). So the size of the inverse is reliable, too: for a
singular A it is large. There may be more equations than unknowns, if they are consistent.
"""

import numpy as np

COFACTORS = 3  # most unknowns for cofactors


class ConstraintElimination:
    """Elimination of A (m, n), m >= n, of full rank at most positions. sizes (m,): the usual norms of its
    equations, including their other terms."""

    def __init__(self, A, sizes):
        self._A, self._sizes = A, sizes
        self._parts = [
            (rows, columns, _solver(A[np.ix_(rows, columns)])) for rows, columns in parts(_occupied(A))
        ]

    def solve(self, right):
        """x (n, k) of A x = right (m, k)."""
        x = np.zeros((self._A.shape[1], right.shape[1]), dtype=object)
        for rows, columns, solver in self._parts:
            known = [j for j in range(len(x)) if _occupied(self._A[rows, j]).any() and j not in columns]
            rest = right[rows] - self._A[np.ix_(rows, known)] @ x[known] if known else right[rows]
            x[columns] = solver.solve(rest)
        return x

    def solve_transposed(self, right):
        """x (m, k) of A^T x = right (n, k); the smallest if there are several."""
        x = np.zeros((self._A.shape[0], right.shape[1]), dtype=object)
        solved: list[int] = []  # rows of the parts that depend on others
        for rows, columns, solver in reversed(self._parts):
            known = [i for i in solved if _occupied(self._A[i, columns]).any()]
            rest = right[columns] - self._A[np.ix_(known, columns)].T @ x[known] if known else right[columns]
            x[rows] = solver.solve_transposed(rest)
            solved += rows
        return x

    @property
    def orthogonal(self):
        """Whether a part of it is solved by orthogonal columns."""
        return any(isinstance(solver, _Orthogonal) for *_, solver in self._parts)

    def condition(self):
        """The sum over the parts of the square of |part| |inverse of the part|. A single unknown is well
        conditioned for any factor, so there the usual size counts."""
        return sum(self._size(*part) * solver.inverse_size() for *part, solver in self._parts)

    def _size(self, rows, columns):
        if len(columns) == 1:
            return (self._sizes[rows] ** 2).sum()
        return _squares(self._A[np.ix_(rows, columns)])


def _occupied(A):
    """The structurally nonzero elements."""
    return np.array([not isinstance(x, float | int) or x != 0 for x in A.flat], dtype=bool).reshape(A.shape)


def _squares(A):
    return (A * A).sum()


# --- one part -----------------------------------------------------------------------------------------------


class _Cofactors:
    """Inverse of A (n, n), n <= COFACTORS, by cofactors."""

    def __init__(self, A):
        n = range(len(A))
        cofactors = np.array([[_cofactor(A, j, i) for j in n] for i in n], dtype=object)
        self._inverse = cofactors * (1.0 / (A[0] @ cofactors[:, 0]))

    def solve(self, right):
        return self._inverse @ right

    def solve_transposed(self, right):
        return self._inverse.T @ right

    def inverse_size(self):
        """Sum of the squares of the inverse."""
        return _squares(self._inverse)


def _cofactor(A, i, j):
    rest = np.delete(np.delete(A, i, 0), j, 1)
    if len(rest) == 2:
        minor = rest[0, 0] * rest[1, 1] - rest[0, 1] * rest[1, 0]
    else:
        minor = rest[0, 0] if len(rest) else 1.0
    return minor if (i + j) % 2 == 0 else -minor


class _Orthogonal:
    """A = Q R of A (m, n): columns of Q orthogonal, but not of unit length, to avoid square roots; R has a
    unit diagonal. Columns with few elements come first, which preserves zeros."""

    def __init__(self, A):
        self._order = np.argsort(_occupied(A).sum(axis=0), kind="stable")
        self._Q, n = np.array(A[:, self._order]), A.shape[1]
        self._R, self._weights = np.zeros((n, n), dtype=object), np.zeros(n, dtype=object)
        for k in range(n):
            self._weights[k] = 1.0 / _squares(self._Q[:, k])
            self._R[k, k + 1 :], self._Q[:, k + 1 :] = self._along(k, self._Q[:, k + 1 :])

    def _along(self, k, right):
        """Components of right (m, j) along a column of Q, and the remainder."""
        components = self._weights[k] * (self._Q[:, k] @ right)
        return components, right - np.outer(self._Q[:, k], components)

    def solve(self, right):
        n = len(self._order)
        y = np.zeros((n, right.shape[1]), dtype=object)
        for k in range(n):
            y[k], right = self._along(k, right)
        x = np.zeros_like(y)
        x[self._order] = self._back(y)
        return x

    def solve_transposed(self, right):
        """As stable as `solve`: each direction accounts for those added before (Bjorck, sec. 2.4.5)."""
        z = np.array(right[self._order], dtype=object)
        for k in range(len(z)):
            z[k + 1 :] = z[k + 1 :] - np.outer(self._R[k, k + 1 :], z[k])
        x = np.zeros((len(self._Q), right.shape[1]), dtype=object)
        for k in reversed(range(len(z))):
            x = x + np.outer(self._Q[:, k], self._weights[k] * (z[k] - self._Q[:, k] @ x))
        return x

    def inverse_size(self):
        """Sum of the squares of R^-1 Q^-1."""
        inverse = self._back(np.eye(len(self._order), dtype=object))
        return ((inverse * inverse) @ self._weights).sum()

    def _back(self, y):
        """R^-1 y."""
        x = np.array(y)
        for k in reversed(range(len(x))):
            x[:k] = x[:k] - np.outer(self._R[:k, k], x[k])
        return x


def _solver(A):
    square = A.shape[0] == A.shape[1]
    return _Cofactors(A) if square and len(A) <= COFACTORS else _Orthogonal(A)


# --- parts --------------------------------------------------------------------------------------------------


def parts(occupied):
    """(rows, columns) of the parts of A in an order in which each depends only on earlier ones.
    occupied (m, n) bool: where A is not zero."""
    for group in _classes(occupied.T @ occupied):
        rows = np.flatnonzero(occupied[:, group].any(axis=1))
        if len(rows) != len(group):
            yield rows.tolist(), group
            continue
        matched = rows[_matched(occupied[np.ix_(rows, group)])]
        for members in _classes(occupied[np.ix_(matched, group)]):
            yield matched[members].tolist(), [group[k] for k in members]


def _matched(occupied):
    """For every column (n,) a row of its own in which it is occupied."""
    from scipy.optimize import linear_sum_assignment  # takes 0.2 s; only robots with loops need it

    return linear_sum_assignment(occupied.T, maximize=True)[1]


def _classes(needs):
    """Groups of indices that need each other, directly or not; a group comes after those that it needs.
    needs (n, n) bool: i needs j."""
    reach = needs | np.eye(len(needs), dtype=bool)
    for _ in range(len(needs).bit_length()):
        reach = reach @ reach
    mutual = reach & reach.T
    first = mutual.argmax(axis=1)
    leaders = sorted(set(first.tolist()), key=lambda k: reach[k].sum())
    return [np.flatnonzero(first == k).tolist() for k in leaders]
