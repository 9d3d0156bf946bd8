"""The Gauss-Newton system of a trajectory, linearized and eliminated step by step: Programs of one step.

The exact factors of a step determine some of its directions: dx_det = offset - slopes dx_free, by Newton's
method. The remaining weighted factors are a block of a block-tridiagonal system H dx = g over the free
directions (paper 2, eq. 19; Dellaert and Kaess 2017, Factor graphs for robot perception, ch. 3). The forward
pass eliminates every step and propagates its information to the next one; the backward pass substitutes from
the last step. The matrices have a fixed pattern, so one Program runs along all steps.
"""

from functools import reduce
from operator import mul
from typing import NamedTuple

import numpy as np

from dynamics_node.algorithms.constraint_elimination import ConstraintElimination
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
    """Solution of the exact factors of a step: dx_det = offset - slopes dx_free, errors (rows,), condition
    (1,)."""

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
    equations = [_linearized(graph, factor, arrays) for factor in graph.exact]
    errors = np.concatenate([error for error, _ in equations])
    A = np.concatenate([_columns(graph, by) for _, by in equations])
    right = np.concatenate([-errors[:, None], A[:, free]], axis=1)
    solved, condition = _solved_exactly(A[:, graph.determined], right, all(f.definite for f in graph.exact))
    return Determined(solved[:, 0], solved[:, 1:], errors, np.array([condition]))


def _solved_exactly(A, right, definite):
    """Solution x of A x = right, and the square of a bound of the condition of A."""
    if definite:
        traces = np.trace(A) * np.sum(inverse_diagonal(A, np.ones(len(A), dtype=bool)))
        return solve_definite(A, right), traces * traces
    elimination = ConstraintElimination(A, np.ones(len(A)))
    return elimination.solve(right), elimination.condition()


class StepBlock(NamedTuple):
    """H, g over the free directions of a step, from the incoming information and its own factors; of factors
    linking to the next step: errors (rows,), variances (rows,), Jacobians by both steps (rows, free)."""

    H: np.ndarray
    g: np.ndarray
    errors: np.ndarray
    variances: np.ndarray
    by_own: np.ndarray
    by_next: np.ndarray


def linearized(graph, H, g, arrays, after, here: Determined, ahead: Determined):
    """The StepBlock of a step with incoming information H, g, and the normalized squared errors of its
    weighted factors. arrays: its numbers {name: array of symbols}, after: those of the next one."""
    free, squares = len(graph.order), []
    links = [(np.zeros(0), np.zeros(0), np.zeros((0, free)), np.zeros((0, free)))]
    for factor in graph.weighted:
        error, by = _linearized(graph, factor, arrays, after)
        weights = arrays[weights_of(factor.name)]
        if factor.after:
            weights = weights * arrays[LINKED][0]
        squares.append(weights @ (error * error))
        if factor.loss is not None:
            weights = weights * factor.loss.weight(squares[-1])
        J, offset = _reduced(graph, _columns(graph, by), here)
        if factor.after:
            J_next, offset_next = _reduced(graph, _columns(graph, by, step=1), ahead)
            links.append((error + offset + offset_next, 1.0 / weights, J, J_next))
        else:
            H, g = H + (J.T * weights) @ J, g - (J.T * weights) @ (error + offset)
    rows = (np.concatenate(parts)[graph.link_order] for parts in zip(*links, strict=True))
    return StepBlock(H, g, *rows), squares


def reading_program(graph, names) -> Program:
    """The variables of a step -> read (rows, 1 + columns), of all factors `names` in order: the predicted
    readings, and their Jacobian by all directions."""

    def function(**arrays):
        blocks = []
        for factor in (factor for name in names for factor in graph.factors if factor.name == name):
            nothing = {name: np.zeros(shape) for name, shape in factor.data.items()}
            value, by = _linearized(graph, factor, arrays | nothing)
            blocks.append(np.column_stack([value, _columns(graph, by)]))
        return {"read": np.concatenate(blocks)}

    return trace(function, {variable.name: (variable.size,) for variable in graph.variables})


