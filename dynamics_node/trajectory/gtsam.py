"""Trajectories by GTSAM: Levenberg and Marquardt, a fixed-lag smoother, ISAM2. The route of paper 2, and an
independent check of our own elimination.

Exact factors are constraints of the linear systems, which GTSAM eliminates by QR, again and again until no
step changes any more. Its own optimisers stop at errors of 1e-2 to 1e-4 with them; with a small variance in
their place and its default, Cholesky, they may return what they began with.
"""

import numpy as np

from dynamics_node.numeric.gtsam import require_gtsam
from dynamics_node.program import interpret
from dynamics_node.trajectory.batch import Solution, total_cost
from dynamics_node.trajectory.errors import NotConverged, TrajectoryError
from dynamics_node.trajectory.factor import factor_program
from dynamics_node.trajectory.fixed_lag import FixedLag
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

    def solve(self, steps: Steps, prior: Prior, iterations=50, tolerance=1e-9) -> Solution:
        """As Batch.solve."""
        window = Window(steps.copy(), known_by(self.graph, prior))
        newton, made = GaussNewton(window), _marquardt(window, iterations)
        try:
            made += newton.run(iterations, tolerance)
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
    window.move(optimizer.optimizeSafely().atVector)
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


class GtsamFixedLag(FixedLag):
    """As FixedLag. The oldest step is eliminated by GTSAM too. Raises ImportError without GTSAM."""

    def __init__(self, graph: TrajectoryGraph, window: int, prior: Prior, tolerance=1e-7, iterations=15):
        require_gtsam()
        if window < 2:
            raise ValueError(f"a window of GTSAM's has two steps or more, not {window}")
        super().__init__(graph, window, prior, tolerance=tolerance, iterations=iterations)
        self._known = known_by(graph, prior)

    def solve(self) -> int:
        """As FixedLag.solve."""
        return self._newton.run(self.iterations, self.tolerance)

    def covariance(self) -> np.ndarray:
        """As FixedLag.covariance."""
        return self._newton.covariance()

    def _begin(self, count):
        self._count = count
        self._sweeps = Window(Steps(self.graph, self._rows[: count + 1]), self._known)
        self._newton = GaussNewton(self._sweeps)

    def _forget(self):
        self._known = self._sweeps.known = self._newton.forgotten()
        self._rows[:-2] = self._rows[1:-1]


class Isam2(FixedLag):
    """A trajectory that grows, by gtsam.ISAM2. `append` is as of FixedLag, but nothing is forgotten: most is
    how many steps there may be; and what a step was told when the next one came stays as it is. tolerance: of
    a change since a variable was linearised. Raises ImportError without GTSAM."""

    def __init__(self, graph: TrajectoryGraph, most: int, prior: Prior, tolerance=1e-7, iterations=50):
        gtsam = require_gtsam()
        super().__init__(graph, most, prior, tolerance=tolerance, iterations=iterations)
        params = gtsam.ISAM2Params()
        params.setFactorization("QR")
        params.setRelinearizeThreshold(tolerance)
        params.relinearizeSkip = 1
        self._isam = gtsam.ISAM2(params)
        self._known = known_by(graph, prior)
        self._told = Window(Steps(graph, self._rows[:1]), self._known)  # where the steps were when they came

    def solve(self) -> int:
        """Updates that were made until no variable was linearised again. Raises NotConverged."""
        factors, values = self._new()
        self._isam.update(factors, values)
        made = again = 1
        while again and made < self.iterations:
            again, made = self._isam.update().getVariablesRelinearized(), made + 1
        self.steps.rows[:-1] = self._told.steps.rows[:-1]
        self._sweeps.move(self._isam.calculateBestEstimate().atVector)
        if again:
            raise NotConverged(f"after {made} updates ISAM2 still linearises {again} variables again")
        return made

    def covariance(self) -> np.ndarray:
        """As FixedLag.covariance."""
        return GaussNewton(Window(self.steps, self._known)).covariance()

    def _new(self):
        """gtsam.NonlinearFactorGraph and gtsam.Values of steps that ISAM2 does not know."""
        before = len(self._told.steps)
        self._told.steps = Steps(
            self.graph, np.vstack([self._told.steps.rows[:before], self.steps.rows[before:]])
        )
        factors = require_gtsam().NonlinearFactorGraph()
        for step in range(before, len(self)):
            came = self._told.links(step - 1) if step else [self._told.first()]
            for factor in (*came, *self._told.factors(step)):
                factors.push_back(factor)
        return factors, self._told.still(range(before, len(self)))

    def _begin(self, count):
        self._count = count
        self._sweeps = Window(Steps(self.graph, self._rows[: count + 1]), self._known)

    def _forget(self):
        raise ValueError(f"there is room for {self.window} steps")
