"""Any engine, traced on symbols: Problem -> Program.

The Program reads q, qd, gravity, of qdd and tau what the Problem knows (`known`), and returns what it asks
(`asked`). More inputs on demand: `f_ext`; and in place of constants `inertia`, `armature`. Where the mass
matrix may be singular at some position it returns `health` besides: see algorithms/pivots.py.
"""

from dataclasses import replace

import numpy as np

from dynamics_node.algorithms.pivots import dynamics_health
from dynamics_node.model.inputs import inertial_values, with_inputs
from dynamics_node.model.parameters import PARAMETERS
from dynamics_node.model.reframe import reframe
from dynamics_node.model.regroup import regroup
from dynamics_node.program import Program, trace
from dynamics_node.spatial import matvec, transpose


def problem_program(engine, wrenches=False, parameters=(), watched=()) -> Program:
    """The Program of an engine: inputs q, qd, known, gravity (, f_ext) and the parameters, outputs asked
    (, health).

    It runs in body frames and with inertial parameters of its own, which cost fewer operations; nothing
    outside sees them. parameters: of PARAMETERS, those that are inputs; their values: `parameter_values`.
    watched: coordinates (nv,) bool whose pivots make up health; none if there is no True.
    """
    assert set(parameters) <= set(PARAMETERS)
    forward = np.array(engine.problem.forward, dtype=bool)
    model, T = economical(engine)

    def function(q, qd, known, gravity, f_ext=None, inertia=None, armature=None):
        zero = np.zeros(model.nv)
        given = (np.where(forward, zero, known), np.where(forward, known, zero))
        if f_ext is not None:
            f_ext = matvec(transpose(np.linalg.inv(T)), f_ext)
        own = replace(engine, model=with_inputs(model, engine.regroups, inertia, armature))
        qdd, tau = own(q, qd, *given, f_ext, gravity)
        found = {"asked": np.where(forward, qdd, tau)}
        if any(watched):
            by_mass_matrix = getattr(engine, "by_mass_matrix", False)
            found["health"] = dynamics_health(own.model, q, forward, watched, by_mass_matrix)
        return found

    return trace(function, problem_inputs(model, wrenches, parameters))


def problem_inputs(model, wrenches, parameters) -> dict[str, tuple[int, ...]]:
    """{name: shape} of the inputs of `problem_program`."""
    inputs: dict[str, tuple[int, ...]]
    inputs = {"q": (model.nq,), "qd": (model.nv,), "known": (model.nv,), "gravity": (3,)}
    if wrenches:
        inputs["f_ext"] = (model.nbodies, 6)
    shapes = {"inertia": (model.nbodies, 10), "armature": (model.nv,)}
    return inputs | {name: shapes[name] for name in parameters}


def quantity_program(model, function, reads, watched=()) -> Program:
    """The Program of function(model, *arrays) -> arrays, outputs y0, y1, ... (, health), of quantities that
    base parameters determine.

    reads: which of 'q', 'qd' and 'gravity' the arrays are; watched: as of `problem_program`, of quantities
    that need the inverse of the mass matrix.
    """
    every = np.ones(model.nv, dtype=bool)
    model = regroup(reframe(model)[0])
    shapes = {"q": (model.nq,), "qd": (model.nv,), "gravity": (3,)}

    def named(q, **arrays):
        found = {f"y{k}": y for k, y in enumerate(function(model, q, *arrays.values()))}
        if any(watched):
            found["health"] = dynamics_health(model, q, every, watched, by_mass_matrix=True)
        return found

    return trace(named, {name: shapes[name] for name in reads})


def quaternion_places(model):
    """Where in q quaternions begin."""
    return [at.start for _, at in model.quaternions]


def parameter_values(engine, frames=None):
    """{name: array} of PARAMETERS for the Program of an engine.

    frames: `reframe` of a Model of the same geometry, when it is at hand.
    """
    return inertial_values(engine.model, engine.regroups, frames)


def economical(engine):
    """The engine's Model in frames and, if allowed, with inertias that cost least; T of `reframe`."""
    model, T = reframe(engine.model)  # a plan stays good: frames change no block's vanishing
    return (regroup(model) if engine.regroups else model), T