def _linearized(graph, factor, arrays, after=None):
    """The error of a factor, and {(variable, 0 or 1): its Jacobian}."""
    of = (arrays, after)
    given = {argument: of[step][name] for name, step, argument in factor.variables}
    given |= {name: arrays[name] for name in factor.data}
    outputs = interpret(factor_program(factor, graph.variables_of(factor)), **given)
    return outputs["residual"], {(n, s): outputs[f"by {argument}"] for n, s, argument in factor.variables}


def _columns(graph, by, step=0):
    """The Jacobian by all directions of a step, (rows, columns)."""
    rows = len(next(iter(by.values())))
    J = np.zeros((rows, len(graph.column_names)), dtype=object)
    for (name, of), block in by.items():
        if of == step:
            J[:, graph.columns[name]] = block
    return J


def _reduced(graph, J, exact: Determined):
    """The Jacobian by the free directions, and the contribution of the offsets to the error."""
    by = J[:, graph.determined]
    return J[:, graph.order] - by @ exact.slopes, by @ exact.offset + np.zeros(len(J))


LEAST = 1e-12  # damping: relative; keeps H definite despite rounding and does not move the optimum
SINGULAR = 1e24  # squared condition of the exact factors
WEAK = 1e-11  # fraction of a pivot: only damping or rounding determines the direction
TINY = 1e-14  # to the sixth power, of the damping: gives undetermined directions a pivot of 0, not NaN


class EliminatedStep(NamedTuple):
    """Stored factors of a step: H = L^T D L, as L below the diagonal, row by row, and 1 / D; the same for S,
    the covariance of the errors of its links; their Jacobians by this step and the next one, their errors for
    the estimate from incoming information; and g."""

    L: np.ndarray
    inverse: np.ndarray
    L_links: np.ndarray
    inverse_links: np.ndarray
    by_own: np.ndarray
    by_next: np.ndarray
    errors: np.ndarray
    g: np.ndarray


