"""The factor graph eliminated by GTSAM: an independent check of our own elimination."""

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from dynamics_node.graph.factor_graph import FactorGraph, joint_values
from dynamics_node.graph.generic import generic_graph, ordering_of
from dynamics_node.graph.numeric_elimination import refined
from dynamics_node.graph.ordering import Ordering, custom_ordering
from dynamics_node.graph.robot_graph import build_graph
from dynamics_node.robot import Problem, Robot

MISSING = "backend 'gtsam' needs GTSAM >= 4.3: pip install 'gtsam>=4.3'"


def require_gtsam():
    """The gtsam module. Raises ImportError that says what to install."""
    try:
        import gtsam
    except ImportError as error:
        raise ImportError(f"{MISSING} ({error})") from None
    return gtsam


@dataclass(frozen=True, eq=False)
class GtsamElimination:
    """GaussianFactorGraph::eliminateSequential in a given Ordering, one state at a time.

    Every factor has constrained noise: with unit noise some orderings are indeterminate and others
    lose half of the digits. What others lose near right angles comes back by iterative refinement.
    """

    model: Robot
    problem: Problem
    ordering: Ordering

    def with_inertias(self, model):
        """The elimination for a Robot that differs in inertias or rotor inertias only."""
        return replace(self, model=model)

    @property
    def description(self):
        return f"{self.ordering.name} (gtsam)"

    def __call__(self, q, qd, qdd=None, tau=None, gravity=None, f_ext=None):
        """{'qdd', 'tau'}, both complete."""
        batch, zero = q.shape[:-1], np.zeros_like(qd)
        arrays = [(q, 1), (qd, 1), (zero if qdd is None else qdd, 1), (zero if tau is None else tau, 1)]
        arrays += [(f_ext, 2), (gravity, 1)]
        found = np.empty((2, *batch, self.model.nv))
        for state in np.ndindex(*batch):
            one = [_at(array, axes, batch, state) for array, axes in arrays]
            graph = build_graph(self.model, self.problem, *one)
            values = refined(graph, partial(solve_with_gtsam, ordering=self.ordering))
            found[(slice(None), *state)] = joint_values(self.model, values, *one[2:4])
        return {"qdd": found[0], "tau": found[1]}


def _at(array, axes, batch, state):
    """The array at one state of the batch; None stays None."""
    return (
        None if array is None else np.broadcast_to(array, (*batch, *array.shape[array.ndim - axes :]))[state]
    )


def gtsam_elimination(model, problem, ordering):
    """That of an ordering; 'best' is COLAMD here, which GTSAM's users take for granted."""
    require_gtsam()
    graph = generic_graph(model, problem)
    if isinstance(ordering, str):
        name = "colamd" if ordering == "best" else ordering
        return GtsamElimination(model, problem, ordering_of(name, model, problem, graph))
    return GtsamElimination(model, problem, custom_ordering(ordering, graph))


def solve_with_gtsam(graph: FactorGraph, ordering: Ordering):
    """variable -> value, of a graph at one state."""
    gaussian, order, keys = gaussian_graph(graph, ordering)
    solution = gaussian.eliminateSequential(order).optimize()
    return {x: np.atleast_1d(solution.at(key)) for x, key in keys.items()}


def gaussian_graph(graph: FactorGraph, ordering: Ordering):
    """gtsam.GaussianFactorGraph, gtsam.Ordering, and {variable: key}, of a graph at one state."""
    gtsam = require_gtsam()
    keys = {x: key for key, x in enumerate(graph.variables)}
    exact = [(factor, gtsam.noiseModel.Constrained.All(factor.rows)) for factor in graph.factors]
    gaussian, sums = gaussian_factors(exact, keys)
    order = gtsam.Ordering()
    for key in (*sums, *(keys[variable] for variable in ordering.variables)):
        order.push_back(key)
    return gaussian, order, keys


def gaussian_factors(factors, keys):
    """gtsam.GaussianFactorGraph of (factor, noise model) at one state, and the keys of partial sums, which
    come after `keys`, {variable: key}."""
    gtsam = require_gtsam()
    gaussian, partial_sums = gtsam.GaussianFactorGraph(), len(keys)
    for factor, noise in factors:
        terms = [(keys[x], block) for x, block in factor.blocks.items()]
        rhs = factor.rhs
        exact = gtsam.noiseModel.Constrained.All(factor.rows)
        while len(terms) > TERMS:  # A1 x1 + ... = b  ->  A1 x1 + A2 x2 - s = 0,  s + A3 x3 + ... = b
            _add(gtsam, gaussian, [*terms[: TERMS - 1], (partial_sums, -np.eye(factor.rows))], 0 * rhs, exact)
            terms = [(partial_sums, np.eye(factor.rows)), *terms[TERMS - 1 :]]
            partial_sums += 1
        _add(gtsam, gaussian, terms, rhs, noise)
    return gaussian, range(len(keys), partial_sums)


TERMS = 3  # what the Python constructor of JacobianFactor takes; partial sums are eliminated first


def _add(gtsam, gaussian, terms, rhs, noise):
    flat = [argument for key, block in terms for argument in (key, np.asfortranarray(block))]
    gaussian.add(gtsam.JacobianFactor(*flat, rhs, noise))
