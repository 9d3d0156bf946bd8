"""Any engine, traced on symbols: Problem -> Program.

The Program reads q, qd, gravity, of qdd and tau what the Problem knows, and with wrenches f_ext; it
returns what the Problem asks.
"""

import numpy as np

from dynamics_node.program import Program, trace


def problem_program(engine, wrenches=False) -> Program:
    """The Program of an engine: inputs q, qd, known, gravity (and f_ext), output asked."""
    model, forward = engine.model, np.array(engine.problem.forward, dtype=bool)
    inputs: dict[str, tuple[int, ...]]
    inputs = {"q": (model.nq,), "qd": (model.nv,), "known": (model.nv,), "gravity": (3,)}
    if wrenches:
        inputs["f_ext"] = (model.nbodies, 6)

    def function(q, qd, known, gravity, f_ext=None):
        zero = np.zeros(model.nv)
        given = (np.where(forward, zero, known), np.where(forward, known, zero))
        qdd, tau = engine(q, qd, *given, f_ext, gravity)
        return {"asked": np.where(forward, qdd, tau)}

    return trace(function, inputs)
