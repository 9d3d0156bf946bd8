"""Sensor problems by GTSAM: the second route, and an independent check."""

from dataclasses import dataclass, replace

import numpy as np

from dynamics_node.graph.gtsam import gaussian_factors, require_gtsam
from dynamics_node.graph.reduced import recursion_order
from dynamics_node.graph.sensor_system import sensor_system, sensor_values
from dynamics_node.robot import Robot
from dynamics_node.robot.sensor_problem import RESULTS, SensorProblem

REFINEMENTS = 2  # what rounding beside right angles and constraints costs


@dataclass(frozen=True, eq=False)
class GtsamLeastSquares:
    """GaussianFactorGraph::eliminateSequential in the order of the recursions (COLAMD's loses four digits
    more), constrained noise for what is exact; one state at a time. It has no covariances: raises ValueError
    where they are asked for, ImportError without GTSAM."""

    model: Robot
    problem: SensorProblem
    description = "least squares (gtsam)"

    def __post_init__(self):
        require_gtsam()
        if self.problem.covariance:
            raise ValueError("backend 'gtsam' has no covariances: choose 'numpy', or ask for none")

    def with_inertias(self, model):
        """The same for a robot of other inertias or rotor inertias."""
        return replace(self, model=model)

    def __call__(self, q, qd, readings, gravity=None):
        """As of SensorLeastSquares."""
        states = [
            self._one(q[k], qd[k], readings[k], gravity[k] if np.ndim(gravity) == 2 else gravity)
            for k in range(len(q))
        ]
        names = self.problem.returns(self.model)
        return {name: np.array([state[name] for state in states]) for name in names}

    def _one(self, q, qd, readings, gravity):
        system = sensor_system(self.model, self.problem, q, qd, readings, gravity)
        values = _optimum(system)
        if values is None:
            return {k: np.full(shape, np.nan) for k, shape in self.problem.returns(self.model).items()}
        found = dict(zip(RESULTS, sensor_values(self.model, self.problem, values), strict=True))
        left = [factor.given(values).rhs for factor in system.noisy]
        by_label = dict(zip(sum(system.labels, ()), np.concatenate([np.zeros(0), *left]), strict=True))
        found["residuals"] = np.array([by_label.get(label, 0.0) for label in self.problem.readings])
        pairs = zip(left, system.covariances, strict=True)
        found["chi_square"] = sum(r @ np.linalg.solve(covariance, r) for r, covariance in pairs)
        return found


def _optimum(system):
    """{variable: value}, refined; None where GTSAM finds the system under-determined."""
    gtsam = require_gtsam()
    noises = [gtsam.noiseModel.Constrained.All(factor.rows) for factor in system.exact]
    noises += [gtsam.noiseModel.Unit.Create(factor.rows) for factor in system.noisy]
    factors = [*system.exact, *map(_weighted, system.noisy, system.covariances)]
    values = {x: np.zeros(x.dim) for x in system.variables}
    for _ in range(1 + REFINEMENTS):
        left = [replace(factor, rhs=factor.given(values).rhs) for factor in factors]
        step = _solved([pair for pair in zip(left, noises, strict=True) if pair[0].blocks], system.variables)
        if step is None:
            return None
        values = {x: value + step[x] for x, value in values.items()}
    return values


def _weighted(factor, covariance):
    """The rows in standard deviations: correlated noise is no model of GTSAM's for a factor from Python."""
    W = np.linalg.inv(np.linalg.cholesky(covariance))
    blocks = {x: W @ block for x, block in factor.blocks.items()}
    return replace(factor, blocks=blocks, rhs=W @ factor.rhs)


def _solved(factors, variables):
    """{variable: value} of (factor, noise model); None as above."""
    keys = {x: key for key, x in enumerate(variables)}
    graph, sums = gaussian_factors(factors, keys)
    order = require_gtsam().Ordering()
    for key in (*sums, *(keys[x] for x in sorted(variables, key=recursion_order))):
        order.push_back(key)
    try:
        solution = graph.eliminateSequential(order).optimize()
    except RuntimeError:  # IndeterminantLinearSystemException
        return None
    return {x: np.atleast_1d(solution.at(key)) for x, key in keys.items()}
