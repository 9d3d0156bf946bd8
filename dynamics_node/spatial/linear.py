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
    if object not in (matrix.dtype, right.dtype):
        return np.linalg.solve(matrix, right)
    return _eliminate_in_order(matrix, right)


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
