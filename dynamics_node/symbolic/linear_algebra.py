"""Linear algebra of small arrays of floats or symbols.

Constants of a Program need the same digits on every machine. BLAS and LAPACK add in an order that depends on
the processor. A constant with another last digit makes another Program; two constants that should be equal
cost operations. So `product`, `inverse_definite`, `least_squares` and `pivoted` add in the order of the
indices.

Systems of symbols are eliminated in a given order (`solve`, `solve_definite`); systems of floats go to
LAPACK.
"""

import math
from functools import reduce

import numpy as np

GOLDEN = 0.6180339887498949
FAINT = 1e-7  # relative to the largest size of a matrix
EQUAL = 1e-6  # relative difference of squared sizes that count as equal


def matvec(matrix, vector):
    """Matrix times vector over leading axes: (..., m, n), (..., n) -> (..., m)."""
    if matrix.ndim == 2:
        return vector @ matrix.T
    return (matrix @ vector[..., None])[..., 0]


def transpose(matrix):
    """Swap the last two axes."""
    return np.swapaxes(matrix, -1, -2)


def symmetric(matrix):
    """A matrix (..., n, n) known to be symmetric. The lower triangle of symbols is replaced by the upper one,
    so that a trace computes every entry once; floats are unchanged."""
    if matrix.dtype != object:
        return matrix
    upper = np.triu(np.ones(matrix.shape[-2:], dtype=bool))
    return np.where(upper, matrix, transpose(matrix))


def product(*matrices):
    """The product of matrices (..., m, n), the last may be a vector (n,)."""
    return reduce(_product, matrices)


def _product(A, B):
    if B.ndim == 1:
        return _product(A, B[:, None])[..., 0]
    return reduce(np.add, (A[..., :, k, None] * B[..., None, k, :] for k in range(B.shape[-2])))


def dot(x, y):
    """The scalar product of two vectors (n,)."""
    return product(x[None, :], y)[0]


def length(x):
    """The length of a vector (n,)."""
    return math.sqrt(dot(x, x))


def transformed_inertia(X, inertia):
    """X^T I X (see `congruence`), symmetric to the last digit: X (..., n, n), I (..., n, n)."""
    moved = product(np.swapaxes(X, -1, -2), inertia, X)
    return 0.5 * (moved + np.swapaxes(moved, -1, -2))


def least_squares(A, b, damping=0.0):
    """The shortest least-squares solution x (..., n) of A x = b, A (..., m, n), b (..., m), by Newton's
    steps. It is nearly zero in directions in which A is less than FAINT of its size. damping (...): of the
    normal equations, which shortens x."""
    transposed = np.swapaxes(A, -1, -2)
    wide = A.shape[-2] < A.shape[-1]
    normal = product(A, transposed) if wide else product(transposed, A)
    k = range(normal.shape[-1])
    normal[..., k, k] += np.asarray(damping)[..., None]
    normal[..., k, k] += FAINT**2 * np.trace(normal, axis1=-2, axis2=-1)[..., None] + np.finfo(float).tiny
    inverse = inverse_definite(normal)
    back = product(transposed, inverse) if wide else product(inverse, transposed)
    x = product(back, b[..., None])
    return (x + product(back, b[..., None] - product(A, x)))[..., 0]


def inverse_definite(A):
    """The inverse of definite matrices (..., n, n), by Gauss-Jordan elimination."""
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
    """Numbers and remaining sizes of rows (m, n), by pivoted Gram-Schmidt: each is the largest after
    projection off those before it; of nearly equal ones the first. most: their number."""
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
    """A power of two near positive x; nearly equal numbers give the same one. The golden ratio separates
    neighbors: no measured number and no root falls on it."""
    mantissa, exponent = np.frexp(x)
    return np.ldexp(1.0, exponent - (mantissa < GOLDEN))


def solve(matrix, right):
    """Solve over leading axes: (..., n, n), (..., n, k) -> (..., n, k).

    The leading minors must not vanish: they do not for a definite matrix or for pivot rows in pivot order.
    Floats go to LAPACK, which pivots; symbols are eliminated in the given order. Raises
    numpy.linalg.LinAlgError when floats are singular.
    """
    if matrix.shape[-1] == 1:
        return right / matrix
    if object not in (matrix.dtype, right.dtype):
        return np.linalg.solve(matrix, right)
    return _eliminate_in_order(matrix, right)


def solve_definite(matrix, right):
    """`solve` for a symmetric positive definite matrix. For symbols only the lower triangle is read, and the
    last row is eliminated first: this preserves the zeros of a mass matrix (RBDA section 6.5)."""
    if object not in (matrix.dtype, right.dtype):
        return np.linalg.solve(matrix, right)
    L, pivots, half = half_solved(matrix, right)
    x = half * np.array([1.0 / d for d in pivots], dtype=object)[:, None]
    for k in range(len(pivots)):
        for i in range(k):
            x[k] = x[k] - x[i] * L[k, i]
    return x


def inverse_congruence(matrix, J):
    """J M^-1 J^T (..., m, m) for a symmetric positive definite M (..., n, n) and J (..., m, n)."""
    if object not in (matrix.dtype, J.dtype):
        return J @ np.linalg.solve(matrix, transpose(J))
    _, pivots, half = half_solved(matrix, transpose(J))
    scaled = half * np.array([1.0 / d for d in pivots], dtype=object)[:, None]
    return symmetric(transpose(half) @ scaled)


def definite_pivots(matrix):
    """Diagonal D (..., n) of M = L^T D L, M (..., n, n) symmetric, the last row eliminated first as in
    `solve_definite`. After a pivot of zero, floats are NaN."""
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
    """L (unit lower triangle), D and L^-T right, of a symmetric M = L^T D L, for symbols of one state, the
    last row first. If `right` has covariance M, the rows of L^-T right are uncorrelated, with variances D."""
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
