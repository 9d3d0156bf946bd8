"""Gauss-Newton's system of a trajectory, eliminated step by step: Programs of one step, run along all.

The exact factors of a step determine some of its directions: dx_det = offset - slopes dx_free, by Newton's
method. What is left of its weighted factors is a block of a block-tridiagonal system H dx = g over the free
directions (paper 2, eq. 19; Dellaert and Kaess 2017, Factor graphs for robot perception, ch. 3). Forward,
every step is eliminated: dx = shift - gain dx_next, and what it knows about the next one is carried on;
backward, the steps follow from the last one. The matrices have one fixed pattern, so a step is a Program.
"""

from typing import NamedTuple

import numpy as np

from dynamics_node.loops.elimination import Elimination
from dynamics_node.problem import Shapes
from dynamics_node.program import Program, derivative_name, interpret, jacobian, trace
from dynamics_node.spatial import half_solved, inverse_congruence, solve_definite, symmetric
from dynamics_node.trajectory.factor import NEXT, factor_program
from dynamics_node.trajectory.graph import CHANGE, DAMPING, LINKED, TrajectoryGraph, weights_of

LEAST = 1e-12  # damping: relative, so that rounding makes no H indefinite; it moves no optimum
SINGULAR = 1e24  # square of the condition of what exact factors determine
WEAK = 1e-11  # of a pivot: damping, or rounding, alone determines the direction


def forward_program(graph: TrajectoryGraph, covariance=False) -> Program:
    """carry: what the steps before know about this one, `packed`, and its exact factors, solved; the row of
    the step, and `ahead` of the next one -> carry for that, and what `backward_program` reads; and

    exact: errors of the exact factors, squares (weighted factors,): their squared errors over the variances,
    pivots (free,): of every free direction, what is left of its diagonal entry when those before it are
    eliminated, over that entry: 0 of one that nothing determines; health (2,): the square of the condition
    of what exact factors determine, and the sum of one over the pivots.
    covariance: and `conditional` (free, free), that of the free directions when the next step is known.
    """
    reads: Shapes = {"carry": (carry_size(graph),)} | graph.row
    reads |= {name + NEXT: shape for name, shape in graph.ahead.items()}

    def function(carry, **arrays):
        after = {name: arrays.pop(name + NEXT) for name in graph.ahead}
        known, own = carry[: known_size(graph)], _solved(graph, carry[known_size(graph) :])
        ahead = _determined(graph, after)
        block, squares = _block(graph, known, arrays, after, own, ahead)
        known, gain, shift, pivots, conditional = _eliminated(block, arrays[DAMPING][0])
        stored = np.concatenate([arrays[variable.name] for variable in graph.variables])
        carry = np.concatenate([known, *map(np.ravel, ahead)])
        found = {"carry": carry, "stored": stored, "gain": gain, "shift": shift}
        found |= {"offset": own.offset, "slopes": own.slopes, "exact": own.errors}
        health = np.array([own.condition[0], sum(1.0 / pivot for pivot in pivots)])
        found |= {"squares": np.array(squares), "pivots": pivots, "health": health}
        return found | ({"conditional": conditional} if covariance else {})

    return trace(function, reads)


def backward_program(graph: TrajectoryGraph) -> Program:
    """carry: dx (free,) of the next step; stored, gain, shift, offset, slopes as `forward_program` leaves
    them -> carry: dx (free,), the variables after the step, and `change`: the sum of the squares of dx."""
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


def known_size(graph: TrajectoryGraph):
    """Numbers of `packed`."""
    free = len(graph.free)
    return free * (free + 1) // 2 + free


def carry_size(graph: TrajectoryGraph):
    """Numbers that are carried from step to step: `packed`, and of the exact factors what is determined."""
    return known_size(graph) + sum(int(np.prod(shape)) for shape in _shapes(graph))


def packed(H, g):
    """The lower triangle of H (free, free), then g (free,)."""
    return np.concatenate([H[np.tril_indices(len(g))], g])


def unpacked(graph: TrajectoryGraph, known):
    """H, g of `packed`."""
    free = len(graph.free)
    H = np.zeros((free, free), dtype=known.dtype)
    rows, columns = np.tril_indices(free)
    H[rows, columns] = H[columns, rows] = known[: len(rows)]
    return H, known[len(rows) :]


def arrival_program(graph: TrajectoryGraph) -> Program:
    """known, `packed`, of a step whose variables were `at` (stored,), and its row as far as `ahead` goes ->
    carry for it. Of a joint that turns freely its directions are determined all, or none."""

    def function(known, at, row):
        H, g = unpacked(graph, known)
        columns = len(graph.column_names)
        error, D, start = np.zeros(columns, dtype=object), np.zeros((columns, columns), dtype=object), 0
        for variable in graph.variables:
            own, place = graph.columns[variable.name], slice(start, start + variable.size)
            error[own], D[own, own] = _difference(variable, row[place], at[place])
            start += variable.size
        D = D[np.ix_(graph.free, graph.free)]
        there = packed(D.T @ H @ D, D.T @ (g - H @ error[graph.free]))
        arrays = _parts(row, graph.ahead)
        return {"carry": np.concatenate([there, *map(np.ravel, _determined(graph, arrays))])}

    ahead = sum(int(np.prod(shape)) for shape in graph.ahead.values())
    return trace(function, {"known": (known_size(graph),), "at": (graph.stored,), "row": (ahead,)})


