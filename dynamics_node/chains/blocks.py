"""Small dense blocks (..., k, k), of many rows and states at once."""


def transposed(xp, A):
    return xp.swapaxes(A, -1, -2)


def inverse_factor(xp, A):
    """N (..., k, k), lower triangular, with N A N^T = 1 of symmetric positive definite A (..., k, k): the
    inverse of Cholesky's factor, row by row. NaN where A is not positive definite."""
    k = A.shape[-1]
    N = xp.zeros_like(A)
    for j in range(k):
        # row j of the factor, by the rows of N above: L_j = A_j N^T
        row = (N[..., :j, :j] @ A[..., j, :j, None])[..., 0]
        pivot = 1 / xp.sqrt(A[..., j, j] - (row * row).sum(axis=-1))
        N[..., j, :j] = -pivot[..., None] * (row[..., None, :] @ N[..., :j, :j])[..., 0, :]
        N[..., j, j] = pivot
    return N


def substituted(L, b):
    """x (..., n) of L L^T x = b with a Cholesky factor L (..., n, n), n large."""
    x, n = b.copy(), L.shape[-1]
    for j in range(n):
        x[..., j] = (x[..., j] - (L[..., j, :j] * x[..., :j]).sum(axis=-1)) / L[..., j, j]
    for j in reversed(range(n)):
        x[..., j] = (x[..., j] - (L[..., j + 1 :, j] * x[..., j + 1 :]).sum(axis=-1)) / L[..., j, j]
    return x
