"""Gauss-Newton's system of a trajectory, eliminated step by step: Programs of one step, run along all of them.

The exact factors of a step determine some of its directions: dx_det = offset - slopes dx_free, by Newton's
method. What is left of its weighted factors is a block of a block-tridiagonal system H dx = g over the free
directions (paper 2, eq. 19; Dellaert and Kaess 2017, Factor graphs for robot perception, ch. 3). Forward,
every step is eliminated: dx = shift - gain dx_next, and what it knows about the next one is carried on;
backward, the steps follow from the last one. The matrices have one fixed pattern, so a step is a Program.
"""

from typing import Any, NamedTuple

import numpy as np

from dynamics_node.loops.elimination import Elimination
from dynamics_node.problem import Shapes
from dynamics_node.program import Program, interpret, trace
from dynamics_node.spatial import half_solved, symmetric
from dynamics_node.trajectory.factor import NEXT, factor_program
from dynamics_node.trajectory.graph import CHANGE, DAMPING, LINKED, TrajectoryGraph, weights_of

# limits of health: the square of the condition of what exact factors determine; the sum of one over the pivots,
# which multiplies rounding
HEALTHY = np.array([1e24, 1e13])


def forward_program(graph: TrajectoryGraph, information=False) -> Program:
    """carry: what the steps before know about this one, see `packed`; the row of the step, and `ahead` of the
    next one -> carry for the next one, and what `backward_program` reads; and

    exact: errors of the exact factors, squares (weighted factors,): their squared errors over the variances,
    pivots (free,): of every free direction, what is left of its diagonal entry when those before it are
    eliminated, over that entry: 0 of one that nothing determines; health (2,), see HEALTHY.
    information: and H (free, free) of the step when nothing is known of the next one.
    """
    reads: Shapes = {"carry": (carry_size(graph),)} | graph.row
    reads |= {name + NEXT: shape for name, shape in graph.ahead.items()}

    def function(carry, **arrays):
        after = {name: arrays.pop(name + NEXT) for name in graph.ahead}
        block = _Block(*unpacked(graph, carry))
        own, ahead = _determined(graph, arrays), _determined(graph, after)
        squares = [_add(graph, block, factor, arrays, after, own, ahead) for factor in graph.weighted]
        carry, gain, shift, pivots = _eliminated(block, arrays[DAMPING][0])
        stored = np.concatenate([arrays[variable.name] for variable in graph.variables])
        found = {"carry": carry, "stored": stored, "gain": gain, "shift": shift}
        found |= {"offset": own.offset, "slopes": own.slopes, "exact": own.errors}
        health = np.array([own.condition, sum(1.0 / pivot for pivot in pivots)])
        found |= {"squares": np.array(squares), "pivots": pivots, "health": health}
        return found | ({"information": symmetric(block.H)} if information else {})

    return trace(function, reads)


def backward_program(graph: TrajectoryGraph) -> Program:
    """carry: dx (free,) of the next step; stored, gain, shift, offset, slopes as `forward_program` leaves them
    -> carry: dx (free,), the variables after the step, and `change`: the sum of the squares of dx."""
    free, determined = len(graph.free), len(graph.determined)
    reads: Shapes = {
        "carry": (free,), "stored": (graph.stored,), "gain": (free, free), "shift": (free,),
        "offset": (determined,), "slopes": (determined, free),
    }  # fmt: skip

    def function(carry, stored, gain, shift, offset, slopes):
        dx = np.zeros(len(graph.column_names), dtype=object)
        dx[graph.free] = own = shift - gain @ carry
        dx[graph.determined] = offset - slopes @ own
        found, start = {"carry": own}, 0
        for variable in graph.variables:
            x = stored[start : start + variable.size]
            found[variable.name] = variable.moved(x, dx[graph.columns[variable.name]])
            start += variable.size
        return found | {CHANGE: np.array([own @ own])}

    return trace(function, reads)


def carry_size(graph: TrajectoryGraph):
    """Numbers that are carried from step to step."""
    free = len(graph.free)
    return free * (free + 1) // 2 + free


def packed(H, g):
    """The lower triangle of H (free, free), then g (free,)."""
    return np.concatenate([H[np.tril_indices(len(g))], g])


def unpacked(graph: TrajectoryGraph, carry):
    """H, g of `packed`."""
    free = len(graph.free)
    H = np.zeros((free, free), dtype=carry.dtype)
    rows, columns = np.tril_indices(free)
    H[rows, columns] = H[columns, rows] = carry[: len(rows)]
    return H, carry[len(rows) :]


