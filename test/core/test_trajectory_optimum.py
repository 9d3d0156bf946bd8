"""The optimum and its covariance, by every solver: against dense linear algebra, and Kalman's filter for a chain."""

import dense_trajectory as dense
import numpy as np
import pytest
from tolerances import OPTIMUM, SPREAD, error
from trajectories import CASES, DT, chain

from dynamics_node.trajectory import BatchSolver, FixedLag


def assert_same(steps, right, tolerance=OPTIMUM):
    for variable in right.graph.variables:
        assert error(steps[variable.name].ravel(), right[variable.name].ravel()) <= tolerance, variable.name


def numbers(steps, k):
    """The arguments of `append` for a step."""
    names = [*steps.graph.data, *(name for name in steps.graph.row if name.startswith("weights "))]
    return {name: steps[name][k] for name in names}


@pytest.mark.parametrize("backend", ["numpy", "c"])
@pytest.mark.parametrize("name", CASES)
def test_optimum_agrees_with_dense_algebra(name, backend):
    steps, prior = CASES[name]()
    right = dense.solve(steps, prior)
    solver = BatchSolver(steps.graph, backend)
    solution = solver.solve(steps, prior)
    assert_same(solution.steps, right)
    assert solution.cost == pytest.approx(dense.cost(right, prior), rel=OPTIMUM)
    assert dense.violation(solution.steps) <= 1e-12 and solution.exact <= 1e-12
    for factor in steps.graph.weighted:
        assert error(solution.squares[factor.name], dense.squares(right, factor)) <= 1e3 * OPTIMUM
    by_solver, P = solver.covariance(right, prior), dense.covariance(right, prior)
    assert error(by_solver, P, tail=3) <= SPREAD


@pytest.mark.parametrize("name", CASES)
def test_fixed_lag_is_optimal_after_every_step(name):
    """After every step the window is optimal, with a prior linearized at marginalization."""
    steps, known = CASES[name]()
    graph, window = steps.graph, 4
    lag, right = FixedLag(graph, window, known, "numpy", tolerance=1e-9, iterations=60), steps
    for k in range(9):
        lag.append(**numbers(steps, k))
        if k >= window:
            known = dense.marginalized(right, known)
        right = dense.solve(lag.steps, known)
        assert_same(lag.steps, right)
    assert error(lag.covariance(), dense.covariance(right, known), tail=3) <= SPREAD


def test_batch_converges_from_zero():
    """At zero most readings look like outliers, and the constraints are strongly nonlinear."""
    steps, prior = CASES["cauchy"]()
    right = dense.solve(steps, prior)
    for variable in steps.graph.variables:
        steps[variable.name][:] = 0.0
    assert_same(BatchSolver(steps.graph, "numpy").solve(steps, prior, iterations=100).steps, right)


def test_dense_solution_agrees_with_kalman_smoother():
    """The linear chain by the Rauch-Tung-Striebel smoother."""
    steps, prior = chain()
    means, covariances = kalman(steps, prior)
    right = dense.solve(steps, prior)
    solution = np.concatenate([right["p"], right["v"]], axis=1)
    assert error(solution.ravel(), means.ravel()) <= 1e-10
    assert error(dense.covariance(right, prior), covariances, tail=3) <= 1e-9


def kalman(steps, prior):
    """Means (count, 2) and covariances (count, 2, 2). p' = p + h v + h w / 2 + noise, where v' = v + w."""
    F, L = np.array([[1.0, DT], [0.0, 1.0]]), np.array([[1.0, DT / 2], [0.0, 1.0]])
    Q = L @ np.diag([1e-4, 2e-3]) @ L.T
    x, P = np.array([prior.values["p"][0], prior.values["v"][0]]), np.linalg.inv(prior.information)
    filtered, predicted = [], []
    for y in steps["y"][:, 0]:
        predicted.append((x, P))
        K = P[:, 0] / (P[0, 0] + 1e-3)
        x, P = x + K * (y - x[0]), P - np.outer(K, P[0])
        filtered.append((x, P))
        x, P = F @ x, F @ P @ F.T + Q
    smoothed = [filtered[-1]]
    for (x, P), (x_next, P_next) in zip(filtered[-2::-1], predicted[:0:-1], strict=True):
        G = P @ F.T @ np.linalg.inv(P_next)
        after, spread = smoothed[-1]
        smoothed.append((x + G @ (after - x_next), P + G @ (spread - P_next) @ G.T))
    means, covariances = zip(*smoothed[::-1], strict=True)
    return np.array(means), np.array(covariances)
