"""Small linear systems whose elements may be floats or symbols."""

import numpy as np


def solve(matrix, right):
    """Solve over leading axes: (..., n, n), (..., n, k) -> (..., n, k).

    The leading minors must not vanish: true of a definite matrix, and of pivot rows in pivot order.
    Floats go to LAPACK, which pivots; anything else is eliminated in the given order. Raises
    numpy.linalg.LinAlgError when floats are singular.
    """
    if matrix.shape[-1] == 1:
        return right / matrix
    if matrix.dtype != object:
        return np.linalg.solve(matrix, right)
    return _eliminate_in_order(matrix, right)


def _eliminate_in_order(matrix, right):
    n = matrix.shape[-1]
    A, B = matrix.copy(), np.broadcast_to(right, (*matrix.shape[:-1], right.shape[-1])).astype(object)
    for k in range(n):
        for i in range(k + 1, n):
            factor = A[..., i, k] / A[..., k, k]
            A[..., i, k:] = A[..., i, k:] - factor[..., None] * A[..., k, k:]
            B[..., i, :] = B[..., i, :] - factor[..., None] * B[..., k, :]
    for k in reversed(range(n)):
        rest = (A[..., k, None, k + 1 :] @ B[..., k + 1 :, :])[..., 0, :] if k + 1 < n else 0
        B[..., k, :] = (B[..., k, :] - rest) / A[..., k, k, None]
    return B