def arrival_program(graph: TrajectoryGraph) -> Program:
    """known (carry,), `packed`, of a step whose variables were `at` (stored,), and where they are now: stored
    -> known from there."""

    def function(known, at, stored):
        H, g = unpacked(graph, known)
        parts, start = [], 0
        for variable in graph.variables:
            own = slice(start, start + variable.size)
            parts.append(variable.difference(stored[own], at[own]))
            start += variable.size
        return {"known": packed(H, g - H @ np.concatenate(parts)[graph.free])}

    shapes: Shapes = {"known": (carry_size(graph),), "at": (graph.stored,), "stored": (graph.stored,)}
    return trace(function, shapes)


class _Determined(NamedTuple):
    """Of the exact factors of a step: dx_det = offset - slopes dx_free, errors (rows,), condition."""

    offset: np.ndarray
    slopes: np.ndarray
    errors: np.ndarray
    condition: Any


def _determined(graph, arrays) -> _Determined:
    free, count = graph.free, len(graph.determined)
    if not count:
        return _Determined(np.zeros(0), np.zeros((0, len(free))), np.zeros(0), 0.0)
    found = [_linearised(graph, factor, arrays) for factor in graph.exact]
    errors = np.concatenate([error for error, _ in found])
    A = np.concatenate([_columns(graph, by) for _, by in found])
    elimination = Elimination(A[:, graph.determined], np.ones(count))
    solved = elimination.solve(np.concatenate([-errors[:, None], A[:, free]], axis=1))
    return _Determined(solved[:, 0], solved[:, 1:], errors, elimination.condition())


def _linearised(graph, factor, arrays, after=None):
    """The error of a factor, and {(variable, 0 or 1): its Jacobian}."""
    known = tuple(v for v in graph.variables if v.name in (*factor.now, *factor.after))
    of = (arrays, after)
    given = {argument: of[step][name] for name, step, argument in factor.variables}
    given |= {name: arrays[name] for name in factor.data}
    found = interpret(factor_program(factor, known), **given)
    return found["residual"], {(n, s): found[f"by {argument}"] for n, s, argument in factor.variables}


def _columns(graph, by, step=0):
    """The Jacobian by all directions of a step, (rows, columns)."""
    rows = len(next(iter(by.values())))
    J = np.zeros((rows, len(graph.column_names)), dtype=object)
    for (name, of), block in by.items():
        if of == step:
            J[:, graph.columns[name]] = block
    return J


class _Block:
    """H, g of a step and of the next one, and `link` (free, free) between them."""

    def __init__(self, H, g):
        self.H, self.g = H, g
        self.link = np.zeros(H.shape, dtype=object)
        self.H_next, self.g_next = np.zeros(H.shape, dtype=object), np.zeros(len(g), dtype=object)


def _add(graph, block, factor, arrays, after, own, ahead):
    """Add a weighted factor to a block; its squared error over the variance."""
    error, by = _linearised(graph, factor, arrays, after)
    weights = arrays[weights_of(factor.name)]
    if factor.after:
        weights = weights * arrays[LINKED][0]
    square = weights @ (error * error)
    if factor.loss is not None:
        weights = weights * factor.loss.weight(square)
    J, offset = _reduced(graph, _columns(graph, by), own)
    total = error + offset
    if factor.after:
        J_next, offset = _reduced(graph, _columns(graph, by, step=1), ahead)
        total = total + offset
        weighted = J_next.T * weights
        block.link = block.link + (J.T * weights) @ J_next
        block.H_next, block.g_next = block.H_next + weighted @ J_next, block.g_next - weighted @ total
    weighted = J.T * weights
    block.H, block.g = block.H + weighted @ J, block.g - weighted @ total
    return square


def _reduced(graph, J, determined: _Determined):
    """The Jacobian by the free directions, and what the offsets of the others add to the error."""
    by = J[:, graph.determined]
    return J[:, graph.free] - by @ determined.slopes, by @ determined.offset + np.zeros(len(J))


def _eliminated(block, damping):
    """carry, gain, shift and pivots."""
    H = np.array(symmetric(block.H))
    diagonal = np.diag(H).copy()
    H[np.diag_indices(len(H))] = diagonal * (1.0 + damping)
    L, pivots, half = half_solved(H, np.concatenate([block.link, block.g[:, None]], axis=1))
    scaled = half * np.array([1.0 / pivot for pivot in pivots], dtype=object)[:, None]
    known = half[:, :-1].T @ scaled
    x = np.array(scaled)
    for k in range(len(x)):
        for i in range(k):
            x[k] = x[k] - x[i] * L[k, i]
    carry = packed(symmetric(block.H_next - known[:, :-1]), block.g_next - known[:, -1])
    return carry, x[:, :-1], x[:, -1], np.array(pivots, dtype=object) / diagonal
