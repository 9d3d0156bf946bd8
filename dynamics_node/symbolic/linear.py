"""Small linear systems whose elements may be floats or symbols."""

import numpy as np

from dynamics_node.symbolic.algebra import symmetric, transpose


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
