"""Dependent rates from the independent ones: qd = G yd, qdd = G ydd + g (paper 3, sec. III)."""

from typing import NamedTuple

import numpy as np

from dynamics_node.loops.constraints import velocity_program
from dynamics_node.loops.elimination import Elimination
from dynamics_node.loops.equations import counting_equations
from dynamics_node.program import interpret

SINGULAR = 1e12  # condition, squared, of constraints beyond which nothing follows from them
CONTRADICTION = 1e24  # equations that miss by 1e-6 count as singular


class Closure(NamedTuple):
    """G (nv of the tree, nv), g (nv of the tree,), and how near the constraints are to being singular: 1
    plus the squares of the products of the norms of K_dep and its inverse, summed over the parts that can be
    solved one after the other. Where there are more equations than unknowns, and they contradict each other,
    as in a branch of assembly that is rigid, it is large, too."""

    G: np.ndarray
    g: np.ndarray
    condition: np.ndarray


def closure(mechanism, q, yd) -> Closure:
    """Of one state on symbols: closed q (nq,), rates yd (nv,) of the independent joints."""
    tree = mechanism.tree
    G = np.zeros((tree.nv, mechanism.nv), dtype=object)
    G[mechanism.independent, np.arange(mechanism.nv)] = 1.0
    g = np.zeros(tree.nv, dtype=object)
    column = {v: k for k, v in enumerate(mechanism.independent.tolist())}
    condition = np.array(1.0, dtype=object)
    for cluster in mechanism.clusters:
        if not cluster.dependent:
            continue
        own = [column[v] for v in cluster.independent]
        dependent, independent = list(cluster.dependent), list(cluster.independent)
        rows, sizes = counting_equations(tree, cluster)
        program = velocity_program(tree, cluster.constraints)
        K = interpret(program, q=q, qd=np.zeros(tree.nv))["K"][rows]
        elimination = Elimination(K[:, dependent], sizes)
        block = -elimination.solve(K[:, independent])
        G[np.ix_(dependent, own)] = block
        qd = np.zeros(tree.nv, dtype=object)
        qd[independent] = yd[own]
        qd[dependent] = block @ yd[own]
        k = interpret(program, q=q, qd=qd)["k"][rows]
        g[dependent] = elimination.solve(k[:, None])[:, 0]
        condition = condition + elimination.condition()
        if len(rows) > len(dependent):
            missed = K[:, dependent] @ block + K[:, independent]
            condition = condition + CONTRADICTION * (missed * missed).sum()
    return Closure(G, g, condition)
