"""Mechanism and Problem -> Program: inputs q, qd, known, gravity (, f_ext), outputs asked and health.

health (2,): the condition of the constraints, of the projected mass matrix too where that is watched (see
loops/pivots.py), and the sum of the squares of what they miss, see HEALTHY.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from dynamics_node.loops.alternatives import lagrange_dynamics, projected_dynamics
from dynamics_node.loops.close import positions_of
from dynamics_node.loops.closure import SINGULAR, closure
from dynamics_node.loops.constraints import gaps, position_program, turned
from dynamics_node.loops.dynamics import (
    bias,
    extended_forces,
    forward_dynamics,
    hybrid_dynamics,
    inverse_dynamics,
    jacobian,
    mass_matrix,
    operational_space_inertia,
)
from dynamics_node.loops.elimination import Elimination
from dynamics_node.loops.equations import counting_equations
from dynamics_node.loops.kinds import LoopJoint
from dynamics_node.loops.mechanism import Mechanism
from dynamics_node.loops.pivots import weak_coordinates
from dynamics_node.model.inputs import with_inputs
from dynamics_node.model.reframe import reframe
from dynamics_node.model.regroup import regroup
from dynamics_node.program import Program, interpret, trace
from dynamics_node.spatial import matvec, transform_origin, transform_rotation, transpose

OPEN = 1e-6  # m or rad that an equation of a loop may miss
# name: functions, of which the cheapest is taken; which arrays they read
QUANTITIES: dict[str, tuple[tuple[Callable, ...], tuple[str, ...]]] = {
    "mass_matrix": ((mass_matrix,), ("q",)),
    "bias": ((bias,), ("q", "qd", "gravity")),
    "link_jacobian": ((jacobian,), ("q",)),
    "operational_space_inertia": ((operational_space_inertia, extended_forces), ("q",)),
}
NEED_INVERSE = ("operational_space_inertia",)  # of the projected mass matrix
HEALTHY = np.array([SINGULAR, OPEN**2])  # the condition, and what loops may miss, both squared


def mechanism_programs(mechanism: Mechanism, problem, wrenches=False, parameters=()) -> dict[str, Program]:
    """{what it is, for people: the Program} of all ways to solve the problem. known: of ydd and tau what the
    Problem knows; parameters: of 'inertia' and 'armature' those that are inputs, see `inertial_values`."""
    forward = np.array(problem.forward, dtype=bool)
    if problem.kind == "inverse":
        methods = {"c-rnea": inverse_dynamics}
    else:
        watched = weak_coordinates(mechanism, forward)
        methods = {"projection": partial(hybrid_dynamics, forward=forward, watched=watched)}
        if forward.all():
            methods["c-aba"] = partial(forward_dynamics, watched=watched)
    return {name: _program(mechanism, method, wrenches, parameters) for name, method in methods.items()}


def mechanism_quantity(mechanism: Mechanism, name, **options) -> Program:
    """The Program of a quantity of QUANTITIES: outputs y0, y1, ... and health. Raises KeyError for an unknown
    link."""
    functions, reads = QUANTITIES[name]
    if name in NEED_INVERSE:
        options["watched"] = weak_coordinates(mechanism)
    programs = [quantity_of(mechanism, function, reads, **options) for function in functions]
    return min(programs, key=lambda program: len(program.ops))


def quantity_of(mechanism: Mechanism, function, reads, **options) -> Program:
    """The Program of function(mechanism, *arrays) -> (results, condition)."""
    economical, _ = in_economical_frames(mechanism)
    shapes = {"q": (mechanism.nq,), "qd": (mechanism.nv,), "gravity": (3,)}

    def named(q, **arrays):
        results, condition = function(economical, q, *arrays.values(), **options)
        found = {f"y{k}": y for k, y in enumerate(results)}
        return found | {"health": _health(economical, q, condition)}

    return trace(named, {name: shapes[name] for name in reads})


def step_program(mechanism: Mechanism) -> Program:
    """q -> following (nq,), after Newton's step of the dependent joints, and health at q."""
    economical, _ = in_economical_frames(mechanism)
    tree, rest = economical.tree, np.zeros(mechanism.nv)

    def function(q):
        following = np.array(q, dtype=object)
        for cluster in economical.clusters:
            if cluster.dependent:
                found = interpret(position_program(tree, cluster.constraints), q=q)
                rows, sizes = counting_equations(tree, cluster)
                elimination = Elimination(found["K"][rows][:, list(cluster.dependent)], sizes)
                at = positions_of(tree, cluster.dependent)
                following[at] = following[at] - elimination.solve(found["phi"][rows][:, None])[:, 0]
        health = _health(economical, q, closure(economical, q, rest).condition)
        return {"following": following, "health": health}

    return trace(function, {"q": (mechanism.nq,)})


def health_program(mechanism: Mechanism) -> Program:
    """q -> health."""
    rest = np.zeros(mechanism.nv)

    def function(q):
        return {"health": _health(mechanism, q, closure(mechanism, q, rest).condition)}

    return trace(function, {"q": (mechanism.nq,)})


def _health(mechanism, q, condition):
    missed = [make(mechanism.tree, mechanism.constraints, q) for make in (gaps, turned)]
    return np.array([condition, sum(part @ part for part in missed)], dtype=object)


def rival_programs(mechanism: Mechanism) -> dict[str, Program]:
    """Inverse and forward dynamics in the ways of alternatives.py, which `mechanism_programs` leaves out."""
    methods = {"projected M and h": projected_dynamics, "Lagrange": lagrange_dynamics}
    return {name: _program(mechanism, method, False, ()) for name, method in methods.items()}


def _program(mechanism, method, wrenches, parameters) -> Program:
    economical, T = in_economical_frames(mechanism)
    inputs: dict[str, tuple[int, ...]] = {"q": (mechanism.nq,)}
    inputs |= {name: (mechanism.nv,) for name in ("qd", "known")} | {"gravity": (3,)}
    if wrenches:
        inputs["f_ext"] = (mechanism.nbodies, 6)
    sizes = {"inertia": (mechanism.nbodies, 10), "armature": (mechanism.tree.nv,)}
    inputs |= {name: sizes[name] for name in parameters}

    def function(q, qd, known, gravity, f_ext=None, inertia=None, armature=None):
        if f_ext is not None:
            f_ext = matvec(transpose(np.linalg.inv(T)), f_ext)
        own = replace(economical, tree=with_inputs(economical.tree, True, inertia, armature))
        asked, condition = method(own, q, qd, known, f_ext, gravity)
        return {"asked": asked, "health": _health(own, q, condition)}

    return trace(function, inputs)


def in_economical_frames(mechanism):
    """The Mechanism with body frames and inertias that cost few operations, and T of `reframe`."""
    tree, T = reframe(mechanism.tree)
    clusters = tuple(
        replace(cluster, constraints=tuple(_moved(constraint, T) for constraint in cluster.constraints))
        for cluster in mechanism.clusters
    )
    return replace(mechanism, tree=regroup(tree), clusters=clusters), T


def _moved(constraint, T):
    """A constraint between frames that are given in the new body frames."""
    if not isinstance(constraint, LoopJoint):
        return constraint
    rotations, origins = [], []
    for end, body in enumerate((constraint.predecessor, constraint.successor)):
        X = T[body] if body >= 0 else np.eye(6)
        rotations.append(transform_rotation(X) @ constraint.rotations[end])
        origins.append(transform_rotation(X) @ (constraint.origins[end] - transform_origin(X)))
    return replace(constraint, rotations=tuple(rotations), origins=tuple(origins))