def eliminated_shapes(graph: TrajectoryGraph) -> Shapes:
    """{name: shape} of the parts of EliminatedStep."""
    n, m = len(graph.order), len(graph.link_order)
    shapes = (n * (n - 1) // 2,), (n,), (m * (m - 1) // 2,), (m,), (m, n), (m, n), (m,), (n,)
    return dict(zip(EliminatedStep._fields, shapes, strict=True))


# --- Programs -----------------------------------------------------------------------------------------------


def arrival_program(graph: TrajectoryGraph) -> Program:
    """known, `packed`, of a step whose variables were `at` (stored,), and the part `ahead` of its row ->
    carry for it. The directions of a free joint are determined all, or none."""

    def function(known, at, row):
        H, g = unpacked(graph, known)
        columns = len(graph.column_names)
        error, D, start = np.zeros(columns, dtype=object), np.zeros((columns, columns), dtype=object), 0
        for variable in graph.variables:
            block, place = graph.columns[variable.name], slice(start, start + variable.size)
            error[block], D[block, block] = _difference(variable, row[place], at[place])
            start += variable.size
        D = D[np.ix_(graph.order, graph.order)]
        there = packed(D.T @ H @ D, D.T @ (g - H @ error[graph.order]))
        return {"carry": _carry(there, determined(graph, _parts(row, graph.ahead)))}

    return trace(
        function, {"known": (known_size(graph),), "at": (graph.stored,), "row": (_size(graph.ahead),)}
    )


def forward_program(graph: TrajectoryGraph) -> Program:
    """carry: information of the previous steps about this one, `packed`, and its solved exact factors; the
    row of the step, and `ahead` of the next one -> carry for that, the inputs of `backward_program`, and

    exact: errors of the exact factors; squares (weighted factors,): their normalized squared errors; pivots
    (free,): ratio of the pivot of every free direction to its diagonal entry, 0 if undetermined; health (2,):
    the squared condition of the exact factors, and the sum of inverse pivots.
    """
    reads: Shapes = {"carry": (carry_size(graph),)} | graph.row
    reads |= {name + NEXT: shape for name, shape in graph.ahead.items()}

    def function(carry, **arrays):
        after = {name: arrays.pop(name + NEXT) for name in graph.ahead}
        H, g = unpacked(graph, carry[: known_size(graph)])
        here = Determined(**_parts(carry[known_size(graph) :], determined_shapes(graph)))
        ahead = determined(graph, after)
        block, squares = linearized(graph, H, g, arrays, after, here, ahead)
        known, kept, pivots = _eliminated(block, arrays[DAMPING][0])
        health = np.array([here.condition[0], sum(1.0 / pivot for pivot in pivots)])
        stored = np.concatenate([arrays[variable.name] for variable in graph.variables])
        outputs = {"carry": _carry(known, ahead), "stored": stored} | kept._asdict()
        outputs |= {"offset": here.offset, "slopes": here.slopes, "exact": here.errors}
        return outputs | {"squares": np.array(squares), "pivots": pivots, "health": health}

    return trace(function, reads)


def backward_program(graph: TrajectoryGraph) -> Program:
    """carry: dx (free,) of the next step; stored, parts of EliminatedStep, offset, slopes from
    `forward_program` -> carry: dx (free,), the variables after the step, and `change`: the sum over variables
    of squared dx relative to 1 plus the squared variable."""
    exact = determined_shapes(graph)
    reads: Shapes = {"carry": (len(graph.order),), "stored": (graph.stored,)} | eliminated_shapes(graph)
    reads |= {name: exact[name] for name in ("offset", "slopes")}

    def function(carry, stored, offset, slopes, **parts):
        dx = np.zeros(len(graph.column_names), dtype=object)
        dx[graph.order] = eliminated = _substituted(EliminatedStep(**parts), carry)
        dx[graph.determined] = offset - slopes @ eliminated
        free = np.isin(np.arange(len(dx)), graph.order)
        outputs, start, change = {"carry": eliminated}, 0, 0.0
        for variable in graph.variables:
            x, columns = stored[start : start + variable.size], graph.columns[variable.name]
            outputs[variable.name] = variable.moved(x, dx[columns])
            step = dx[columns][free[columns]]
            change = change + (step @ step) / (1.0 + x @ x) if len(step) else change
            start += variable.size
        return outputs | {CHANGE: np.array([change])}

    return trace(function, reads)


# --- numbers in a row ---------------------------------------------------------------------------------------


def known_size(graph: TrajectoryGraph):
    """Size of `packed`."""
    free = len(graph.order)
    return free * (free + 1) // 2 + free


def carry_size(graph: TrajectoryGraph):
    """Size of the carry between steps: `packed`, and Determined of the exact factors."""
    return known_size(graph) + _size(determined_shapes(graph))


def packed(H, g):
    """The lower triangle of H (free, free), then g (free,)."""
    return np.concatenate([H[np.tril_indices(len(g))], g])


def packed_prior(graph: TrajectoryGraph, prior: Prior):
    """`packed` prior of a first step."""
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
    """{name: array} of consecutive numbers."""
    arrays, start = {}, 0
    for name, shape in shapes.items():
        size = int(np.prod(shape))
        arrays[name] = numbers[start : start + size].reshape(shape)
        start += size
    return arrays


def _size(shapes: Shapes):
    return sum(int(np.prod(shape)) for shape in shapes.values())


# --- one block ----------------------------------------------------------------------------------------------


def _eliminated(block, damping):
    """Information about the next step, `packed`, EliminatedStep, and pivots. H must be regular: incoming
    information and the factors of the step determine it.

    The link errors have the covariance S = variances + F H^-1 F^T, and the next step gets their information
    S^-1. These are sums of positive terms, even if the links are much more precise than the step, in which
    case the Schur complement of information would be a small difference (a Kalman filter and Rauch's
    smoother; Dellaert and Kaess 2017, sec. 3.5). A link without weight has infinite variance and no
    information.
    """
    H = np.array(symmetric(block.H), dtype=object)
    diagonal = np.diag(H).copy()
    nothing = reduce(mul, 6 * [TINY], damping)
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
    kept = EliminatedStep(*factors, block.by_own, block.by_next, errors, block.g)
    pivots = (np.array(D, dtype=object) - nothing) / (diagonal + nothing)
    return packed(symmetric(onward[:, :-1]), -onward[:, -1]), kept, pivots


def _substituted(kept: EliminatedStep, dx_next):
    """dx of a step from that of the next one."""
    forces = _solved(kept.L_links, kept.inverse_links, kept.errors + kept.by_next @ dx_next)
    return _solved(kept.L, kept.inverse, kept.g - kept.by_own.T @ forces)


def _solved(below, inverse, right):
    """(L^T D L)^-1 right (n,), with L and D from `half_solved`."""
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
