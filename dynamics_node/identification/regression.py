"""Linear regression: normal equations or weighted rows -> parameters, covariance, weak directions by name.

Columns count in units of their own length, unless the caller gives a size, so that a rank and a condition
do not depend on units. Directions whose information is rounding beside the largest have no inverse: what
the data do not determine stays zero.
"""

from typing import NamedTuple

import numpy as np

RANK = 1e-12  # of the largest eigenvalue of the scaled information: smaller ones are rounding
SURE = 0.1  # of the condition number 1 / RANK, below which all directions certainly count
TINY = 1e-300  # square of a column without entries


def column_scale(squares):
    """(..., n): the inverse length of columns with these sums of squares (..., n)."""
    return 1.0 / np.sqrt(np.maximum(squares, TINY))


class Spectrum(NamedTuple):
    """Independent directions of an information matrix. values (..., k): eigenvalues of the scaled matrix,
    ascending; directions (..., n, k): its eigenvectors, in units of the scaled columns; scale (..., n)."""

    values: np.ndarray
    directions: np.ndarray
    scale: np.ndarray

    def kept(self, tolerance=RANK):
        """(k,) bool: values above this share of the largest."""
        return self.values > tolerance * self.values.max(initial=0.0)

    def half_inverse(self, tolerance=RANK):
        """(n, rank): L with L L^T the inverse of the information in the directions that are kept."""
        kept = self.kept(tolerance)
        return self.directions[:, kept] * self.scale[:, None] / np.sqrt(self.values[kept])

    def condition(self, tolerance=RANK):
        """Of the rows, columns of length one; infinite where a direction is not kept."""
        full = len(self.values) and self.kept(tolerance).all()
        return float(np.sqrt(self.values[-1] / self.values[0])) if full else np.inf


def spectrum(information, scale=None) -> Spectrum:
    """Of an information matrix (..., n, n). scale (..., n): units of the parameters, by default those in
    which its columns have length one."""
    scale = column_scale(np.diagonal(information, axis1=-2, axis2=-1)) if scale is None else scale
    return Spectrum(*np.linalg.eigh(information * scale[..., None] * scale[..., None, :]), scale)


class RowFit(NamedTuple):
    """x (n,) and covariance (n, n), for rows of variance one; spectrum: of their information."""

    x: np.ndarray
    covariance: np.ndarray
    spectrum: Spectrum


def fit_rows(rows, right) -> RowFit:
    """Least squares of rows (m, n), m >= n, of variance one; x is zero in directions that are rounding."""
    scale = column_scale(np.sum(rows**2, axis=0))
    U, sizes, directions = np.linalg.svd(rows * scale, full_matrices=False)
    own = Spectrum(sizes[::-1] ** 2, directions[::-1].T, scale)
    half = own.half_inverse()
    return RowFit(half @ (U[:, ::-1][:, own.kept()].T @ right), half @ half.T, own)


def covariance_of(information):
    """(n, n): the covariance of normal equations; zero in directions that are rounding."""
    scale = column_scale(np.diagonal(information))
    outer = np.outer(scale, scale)
    if (found := _regular_inverse(information * outer)) is not None:
        return found * outer
    half = spectrum(information).half_inverse()
    return half @ half.T


def _regular_inverse(information):
    """By Cholesky factors, several times faster than eigenvectors. None where a direction may be rounding:
    Frobenius norms are no less than the largest eigenvalues."""
    from scipy.linalg.lapack import dpotrf, dpotri  # 0.1 s that a node need not wait

    root, failed = dpotrf(information, lower=True)
    if failed or not len(information):
        return None
    lower = dpotri(root, lower=True)[0]  # zero above the diagonal, as the root is
    found = lower + lower.T
    np.fill_diagonal(found, np.diagonal(lower))
    condition = np.linalg.norm(found) * np.linalg.norm(information)
    return found if condition * RANK < SURE else None


def solve_definite_scaled(H, right):
    """H^-1 right of a positive H (n, n); directions that are rounding hardly change."""
    scale = column_scale(np.diagonal(H))
    scaled = H * np.outer(scale, scale) + 1e-14 * np.eye(len(H))
    return scale * np.linalg.solve(scaled, scale * right)


def nuisance_fit(S, nuisance, others, squares, tolerance):
    """B (..., nuisance, others), how the columns `nuisance` of normal equations S (..., n, n) explain the
    others best, and (...,) how many of them are independent. squares (..., n): of the columns before others
    were eliminated; what is below `tolerance` of these is rounding."""
    own = spectrum(S[..., nuisance[:, None], nuisance], column_scale(squares[..., nuisance]))
    kept = own.values > tolerance
    root = np.where(kept, 1.0 / np.sqrt(np.where(kept, own.values, 1.0)), 0.0)
    half = own.directions * own.scale[..., None] * root[..., None, :]
    return half @ (np.swapaxes(half, -1, -2) @ S[..., nuisance[:, None], others]), kept.sum(axis=-1)


def inflation(scores, information, spread, tolerance=RANK) -> float:
    """How many rows say what one says that is independent of the others, at least 1.

    Rows close in time say nearly the same where residuals are an error of the model, or noise that lasts. The
    scores W^T (tau - W x) of independent rows vary from group to group by as much as W^T W says, and those of
    dependent rows by more; how much more, averaged over all directions, is the inflation of the variance (a
    cluster-robust covariance: Liang, Zeger 1986). scores (groups, n); information (n, n): W^T W of all rows;
    spread: standard deviation of the residuals."""
    half = spectrum(information).half_inverse(tolerance)
    groups, rank = len(scores), half.shape[1]
    if groups < 2 or not rank:
        return 1.0
    squares = np.sum((scores @ half) ** 2) / (rank * spread**2)
    return max(1.0, float(squares) * groups / (groups - 1.0))


def named_in(directions, names, share) -> tuple[str, ...]:
    """Names of the coordinates that exceed a share of one of the unit directions (n, k)."""
    largest = np.abs(directions).max(axis=1, initial=0.0)
    return tuple(name for name, size in zip(names, largest, strict=True) if size > share)
