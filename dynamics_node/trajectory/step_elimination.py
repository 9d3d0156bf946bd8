"""Gauss and Newton's system of a trajectory, linearized and eliminated step by step: Programs of one step.

The exact factors of a step determine some of its directions: dx_det = offset - slopes dx_free, by Newton's
method. What is left of its weighted factors is a block of a block-tridiagonal system H dx = g over the free
directions (paper 2, eq. 19; Dellaert and Kaess 2017, Factor graphs for robot perception, ch. 3). Forward,
every step is eliminated, and its information about the next one is carried on; backward, the steps follow
from the last one. The matrices have one fixed pattern, so a step is a Program, run along all steps.
"""

from functools import reduce
from operator import mul
from typing import NamedTuple

import numpy as np

from dynamics_node.algorithms.constraint_elimination import Elimination
from dynamics_node.robot import Shapes
from dynamics_node.symbolic import (
    Program,
    derivative_name,
    half_solved,
    interpret,
    inverse_diagonal,
    jacobian,
    solve_definite,
    symmetric,
    trace,
)
from dynamics_node.trajectory.factor import NEXT, factor_program
from dynamics_node.trajectory.trajectory_graph import (
    CHANGE,
    DAMPING,
    LINKED,
    Prior,
    TrajectoryGraph,
    weights_of,
)


class Determined(NamedTuple):
    """Of the exact factors of a step: dx_det = offset - slopes dx_free, errors (rows,), condition (1,)."""

    offset: np.ndarray
    slopes: np.ndarray
    errors: np.ndarray
    condition: np.ndarray


def determined_shapes(graph):
    """{name: shape} of the parts of Determined."""
    count = len(graph.determined)
    shapes = (count,), (count, len(graph.order)), (count,), (1,)
    return dict(zip(Determined._fields, shapes, strict=True))


def determined(graph, arrays) -> Determined:
    """From the variables and data of a step, {name: array of symbols}."""
    free, count = graph.order, len(graph.determined)
    if not count:
        return Determined(np.zeros(0), np.zeros((0, len(free))), np.zeros(0), np.zeros(1))
    found = [_linearised(graph, factor, arrays) for factor in graph.exact]
    errors = np.concatenate([error for error, _ in found])
    A = np.concatenate([_columns(graph, by) for _, by in found])
    right = np.concatenate([-errors[:, None], A[:, free]], axis=1)
    solved, condition = _solved_exactly(A[:, graph.determined], right, all(f.definite for f in graph.exact))
    return Determined(solved[:, 0], solved[:, 1:], errors, np.array([condition]))


def _solved_exactly(A, right, definite):
    """x of A x = right, and the square of a bound of the condition of A."""
    if definite:
        traces = np.trace(A) * np.sum(inverse_diagonal(A, np.ones(len(A), dtype=bool)))
        return solve_definite(A, right), traces * traces
    elimination = Elimination(A, np.ones(len(A)))
    return elimination.solve(right), elimination.condition()


class Block(NamedTuple):
    """H, g of the free directions of a step, of what is told before it and of its own factors; of factors
    towards the next step errors (rows,), variances (rows,), Jacobians by both steps (rows, free)."""

    H: np.ndarray
    g: np.ndarray
    errors: np.ndarray
    variances: np.ndarray
    by_own: np.ndarray
    by_next: np.ndarray


def linearised(graph, H, g, arrays, after, own: Determined, ahead: Determined):
    """The Block of a step of which H, g are told, and the squared errors of its weighted factors over the
    variances. arrays: its numbers {name: array of symbols}, after: those of the next one."""
    free, squares = len(graph.order), []
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
    rows = (np.concatenate(parts)[graph.link_order] for parts in zip(*links, strict=True))
    return Block(H, g, *rows), squares


def reading_program(graph, names) -> Program:
    """The variables of a step -> read (rows, 1 + columns), of all factors `names`, one after the other: what
    would be read there, and its Jacobian by all directions."""

    def function(**arrays):
        found = []
        for factor in (factor for name in names for factor in graph.factors if factor.name == name):
            nothing = {name: np.zeros(shape) for name, shape in factor.data.items()}
            value, by = _linearised(graph, factor, arrays | nothing)
            found.append(np.column_stack([value, _columns(graph, by)]))
        return {"read": np.concatenate(found)}

    return trace(function, {variable.name: (variable.size,) for variable in graph.variables})


def _linearised(graph, factor, arrays, after=None):
    """The error of a factor, and {(variable, 0 or 1): its Jacobian}."""
    of = (arrays, after)
    given = {argument: of[step][name] for name, step, argument in factor.variables}
    given |= {name: arrays[name] for name in factor.data}
    found = interpret(factor_program(factor, graph.variables_of(factor)), **given)
    return found["residual"], {(n, s): found[f"by {argument}"] for n, s, argument in factor.variables}


