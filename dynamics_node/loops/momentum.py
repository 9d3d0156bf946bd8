"""Generalised momentum of a Mechanism, on symbols of one state, and compiled from them on floats."""

from functools import lru_cache

import numpy as np

from dynamics_node.algorithms import momentum as tree_momentum
from dynamics_node.loops.rates import Rates
from dynamics_node.program import interpret, trace


def momentum(mechanism, q, yd, gravity):
    """p (nv,) and rate (nv,) of the independent joints as of `algorithms.momentum`, and the condition of the
    constraints: p = G^T p_tree, so dp/dt = tau + G^T rate_tree + (dG/dt)^T p_tree."""
    rates = Rates(mechanism, q, yd)
    p, rate = tree_momentum(mechanism.tree, q, rates.qd, gravity)
    found = rates.independent(p), rates.independent(rate + rates.turning(p))
    return found, rates.condition


def mechanism_momentum(mechanism, q, qd, gravity=None):
    """The same of closed q (..., nq), qd (..., nv) as numbers, without the condition."""
    g = mechanism.gravity if gravity is None else gravity
    found = interpret(_program(mechanism), q=q, qd=qd, gravity=g)
    return tuple(np.asarray(array, dtype=float) for array in found.values())


@lru_cache(maxsize=16)  # of the robots at hand
def _program(mechanism):
    shapes = {"q": (mechanism.nq,), "qd": (mechanism.nv,), "gravity": (3,)}

    def function(q, qd, gravity):
        p, rate = momentum(mechanism, q, qd, gravity)[0]
        return {"momentum": p, "rate": rate}

    return trace(function, shapes)
