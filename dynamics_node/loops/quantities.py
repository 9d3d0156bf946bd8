"""Quantities of a Mechanism from those of its tree, on symbols of one state: the tree moves at qd = G yd and
qdd = G ydd + g; what belongs to its joints goes to the independent ones through G."""

from functools import partial

import numpy as np

from dynamics_node import algorithms
from dynamics_node.algorithms import coriolis_matrix as tree_coriolis_matrix
from dynamics_node.algorithms import crba, rnea
from dynamics_node.algorithms import momentum_regressor as tree_momentum_regressor
from dynamics_node.loops.forces import loop_wrenches
from dynamics_node.loops.rates import Rates


def of_the_tree(function, reads, rows=(), columns=()):
    """way(mechanism, *arrays, **options) -> (results, condition of the constraints) of a function of a tree.

    function: (model, *arrays, **options) -> results, of the arrays `reads` by name; rows, columns: numbers of
    those results whose first or last axis belongs to the joints of the tree."""
    return partial(_of_the_tree, function, reads, rows, columns)


def _of_the_tree(function, reads, rows, columns, mechanism, *arrays, **options):
    given = dict(zip(reads, arrays, strict=True))
    if not (rows or columns or "qd" in given):
        return function(mechanism.tree, *arrays, **options), np.array(1.0, dtype=object)
    rates = Rates(
        mechanism, given["q"], given.get("qd", np.zeros(mechanism.nv)), explicit=bool(rows or columns)
    )
    if "qd" in given:
        given["qd"] = rates.qd
    if "qdd" in given:
        given["qdd"] = rates.accelerations(given["qdd"])
    results = list(function(mechanism.tree, *given.values(), **options))
    for k in rows:
        results[k] = rates.G.T @ results[k]
    for k in columns:
        results[k] = results[k] @ rates.G
    return tuple(results), rates.condition


def coriolis_matrix(mechanism, q, yd):
    """C (nv, nv) with C yd = G^T (M g + C_tree qd), and dM/dt - 2 C skew-symmetric for M = G^T M_tree G, as
    G^T M_tree dG/dt + G^T C_tree G is; and the condition of the constraints."""
    rates = Rates(mechanism, q, yd, explicit=True)
    G, tree = rates.G, mechanism.tree
    C = G.T @ (crba(tree, q) @ rates.change() + tree_coriolis_matrix(tree, q, rates.qd) @ G)
    return (C,), rates.condition


def jacobian_drift(link_motion):
    """Way of dJ/dt yd (6,) of J of the independent joints from that of `algorithms.link_motion`."""

    def way(mechanism, q, yd, **options):
        found, condition = link_motion(mechanism, q, yd, np.zeros(mechanism.nv), **options)
        return (found[3],), condition

    return way


def joint_wrenches(mechanism, q, yd, ydd, gravity, redundant="refuse"):
    """Wrenches (nbodies, 6) as of `algorithms.joint_wrenches`, drives standing at the independent joints, and
    the condition of the constraints. redundant and errors as of `loop_wrenches`."""
    rates, tree = Rates(mechanism, q, yd), mechanism.tree
    qdd = rates.accelerations(ydd)
    tau = rnea(tree, q, rates.qd, qdd, gravity=gravity)
    f_ext = loop_wrenches(mechanism, q, tau, redundant)
    return (algorithms.joint_wrenches(tree, q, rates.qd, qdd, gravity, f_ext),), rates.condition


def momentum_regressor(mechanism, q, yd, gravity, link=None):
    """P and R (nv, 10 nbodies), or (nv, 10) of a link, of `algorithms.momentum_regressor`, as momenta and
    rates of `loops.momentum`, and the condition of the constraints."""
    rates = Rates(mechanism, q, yd, explicit=True)
    P, R = tree_momentum_regressor(mechanism.tree, q, rates.qd, gravity, link)
    return (rates.G.T @ P, rates.G.T @ R + rates.change().T @ P), rates.condition
