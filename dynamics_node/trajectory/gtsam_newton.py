"""Gauss-Newton steps of a trajectory by GTSAM: linear systems with constraints, eliminated by QR."""

import re
from contextlib import contextmanager

import numpy as np

from dynamics_node.graph.gtsam import require_gtsam
from dynamics_node.trajectory.errors import NotConverged, Unobservable
from dynamics_node.trajectory.gtsam_factors import Known, Window, known_of

WEAK = 1e-10  # of what is known of a direction: below, it is rounding


def nonlinear_graph(window: Window, soft=None):
    """gtsam.NonlinearFactorGraph of all steps. soft: as of Window.factors."""
    graph, count = require_gtsam().NonlinearFactorGraph(), len(window.steps)
    graph.push_back(window.first())
    for step in range(count):
        links = window.links(step) if step < count - 1 else []
        for factor in (*window.factors(step, soft), *links):
            graph.push_back(factor)
    return graph


class GaussNewton:
    """Of a Window, whose steps it moves."""

    def __init__(self, window: Window):
        gtsam, count = require_gtsam(), len(window.steps)
        self.window, self.graph = window, nonlinear_graph(window)
        self._order = gtsam.Ordering([key for k in range(count) for key in window.ordered_keys(k)])
        self._still = window.still(range(count))

    @property
    def steps(self):
        return self.window.steps

    def run(self, iterations, tolerance):
        """Iterations that were made until no step changed by more than the tolerance. Raises NotConverged and
        Unobservable."""
        change = np.inf
        for iteration in range(1, iterations + 1):
            with self._named():
                found = self._net().optimize()
            change = self.window.move(found.at)
            if change <= tolerance:
                return iteration
            if not change < np.inf:
                break
        raise NotConverged(f"after {iterations} iterations a step still changed by {change:.3g}")

    def refuse_weak(self):
        """Raise Unobservable where nothing but rounding determines a direction: beside what the factors tell
        of it while all others are known, or of others if it is in constraints alone."""
        with self._named():
            linear, net = self._linear(), self._net()
        told = _column_lengths(linear, self._still)
        typical = np.median([length for lengths in told.values() for length in lengths if length > 0])
        for conditional in map(net.at, range(net.size())):
            key = conditional.firstFrontalKey()
            with np.errstate(divide="ignore"):
                known = np.abs(np.diag(conditional.R())) / conditional.get_model().sigmas()
            weak = known <= WEAK * np.where(told[key] > 0, told[key], typical)
            if weak.any():
                self._refuse(key, np.flatnonzero(weak))

    def covariance(self):
        """(count, columns, columns) of all directions at every step."""
        with self._named():
            linear, count = self._linear(), len(self.steps)
            return np.array([_covariance(linear, self.window, step) for step in range(count)])

    def forgotten(self, least=0.0) -> Known:
        """What the first step and all that is known of it tell of the free columns of the second one; those
        that its exact factors determine are replaced. least: information added, see FixedLag."""
        gtsam, window, graph = require_gtsam(), self.window, self.steps.graph
        with self._named():
            linear = self._linearised((window.first(), *window.factors(0), *window.links(0)))
            order = gtsam.Ordering(window.ordered_keys(0))
            _, left = linear.eliminatePartialSequential(order, gtsam.EliminateQR)
        A, b = _rows(window, left)
        E, e = _rows(window, self._linearised([window.factor(factor, 1) for factor in graph.exact]))
        solved = np.linalg.solve(E[:, graph.determined], np.column_stack([E[:, graph.free], e]))
        by = A[:, graph.determined]
        more = np.sqrt(least) * np.eye(len(graph.free))
        A = np.vstack([A[:, graph.free] - by @ solved[:, :-1], more])
        b = np.concatenate([b - by @ solved[:, -1], np.zeros(len(more))])
        return known_of(graph, {v.name: self.steps[v.name][1].copy() for v in window.variables}, A, b)

    def _linearised(self, factors):
        graph = require_gtsam().NonlinearFactorGraph()
        for factor in factors:
            graph.push_back(factor)
        return graph.linearize(self._still)

    def _linear(self):
        return self.graph.linearize(self._still)

    def _net(self):
        return self._linear().eliminateSequential(self._order, require_gtsam().EliminateQR)

    @contextmanager
    def _named(self):
        """Raise Unobservable where GTSAM does not know how to go on."""
        try:
            yield
        except RuntimeError as error:
            found = re.search(r"Indeterminate linear system .* near variable\s+(\d+)", str(error))
            if not found:
                raise
            self._refuse(int(found[1]))

    def _refuse(self, key, directions=slice(None)):
        step, number = divmod(key, len(self.window.variables))
        variable = self.window.variables[number]
        names = [f"{variable.name} {name}" for name in np.array(variable.names)[directions]]
        raise Unobservable(f"nothing tells {', '.join(names)} at step {step}", names) from None


def _column_lengths(linear, still):
    """{key: (tangent,)} of the rows in standard deviations, without constraints."""
    squares = {key: np.zeros(len(still.atVector(key))) for key in still.keys()}  # noqa: SIM118
    for factor in map(linear.at, range(linear.size())):
        model, start = factor.get_model(), 0
        A = factor.augmentedJacobianUnweighted()
        sigmas = model.sigmas() if model else np.ones(len(A))
        own = ((A[sigmas > 0] / sigmas[sigmas > 0, None]) ** 2).sum(axis=0)
        for key in list(factor.keys()):
            stop = start + len(squares[key])
            squares[key] += own[start:stop]
            start = stop
    return {key: np.sqrt(square) for key, square in squares.items()}


def _rows(window, linear):
    """A (rows, columns), b (rows,) of all gtsam.JacobianFactors of a linear graph of one step; in standard
    deviations, but for constraints."""
    graph = window.steps.graph
    A, b = [np.zeros((0, len(graph.column_names)))], [np.zeros(0)]
    for factor in map(linear.at, range(linear.size())):
        sigmas = factor.get_model().sigmas()[:, None] if factor.get_model() else 1.0
        Ab = factor.augmentedJacobianUnweighted() / np.where(sigmas == 0.0, 1.0, sigmas)
        A.append(np.zeros((len(Ab), A[0].shape[1])))
        start = 0
        for key in list(factor.keys()):
            variable = window.variables[key % len(window.variables)]
            A[-1][:, graph.columns[variable.name]] = Ab[:, start : start + variable.tangent]
            start += variable.tangent
        b.append(Ab[:, -1])
    return np.vstack(A), np.concatenate(b)


def _covariance(linear, window, step):
    """(columns, columns) of all directions at a step. gtsam.Marginals would invert information matrices, that
    exact factors make infinite; the root of the covariance follows from the conditionals instead."""
    gtsam, graph = require_gtsam(), window.steps.graph
    alone = linear.marginal(list(window.keys(step)), gtsam.EliminateQR)
    net = alone.eliminateSequential(gtsam.Ordering(window.ordered_keys(step)), gtsam.EliminateQR)
    root = np.zeros((len(graph.column_names),) * 2)
    for conditional in map(net.at, reversed(range(net.size()))):  # R x = d - S parents + noise
        keys = list(conditional.keys())
        own, *parents = (graph.columns[window.variables[k % len(window.variables)].name] for k in keys)
        noise = np.zeros((own.stop - own.start, len(root)))
        noise[:, own] = np.diag(conditional.get_model().sigmas())
        if parents:
            noise -= conditional.S() @ np.vstack([root[parent] for parent in parents])
        root[own] = np.linalg.solve(conditional.R(), noise)
    return root @ root.T
