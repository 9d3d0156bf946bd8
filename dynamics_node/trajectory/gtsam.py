"""Trajectories by GTSAM: Levenberg and Marquardt, a fixed-lag smoother, ISAM2. The route of paper 2, and an
independent check of our own elimination.

Exact factors are constraints of the linear systems, which GTSAM eliminates by QR, again and again until no
step changes any more. Its own optimisers stop at errors of 1e-2 to 1e-4 with them; with a small variance in
their place and its default, Cholesky, they may return what they began with.
"""

import numpy as np

from dynamics_node.graph.gtsam import require_gtsam
from dynamics_node.symbolic import interpret
from dynamics_node.trajectory.batch import Solution, total_cost
from dynamics_node.trajectory.errors import TrajectoryError
from dynamics_node.trajectory.factor import factor_program
from dynamics_node.trajectory.graph import Prior, Steps, TrajectoryGraph, weights_of
from dynamics_node.trajectory.gtsam_factors import Window, known_by, softness
from dynamics_node.trajectory.gtsam_newton import GaussNewton, nonlinear_graph
from dynamics_node.trajectory.gtsam_programs import factor_variables


class GtsamBatch:
    """As Batch: GTSAM's LevenbergMarquardtOptimizer, for which exact factors have a small variance, then
    Gauss-Newton with constraints. Raises ImportError without GTSAM."""

    def __init__(self, graph: TrajectoryGraph):
        require_gtsam()
        self.graph = graph

    def solve(self, steps: Steps, prior: Prior, iterations=50, tolerance=1e-9, observable=True) -> Solution:
        """As Batch.solve."""
        window = Window(steps.copy(), known_by(self.graph, prior))
        newton, made = GaussNewton(window), _marquardt(window, iterations)
        try:
            made += newton.run(iterations, tolerance)
            if observable:
                newton.refuse_weak()
        except TrajectoryError as error:
            error.solution = _solution(window, prior, made)
            raise
        return _solution(window, prior, made)

    def covariance(self, steps: Steps, prior: Prior) -> np.ndarray:
        """As Batch.covariance."""
        return GaussNewton(Window(steps.copy(), known_by(self.graph, prior))).covariance()


def _marquardt(window, iterations):
    """Iterations that were made; the steps are near the optimum then."""
    gtsam = require_gtsam()
    params = gtsam.LevenbergMarquardtParams()
    params.setLinearSolverType("MULTIFRONTAL_QR")
    params.setMaxIterations(iterations)
    graph = nonlinear_graph(window, softness(window.steps))
    optimizer = gtsam.LevenbergMarquardtOptimizer(graph, window.still(range(len(window.steps))), params)
    window.move(optimizer.optimize().atVector)
    return optimizer.iterations()


def _solution(window, prior, iterations):
    steps, graph = window.steps, window.steps.graph
    squares = {factor.name: _squares(steps, factor) for factor in graph.weighted}
    cost = total_cost(graph, np.transpose(list(squares.values()))) + prior.cost(graph, steps)
    exact = max((np.abs(_errors(steps, factor)).max() for factor in graph.exact), default=0.0)
    return Solution(steps, cost, squares, float(exact), iterations)


def _squares(steps, factor):
    """(count,): squared errors over the variances; the last step has none towards a next one."""
    squares = (steps[weights_of(factor.name)] * _errors(steps, factor) ** 2).sum(axis=1)
    return squares * (np.arange(len(steps)) < len(steps) - 1) if factor.after else squares


def _errors(steps, factor):
    """(count, rows)"""
    following = np.minimum(np.arange(len(steps)) + 1, len(steps) - 1)
    given = {argument: steps[name][following if k else slice(None)] for name, k, argument in factor.variables}
    given |= {name: steps[name] for name in factor.data}
    program = factor_program(factor, factor_variables(factor, steps.graph.variables))
    return interpret(program, **given)["residual"]
