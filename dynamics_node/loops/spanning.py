"""Rates of every joint from those of the independent ones, as numbers."""

from functools import lru_cache

import numpy as np

from dynamics_node.loops.closure import closure
from dynamics_node.program import Program, interpret, trace


@lru_cache(maxsize=16)  # of the robots at hand
def spanning_program(mechanism) -> Program:
    """q (nq,), qd, qdd (nv,) -> rates, accelerations (nv of the tree,), and G (nv of the tree, nv)."""

    def function(q, qd, qdd):
        G, g, _ = closure(mechanism, q, qd)
        return {"rates": G @ qd, "accelerations": G @ qdd + g, "G": G}

    return trace(function, {"q": (mechanism.nq,), "qd": (mechanism.nv,), "qdd": (mechanism.nv,)})


def spanning_rates(mechanism, q, qd, qdd):
    """(..., nv of the tree) twice, None for what is not given."""
    if qd is None:
        return None, None
    zero = np.zeros(mechanism.nv)
    found = interpret(spanning_program(mechanism), q=q, qd=qd, qdd=zero if qdd is None else qdd)
    return found["rates"], None if qdd is None else found["accelerations"]


def closure_matrix(mechanism, q):
    """G (..., nv of the tree, nv) at closed q (..., nq): rates of all joints by those of the independent
    ones."""
    zero = np.zeros(mechanism.nv)
    return interpret(spanning_program(mechanism), q=q, qd=zero, qdd=zero)["G"]