def _columns(graph, by, step=0):
    """The Jacobian by all directions of a step, (rows, columns)."""
    rows = len(next(iter(by.values())))
    J = np.zeros((rows, len(graph.column_names)), dtype=object)
    for (name, of), block in by.items():
        if of == step:
            J[:, graph.columns[name]] = block
    return J


def _reduced(graph, J, exact: Determined):
    """The Jacobian by the free directions, and what the offsets of the others add to the error."""
    by = J[:, graph.determined]
    return J[:, graph.order] - by @ exact.slopes, by @ exact.offset + np.zeros(len(J))


LEAST = 1e-12  # damping: relative, so that rounding makes no H indefinite; it moves no optimum
SINGULAR = 1e24  # square of the condition of what exact factors determine
WEAK = 1e-11  # of a pivot: damping, or rounding, alone determines the direction
LITTLE = 1e-14  # six times over, of the damping: for what nothing determines, whose pivot is then 0, not NaN


class Eliminated(NamedTuple):
    """What is kept of a step: H = L^T D L, of which L below the diagonal, row by row, and 1 / D; as much of
    S, the covariance of the errors of its links; their Jacobians by this step and the next one, their errors
    when this one follows what it is told; and g."""

    L: np.ndarray
    inverse: np.ndarray
    L_links: np.ndarray
    inverse_links: np.ndarray
    by_own: np.ndarray
    by_next: np.ndarray
    errors: np.ndarray
    g: np.ndarray