def _parts(numbers, shapes: Shapes):
    """{name: array} of numbers in a row."""
    found, start = {}, 0
    for name, shape in shapes.items():
        size = int(np.prod(shape))
        found[name] = numbers[start : start + size].reshape(shape)
        start += size
    return found


def _difference(variable, x, start):
    """variable.difference, and its Jacobian by the directions of x."""
    shapes: Shapes = {"x": (variable.size,), "start": (variable.size,)}
    program = trace(lambda x, start: {"error": variable.difference(x, start)}, shapes)
    by = interpret(jacobian(program, ["error"], ["x"]), x=x, start=start)[derivative_name("error", "x")]
    return variable.difference(x, start), by @ variable.tangent_map(x)


class _Determined(NamedTuple):
    """Of the exact factors of a step: dx_det = offset - slopes dx_free, errors (rows,), condition (1,)."""

    offset: np.ndarray
    slopes: np.ndarray
    errors: np.ndarray
    condition: np.ndarray


def _shapes(graph):
    """Of the parts of _Determined."""
    count = len(graph.determined)
    return (count,), (count, len(graph.free)), (count,), (1,)


def _solved(graph, numbers) -> _Determined:
    """From its numbers in a row."""
    return _Determined(*_parts(numbers, dict(zip(_Determined._fields, _shapes(graph), strict=True))).values())


def _determined(graph, arrays) -> _Determined:
    free, count = graph.free, len(graph.determined)
    if not count:
        return _Determined(np.zeros(0), np.zeros((0, len(free))), np.zeros(0), np.zeros(1))
    found = [_linearised(graph, factor, arrays) for factor in graph.exact]
    errors = np.concatenate([error for error, _ in found])
    A = np.concatenate([_columns(graph, by) for _, by in found])
    elimination = Elimination(A[:, graph.determined], np.ones(count))
    solved = elimination.solve(np.concatenate([-errors[:, None], A[:, free]], axis=1))
    return _Determined(solved[:, 0], solved[:, 1:], errors, np.array([elimination.condition()]))


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


class _Block(NamedTuple):
    """H, g of the free directions of a step, of what is told before it and of its own factors; of factors
    towards the next step errors (rows,), variances (rows,), Jacobians by both steps (rows, free)."""

    H: np.ndarray
    g: np.ndarray
    errors: np.ndarray
    variances: np.ndarray
    by_own: np.ndarray
    by_next: np.ndarray


def _block(graph, known, arrays, after, own, ahead):
    """The _Block of a step, and the squared errors of its weighted factors over the variances."""
    (H, g), squares = unpacked(graph, known), []
    free = len(graph.free)
    links = [(np.zeros(0), np.zeros(0), np.zeros((0, free)), np.zeros((0, free)))]
    for factor in graph.weighted:
        error, by = _linearised(graph, factor, arrays, after)
        weights = arrays[weights_of(factor.name)]
        if factor.after:
            weights = weights * arrays[LINKED][0]
        squares.append(weights @ (error * error))
        if factor.loss is not None:
            weights = weights * factor.loss.weight(squares[-1])
        J, offset = _reduced(graph, _columns(graph, by), own)
        if factor.after:
            J_next, offset_next = _reduced(graph, _columns(graph, by, step=1), ahead)
            links.append((error + offset + offset_next, 1.0 / weights, J, J_next))
        else:
            H, g = H + (J.T * weights) @ J, g - (J.T * weights) @ (error + offset)
    return _Block(H, g, *(np.concatenate(parts) for parts in zip(*links, strict=True))), squares


def _reduced(graph, J, determined: _Determined):
    """The Jacobian by the free directions, and what the offsets of the others add to the error."""
    by = J[:, graph.determined]
    return J[:, graph.free] - by @ determined.slopes, by @ determined.offset + np.zeros(len(J))


def _eliminated(block, damping):
    """known, gain, shift, pivots and conditional covariance, where H is regular: what is told before and at
    a step determines it.

    Link errors then have the covariance S = variances + F H^-1 F^T, and the next step is told S^-1 of them:
    sums of what is positive, however much surer the links are than the step, where the Schur complement
    of information would be a small difference (a Kalman filter and Rauch's smoother; Dellaert and Kaess 2017,
    sec. 3.5). A link without weight has an infinite variance, and tells nothing.
    """
    H = np.array(symmetric(block.H), dtype=object)
    diagonal = np.diag(H).copy()
    H[np.diag_indices(len(H))] = diagonal * (1.0 + damping)
    right = np.concatenate([block.by_own.T, block.g[:, None]], axis=1)
    _, pivots, half = half_solved(H, right)
    scaled = half * np.array([1.0 / pivot for pivot in pivots], dtype=object)[:, None]
    products = half[:, :-1].T @ scaled
    S = np.array(symmetric(products[:, :-1]), dtype=object)
    S[np.diag_indices(len(S))] = np.diag(S) + block.variances
    told = np.concatenate([block.by_next, (block.errors + products[:, -1])[:, None]], axis=1)
    forces = solve_definite(S, told)
    products = inverse_congruence(S, told.T)
    known = packed(products[:-1, :-1], -products[:-1, -1])
    back = block.by_own.T @ forces
    back[:, -1] = block.g - back[:, -1]
    found = solve_definite(H, back)
    P = solve_definite(H, np.eye(len(H)))
    conditional = P - inverse_congruence(S, P @ block.by_own.T)
    return known, found[:, :-1], found[:, -1], np.array(pivots, dtype=object) / diagonal, conditional
