"""How weak the pivots of an elimination are at a state.

A pivot p of a row p x + sum_k a_k y_k = b is weak where p x is small beside the terms that it is the rest of:
then x loses their last digits. Where no pivot is weak, the elimination is as accurate as one that chooses its
pivots at every state (Higham, Accuracy and Stability of Numerical Algorithms, sec. 9.3: it is the growth of
elements that counts). The sizes of x and y_k are those at generic states, so that units do not matter.
"""

import numpy as np

from dynamics_node.graph.bayesnet import BayesNet
from dynamics_node.graph.build import FactorGraph
from dynamics_node.graph.elimination import Plan, eliminate, follow, pivot_system
from dynamics_node.graph.variables import Variable

HEALTHY = np.array([1e9])  # limit of the sum of all: up to there results are good to 1e-10 (measured)
LEAST = 1e-6  # size of a variable, beside the largest of its kind, below which it is zero by chance


def usual_sizes(graph: FactorGraph, plan: Plan) -> dict[Variable, float]:
    """Of every variable its root mean square at the states of a graph."""
    values = eliminate(graph, plan).solve()
    sizes = {x: float(np.sqrt(np.mean(value**2))) for x, value in values.items()}
    largest = {x.kind: max(sizes[y] for y in sizes if y.kind == x.kind) for x in sizes}
    return {x: max(size, LEAST * largest[x.kind]) or 1.0 for x, size in sizes.items()}


def eliminate_watched(graph: FactorGraph, plan: Plan, sizes) -> tuple[BayesNet, dict[Variable, np.ndarray]]:
    """As `eliminate`, and of every variable whose pivot may be weak how weak it is (...): the squares of the
    other terms beside the pivot's, summed over the rows that it is solved from. sizes: `usual_sizes`."""
    factors = dict(enumerate(graph.factors))
    conditionals, weakness = [], {}
    for step in plan.steps:
        if not step.pivot.safe:
            weakness[step.variable] = _weakness(factors, step, sizes)
        conditional, factors = follow(factors, step)
        conditionals.append(conditional)
    return BayesNet(tuple(conditionals)), weakness


def _weakness(factors, step, sizes):
    """Of the pivots of a step, one after the other."""
    P, joined, others = pivot_system(factors, step.variable, step.pivot)
    rows, own, total = np.concatenate([P, joined], axis=-1), step.variable.dim, 0.0
    ends = np.cumsum([own, *(y.dim for y in others)])
    for k in range(own):
        squares = rows[..., k, :] * rows[..., k, :]
        terms = squares[..., k + 1 : own].sum(axis=-1)
        for y, end in zip(others, ends[1:], strict=True):
            weight = (sizes[y] / sizes[step.variable]) ** 2
            terms = terms + weight * squares[..., end - y.dim : end].sum(axis=-1)
        inverse = 1.0 / rows[..., k, k]
        total = total + terms * (inverse * inverse)
        below = rows[..., k + 1 :, k : k + 1] / rows[..., k : k + 1, k : k + 1]
        changed = rows[..., k + 1 :, :] - below * rows[..., k : k + 1, :]
        rows = np.concatenate([rows[..., : k + 1, :], changed], axis=-2)
    return total
