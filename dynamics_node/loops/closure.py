"""Dependent rates from the independent ones: qd = G yd, qdd = G ydd + g (paper 3, sec. III)."""

from typing import NamedTuple

import numpy as np

from dynamics_node.loops.constraints import velocity_program
from dynamics_node.program import interpret
from dynamics_node.spatial import solve


class Closure(NamedTuple):
    """G (nv of the tree, nv), g (nv of the tree,), and how near the constraints are to being singular: 1
    plus the squares of the products of the norms of K_dep and its inverse, summed over the clusters."""

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
        rows = list(cluster.rows)
        program = velocity_program(tree, cluster.constraints)
        K = interpret(program, q=q, qd=np.zeros(tree.nv))["K"][rows]
        inverse = inverse_of(K[:, dependent])
        block = -(inverse @ K[:, independent])
        G[np.ix_(dependent, own)] = block
        qd = np.zeros(tree.nv, dtype=object)
        qd[independent] = yd[own]
        qd[dependent] = block @ yd[own]
        g[dependent] = inverse @ interpret(program, q=q, qd=qd)["k"][rows]
        K_dep = K[:, dependent]
        condition = condition + (K_dep * K_dep).sum() * (inverse * inverse).sum()
    return Closure(G, g, condition)


def inverse_of(A):
    """By cofactors up to three rows, which needs no pivots; else by elimination in the order given."""
    n = len(A)
    if n <= 3:
        cofactors = np.array([[_cofactor(A, j, i) for j in range(n)] for i in range(n)], dtype=object)
        return cofactors * (1.0 / (A[0] @ cofactors[:, 0]))
    return solve(A, np.eye(n, dtype=object))


def _cofactor(A, i, j):
    rest = np.delete(np.delete(A, i, 0), j, 1)
    if len(rest) == 2:
        minor = rest[0, 0] * rest[1, 1] - rest[0, 1] * rest[1, 0]
    else:
        minor = rest[0, 0] if len(rest) else 1.0
    return minor if (i + j) % 2 == 0 else -minor
