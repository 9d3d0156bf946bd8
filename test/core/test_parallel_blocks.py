"""Scans against sequential recursions, block tri-diagonal solves against dense ones."""

import numpy as np
import pytest

from dynamics_node.chains.tree_scan import TreeScan, rounds
from dynamics_node.chains.tridiagonal import CFA_ORDERINGS, inverse_factor

PARENTS = {
    "one": [-1],
    "chain": list(range(-1, 12)),
    "tree": [-1, 0, 0, 1, 1, 2, 2, 3, 7, 8, 4, -1, 11],
    "star": [-1, 0, 0, 0, 0],
    "roots": [-1, -1, -1],
}


@pytest.mark.parametrize("columns", [1, 3])
@pytest.mark.parametrize("parents", PARENTS.values(), ids=PARENTS)
def test_scans_agree_with_recursions(columns, parents):
    random, n = np.random.default_rng(0), len(parents)
    X, c = random.normal(size=(2, n, 6, 6)) / 3, random.normal(size=(2, n, 6, columns))
    X[:, np.array(parents) < 0] = 0
    forward, backward, local, handed = c.copy(), c.copy(), np.zeros_like(c), np.zeros_like(c)
    for i, parent in enumerate(parents):
        if parent >= 0:
            forward[:, i] += X[:, i] @ forward[:, parent]
            local[:, i] = X[:, i] @ c[:, parent]
            handed[:, parent] += np.swapaxes(X[:, i], -1, -2) @ c[:, i]
    for i in reversed(range(n)):
        if parents[i] >= 0:
            backward[:, parents[i]] += np.swapaxes(X[:, i], -1, -2) @ backward[:, i]
    scan, given = TreeScan(X, parents), c.copy()
    for result, expected in (
        (scan.forward(c), forward), (scan.backward(c), backward),
        (scan.inherited(c), local), (scan.child_sums(c), handed),
    ):  # fmt: skip
        np.testing.assert_allclose(result, expected, rtol=0, atol=1e-13 * max(1, np.abs(expected).max()))
    assert np.array_equal(c, given)


def test_rounds_are_logarithmic():
    assert [len(rounds(tuple(range(-1, n - 1)))) for n in (1, 2, 3, 4, 5, 8, 9, 256, 257)] == [
        *(0, 1, 2, 2, 3, 3, 4, 8, 9)
    ]


def system(random, n, k, dtype=float):
    """D, U, r and the dense matrices (2, n k, n k)."""
    A = np.zeros((2, n * k, n * k))
    for i in range(n):
        at = slice(i * k, min((i + 2) * k, n * k))
        B = random.normal(size=(2, at.stop - at.start, 3 * k))
        A[:, at, at] += B @ np.swapaxes(B, -1, -2)
    D = np.stack([A[:, i * k : (i + 1) * k, i * k : (i + 1) * k] for i in range(n)], axis=1)
    U = [A[:, i * k : (i + 1) * k, (i + 1) * k : (i + 2) * k] for i in range(n - 1)]
    U = np.stack(U, axis=1) if U else np.zeros((2, 0, k, k))
    return D.astype(dtype), U.astype(dtype), random.normal(size=(2, n, k)).astype(dtype), A


@pytest.mark.parametrize("ordering", CFA_ORDERINGS)
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17, 31, 33])
def test_tridiagonal_solves_agree_with_the_dense_solve(ordering, n):
    D, U, r, A = system(np.random.default_rng(n), n, 5)
    solve, given = CFA_ORDERINGS[ordering](np, D, U), (D.copy(), U.copy(), r.copy())
    for right in (r, r[:, ::-1]):
        expected = np.linalg.solve(A, right.reshape(2, -1, 1)).reshape(r.shape)
        assert np.abs(solve(right) - expected).max() <= 1e-12 * np.abs(expected).max()
    assert all(np.array_equal(a, b) for a, b in zip((D, U, r), given, strict=True))


@pytest.mark.parametrize("ordering", CFA_ORDERINGS)
def test_tridiagonal_solves_keep_float32(ordering):
    D, U, r, A = system(np.random.default_rng(3), 20, 3, np.float32)
    expected = np.linalg.solve(A, r.reshape(2, -1, 1).astype(float)).reshape(r.shape)
    solution = CFA_ORDERINGS[ordering](np, D, U)(r)
    assert solution.dtype == np.float32
    assert np.abs(solution - expected).max() <= 1e-4 * np.abs(expected).max()


def test_indefinite_blocks_give_nan():
    A = np.array([np.eye(4), np.diag([1.0, -1.0, 1.0, 1.0])])
    with np.errstate(invalid="ignore"):
        N = inverse_factor(np, A)
    assert np.array_equal(N[0], np.eye(4)) and np.isnan(N[1]).any()
