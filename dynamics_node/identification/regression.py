"""Linear regression: normal equations or weighted rows -> parameters, covariance, weak directions by name.

Columns are scaled to unit length unless the caller gives sizes, so that rank and condition do not depend on
units. Directions whose information is at rounding level are not inverted: undetermined parameters stay zero.
"""

from typing import NamedTuple

import numpy as np

RANK = 1e-12  # fraction of the largest eigenvalue of the scaled information: smaller ones are rounding errors
SURE = 0.1  # fraction of the condition number 1 / RANK: below it, the matrix certainly has full rank
FEWEST_GROUPS = 4  # needed to estimate the correlation of residuals
TINY = 1e-300  # squared length of an empty column


def column_scale(squares):
    """Inverse lengths (..., n) of columns with these sums of squares (..., n)."""
    return 1.0 / np.sqrt(np.maximum(squares, TINY))


class Spectrum(NamedTuple):
    """Independent directions of an information matrix. values (..., k): eigenvalues of the scaled matrix,
    ascending; directions (..., n, k): its eigenvectors, in units of the scaled columns; scale (..., n)."""

    values: np.ndarray
    directions: np.ndarray
    scale: np.ndarray

    def determined(self, tolerance=RANK):
        """Mask (k,) of values above this share of the largest."""
        return self.values > tolerance * self.values.max(initial=0.0)

    def half_inverse(self, tolerance=RANK):
        """L (n, rank) with L L^T the inverse of the information in the determined directions."""
        determined = self.determined(tolerance)
        return self.directions[:, determined] * self.scale[:, None] / np.sqrt(self.values[determined])

    def condition(self, tolerance=RANK):
        """Condition of the rows with columns of unit length; infinite if a direction is dropped."""
        full = len(self.values) and self.determined(tolerance).all()
        return float(np.sqrt(self.values[-1] / self.values[0])) if full else np.inf


def spectrum(information, scale=None) -> Spectrum:
    """Spectrum of an information matrix (..., n, n). scale (..., n): units of the parameters, by default
    those in which its columns have unit length."""
    scale = column_scale(np.diagonal(information, axis1=-2, axis2=-1)) if scale is None else scale
    return Spectrum(*np.linalg.eigh(information * scale[..., None] * scale[..., None, :]), scale)


class RowFit(NamedTuple):
    """x (n,) and covariance (n, n) for rows of unit variance; spectrum: of their information."""

    x: np.ndarray
    covariance: np.ndarray
    spectrum: Spectrum


def fit_rows(rows, right) -> RowFit:
    """Least squares for rows (m, n), m >= n, of unit variance; x is zero in rank-deficient directions."""
    scale = column_scale(np.sum(rows**2, axis=0))
    U, sizes, directions = np.linalg.svd(rows * scale, full_matrices=False)
    found = Spectrum(sizes[::-1] ** 2, directions[::-1].T, scale)
    half = found.half_inverse()
    return RowFit(half @ (U[:, ::-1][:, found.determined()].T @ right), half @ half.T, found)


def covariance_of(information):
    """Covariance (n, n) of normal equations; zero in rank-deficient directions."""
    scale = column_scale(np.diagonal(information))
    outer = np.outer(scale, scale)
    if (inverse := _regular_inverse(information * outer)) is not None:
        return inverse * outer
    half = spectrum(information).half_inverse()
    return half @ half.T


def _regular_inverse(information):
    """Inverse by Cholesky factors, several times faster than by eigenvectors. None if the matrix may be
    rank-deficient: Frobenius norms bound the largest eigenvalues."""
    from scipy.linalg.lapack import dpotrf, dpotri  # takes 0.1 s to import

    root, failed = dpotrf(information, lower=True)
    if failed or not len(information):
        return None
    lower = dpotri(root, lower=True)[0]  # zero above the diagonal, as the root is
    inverse = lower + lower.T
    np.fill_diagonal(inverse, np.diagonal(lower))
    condition = np.linalg.norm(inverse) * np.linalg.norm(information)
    return inverse if condition * RANK < SURE else None


def solve_definite_scaled(H, right):
    """H^-1 right for a positive definite H (n, n), regularized at rounding level."""
    scale = column_scale(np.diagonal(H))
    scaled = H * np.outer(scale, scale) + 1e-14 * np.eye(len(H))
    return scale * np.linalg.solve(scaled, scale * right)


def eliminated(S, gone, squares, tolerance):
    """Normal equations S (..., n, n) without the columns `gone`, the least-squares coefficients B (..., gone,
    others) of these for the others, and their rank (...,). squares (..., n): of the columns before
    elimination; relative to them, values below `tolerance` are rounding errors."""
    others = np.delete(np.arange(S.shape[-1]), gone)
    directions = spectrum(S[..., gone[:, None], gone], column_scale(squares[..., gone]))
    determined = directions.values > tolerance
    root = np.where(determined, 1.0 / np.sqrt(np.where(determined, directions.values, 1.0)), 0.0)
    half = directions.directions * directions.scale[..., None] * root[..., None, :]
    across = S[..., gone[:, None], others]
    B = half @ (np.swapaxes(half, -1, -2) @ across)
    return S[..., others[:, None], others] - np.swapaxes(across, -1, -2) @ B, B, determined.sum(axis=-1)


def inflation(scores, information, spread, tolerance=RANK) -> float:
    """Number of rows that carry the information of one independent row, at least 1.

    Neighboring rows are redundant if residuals are model errors or colored noise. For independent rows, the
    scores W^T (tau - W x) vary between groups as W^T W predicts; for correlated rows they vary more. That
    ratio, averaged over all directions, is the inflation of the variance (cluster-robust covariance: Liang,
    Zeger 1986). scores (groups, n); information (n, n): W^T W of all rows; spread: standard deviation of the
    residuals.
    """
    half = spectrum(information).half_inverse(tolerance)
    groups, rank = len(scores), half.shape[1]
    if groups < FEWEST_GROUPS or not rank:
        return 1.0
    squares = np.sum((scores @ half) ** 2) / (rank * spread**2)
    return max(1.0, float(squares) * groups / (groups - 1.0))


def named_in(directions, names, share) -> tuple[str, ...]:
    """Names of the coordinates that exceed a share in one of the unit directions (n, k)."""
    largest = np.abs(directions).max(axis=1, initial=0.0)
    return tuple(name for name, size in zip(names, largest, strict=True) if size > share)
