"""The factors of a step, linearised over its free directions: what Gauss and Newton's system is made of."""

from typing import NamedTuple

import numpy as np

from dynamics_node.algorithms.constraint_elimination import Elimination
from dynamics_node.symbolic import Program, interpret, inverse_diagonal, solve_definite, trace
from dynamics_node.trajectory.factor import factor_program
from dynamics_node.trajectory.graph import LINKED, weights_of


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
    solved, condition = _solved(A[:, graph.determined], right, all(f.definite for f in graph.exact))
    return Determined(solved[:, 0], solved[:, 1:], errors, np.array([condition]))


def _solved(A, right, definite):
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
