"""Elimination by GTSAM of the factor graph of dynamics and of sensor problems: an independent check of this
package's own elimination.
"""

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from dynamics_node.errors import InputError
from dynamics_node.graph.by_numpy import by_states, graph_at, refined, results_at
from dynamics_node.graph.contact_factors import leaning_wheels
from dynamics_node.graph.factor_graph import FactorGraph
from dynamics_node.graph.ordering import (
    Ordering,
    custom_ordering,
    generic_graph,
    ordering_of,
    require_determined_forces,
)
from dynamics_node.graph.sensor_system import recursion_order, sensor_system, sensor_values
from dynamics_node.optional import required
from dynamics_node.robot import Problem, Robot
from dynamics_node.robot.sensor_problem import RESULTS, SensorProblem

TERMS = 3  # limit of JacobianFactor's Python constructor; partial sums are eliminated first
REFINEMENTS = 2  # against rounding near right angles and constraints


def require_gtsam():
    """The gtsam module. Raises ImportError with the command to install it."""
    return required("gtsam", "backend 'gtsam'")


@dataclass(frozen=True, eq=False)
class GtsamElimination:
    """GaussianFactorGraph::eliminateSequential in a given Ordering, one state at a time.

    Every factor has constrained noise: with unit noise some orderings are indeterminate and others lose half
    of the digits. Iterative refinement restores digits lost near right angles.
    """

    robot: Robot
    problem: Problem
    ordering: Ordering

    @property
    def description(self):
        return f"{self.ordering.name} (gtsam)"

    def __call__(self, q, **arrays):
        """{'qdd', 'tau'}, both complete; with contacts 'contact_forces'. arrays: as in `graph_at`."""
        return by_states(self._at, q, **arrays)

    def _at(self, **state):
        graph = graph_at(self.robot, self.problem, **state)
        try:
            values = refined(graph, partial(solve_with_gtsam, ordering=self.ordering))
        except RuntimeError:  # IndeterminantLinearSystemException
            shapes = dict.fromkeys(("qdd", "tau"), (self.robot.nv,)) | self.problem.returns(self.robot)
            return {name: np.full(shape, np.nan) for name, shape in shapes.items()}
        return results_at(self.robot, self.problem, values, **state)


def gtsam_elimination(robot, problem, ordering):
    """The elimination in an ordering; 'best' is COLAMD here, the default of GTSAM. Raises SingularPivotError
    for redundant contacts."""
    require_gtsam()
    graph = generic_graph(robot, problem)
    require_determined_forces(problem, graph)
    if isinstance(ordering, str):
        name = "colamd" if ordering == "best" else ordering
        return GtsamElimination(robot, problem, ordering_of(name, robot, problem, graph))
    return GtsamElimination(robot, problem, custom_ordering(ordering, graph))


def solve_with_gtsam(graph: FactorGraph, ordering: Ordering):
    """variable -> value, of a graph at one state."""
    return _solved(constrained(graph), ordering.variables)


def _solved(factors, order):
    """{variable: value} of (factor, noise model), see `gaussian_graph`."""
    gaussian, elimination, keys = gaussian_graph(factors, order)
    solution = gaussian.eliminateSequential(elimination).optimize()
    return {x: np.atleast_1d(solution.at(key)) for x, key in keys.items()}


def constrained(graph: FactorGraph):
    """(factor, noise model) of a graph whose rows are exact."""
    constrained = require_gtsam().noiseModel.Constrained
    return [(factor, constrained.All(factor.rows)) for factor in graph.factors]


