"""Whether the loops of a Mechanism are closed and regular at a position."""

from functools import lru_cache

import numpy as np

from dynamics_node.loops.assemblies import why_singular_loop
from dynamics_node.loops.constraints import gaps, position_program, turned
from dynamics_node.loops.mechanism import Mechanism
from dynamics_node.loops.pivots import why_singular
from dynamics_node.loops.positions import TURNED
from dynamics_node.loops.rates import SINGULAR, explicit_rates
from dynamics_node.program import Program, interpret, trace

OPEN = 1e-6  # m or rad that an equation of a loop may miss
HEALTHY = np.array([SINGULAR, OPEN**2])  # limits of `loop_health`: the condition, and what loops may miss


def loop_health(mechanism: Mechanism, q, condition):
    """(2,): the squared condition of the constraints, as `explicit_rates` gives it, and the sum of the
    squares of what they miss at q (nq,), on symbols."""
    missed = [make(mechanism.tree, mechanism.constraints, q) for make in (gaps, turned)]
    return np.array([condition, sum(part @ part for part in missed)], dtype=object)


@lru_cache(maxsize=16)  # of the robots at hand
def health_program(mechanism: Mechanism) -> Program:
    """q -> health."""
    rest = np.zeros(mechanism.nv)

    def function(q):
        return {"health": loop_health(mechanism, q, explicit_rates(mechanism, q, rest).condition)}

    return trace(function, {"q": (mechanism.nq,)}, HEALTHY)


def why_not(mechanism: Mechanism, q, forward=None):
    """Why there is no solution at one of the positions q (..., nq): a loop is open, or singular, or where
    `forward` (nv,) is true torques determine no acceleration."""
    for constraint in mechanism.constraints:
        program = position_program(mechanism.tree, (constraint,))
        found = interpret(program, q=q)
        gap = np.abs(found["gaps"]).max(initial=0.0)
        if gap > OPEN:
            return f"{constraint.name!r} is open by {gap:.3g}: q must be closed, see close_loops"
        if found["turned"].max(initial=0.0) > TURNED:
            return f"{constraint.name!r} is open: its ends are turned away from each other, see close_loops"
    if forward is not None and (reason := why_singular(mechanism, forward, q)):
        return reason
    return why_singular_loop(mechanism, q)
