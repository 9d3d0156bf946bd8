"""Linear algebra of small arrays of floats or symbols.

What becomes a constant of a Program has the same digits on every machine. BLAS and LAPACK add in an order
that the processor chooses; a constant with another last digit is another Program, and two constants that
should be one cost operations. So `product`, `least_squares` and `pivoted` add in the order of the indices.

Systems of symbols are eliminated in a given order (`solve`, `solve_definite`); those of floats go to
LAPACK.
"""

import math
from functools import reduce

import numpy as np

GOLDEN = 0.6180339887498949
FAINT = 1e-7  # beside the largest size of a matrix
EQUAL = 1e-6  # beside squares of sizes that count as equal


def matvec(matrix, vector):
    """Matrix times vector over leading axes: (..., m, n), (..., n) -> (..., m)."""
    if matrix.ndim == 2:
        return vector @ matrix.T
    return (matrix @ vector[..., None])[..., 0]


def transpose(matrix):
    """Swap the last two axes."""
    return np.swapaxes(matrix, -1, -2)


def symmetric(matrix):
    """A matrix (..., n, n) known to be symmetric. Of symbols the lower triangle is the upper one's, so
    that a trace computes every entry once; floats are left as they are."""
    if matrix.dtype != object:
        return matrix
    upper = np.triu(np.ones(matrix.shape[-2:], dtype=bool))
    return np.where(upper, matrix, transpose(matrix))


def product(*matrices):
    """The product of matrices (..., m, n), of which the last may be a vector (n,)."""
    return reduce(_product, matrices)


def _product(A, B):
    if B.ndim == 1:
        return _product(A, B[:, None])[..., 0]
    return reduce(np.add, (A[..., :, k, None] * B[..., None, k, :] for k in range(B.shape[-2])))


def dot(x, y):
    """The scalar product of two vectors (n,)."""
    return product(x[None, :], y)[0]


def length(x):
    """Of a vector (n,)."""
    return math.sqrt(dot(x, x))


def carried_inertia(X, inertia):
    """X^T I X as `congruence`, symmetric to the last digit: X (..., n, n), I (..., n, n)."""
    found = product(np.swapaxes(X, -1, -2), inertia, X)
    return 0.5 * (found + np.swapaxes(found, -1, -2))


def least_squares(A, b):
    """x (..., n) of A x = b, A (..., m, n) and b (..., m): the shortest of those that miss least, in Newton's
    steps. Nearly zero in directions in which A is less than FAINT of its size."""
    transposed = np.swapaxes(A, -1, -2)
    wide = A.shape[-2] < A.shape[-1]
    normal = product(A, transposed) if wide else product(transposed, A)
    own = range(normal.shape[-1])
    normal[..., own, own] += FAINT**2 * np.trace(normal, axis1=-2, axis2=-1)[..., None] + np.finfo(float).tiny
    inverse = _inverse(normal)
    back = product(transposed, inverse) if wide else product(inverse, transposed)
    x = product(back, b[..., None])
    return (x + product(back, b[..., None] - product(A, x)))[..., 0]


def _inverse(A):
    """Of definite matrices (..., n, n), by Gauss and Jordan's method."""
    A = np.array(A)
    for k in range(A.shape[-1]):
        pivot, column = A[..., k, k, None].copy(), A[..., :, k].copy()
        A[..., k] = 0.0
        A[..., k, k] = 1.0
        row = A[..., k, :] / pivot
        column[..., k] = 0.0
        A -= column[..., :, None] * row[..., None, :]
        A[..., k, :] = row
    return A


def pivoted(rows, most=None):
    """Numbers of rows (m, n), and their sizes, in an order in which each is the one of which most is left
    beside those before it, by Gram and Schmidt's method; of nearly equal ones the first. most: how many."""
    left = np.array(rows, dtype=float)
    order: list[int] = []
    sizes: list[float] = []
    for _ in range(min(left.shape) if most is None else most):
        squares = (left * left).sum(axis=1)
        squares[order] = -1.0
        k = int(np.argmax(squares >= squares.max() * (1.0 - EQUAL)))
        order.append(k)
        sizes.append(math.sqrt(squares[k]))
        if sizes[-1] > 0:
            unit = left[k] / sizes[-1]
            left = left - (left * unit).sum(axis=1)[:, None] * unit
    return order, np.array(sizes)


def power_of_two(x):
    """One near positive x: what is nearly the same gives the same one. Between two of them the golden ratio
    decides, on which nothing falls that has been measured, or is a root."""
    mantissa, exponent = np.frexp(x)
    return np.ldexp(1.0, exponent - (mantissa < GOLDEN))


