"""Least squares under exact equations, against rational arithmetic."""

from fractions import Fraction

import numpy as np
import pytest

from dynamics_node.graph.sensor_fusion import determined_by, solve, space

n = 7


def in_fractions(E, e, N, r):
    """z and its covariance from the Karush-Kuhn-Tucker system, by Gauss-Jordan elimination without rounding."""
    E, e, N, r = (np.vectorize(Fraction, otypes=[object])(array) for array in (E, e, N, r))
    size = n + len(E)
    system = np.full((size, size + 1 + size), Fraction(0), dtype=object)
    system[:n, :n], system[:n, n:size] = N.T @ N, E.T
    system[n:, :n] = E
    system[:n, size], system[n:, size] = N.T @ r, e
    system[np.arange(size), size + 1 + np.arange(size)] = Fraction(1)
    for k in range(size):
        row = k + int(np.argmax(system[k:, k] != 0))
        system[[k, row]] = system[[row, k]]
        system[k] = system[k] / system[k, k]
        for other in range(size):
            if other != k and system[other, k] != 0:
                system[other] = system[other] - system[other, k] * system[k]
    return system[:n, size].astype(float), system[:n, size + 1 : size + 1 + n].astype(float)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    ("exact", "noisy", "spread"), [(3, 9, 0), (3, 9, 5), (0, 7, 5), (7, 4, 2), (2, 30, 5)]
)
def test_against_fractions(exact, noisy, spread, seed):
    """Rows, columns and weights of very different sizes. spread: decades of weights."""
    random = np.random.default_rng(seed)
    columns = 10.0 ** random.uniform(-2, 2, n)
    E, N = random.normal(size=(exact, n)) * columns, random.normal(size=(noisy, n)) * columns
    weights = 10.0 ** random.uniform(-spread, spread, noisy)
    e, r = random.normal(size=exact), weights * random.normal(size=noisy)
    N = N * weights[:, None]
    subspaces = space(E, N)
    assert (subspaces.exact_rank, subspaces.rank, subspaces.open.shape[1], subspaces.repeated.shape[1]) == (
        exact,
        n,
        0,
        0,
    )
    solution = solve(E, e, N, r, subspaces)
    z, covariance = in_fractions(E, e, N, r)
    np.testing.assert_allclose(
        solution.z * columns, z * columns, rtol=0, atol=1e-9 * np.abs(z * columns).max()
    )
    both = np.outer(columns, columns)
    allowed = 1e-9 * np.abs(covariance * both).max()
    np.testing.assert_allclose(
        solution.root @ solution.root.T * both, covariance * both, rtol=0, atol=allowed
    )
    np.testing.assert_allclose(E @ solution.z, e, rtol=0, atol=1e-11 * max(1.0, np.abs(e).max(initial=0.0)))
    size = np.abs(r).max()
    np.testing.assert_allclose(solution.residual, r - N @ z, rtol=0, atol=1e-9 * size)
    free = r - N @ (subspaces.particular @ e)
    np.testing.assert_allclose(
        solution.residual, free - solution.hat @ (solution.hat.T @ free), rtol=0, atol=1e-9 * size
    )


@pytest.mark.parametrize("seed", range(3))
def test_open_and_repeated_directions(seed):
    random = np.random.default_rng(seed)
    E = random.normal(size=(3, n))
    N = np.concatenate([E[:1] + 0.0, random.normal(size=(2, n))])
    subspaces = space(np.concatenate([E, E[:1] - 2 * E[1:2]]), 1e6 * N)
    assert subspaces.exact_rank == 3 and subspaces.rank == 5 and subspaces.open.shape == (n, 2)
    assert subspaces.repeated.shape == (4, 1)
    np.testing.assert_allclose(np.concatenate([E, N]) @ subspaces.open, 0, atol=1e-12)
    assert abs(subspaces.repeated[2, 0]) < 1e-12 and np.all(np.abs(subspaces.repeated[[0, 1, 3], 0]) > 1e-3)
    rows = random.normal(size=(4, n))
    assert determined_by(rows, subspaces) == 2
    assert determined_by(rows[:1], subspaces) == 1
    assert determined_by(np.concatenate([E, N]), subspaces) == 0
