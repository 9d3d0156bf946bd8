"""Derivatives of inverse, forward and hybrid dynamics as Programs.

Those of inverse dynamics are derived from its Program. The others follow from M qdd + h = tau without
deriving a solver: where x changes, M dqdd = dtau - d(ID)/dx at the accelerations at hand (Carpentier and
Mansard 2018, Analytical derivatives of rigid body dynamics algorithms, sec. IV).
"""

from functools import partial

import numpy as np

from dynamics_node.algorithms.pivots import health, inertia_scale, mass_matrix_pivots, weak_coordinates
from dynamics_node.algorithms.tangent import tangent_map
from dynamics_node.backends.recursive import RecursiveEngine
from dynamics_node.backends.traced import problem_program
from dynamics_node.loops import pivots as loop_pivots
from dynamics_node.loops.closure import closure
from dynamics_node.loops.mechanism import Mechanism
from dynamics_node.loops.programs import mechanism_programs
from dynamics_node.model import Model
from dynamics_node.problem import Problem, inverse_dynamics
from dynamics_node.program import Program, derivative_name, interpret, trace
from dynamics_node.spatial import solve_definite

KNOWN = {"inverse": ("qdd",), "forward": ("tau",), "hybrid": ("qdd", "tau")}


def derivative_program(model: Model | Mechanism, problem: Problem, wrenches=False) -> Program:
    """The Program of d asked / d(q, qd, known), outputs dq, dqd and dknown (nv, nv).

    Inputs q, qd, what of qdd and tau the Problem knows (both for hybrid ones), f_ext if there are wrenches,
    gravity. dq is along the tangent space: column k belongs to a motion with velocity k at rate 1, in which
    loops stay closed. f_ext and gravity stay as they are. That of a Mechanism has the output health besides,
    and that of a Model whose mass matrix may be singular at some position.
    """
    inverse = _inverse_program(model, wrenches)
    inputs = dict(inverse.inputs)
    shapes = {"q": inputs["q"], "qd": inputs["qd"]}
    shapes |= {name: (model.nv,) for name in KNOWN[problem.kind]}
    shapes |= {name: inputs[name] for name in ("f_ext", "gravity") if name in inputs}
    derived = inverse.jacobian(["asked"], ["q", "qd", "known"])
    return trace(
        partial(_derivatives, model, np.array(problem.forward, dtype=bool), inverse, derived), shapes
    )


def _inverse_program(model, wrenches):
    if isinstance(model, Mechanism):
        return mechanism_programs(model, inverse_dynamics(model), wrenches)["c-rnea"]
    return problem_program(RecursiveEngine(model, inverse_dynamics(model)), wrenches)


def _tangent(model, q):
    """(nq, nv): how q changes along velocities."""
    if isinstance(model, Mechanism):
        return tangent_map(model.tree, q) @ closure(model, q, np.zeros(model.nv)).G
    return tangent_map(model, q)


def _derivatives(model, forward, inverse, derived, q, qd, gravity, qdd=None, tau=None, **wrenches):
    free, driven = np.flatnonzero(forward), np.flatnonzero(~forward)
    given = dict(q=q, qd=qd, gravity=gravity, **wrenches)
    M = interpret(derived, **given, known=np.zeros(model.nv))[derivative_name("asked", "known")]
    M_free = M[free[:, None], free]
    accelerations = np.zeros(model.nv) if qdd is None else np.where(forward, 0.0, qdd)
    if free.size:
        torques = interpret(inverse, **given, known=accelerations)["asked"]
        rest = (tau - torques)[free]
        accelerations = np.array(accelerations, dtype=object)
        accelerations[free] = solve_definite(M_free, rest[:, None])[:, 0]
    D = interpret(derived, **given, known=accelerations)
    dq = D[derivative_name("asked", "q")] @ _tangent(model, q)
    # what torques change by, when accelerations stay (dq, dqd), and when those known change
    changes = np.concatenate([dq, D[derivative_name("asked", "qd")], np.where(forward, 0.0, M)], axis=1)
    own = np.eye(model.nv)[free]
    own = np.concatenate([np.zeros((len(free), 2 * model.nv)), own], axis=1)
    asked = np.array(changes, dtype=object)
    if free.size:
        asked[free] = solve_definite(M_free, own - changes[free])
        asked[driven] = changes[driven] + M[driven[:, None], free] @ asked[free]
    found = dict(zip(("dq", "dqd", "dknown"), np.split(asked, 3, axis=1), strict=True))
    if isinstance(model, Mechanism):
        found["health"] = interpret(inverse, **given, known=np.zeros(model.nv))["health"]
        if (weak := loop_pivots.weak_coordinates(model, forward)).any():
            G = closure(model, q, np.zeros(model.nv)).G
            own = mass_matrix_pivots(M, forward)
            found["health"][0] = found["health"][0] + loop_pivots.singularity(model, q, G, own, weak)
    elif free.size and (weak := weak_coordinates(model, forward)).any():
        found["health"] = health(mass_matrix_pivots(M, forward)[weak], inertia_scale(model, q)[weak])
    return found
