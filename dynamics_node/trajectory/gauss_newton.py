"""Gauss-Newton over the steps of a trajectory: forward to eliminate, backward to substitute.

What the elimination leaves also determines the covariances of all steps (Rauch, Tung and Striebel 1965).
`Batch` iterates over all steps at once, damped where it has to be (Levenberg and Marquardt).
"""

from dataclasses import dataclass
from functools import lru_cache
from math import inf, isfinite

import numpy as np

from dynamics_node.codegen import Runner, Scan, make
from dynamics_node.trajectory.errors import NotConverged, SingularPosition, Unobservable
from dynamics_node.trajectory.step_elimination import (
    LEAST,
    SINGULAR,
    WEAK,
    arrival_program,
    backward_program,
    carry_size,
    forward_program,
    packed_prior,
)
from dynamics_node.trajectory.trajectory_graph import CHANGE, DAMPING, LINKED, Prior, Steps, TrajectoryGraph


@lru_cache(maxsize=16)  # of the graphs at hand
def _programs(graph: TrajectoryGraph, backend) -> tuple[Runner, Scan, Scan]:
    """Arrival, forward and backward. Raises CompileError for backend c without a compiler."""
    forward, backward = Scan(forward_program(graph), backend), Scan(backward_program(graph), backend)
    return make(arrival_program(graph), backend), forward, backward


class Sweeps:
    """Gauss-Newton steps over Steps, in place. found: {name: (count, *shape)} of what `forward_program`
    leaves at every step. What is `known` of the first step beforehand is `packed` H and g around `at`
    (stored,). observable: whether directions that nothing tells count as bad."""

    def __init__(self, steps: Steps, backend="auto", observable=True):
        graph, count = steps.graph, len(steps)
        self.steps = steps
        self._arrive, forward, backward = _programs(graph, backend)
        self._out = np.empty((count, forward.out_width))
        self._carry, self._dx = np.empty(carry_size(graph)), np.empty(len(graph.free))
        self.found = _views(forward.program.outputs, self._out)
        rows = steps.rows
        ahead = np.lib.stride_tricks.as_strided(rows, (count, forward.width), rows.strides)
        changed = rows[:count][::-1, : backward.out_width]
        eliminated = self._out[::-1, : backward.width]
        limits = SINGULAR, 1.0 / WEAK if observable else np.inf
        self._eliminate = forward.bound(ahead, self._carry, self._out, limits)
        self._first = forward.bound(ahead[:1], self._carry, self._out[:1])
        self._row = rows[0, : self._arrive.inputs["row"][0]]
        self._substitute = backward.bound(eliminated, self._dx, changed)
        self._changes = steps[CHANGE][:, 0]
        steps[DAMPING][:] = LEAST
        self._linked = steps[LINKED][:, 0]
        self.link()

    def link(self):
        """Every step is followed by the next one, the last by none."""
        self._linked[:] = 1.0
        self._linked[-1:] = 0.0

    def eliminate(self, known, at):
        """The forward half: `found` is of the steps as they are. False where it was worth nothing at one."""
        run(self._arrive, known, at, self._row, self._carry)
        return self._run()

    def eliminate_behind(self, known):
        """The same right after `behind`, of which the first step is gone: what was the second one is now the
        first, and as it was."""
        self._carry[: len(known)] = known
        return self._run()

    def _run(self):
        rows = self.steps.rows
        rows[-1] = rows[-2]  # what the last step looks at in vain
        return self._eliminate()

    def substitute(self) -> float:
        """The backward half: the steps change. By how much, the largest of the steps."""
        self._dx[:] = 0.0
        self._substitute()
        changes = self._changes.tolist()  # of a window, quicker than by NumPy
        return max(changes) ** 0.5 if isfinite(sum(changes)) else inf

    def behind(self, known, at):
        """What the first step leaves for the second one when it is eliminated: `packed` H, g."""
        run(self._arrive, known, at, self._row, self._carry)
        self._first()
        return self._carry[: len(known)]


def run(runner: Runner, *arrays):
    """Inputs into the output, the last array, the quick way or the sure one."""
    if runner.call_one(*arrays) is not None:
        (found,), _ = runner.run_checked(1, [array[None] for array in arrays[:-1]])
        arrays[-1][:] = found[0]


def _views(outputs, out):
    """{name: (count, *shape)} of the outputs that are not carried."""
    found, start = {}, 0
    for name, numbers in list(outputs.items())[1:]:
        found[name] = out[:, start : start + numbers.size].reshape(len(out), *numbers.shape)
        start += numbers.size
    return found


# --- covariances --------------------------------------------------------------------------------------------


def covariances(graph: TrajectoryGraph, found) -> np.ndarray:
    """(count, columns, columns) of all directions at every step. found: {name: (count, *shape)}, as of
    Sweeps: P = (H^-1 - H^-1 F^T S^-1 F H^-1) + G P_next G^T with G = H^-1 F^T S^-1 F_next, backward."""
    P = _inverse(found["L"], found["inverse"])
    if len(P) > 1:  # nothing follows the last step
        linked = {name: rows[:-1] for name, rows in found.items()}
        gain = P[:-1] @ np.swapaxes(linked["by_own"], 1, 2)
        gain = gain @ _inverse(linked["L_links"], linked["inverse_links"])
        P[:-1] -= gain @ linked["by_own"] @ P[:-1]
        gain = gain @ linked["by_next"]
        for k in range(len(P) - 2, -1, -1):
            P[k] += gain[k] @ P[k + 1] @ gain[k].T
    return _of_all(graph, 0.5 * (P + np.swapaxes(P, 1, 2)), found["slopes"])


def _inverse(below, inverse):
    """(count, n, n): of L^T D L, from L below the diagonal and 1 / D (count, n)."""
    n = inverse.shape[1]
    L = np.zeros((len(inverse), n, n))
    rows, columns = np.tril_indices(n, -1)
    L[:, rows, columns] = below
    L[:, np.arange(n), np.arange(n)] = 1.0
    half = np.linalg.inv(L)
    return half @ (inverse[..., None] * np.swapaxes(half, 1, 2))


def _of_all(graph, free, slopes):
    """(count, columns, columns) of all directions from those (count, free, free) of the free ones."""
    B = np.zeros((len(free), len(graph.column_names), free.shape[-1]))
    B[:, graph.order, :] = np.eye(free.shape[-1])
    B[:, graph.determined, :] = -slopes
    return B @ free @ np.swapaxes(B, 1, 2)


FIRST_DAMPING, MOST_DAMPING = 1e-4, 1e10
# --- all steps at once --------------------------------------------------------------------------------------


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
