"""Rates of every joint from those of the independent ones, as numbers."""

from functools import lru_cache

import numpy as np

from dynamics_node.loops.rates import SINGULAR, explicit_rates
from dynamics_node.program import Program, interpret, trace


@lru_cache(maxsize=16)  # of the robots at hand
def spanning_program(mechanism, judged=False) -> Program:
    """q (nq,), qd, qdd (nv,) -> rates, accelerations (nv of the tree,), and G (nv of the tree, nv); judged:
    and the condition of the constraints."""

    def function(q, qd, qdd):
        G, g, condition = explicit_rates(mechanism, q, qd)
        found = {"rates": G @ qd, "accelerations": G @ qdd + g, "G": G}
        return found | ({"condition": condition} if judged else {})

    return trace(function, {"q": (mechanism.nq,), "qd": (mechanism.nv,), "qdd": (mechanism.nv,)})


def spanning_rates(mechanism, q, qd, qdd):
    """(..., nv of the tree) twice, None for what is not given; NaN at singular positions."""
    if qd is None:
        return None, None
    found = _spread(mechanism, q, qd, np.zeros(mechanism.nv) if qdd is None else qdd)
    return found["rates"], None if qdd is None else found["accelerations"]


def _spread(mechanism, q, qd, qdd):
    with np.errstate(all="ignore"):  # what is singular is told by its condition
        found = interpret(spanning_program(mechanism, judged=True), q=q, qd=qd, qdd=qdd)
    singular = ~(found.pop("condition") <= SINGULAR)
    for array in found.values():
        array[singular] = np.nan
    return found


def closure_matrix(mechanism, q):
    """G (..., nv of the tree, nv) at closed q (..., nq): rates of all joints by those of the independent
    ones; NaN at singular positions."""
    zero = np.zeros(mechanism.nv)
    return _spread(mechanism, q, zero, zero)["G"]