def solve(matrix, right):
    """Solve over leading axes: (..., n, n), (..., n, k) -> (..., n, k).

    The leading minors must not vanish: true of a definite matrix, and of pivot rows in pivot order.
    Floats go to LAPACK, which pivots; anything else is eliminated in the given order. Raises
    numpy.linalg.LinAlgError when floats are singular.
    """
    if matrix.shape[-1] == 1:
        return right / matrix
    if object not in (matrix.dtype, right.dtype):
        return np.linalg.solve(matrix, right)
    return _eliminate_in_order(matrix, right)


def solve_definite(matrix, right):
    """`solve` of a symmetric positive definite matrix. Of symbols only the lower triangle is read, and the
    last row is eliminated first: a mass matrix keeps its zeros so (RBDA section 6.5)."""
    if object not in (matrix.dtype, right.dtype):
        return np.linalg.solve(matrix, right)
    L, pivots, half = half_solved(matrix, right)
    x = half * np.array([1.0 / d for d in pivots], dtype=object)[:, None]
    for k in range(len(pivots)):
        for i in range(k):
            x[k] = x[k] - x[i] * L[k, i]
    return x


def inverse_congruence(matrix, J):
    """J M^-1 J^T of a symmetric positive definite M (..., n, n) and J (..., m, n): (..., m, m)."""
    if object not in (matrix.dtype, J.dtype):
        return J @ np.linalg.solve(matrix, transpose(J))
    _, pivots, half = half_solved(matrix, transpose(J))
    scaled = half * np.array([1.0 / d for d in pivots], dtype=object)[:, None]
    return symmetric(transpose(half) @ scaled)


def definite_pivots(matrix):
    """Diagonal D (..., n) of M = L^T D L of a symmetric M (..., n, n), the last row eliminated first, as in
    `solve_definite`. Behind a pivot of zero floats are NaN."""
    if matrix.dtype == object:
        return np.array(half_solved(matrix, np.zeros((len(matrix), 0)))[1], dtype=object)
    M = np.array(matrix)
    with np.errstate(all="ignore"):
        for k in reversed(range(M.shape[-1])):
            row = M[..., k, :k]
            M[..., :k, :k] -= row[..., :, None] * (row / M[..., k, k, None])[..., None, :]
    return np.einsum("...kk->...k", M)


def inverse_diagonal(matrix, chosen):
    """The `chosen` entries (..., k) of the diagonal of M^-1, of a symmetric M (..., n, n); floats are NaN or
    huge where M is singular. chosen (n,) bool."""
    units = np.eye(matrix.shape[-1])[:, chosen]
    if matrix.dtype == object:
        _, pivots, half = half_solved(matrix, units)
        return sum((y * y / d for y, d in zip(half, pivots, strict=True)), np.zeros(units.shape[1]))
    M, y = np.array(matrix), np.tile(units, (*matrix.shape[:-2], 1, 1))
    with np.errstate(all="ignore"):
        for k in reversed(range(M.shape[-1])):
            factor = (M[..., k, :k] / M[..., k, k, None])[..., None]
            M[..., :k, :k] -= factor * M[..., k, None, :k]
            y[..., :k, :] -= factor * y[..., k, None, :]
        return (y * y / np.einsum("...kk->...k", M)[..., None]).sum(axis=-2)


def half_solved(matrix, right):
    """L (unit lower triangle), D and L^-T right, of a symmetric M = L^T D L, on symbols of one state, the
    last row first. Of a right side with covariance M the rows of L^-T right are uncorrelated, with D."""
    M, y = np.array(matrix, dtype=object), np.array(right, dtype=object)
    n = len(M)
    for k in reversed(range(n)):
        for i in range(k):
            factor = M[k, i] / M[k, k]
            M[i, : i + 1] = M[i, : i + 1] - M[k, : i + 1] * factor
            y[i] = y[i] - y[k] * factor
        M[k, :k] = M[k, :k] / M[k, k]
    return M, [M[k, k] for k in range(n)], y


def _eliminate_in_order(matrix, right):
    n = matrix.shape[-1]
    rows = np.concatenate(
        [matrix, np.broadcast_to(right, (*matrix.shape[:-1], right.shape[-1]))], axis=-1, dtype=object
    )
    for k in range(n):
        below = rows[..., k + 1 :, k : k + 1] / rows[..., k : k + 1, k : k + 1]
        rows[..., k + 1 :, k:] = rows[..., k + 1 :, k:] - below * rows[..., k : k + 1, k:]
    for k in reversed(range(n)):
        solved = rows[..., k : k + 1, n:] - rows[..., k : k + 1, k + 1 : n] @ rows[..., k + 1 :, n:]
        rows[..., k : k + 1, n:] = solved / rows[..., k : k + 1, k : k + 1]
    return rows[..., n:]
