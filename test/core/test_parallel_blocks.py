"""Scans against sequential recursions, block tri-diagonal solves against dense ones."""

import numpy as np
import pytest

from dynamics_node.chains.scans import Bidiagonal, Matrices, Poses, Same, from_root, rounds
from dynamics_node.chains.tridiagonal import WAYS, inverse_factor
from dynamics_node.symbolic import motion_transform

PARENTS = {
    "one": [-1],
    "chain": list(range(-1, 12)),
    "tree": [-1, 0, 0, 1, 1, 2, 2, 3, 7, 8, 4, -1, 11],
    "star": [-1, 0, 0, 0, 0],
    "roots": [-1, -1, -1],
}


def poses(random, n):
    R = np.linalg.qr(random.normal(size=(2, n, 3, 3)))[0]
    R *= np.sign(np.linalg.det(R))[..., None, None]
    return Poses(np, R, random.normal(size=(2, n, 3)))


def elements(kind, random, n):
    """The elements and their matrices."""
    if kind == "poses":
        own = poses(random, n)
        return own, motion_transform(np.swapaxes(own.R, -1, -2), own.t)
    if kind == "same":
        return Same(np), np.broadcast_to(np.eye(6), (2, n, 6, 6))
    X = random.normal(size=(2, n, 6, 6)) / 3
    return Matrices(np, X), X


@pytest.mark.parametrize("kind", ["poses", "matrices", "same"])
@pytest.mark.parametrize("parents", PARENTS.values(), ids=PARENTS)
def test_scans_agree_with_recursions(kind, parents):
    random, n = np.random.default_rng(0), len(parents)
    own, X = elements(kind, random, n)
    c = random.normal(size=(2, n, 6))
    forward, backward, local, handed = c.copy(), c.copy(), np.zeros_like(c), np.zeros_like(c)
    for i, parent in enumerate(parents):
        if parent >= 0:
            forward[:, i] += (X[:, i] @ forward[:, parent, :, None])[..., 0]
            local[:, i] = (X[:, i] @ c[:, parent, :, None])[..., 0]
            handed[:, parent] += (np.swapaxes(X[:, i], -1, -2) @ c[:, i, :, None])[..., 0]
    for i in reversed(range(n)):
        if parents[i] >= 0:
            backward[:, parents[i]] += (np.swapaxes(X[:, i], -1, -2) @ backward[:, i, :, None])[..., 0]
    scan, given = Bidiagonal(own, parents), c.copy()
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


def test_placements_from_the_root():
    random, parents = np.random.default_rng(1), PARENTS["tree"]
    own = poses(random, len(parents))
    poses_from_root, R, t = from_root(own, parents), own.R.copy(), own.t.copy()
    for i, parent in enumerate(parents):
        if parent >= 0:
            t[:, i] = t[:, parent] + (R[:, parent] @ t[:, i, :, None])[..., 0]
            R[:, i] = R[:, parent] @ R[:, i]
    np.testing.assert_allclose(poses_from_root.R, R, atol=1e-14)
    np.testing.assert_allclose(poses_from_root.t, t, atol=1e-13)


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


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17, 31, 33])
def test_tridiagonal_solves_agree_with_the_dense_solve(way, n):
    D, U, r, A = system(np.random.default_rng(n), n, 5)
    solve, given = WAYS[way](np, D, U), (D.copy(), U.copy(), r.copy())
    for right in (r, r[:, ::-1]):
        expected = np.linalg.solve(A, right.reshape(2, -1, 1)).reshape(r.shape)
        assert np.abs(solve(right) - expected).max() <= 1e-12 * np.abs(expected).max()
    assert all(np.array_equal(a, b) for a, b in zip((D, U, r), given, strict=True))


@pytest.mark.parametrize("way", WAYS)
def test_tridiagonal_solves_keep_float32(way):
    D, U, r, A = system(np.random.default_rng(3), 20, 3, np.float32)
    expected = np.linalg.solve(A, r.reshape(2, -1, 1).astype(float)).reshape(r.shape)
    solution = WAYS[way](np, D, U)(r)
    assert solution.dtype == np.float32
    assert np.abs(solution - expected).max() <= 1e-4 * np.abs(expected).max()


def test_indefinite_blocks_give_nan():
    A = np.array([np.eye(4), np.diag([1.0, -1.0, 1.0, 1.0])])
    with np.errstate(invalid="ignore"):
        N = inverse_factor(np, A)
    assert np.array_equal(N[0], np.eye(4)) and np.isnan(N[1]).any()
