"""All steps of a trajectory at once: Gauss-Newton, damped where it has to be (Levenberg and Marquardt)."""

from dataclasses import dataclass

import numpy as np

from dynamics_node.trajectory.errors import NotConverged, SingularPosition, Unobservable
from dynamics_node.trajectory.gauss_newton import Sweeps, covariances
from dynamics_node.trajectory.step_elimination import LEAST, SINGULAR, WEAK, packed_prior
from dynamics_node.trajectory.trajectory_graph import DAMPING, Prior, Steps, TrajectoryGraph

FIRST_DAMPING, MOST_DAMPING = 1e-4, 1e10
CLOSED = 1e-9  # error of an exact factor that is left
ROUGH = 1e3  # times the tolerance: what rounding may leave of a change that falls no more
HEAVY = 1e3  # weight of an error of an exact factor beside the costs, when steps are compared
ROUNDING = 1e-12  # of the costs: a rise by less is none
PATIENCE = 4  # steps that may go up before the last good one is taken up again: exact factors are curved


@dataclass(frozen=True, eq=False)
class Solution:
    """steps; cost: half of what is least; squares {factor: (count,)}: squared errors over the variances;
    exact: the largest error of an exact factor; iterations."""

    steps: Steps
    cost: float
    squares: dict[str, np.ndarray]
    exact: float
    iterations: int


class Batch:
    """batch.solve(steps, prior): the trajectory of least cost. backend: c, numpy, or auto: c where it
    works."""

    def __init__(self, graph: TrajectoryGraph, backend="auto"):
        self.graph, self.backend = graph, backend

    def solve(self, steps: Steps, prior: Prior, iterations=50, tolerance=1e-10, observable=True) -> Solution:
        """From the values in `steps`, which stay as they are. tolerance: of the last change of any variable
        of a step, beside its size; where rounding lets it fall no more, ROUGH times as much; observable:
        whether directions that nothing tells are refused, see FixedLag.

        Raises NotConverged, SingularPosition and Unobservable with what was found.
        """
        return _Search(steps.copy(), prior, self.backend, tolerance, observable).run(iterations)

    def covariance(self, steps: Steps, prior: Prior) -> np.ndarray:
        """(count, columns, columns) of all directions at every step, at a solution."""
        sweeps = Sweeps(steps.copy(), self.backend)
        sweeps.eliminate(packed_prior(self.graph, prior), prior.stored(self.graph))
        refuse_bad(self.graph, sweeps.found)
        return covariances(self.graph, sweeps.found)


class _Search:
    """Steps on their way to the least cost."""

    def __init__(self, steps, prior, backend, tolerance, observable):
        self.steps, self.prior, self.tolerance, self.observable = steps, prior, tolerance, observable
        self.graph = steps.graph
        self.sweeps = Sweeps(steps, backend)
        self.known, self.at = packed_prior(self.graph, prior), prior.stored(self.graph)
        self.damping = LEAST

    def run(self, most):
        best, least, change, rises = None, np.inf, np.inf, 0
        ended, stalls = False, 0
        for iteration in range(1, most + 1):
            self._eliminate()
            now = self._merit()
            if ended and self.damping == LEAST and self._closed():
                return self._solution(iteration - 1)
            if best is None or now <= least + ROUNDING * abs(least) or ended:
                refuse_bad(self.graph, self.sweeps.found, self.observable, self._solution(iteration))
                best, least, rises = self.steps.rows.copy(), now, 0
                self._damp(LEAST if self.damping <= FIRST_DAMPING else 0.1 * self.damping)
            elif rises < PATIENCE and now < np.inf and self.damping == LEAST:
                rises += 1
            else:
                self.steps.rows[:] = best
                self._damp(max(FIRST_DAMPING, 10.0 * self.damping))
            if self.damping > MOST_DAMPING:
                raise NotConverged("no step, however short, makes the cost less", self._solution(iteration))
            before, change = change, self.sweeps.substitute()
            stalls += change >= before
            ended = change <= self.tolerance or (stalls > PATIENCE and change <= ROUGH * self.tolerance)
        raise NotConverged(
            f"after {most} iterations the last one still changed a step by {change:.3g}", self._solution(most)
        )

    def _damp(self, damping):
        """Eliminate again where the damping makes it another system."""
        if max(damping, self.damping) > LEAST:
            self.damping = damping
            self._eliminate()

    def _closed(self):
        return np.abs(self.sweeps.found["exact"]).max(initial=0.0) <= CLOSED

    def _eliminate(self):
        self.steps[DAMPING][:] = self.damping
        self.sweeps.eliminate(self.known, self.at)

    def _merit(self):
        return self._cost() + HEAVY * np.abs(self.sweeps.found["exact"]).sum()

    def _cost(self):
        return total_cost(self.graph, self.sweeps.found["squares"]) + self.prior.cost(self.graph, self.steps)

    def _solution(self, iterations):
        found = self.sweeps.found
        names = [factor.name for factor in self.graph.weighted]
        squares = {name: found["squares"][:, k].copy() for k, name in enumerate(names)}
        worst = float(np.abs(found["exact"]).max(initial=0.0))
        return Solution(self.steps.copy(), self._cost(), squares, worst, iterations)


def total_cost(graph, squares):
    """Half the sum of squares (count, weighted factors), outliers as their losses have it."""
    losses = [factor.loss for factor in graph.weighted]
    parts = [s if loss is None else loss.cost(s) for loss, s in zip(losses, squares.T, strict=True)]
    return 0.5 * float(sum((part.sum() for part in parts), 0.0))


def refuse_bad(graph, found, observable=True, solution=None):
    """Raise SingularPosition or Unobservable where an elimination was worth nothing. found: as of Sweeps."""
    limits = SINGULAR, 1.0 / WEAK if observable else np.inf
    good = found["health"] <= limits
    if good.all():
        return
    step = int(np.flatnonzero(~good.all(axis=1))[0])
    if not good[step, 0]:
        raise SingularPosition(f"at step {step} the exact equations are singular", solution)
    weak = np.flatnonzero(~(found["pivots"][step] >= WEAK * len(graph.free)))
    names = [graph.column_names[graph.order[k]] for k in weak]
    raise Unobservable(f"at step {step} nothing tells {', '.join(names)}", names, solution)
