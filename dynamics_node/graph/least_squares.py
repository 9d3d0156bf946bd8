"""Weighted least squares under exact equations, at one state, by orthogonal columns.

min |N z - r|^2 over E z = e, N and r divided by standard deviations. By the null space of E (Golub and Van
Loan, Matrix Computations, sec. 6.2.3), then QR with pivots over rows in the order of their size, which bears
weights of any size (Cox and Higham, BIT 38, 1998).
"""

from typing import NamedTuple

import numpy as np

ZERO = 1e-9  # singular values beside the largest, of rows and columns of length about 1


class Space(NamedTuple):
    """What rows determine. scale (n,): of the unknowns; particular (n, rows): what solves the exact rows, of
    their right-hand sides; free (n, k): what they leave open, of it the noisy rows leave `open` (n, l); ranks
    of the exact rows and of all. repeated (rows, j): of exact rows, in what mixtures they say nothing new."""

    scale: np.ndarray
    particular: np.ndarray
    free: np.ndarray
    open: np.ndarray
    exact_rank: int
    rank: int
    repeated: np.ndarray


class Fit(NamedTuple):
    """z (n,) and its covariance (n, n) as root (n, k): root @ root.T; residual (m,) N z - r with the opposite
    sign, in standard deviations; hat (m, k), of orthonormal columns: residual = (1 - hat hat^T) r for what
    the exact rows allow."""

    z: np.ndarray
    root: np.ndarray
    residual: np.ndarray
    hat: np.ndarray


def space(E, N) -> Space:
    """E (p, n) exact rows, N (m, n) noisy ones; weights do not matter."""
    E, N, scale = _equilibrated(E, N)
    n = len(scale)
    lengths = _lengths(E)
    U, sizes, V = np.linalg.svd(E / lengths[:, None])
    exact_rank = int((sizes > ZERO).sum())
    particular = (V[:exact_rank].T / sizes[:exact_rank]) @ (U[:, :exact_rank].T / lengths)
    free = V[exact_rank:].T
    seen = (N / _lengths(N)[:, None]) @ free
    _, sizes, W = np.linalg.svd(seen, full_matrices=len(seen) < seen.shape[1])  # else (m, m) of no use
    noisy_rank = int((sizes > ZERO).sum())
    left = free @ W[noisy_rank:].T
    assert particular.shape == (n, len(E))
    return Space(
        scale,
        scale[:, None] * particular,
        free,
        scale[:, None] * left,
        exact_rank,
        exact_rank + noisy_rank,
        U[:, exact_rank:],
    )


def determined_by(rows, of: Space) -> int:
    """How many directions of what is open other rows (m, n) would settle."""
    rows = rows * of.scale
    left = of.open / of.scale[:, None]
    seen = (rows / _lengths(rows)[:, None]) @ left
    return int((np.linalg.svd(seen, compute_uv=False) > ZERO).sum()) if seen.size else 0


def solve(E, e, N, r, of: Space) -> Fit:
    """E z = e exactly, N z = r (m,) with variance 1. of: their `space`, which leaves nothing open."""
    from scipy.linalg import qr, solve_triangular

    z = of.particular @ e
    z = z + of.particular @ (e - E @ z)
    basis = of.scale[:, None] * of.free
    M, d = N @ basis, r - N @ z
    order = np.argsort(-np.abs(M).max(axis=1, initial=0.0), kind="stable")
    Q, R, pivots = qr(M[order], mode="economic", pivoting=True)
    hat = np.empty_like(Q)
    hat[order] = Q
    root = basis[:, pivots] @ solve_triangular(R, np.eye(len(R))) if len(R) else basis
    step = root @ (hat.T @ d)
    residual = d - hat @ (hat.T @ d)
    return Fit(z + step, root, residual, hat)


def _equilibrated(E, N):
    """Rows with columns of comparable size, and the scale of the columns."""
    together = np.concatenate([E, N])
    together = together / _lengths(together)[:, None]
    size = np.abs(together).max(axis=0, initial=0.0)
    scale = 1.0 / np.where(size > 0, size, 1.0)
    return E * scale, N * scale, scale


def _lengths(rows):
    lengths = np.linalg.norm(rows, axis=1)
    return np.where(lengths > 0, lengths, 1.0)
