"""Any engine, traced on symbols: Problem -> Program.

The Program reads q, qd, gravity, of qdd and tau what the Problem knows, and with wrenches f_ext; it
returns what the Problem asks.
"""

from dataclasses import replace

import numpy as np

from dynamics_node.model.reframe import reframe
from dynamics_node.model.regroup import regroup
from dynamics_node.program import Program, trace
from dynamics_node.spatial import matvec, transpose


def problem_program(engine, wrenches=False) -> Program:
    """The Program of an engine: inputs q, qd, known, gravity (and f_ext), output asked.

    It runs in body frames of its own, which cost fewer operations; nothing outside sees them.
    """
    forward = np.array(engine.problem.forward, dtype=bool)
    model, T = reframe(engine.model)
    if engine.regroups:
        model = regroup(model)
    reframed = replace(engine, model=model)  # a plan stays good: frames change no block's vanishing
    inputs: dict[str, tuple[int, ...]]
    inputs = {"q": (model.nq,), "qd": (model.nv,), "known": (model.nv,), "gravity": (3,)}
    if wrenches:
        inputs["f_ext"] = (model.nbodies, 6)

    def function(q, qd, known, gravity, f_ext=None):
        zero = np.zeros(model.nv)
        given = (np.where(forward, zero, known), np.where(forward, known, zero))
        if f_ext is not None:
            f_ext = matvec(transpose(np.linalg.inv(T)), f_ext)
        qdd, tau = reframed(q, qd, *given, f_ext, gravity)
        return {"asked": np.where(forward, qdd, tau)}

    return trace(function, inputs)
