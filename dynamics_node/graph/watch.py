"""How weak the pivots of an elimination are at a state.

A pivot p of a row p x + sum_k a_k y_k = b is weak where it is small beside the rest of its row: x then
follows from values that are much larger, and digits are lost. Where no pivot is weak, the elimination is as
accurate as one that chooses its pivots at every state (Higham, Accuracy and Stability of Numerical
Algorithms, sec. 9.3: it is the growth of elements that counts). A later weak pivot loses more of what an
earlier one has left: losses multiply.
"""

import numpy as np

from dynamics_node.graph.bayesnet import BayesNet
from dynamics_node.graph.elimination import Plan, follow, pivot_system
from dynamics_node.graph.factor_graph import FactorGraph
from dynamics_node.graph.variables import Variable

VANISHES = 1e24  # weakness of a pivot that is rounding beside the rest of its row


def eliminate_watched(graph: FactorGraph, plan: Plan) -> tuple[BayesNet, dict[Variable, np.ndarray]]:
    """As `eliminate`, and of every variable whose pivot may be weak how weak it is (...): the squares of
    |rest of the row| / |pivot|, summed over the rows that it is solved from."""
    factors = dict(enumerate(graph.factors))
    conditionals, weakness = [], {}
    for step in plan.steps:
        if not step.pivot.safe:
            weakness[step.variable] = _weakness(*pivot_system(factors, step.variable, step.pivot))
        conditional, factors = follow(factors, step)
        conditionals.append(conditional)
    return BayesNet(tuple(conditionals)), weakness


def weakest_pivot(graph: FactorGraph, plan: Plan) -> Variable | None:
    """The first variable whose pivot vanishes at one of the states of a graph, for what follows is rounding;
    else the one with the weakest pivot. None where all are safe."""
    factors = dict(enumerate(graph.factors))
    found, worst = None, -1.0
    for step in plan.steps:
        with np.errstate(all="ignore"):
            if not step.pivot.safe:
                weakness = np.max(_weakness(*pivot_system(factors, step.variable, step.pivot)))
                if not weakness <= VANISHES:
                    return step.variable
                if weakness > worst:
                    found, worst = step.variable, weakness
            try:
                _, factors = follow(factors, step)
            except np.linalg.LinAlgError:
                return step.variable
    return found


def growth(weakness, usual):
    """What digits are lost by, squared (...): the product over all pivots of how weak they are beside what is
    usual. weakness, usual: {variable: (...)} of `eliminate_watched`."""
    total = 1.0
    for x, value in weakness.items():
        total = total * (1.0 + value * (1.0 / usual[x]))
    return total


def _weakness(P, joined, others):
    """Of the pivots of P (..., n, n), one after the other; joined, others: see `pivot_system`."""
    rows, total = np.concatenate([P, joined], axis=-1), 0.0
    for k in range(P.shape[-1]):
        rest, inverse = rows[..., k, k + 1 : -1], 1.0 / rows[..., k, k]
        total = total + (rest * rest).sum(axis=-1) * (inverse * inverse)
        below = rows[..., k + 1 :, k : k + 1] / rows[..., k : k + 1, k : k + 1]
        changed = rows[..., k + 1 :, :] - below * rows[..., k : k + 1, :]
        rows = np.concatenate([rows[..., : k + 1, :], changed], axis=-2)
    return total
