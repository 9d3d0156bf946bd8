"""Symmetric positive definite block tri-diagonal systems, each factored once and solved for any right side.

    U_{i-1}^T x_{i-1} + D_i x_i + U_i x_{i+1} = r_i,    D (..., n, k, k), U (..., n - 1, k, k), r (..., n, k)

All three ways eliminate rows against their neighbors. With N D N^T = 1 of a row, up = N U_before^T and down =
N U, the row before loses up^T up, the next row down^T down, and both are coupled by -up^T down: eqs. 17-19 of
Yang, Wu, Pan, whose E and K are U D^-1. In this form D stays exactly symmetric.

    thomas  one row after the other, the last first: n steps
    cr      cyclic reduction: every second row until one is left, and back: 2 log2 n steps, O(n) work
    oee     odd-even elimination, their Algorithm 2: all rows against those s away, s = 1, 2, 4, ...: log2 n
            steps, no back substitution, O(n log n) work; not backward stable, see
            docs/explanation/parallel.md

If D is not positive definite, also by rounding, x is NaN.
"""

from collections.abc import Callable

from dynamics_node.chains.tree_scan import transposed
from dynamics_node.symbolic import matvec


def inverse_factor(xp, A):
    """N (..., k, k), lower triangular, with N A N^T = 1 of symmetric positive definite A (..., k, k): the
    inverse of Cholesky's factor, row by row. NaN if A is not positive definite."""
    k = A.shape[-1]
    N = xp.zeros_like(A)
    for j in range(k):
        # row j of the factor, by the rows of N above: L_j = A_j N^T
        row = (N[..., :j, :j] @ A[..., j, :j, None])[..., 0]
        pivot = 1 / xp.sqrt(A[..., j, j] - (row * row).sum(axis=-1))
        N[..., j, :j] = -pivot[..., None] * (row[..., None, :] @ N[..., :j, :j])[..., 0, :]
        N[..., j, j] = pivot
    return N


class Thomas:
    """x = Thomas(xp, D, U)(r)."""

    def __init__(self, xp, D, U):
        n = D.shape[-3]
        self.xp, self.N, self.up = xp, [None] * n, [None] * n
        left = D[..., n - 1, :, :]
        for i in reversed(range(n)):
            self.N[i] = inverse_factor(xp, left)
            if i > 0:
                self.up[i] = self.N[i] @ transposed(U[..., i - 1, :, :])
                left = D[..., i - 1, :, :] - transposed(self.up[i]) @ self.up[i]

    def __call__(self, r):
        xp, n = self.xp, len(self.N)
        z, x, left = [None] * n, [None] * n, r[..., n - 1, :]
        for i in reversed(range(n)):
            z[i] = matvec(self.N[i], left)
            if i > 0:
                left = r[..., i - 1, :] - matvec(transposed(self.up[i]), z[i])
        for i in range(n):
            rest = z[i] - matvec(self.up[i], x[i - 1]) if i > 0 else z[i]
            x[i] = matvec(transposed(self.N[i]), rest)
        return xp.stack(x, axis=-2)


class CyclicReduction:
    """x = CyclicReduction(xp, D, U)(r)."""

    def __init__(self, xp, D, U):
        self.xp, self.levels = xp, []
        while (n := D.shape[-3]) > 1:
            behind = (n - 1) // 2  # number of odd rows with a next row
            N = inverse_factor(xp, D[..., 1::2, :, :])
            up = N @ transposed(U[..., 0::2, :, :])
            down = N[..., :behind, :, :] @ U[..., 1::2, :, :]
            self.levels.append((N, up, down))
            D = D[..., 0::2, :, :].copy()
            D[..., : n // 2, :, :] -= transposed(up) @ up
            D[..., 1 : behind + 1, :, :] -= transposed(down) @ down
            U = -transposed(up[..., :behind, :, :]) @ down
        self.last = inverse_factor(xp, D)

    def __call__(self, r):
        published = []
        for N, up, down in self.levels:
            z, behind = matvec(N, r[..., 1::2, :]), down.shape[-3]
            published.append(z)
            r = r[..., 0::2, :].copy()
            r[..., : z.shape[-2], :] -= matvec(transposed(up), z)
            r[..., 1 : behind + 1, :] -= matvec(transposed(down), z[..., :behind, :])
        x = matvec(transposed(self.last), matvec(self.last, r))
        for (N, up, down), z in zip(reversed(self.levels), reversed(published), strict=True):
            x = self._between(x, N, up, down, z)
        return x

    def _between(self, x, N, up, down, z):
        """The rows of x, merged with the eliminated rows between them."""
        odd, behind = z.shape[-2], down.shape[-3]
        rest = z - matvec(up, x[..., :odd, :])
        rest[..., :behind, :] -= matvec(down, x[..., 1 : behind + 1, :])
        whole = self.xp.zeros((*x.shape[:-2], x.shape[-2] + odd, x.shape[-1]), dtype=x.dtype)
        whole[..., 0::2, :] = x
        whole[..., 1::2, :] = matvec(transposed(N), rest)
        return whole


class OddEvenElimination:
    """x = OddEvenElimination(xp, D, U)(r)."""

    def __init__(self, xp, D, U):
        self.rounds, n, s = [], D.shape[-3], 1
        while s < n:
            N = inverse_factor(xp, D)
            up = N[..., s:, :, :] @ transposed(U)
            down = N[..., : n - s, :, :] @ U
            self.rounds.append((s, N, up, down))
            D = D.copy()
            D[..., : n - s, :, :] -= transposed(up) @ up
            D[..., s:, :, :] -= transposed(down) @ down
            U = -transposed(up[..., : max(n - 2 * s, 0), :, :]) @ down[..., s:, :, :]
            s *= 2
        self.last = inverse_factor(xp, D)

    def __call__(self, r):
        n, r = r.shape[-2], r.copy()
        for s, N, up, down in self.rounds:
            z = matvec(N, r)
            r[..., : n - s, :] -= matvec(transposed(up), z[..., s:, :])
            r[..., s:, :] -= matvec(transposed(down), z[..., : n - s, :])
        return matvec(transposed(self.last), matvec(self.last, r))


CFA_ORDERINGS: dict[str, Callable] = {"cr": CyclicReduction, "oee": OddEvenElimination, "thomas": Thomas}
