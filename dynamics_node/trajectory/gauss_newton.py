"""One Gauss-Newton step over rows of a trajectory: forward to eliminate, backward to substitute.

What the elimination leaves also determines the covariances of all steps (Rauch, Tung and Striebel 1965).
"""

from functools import lru_cache
from math import inf, isfinite

import numpy as np

from dynamics_node.codegen import Runner, Scan, make
from dynamics_node.trajectory.step_elimination import (
    LEAST,
    SINGULAR,
    WEAK,
    arrival_program,
    backward_program,
    carry_size,
    forward_program,
)
from dynamics_node.trajectory.trajectory_graph import CHANGE, DAMPING, LINKED, Steps, TrajectoryGraph


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