def eliminated_shapes(graph: TrajectoryGraph) -> Shapes:
    """{name: shape} of the parts of Eliminated."""
    n, m = len(graph.order), len(graph.link_order)
    shapes = (n * (n - 1) // 2,), (n,), (m * (m - 1) // 2,), (m,), (m, n), (m, n), (m,), (n,)
    return dict(zip(Eliminated._fields, shapes, strict=True))


# --- Programs -----------------------------------------------------------------------------------------------


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
        D = D[np.ix_(graph.order, graph.order)]
        there = packed(D.T @ H @ D, D.T @ (g - H @ error[graph.order]))
        return {"carry": _carry(there, determined(graph, _parts(row, graph.ahead)))}

    return trace(
        function, {"known": (known_size(graph),), "at": (graph.stored,), "row": (_size(graph.ahead),)}
    )


def forward_program(graph: TrajectoryGraph) -> Program:
    """carry: what the steps before know about this one, `packed`, and its exact factors, solved; the row of
    the step, and `ahead` of the next one -> carry for that, and what `backward_program` reads; and

    exact: errors of the exact factors, squares (weighted factors,): their squared errors over the variances,
    pivots (free,): of every free direction, what is left of its diagonal entry when those before it are
    eliminated, over that entry: 0 of one that nothing determines; health (2,): the square of the condition
    of what exact factors determine, and the sum of one over the pivots.
    """
    reads: Shapes = {"carry": (carry_size(graph),)} | graph.row
    reads |= {name + NEXT: shape for name, shape in graph.ahead.items()}

    def function(carry, **arrays):
        after = {name: arrays.pop(name + NEXT) for name in graph.ahead}
        H, g = unpacked(graph, carry[: known_size(graph)])
        own = Determined(**_parts(carry[known_size(graph) :], determined_shapes(graph)))
        ahead = determined(graph, after)
        block, squares = linearised(graph, H, g, arrays, after, own, ahead)
        known, kept, pivots = _eliminated(block, arrays[DAMPING][0])
        health = np.array([own.condition[0], sum(1.0 / pivot for pivot in pivots)])
        stored = np.concatenate([arrays[variable.name] for variable in graph.variables])
        found = {"carry": _carry(known, ahead), "stored": stored} | kept._asdict()
        found |= {"offset": own.offset, "slopes": own.slopes, "exact": own.errors}
        return found | {"squares": np.array(squares), "pivots": pivots, "health": health}

    return trace(function, reads)


def backward_program(graph: TrajectoryGraph) -> Program:
    """carry: dx (free,) of the next step; stored, parts of Eliminated, offset, slopes as `forward_program`
    leaves them -> carry: dx (free,), the variables after the step, and `change`: the squares of dx, of every
    variable over 1 plus its own, summed."""
    exact = determined_shapes(graph)
    reads: Shapes = {"carry": (len(graph.order),), "stored": (graph.stored,)} | eliminated_shapes(graph)
    reads |= {name: exact[name] for name in ("offset", "slopes")}

    def function(carry, stored, offset, slopes, **parts):
        dx = np.zeros(len(graph.column_names), dtype=object)
        dx[graph.order] = own = _substituted(Eliminated(**parts), carry)
        dx[graph.determined] = offset - slopes @ own
        free = np.isin(np.arange(len(dx)), graph.order)
        found, start, change = {"carry": own}, 0, 0.0
        for variable in graph.variables:
            x, columns = stored[start : start + variable.size], graph.columns[variable.name]
            found[variable.name] = variable.moved(x, dx[columns])
            step = dx[columns][free[columns]]
            change = change + (step @ step) / (1.0 + x @ x) if len(step) else change
            start += variable.size
        return found | {CHANGE: np.array([change])}

    return trace(function, reads)


# --- numbers in a row ---------------------------------------------------------------------------------------


def known_size(graph: TrajectoryGraph):
    """Numbers of `packed`."""
    free = len(graph.order)
    return free * (free + 1) // 2 + free


def carry_size(graph: TrajectoryGraph):
    """Numbers that are carried from step to step: `packed`, and of the exact factors what is determined."""
    return known_size(graph) + _size(determined_shapes(graph))


def packed(H, g):
    """The lower triangle of H (free, free), then g (free,)."""
    return np.concatenate([H[np.tril_indices(len(g))], g])


def packed_prior(graph: TrajectoryGraph, prior: Prior):
    """`packed`, of what is known of a first step."""
    places = [graph.free.index(k) for k in graph.order]
    return packed(prior.information[np.ix_(places, places)], prior.pull[places])


def unpacked(graph: TrajectoryGraph, known):
    """H, g of `packed`."""
    free = len(graph.order)
    H = np.zeros((free, free), dtype=known.dtype)
    rows, columns = np.tril_indices(free)
    H[rows, columns] = H[columns, rows] = known[: len(rows)]
    return H, known[len(rows) :]


def _carry(known, exact: Determined):
    return np.concatenate([known, *map(np.ravel, exact)])


def _parts(numbers, shapes: Shapes):
    """{name: array} of numbers in a row."""
    found, start = {}, 0
    for name, shape in shapes.items():
        size = int(np.prod(shape))
        found[name] = numbers[start : start + size].reshape(shape)
        start += size
    return found


def _size(shapes: Shapes):
    return sum(int(np.prod(shape)) for shape in shapes.values())


# --- one block ----------------------------------------------------------------------------------------------


def _eliminated(block, damping):
    """What is told about the next step, `packed`, Eliminated, and pivots; H is regular: what is told before
    and at a step determines it.

    Link errors then have the covariance S = variances + F H^-1 F^T, and the next step is told S^-1 of them:
    sums of what is positive, however much surer the links are than the step, where the Schur complement
    of information would be a small difference (a Kalman filter and Rauch's smoother; Dellaert and Kaess 2017,
    sec. 3.5). A link without weight has an infinite variance, and tells nothing.
    """
    H = np.array(symmetric(block.H), dtype=object)
    diagonal = np.diag(H).copy()
    nothing = reduce(mul, 6 * [LITTLE], damping)
    H[np.diag_indices(len(H))] = diagonal * (1.0 + damping) + nothing
    L, D, half = half_solved(H, np.concatenate([block.by_own.T, block.g[:, None]], axis=1))
    inverse = 1.0 / np.array(D, dtype=object)
    products = half[:, :-1].T @ (half * inverse[:, None])
    S = np.array(symmetric(products[:, :-1]), dtype=object)
    S[np.diag_indices(len(S))] = np.diag(S) + block.variances
    errors = block.errors + products[:, -1]
    L_links, D_links, half = half_solved(S, np.concatenate([block.by_next, errors[:, None]], axis=1))
    inverse_links = 1.0 / np.array(D_links, dtype=object)
    onward = half[:, :-1].T @ (half * inverse_links[:, None])
    factors = (_below(L), inverse, _below(L_links), inverse_links)
    kept = Eliminated(*factors, block.by_own, block.by_next, errors, block.g)
    pivots = (np.array(D, dtype=object) - nothing) / (diagonal + nothing)
    return packed(symmetric(onward[:, :-1]), -onward[:, -1]), kept, pivots


def _substituted(kept: Eliminated, dx_next):
    """dx of a step from that of the next one."""
    forces = _solved(kept.L_links, kept.inverse_links, kept.errors + kept.by_next @ dx_next)
    return _solved(kept.L, kept.inverse, kept.g - kept.by_own.T @ forces)


def _solved(below, inverse, right):
    """(L^T D L)^-1 right (n,), as `half_solved` leaves L and D."""
    n, x = len(right), np.array(right, dtype=object)
    L = np.zeros((n, n), dtype=object)
    L[np.tril_indices(n, -1)] = below
    for k in reversed(range(n)):
        x[:k] = x[:k] - L[k, :k] * x[k]
    x = x * inverse
    for k in range(n):
        x[k] = x[k] - L[k, :k] @ x[:k]
    return x


def _below(L):
    return L[np.tril_indices(len(L), -1)]


def _difference(variable, x, start):
    """variable.difference, and its Jacobian by the directions of x."""
    shapes: Shapes = {"x": (variable.size,), "start": (variable.size,)}
    program = trace(lambda x, start: {"error": variable.difference(x, start)}, shapes)
    by = interpret(jacobian(program, ["error"], ["x"]), x=x, start=start)[derivative_name("error", "x")]
    return variable.difference(x, start), by @ variable.tangent_map(x)
