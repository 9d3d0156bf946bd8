"""Gauss-Newton iterations over the steps of a trajectory: forward elimination, backward substitution.

The elimination also yields the covariances of all steps (Rauch, Tung and Striebel 1965). `BatchSolver`
iterates over all steps at once, with damping if necessary (Levenberg and Marquardt).
"""

from dataclasses import dataclass
from functools import lru_cache
from math import inf, isfinite

import numpy as np

from dynamics_node.codegen import Runner, Scan, make_runner
from dynamics_node.errors import NotConverged, SingularPosition, Unobservable
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


@lru_cache(maxsize=16)  # graphs
def _programs(graph: TrajectoryGraph, backend) -> tuple[Runner, Scan, Scan]:
    """Arrival, forward and backward. Raises CompileError for backend c without a compiler."""
    forward, backward = Scan(forward_program(graph), backend), Scan(backward_program(graph), backend)
    return make_runner(arrival_program(graph), backend), forward, backward


class Sweeps:
    """Gauss-Newton iterations over Steps, in place. outputs: {name: (count, *shape)} of `forward_program` at
    every step. The prior `known` of the first step is `packed` H and g around `at` (stored,). observable:
    whether undetermined directions count as failures."""

    def __init__(self, steps: Steps, backend="auto", observable=True):
        graph, count = steps.graph, len(steps)
        self.steps = steps
        self._arrive, forward, backward = _programs(graph, backend)
        self._out = np.empty((count, forward.out_width))
        self._carry, self._dx = np.empty(carry_size(graph)), np.empty(len(graph.free))
        self.outputs = _views(forward.program.outputs, self._out)
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
        """Link every step to the next one, except the last."""
        self._linked[:] = 1.0
        self._linked[-1:] = 0.0

    def eliminate(self, known, at):
        """The forward half: updates `outputs`. Returns False if it fails at a step."""
        run(self._arrive, known, at, self._row, self._carry)
        return self._run()

    def eliminate_behind(self, known):
        """`eliminate` right after `behind`, without the first step: the former second step is now the first,
        unchanged."""
        self._carry[: len(known)] = known
        return self._run()

    def _run(self):
        rows = self.steps.rows
        rows[-1] = rows[-2]  # read by the last step but not used
        return self._eliminate()

    def substitute(self) -> float:
        """The backward half: updates the steps. Returns the largest change of a step."""
        self._dx[:] = 0.0
        self._substitute()
        changes = self._changes.tolist()  # for a window, faster than NumPy
        return max(changes) ** 0.5 if isfinite(sum(changes)) else inf

    def behind(self, known, at):
        """Information about the second step from eliminating the first: `packed` H, g."""
        run(self._arrive, known, at, self._row, self._carry)
        self._first()
        return self._carry[: len(known)]


def run(runner: Runner, *arrays):
    """Evaluate inputs into the output, the last array, by the fast path or the checked fallback."""
    if runner.call_one(*arrays) is not None:
        (result,), _ = runner.run_checked(1, [array[None] for array in arrays[:-1]])
        arrays[-1][:] = result[0]


def _views(outputs, out):
    """{name: (count, *shape)} of the outputs except the carry."""
    arrays, start = {}, 0
    for name, numbers in list(outputs.items())[1:]:
        arrays[name] = out[:, start : start + numbers.size].reshape(len(out), *numbers.shape)
        start += numbers.size
    return arrays


# --- covariances --------------------------------------------------------------------------------------------


def covariances(graph: TrajectoryGraph, outputs) -> np.ndarray:
    """Covariance (count, columns, columns) of all directions at every step. outputs: {name: (count, *shape)},
    as in Sweeps: P = (H^-1 - H^-1 F^T S^-1 F H^-1) + G P_next G^T with G = H^-1 F^T S^-1 F_next, backward."""
    P = _inverse(outputs["L"], outputs["inverse"])
    if len(P) > 1:  # the last step has no link
        linked = {name: rows[:-1] for name, rows in outputs.items()}
        gain = P[:-1] @ np.swapaxes(linked["by_own"], 1, 2)
        gain = gain @ _inverse(linked["L_links"], linked["inverse_links"])
        P[:-1] -= gain @ linked["by_own"] @ P[:-1]
        gain = gain @ linked["by_next"]
        for k in range(len(P) - 2, -1, -1):
            P[k] += gain[k] @ P[k + 1] @ gain[k].T
    return _of_all(graph, 0.5 * (P + np.swapaxes(P, 1, 2)), outputs["slopes"])


def _inverse(below, inverse):
    """(count, n, n): inverse of L^T D L, from L below the diagonal and 1 / D (count, n)."""
    n = inverse.shape[1]
    L = np.zeros((len(inverse), n, n))
    rows, columns = np.tril_indices(n, -1)
    L[:, rows, columns] = below
    L[:, np.arange(n), np.arange(n)] = 1.0
    half = np.linalg.inv(L)
    return half @ (inverse[..., None] * np.swapaxes(half, 1, 2))


def _of_all(graph, free, slopes):
    """Covariance (count, columns, columns) of all directions from that (count, free, free) of the free
    ones."""
    B = np.zeros((len(free), len(graph.column_names), free.shape[-1]))
    B[:, graph.order, :] = np.eye(free.shape[-1])
    B[:, graph.determined, :] = -slopes
    return B @ free @ np.swapaxes(B, 1, 2)


