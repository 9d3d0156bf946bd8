"""Inverse, forward and hybrid dynamics as Programs: the recursions, over bodies or over clusters of them.

A Program reads and returns the arrays of its Problem, by name, for one state. A Program that can fail also
has an output `health`, with limits: see algorithms/health.py.
"""

from collections.abc import Callable
from functools import partial

import numpy as np

from dynamics_node.algorithms.aba import aba, columns
from dynamics_node.algorithms.contact_dynamics import CONTACT_LIMITS, FORCES_LAST, contact_dynamics
from dynamics_node.algorithms.contact_limbs import (
    WEAKEST,
    NoLimbsError,
    contact_dynamics_by_limbs,
    is_healthy_somewhere,
)
from dynamics_node.algorithms.health import health, health_limits
from dynamics_node.algorithms.pivots import weak_coordinates
from dynamics_node.algorithms.quantity_methods import inverse_dynamics, mass_matrix
from dynamics_node.algorithms.rates import rates_at
from dynamics_node.algorithms.reduced_frames import economical_program
from dynamics_node.robot import Problem, Robot
from dynamics_node.symbolic import Program, matvec, solve_definite

# of (robot, rates, q, known, f_ext, gravity): known is tau at forward joints and qdd at the others; the
# result is the other one of the two
Method = Callable[..., np.ndarray]

# Bodies from which the mass matrix is left out: of 60 in a chain it takes 6 times the operations of
# articulated bodies, of 72 in a humanoid with hands twice as many, and it grows with the cube of the depth.
LONG = 60


def dynamics_programs(robot: Robot, problem: Problem, wrenches=False, parameters=()) -> dict[str, Program]:
    """{readable name: Program} of the methods for the problem.

    Inputs: those that the problem reads, with f_ext if there are `wrenches`, then the `parameters`: those of
    'inertia' and 'armature' that are inputs, see `parameter_values`. Outputs: those of the problem, and
    health.
    """
    limits = CONTACT_LIMITS if problem.contacts else ()
    programs = {
        name: problem_program(robot, problem, method, wrenches, parameters, limits)
        for name, method in dynamics_methods(robot, problem).items()
    }
    if problem.contacts and problem.kind != "inverse":
        by_limbs = _by_limbs(robot, problem, wrenches, parameters)
        programs |= {} if by_limbs is None else {"contact forces at limbs": by_limbs}
    return programs


def _by_limbs(robot, problem, wrenches, parameters):
    """The Program of contact forces with their limbs; None if there are none, or if their contacts are
    redundant at positions that are not special."""
    given = {"contacts": problem.contacts, "forward": np.array(problem.forward, dtype=bool)}
    method = partial(contact_dynamics_by_limbs, **given)
    limits = [WEAKEST, *CONTACT_LIMITS[1:]]
    try:
        program = problem_program(robot, problem, method, wrenches, parameters, limits)
    except (NoLimbsError, ZeroDivisionError):
        return None
    return program if is_healthy_somewhere(program, robot, problem, wrenches, parameters) else None


def dynamics_methods(robot: Robot, problem: Problem) -> dict[str, Method]:
    """{name: Method} for a problem, on symbols of one state."""
    forward = np.array(problem.forward, dtype=bool)
    if problem.contacts:
        given = {"contacts": problem.contacts, "forward": forward, "inverse": problem.kind == "inverse"}
        return {FORCES_LAST: partial(contact_dynamics, **given)}
    if problem.kind == "inverse":
        return {"rnea": inverse_dynamics}
    methods: dict[str, Method] = {}
    if all(forward[own].all() or not forward[own].any() for own in columns(robot)):
        methods["aba"] = partial(_by_clusters, forward=forward)
    if not methods or robot.nbodies < LONG:
        methods["crba + solve"] = partial(by_mass_matrix, forward=forward)
    return methods


def _by_clusters(robot, rates, q, known, f_ext, gravity, *, forward):
    """`aba`."""
    tau, qdd = np.where(forward, known, 0.0), np.where(forward, 0.0, known)
    qdd, tau = aba(robot, q, rates.qd, tau, qdd, forward, f_ext, gravity, rates)
    return np.where(forward, qdd, tau)


def by_mass_matrix(robot, rates, q, known, f_ext=None, gravity=None, *, forward):
    """The unknowns (..., nv), by the mass matrix: RBDA section 9.1, O(nv^3).

    rates: explicit. known (..., nv): tau where forward (nv,) bool is true, qdd elsewhere; the result is the
    other one of the two.
    """
    (M,) = mass_matrix(robot, rates, q)
    tau = inverse_dynamics(robot, rates, q, np.where(forward, 0.0, known), f_ext, gravity)
    free = np.flatnonzero(forward)
    if not free.size:
        return tau
    M_free = M[..., free[:, None], free]
    qdd = solve_definite(M_free, (known - tau)[..., free, None])[..., 0]
    unknowns = tau + matvec(M[..., free], qdd)
    unknowns[..., free] = qdd
    return unknowns


def problem_program(
    robot: Robot,
    problem: Problem,
    method: Method,
    wrenches=False,
    parameters=(),
    more_limits=(),
) -> Program:
    """The Program of a Method. Arguments as in `dynamics_programs` and `economical_program`; with
    contacts the Method also returns their forces, and with `more_limits` as many entries of health."""
    forward, returns = np.array(problem.forward, dtype=bool), problem.returns(robot)
    watched = weak_coordinates(robot, forward)
    limits = np.concatenate([health_limits(robot, watched), more_limits])
    zero = np.zeros(robot.nv)

    def function(own, q, qd, gravity, qdd=zero, tau=zero, f_ext=None, **of_contacts):
        rates = rates_at(own, q, qd, explicit=problem.kind != "inverse" or bool(of_contacts))
        known = np.where(forward, tau, qdd)
        found = method(own, rates, q, known, f_ext, gravity, *of_contacts.values())
        unknowns, *more = list(found) if isinstance(found, tuple) else [found]
        complete = {"qdd": np.where(forward, unknowns, qdd), "tau": np.where(forward, tau, unknowns)}
        if of_contacts:
            complete["contact_forces"] = more.pop(0)
        results = {name: complete[name] for name in returns}
        if len(limits):
            results["health"] = np.concatenate([health(own, q, rates, forward, watched), *more])
        return results

    return economical_program(robot, problem.reads(robot, wrenches), function, parameters, limits)


# --- cost ---------------------------------------------------------------------------------------------------

STEP = 4  # operations; cost of one more step of the longest chain (measured: 3 to 5)


def cost(program: Program):
    """The cost of a Program in operations: all of them, plus the latency of the longest chain."""
    return len(program.ops) + STEP * program.depth()


def cheapest(programs) -> tuple[str, Program]:
    """(name, Program) with the least cost of {name: Program}."""
    if len(programs) == 1:
        return next(iter(programs.items()))
    return min(programs.items(), key=lambda pair: cost(pair[1]))