def gaussian_graph(factors, order):
    """gtsam.GaussianFactorGraph of (factor, noise model) at one state, gtsam.Ordering of partial sums and
    then the variables `order`, and {variable: key}."""
    gtsam = require_gtsam()
    keys = {x: key for key, x in enumerate(dict.fromkeys(x for factor, _ in factors for x in factor.blocks))}
    gaussian, elimination, partial_sums = gtsam.GaussianFactorGraph(), gtsam.Ordering(), len(keys)
    for factor, noise in factors:
        terms = [(keys[x], block) for x, block in factor.blocks.items()]
        rhs = factor.rhs
        exact = gtsam.noiseModel.Constrained.All(factor.rows)
        while len(terms) > TERMS:  # A1 x1 + ... = b  ->  A1 x1 + A2 x2 - s = 0,  s + A3 x3 + ... = b
            _add(gtsam, gaussian, [*terms[: TERMS - 1], (partial_sums, -np.eye(factor.rows))], 0 * rhs, exact)
            terms = [(partial_sums, np.eye(factor.rows)), *terms[TERMS - 1 :]]
            elimination.push_back(partial_sums)
            partial_sums += 1
        _add(gtsam, gaussian, terms, rhs, noise)
    for x in order:
        elimination.push_back(keys[x])
    return gaussian, elimination, keys


def _add(gtsam, gaussian, terms, rhs, noise):
    flat = [argument for key, block in terms for argument in (key, np.asfortranarray(block))]
    gaussian.add(gtsam.JacobianFactor(*flat, rhs, noise))


@dataclass(frozen=True, eq=False)
class GtsamLeastSquares:
    """GaussianFactorGraph::eliminateSequential in the order of the recursions (COLAMD loses four digits
    more), with constrained noise for exact rows; one state at a time. It has no covariances. Raises
    ValueError if the problem requests them, ImportError without GTSAM."""

    robot: Robot
    problem: SensorProblem
    description = "least squares (gtsam)"

    def __post_init__(self):
        require_gtsam()
        if self.problem.covariance:
            raise InputError("backend 'gtsam' has no covariances: choose 'numpy', or request none")

    def __call__(self, q, qd, readings, gravity=None):
        """The same as SensorLeastSquares."""
        states = [
            self._one(q[k], qd[k], readings[k], gravity[k] if np.ndim(gravity) == 2 else gravity)
            for k in range(len(q))
        ]
        names = self.problem.returns(self.robot)
        return {name: np.array([state[name] for state in states]) for name in names}

    def _one(self, q, qd, readings, gravity):
        system = sensor_system(self.robot, self.problem, q, qd, readings, gravity)
        values = None if leaning_wheels(system.contacts) else _optimum(system)
        if values is None:
            return {k: np.full(shape, np.nan) for k, shape in self.problem.returns(self.robot).items()}
        results = dict(zip(RESULTS, sensor_values(self.robot, system, values), strict=True))
        left = [factor.given(values).rhs for factor in system.noisy]
        by_label = dict(zip(sum(system.labels, ()), np.concatenate([np.zeros(0), *left]), strict=True))
        results["residuals"] = np.array([by_label.get(label, 0.0) for label in self.problem.readings])
        pairs = zip(left, system.covariances, strict=True)
        results["chi_square"] = sum(r @ np.linalg.solve(covariance, r) for r, covariance in pairs)
        return results


def _optimum(system):
    """{variable: value}, refined; None if the system is under-determined."""
    gtsam = require_gtsam()
    noises = [gtsam.noiseModel.Constrained.All(factor.rows) for factor in system.exact]
    noises += [gtsam.noiseModel.Unit.Create(factor.rows) for factor in system.noisy]
    factors = [*system.exact, *map(_weighted, system.noisy, system.covariances)]
    order = sorted(system.variables, key=recursion_order)
    values = {x: np.zeros(x.dim) for x in order}
    for _ in range(1 + REFINEMENTS):
        left = [replace(factor, rhs=factor.given(values).rhs) for factor in factors]
        try:
            step = _solved([pair for pair in zip(left, noises, strict=True) if pair[0].blocks], order)
        except RuntimeError:  # IndeterminantLinearSystemException
            return None
        values = {x: value + step[x] for x, value in values.items()}
    return values


def _weighted(factor, covariance):
    """The rows in standard deviations: GTSAM has no correlated noise model for factors from Python."""
    W = np.linalg.inv(np.linalg.cholesky(covariance))
    blocks = {x: W @ block for x, block in factor.blocks.items()}
    return replace(factor, blocks=blocks, rhs=W @ factor.rhs)