FIRST_DAMPING, MOST_DAMPING = 1e-4, 1e10
# --- all steps at once --------------------------------------------------------------------------------------


CLOSED = 1e-9  # error of an exact factor at convergence
ROUGH = 1e3  # times the tolerance: accepted for a change that stalls at rounding level
EXACT_WEIGHT = 1e3  # weight of the error of an exact factor in the merit function
ROUNDING = 1e-12  # fraction of the cost: smaller increases are ignored
PATIENCE = 4  # increasing steps before the last good one is restored: exact factors are curved


@dataclass(frozen=True, eq=False)
class BatchSolution:
    """steps; cost: half the weighted sum of squares; squares {factor: (count,)}: squared errors divided by
    their variances; exact: the largest error of an exact factor; iterations."""

    steps: Steps
    cost: float
    squares: dict[str, np.ndarray]
    exact: float
    iterations: int


class BatchSolver:
    """batch.solve(steps, prior): the trajectory of least cost. backend: c, numpy, or auto: c if available."""

    def __init__(self, graph: TrajectoryGraph, backend="auto"):
        self.graph, self.backend = graph, backend

    def solve(
        self, steps: Steps, prior: Prior, iterations=50, tolerance=1e-10, observable=True
    ) -> BatchSolution:
        """Solve from the values in `steps`, which are not modified. tolerance: of the last relative change of
        any variable of a step, or ROUGH times as much if it stalls at rounding level; observable: whether
        undetermined directions raise, see FixedLag.

        Raises NotConverged, SingularPosition and Unobservable with the solution so far.
        """
        return _Iterations(steps.copy(), prior, self.backend, tolerance, observable).run(iterations)

    def covariance(self, steps: Steps, prior: Prior) -> np.ndarray:
        """Covariance (count, columns, columns) of all directions at every step, at a solution."""
        sweeps = Sweeps(steps.copy(), self.backend)
        sweeps.eliminate(packed_prior(self.graph, prior), prior.stored(self.graph))
        require_solvable(self.graph, sweeps.outputs)
        return covariances(self.graph, sweeps.outputs)


class _Iterations:
    """State of the iterations."""

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
                require_solvable(self.graph, self.sweeps.outputs, self.observable, self._solution(iteration))
                best, least, rises = self.steps.rows.copy(), now, 0
                self._damp(LEAST if self.damping <= FIRST_DAMPING else 0.1 * self.damping)
            elif rises < PATIENCE and now < np.inf and self.damping == LEAST:
                rises += 1
            else:
                self.steps.rows[:] = best
                self._damp(max(FIRST_DAMPING, 10.0 * self.damping))
            if self.damping > MOST_DAMPING:
                raise NotConverged("no step decreases the cost", self._solution(iteration))
            before, change = change, self.sweeps.substitute()
            stalls += change >= before
            ended = change <= self.tolerance or (stalls > PATIENCE and change <= ROUGH * self.tolerance)
        raise NotConverged(
            f"after {most} iterations a step still changed by {change:.3g}", self._solution(most)
        )

    def _damp(self, damping):
        """Eliminate again if the damping changes."""
        if max(damping, self.damping) > LEAST:
            self.damping = damping
            self._eliminate()

    def _closed(self):
        return np.abs(self.sweeps.outputs["exact"]).max(initial=0.0) <= CLOSED

    def _eliminate(self):
        self.steps[DAMPING][:] = self.damping
        self.sweeps.eliminate(self.known, self.at)

    def _merit(self):
        return self._cost() + EXACT_WEIGHT * np.abs(self.sweeps.outputs["exact"]).sum()

    def _cost(self):
        return total_cost(self.graph, self.sweeps.outputs["squares"]) + self.prior.cost(
            self.graph, self.steps
        )

    def _solution(self, iterations):
        outputs = self.sweeps.outputs
        names = [factor.name for factor in self.graph.weighted]
        squares = {name: outputs["squares"][:, k].copy() for k, name in enumerate(names)}
        worst = float(np.abs(outputs["exact"]).max(initial=0.0))
        return BatchSolution(self.steps.copy(), self._cost(), squares, worst, iterations)


def total_cost(graph, squares):
    """Half the sum of squares (count, weighted factors), with the losses applied."""
    losses = [factor.loss for factor in graph.weighted]
    parts = [s if loss is None else loss.cost(s) for loss, s in zip(losses, squares.T, strict=True)]
    return 0.5 * float(sum((part.sum() for part in parts), 0.0))


def require_solvable(graph, outputs, observable=True, solution=None):
    """Raise SingularPosition or Unobservable if an elimination failed. outputs: as in Sweeps."""
    limits = SINGULAR, 1.0 / WEAK if observable else np.inf
    good = outputs["health"] <= limits
    if good.all():
        return
    step = int(np.flatnonzero(~good.all(axis=1))[0])
    if not good[step, 0]:
        raise SingularPosition(f"at step {step} the exact equations are singular", solution)
    weak = np.flatnonzero(~(outputs["pivots"][step] >= WEAK * len(graph.free)))
    names = [graph.column_names[graph.order[k]] for k in weak]
    raise Unobservable(f"at step {step} no factor determines {', '.join(names)}", names, solution)
