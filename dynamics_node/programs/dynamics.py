"""Inverse, forward and hybrid dynamics as Programs: the recursions, over bodies or over clusters of them.

A Program reads and returns what its Problem says, by name, for one state. Where it can fail it has an output
`health` besides, with its limits: of loops at every position, see loops/health.py, and of a mass matrix that
may be singular at some position, see algorithms/pivots.py.
"""

from collections.abc import Callable
from functools import partial

import numpy as np

from dynamics_node.algorithms import aba, mass_matrix_dynamics, pivots, rnea
from dynamics_node.algorithms.pivots import dynamics_health, weak_coordinates
from dynamics_node.loops import alternatives, dynamics
from dynamics_node.loops import health as loops_health
from dynamics_node.loops import pivots as loops_pivots
from dynamics_node.loops.health import loop_health
from dynamics_node.loops.mechanism import Mechanism
from dynamics_node.model import Model
from dynamics_node.problem import Problem
from dynamics_node.program import Program, Rolled
from dynamics_node.programs.economical import economical_program
from dynamics_node.programs.rolled import can_roll, rolled_program

# of (robot, q, qd, known, f_ext, gravity), known being tau at forward joints and qdd at the others: (the
# other one of the two, health)
Method = Callable[..., tuple[np.ndarray, np.ndarray]]
NONE = np.zeros(0)


def dynamics_programs(
    robot: Model | Mechanism, problem: Problem, wrenches=False, parameters=()
) -> dict[str, Program | Rolled]:
    """{what it is, for people: the Program} of the ways to solve the problem: `recursive_programs`, or, of a
    robot with many bodies, one that is rolled.

    Inputs: those that the problem reads, with f_ext if there are `wrenches`, then `parameters`: of 'inertia'
    and 'armature' those that are inputs, see `parameter_values`. Outputs: those that it returns, and health.
    """
    if can_roll(robot, problem):
        name = "rnea" if problem.kind == "inverse" else "aba"
        return {name: rolled_program(robot, problem, wrenches, parameters)}
    return dict(recursive_programs(robot, problem, wrenches, parameters))


def recursive_programs(
    robot: Model | Mechanism, problem: Problem, wrenches=False, parameters=()
) -> dict[str, Program]:
    """The straight-line ones of `dynamics_programs`, of a robot of any length."""
    methods, limits = _methods(robot, problem)
    return {
        name: problem_program(robot, problem, method, wrenches, parameters, limits)
        for name, method in methods.items()
    }


def dynamics_program(
    robot: Model | Mechanism, problem: Problem, way: str, wrenches=False, parameters=()
) -> Program | Rolled:
    """That one of `dynamics_programs` which is called `way`."""
    if can_roll(robot, problem):
        return dynamics_programs(robot, problem, wrenches, parameters)[way]
    methods, limits = _methods(robot, problem)
    return problem_program(robot, problem, methods[way], wrenches, parameters, limits=limits)


def _methods(robot, problem):
    return _tree_methods(robot, problem) if isinstance(robot, Model) else _cluster_methods(robot, problem)


def rival_programs(mechanism: Mechanism) -> dict[str, Program]:
    """Inverse and forward dynamics in the ways of loops/alternatives.py, which `dynamics_programs` leaves
    out."""
    inverse, forward = Problem("inverse", (False,) * mechanism.nv), Problem("forward", (True,) * mechanism.nv)
    rivals = {
        "projected M and h": (inverse, alternatives.projected_dynamics),
        "Lagrange": (forward, alternatives.lagrange_dynamics),
    }
    return {
        name: problem_program(mechanism, problem, _judged(method), limits=loops_health.HEALTHY)
        for name, (problem, method) in rivals.items()
    }


def problem_program(
    robot: Model | Mechanism,
    problem: Problem,
    method: Method,
    wrenches=False,
    parameters=(),
    limits=(),
) -> Program:
    """The Program of a Method. Arguments as of `dynamics_programs` and `economical_program`."""
    forward, returns = np.array(problem.forward, dtype=bool), problem.returns(robot)
    zero = np.zeros(robot.nv)

    def function(own, q, qd, gravity, qdd=zero, tau=zero, f_ext=None):
        asked, health = method(own, q, qd, np.where(forward, tau, qdd), f_ext, gravity)
        complete = {"qdd": np.where(forward, asked, qdd), "tau": np.where(forward, tau, asked)}
        found = {name: complete[name] for name in returns}
        return found | ({"health": health} if len(limits) else {})

    return economical_program(robot, problem.reads(robot, wrenches), function, parameters, limits)


def _tree_methods(model, problem) -> tuple[dict[str, Method], np.ndarray]:
    """{name: Method} of a Model, and the limits of their health."""
    if problem.kind == "inverse":
        return {"rnea": lambda *state: (rnea(*state), NONE)}, NONE
    through_matrix = {"crba + solve": _tree_method(model, problem, mass_matrix_dynamics)}
    limits = pivots.HEALTHY if weak_coordinates(model, problem.forward).any() else NONE
    if model.has_mimic:
        return through_matrix, limits
    return {"aba": _tree_method(model, problem, aba)} | through_matrix, limits


def _tree_method(model: Model, problem: Problem, solve) -> Method:
    """Of solve(model, q, qd, tau, qdd, forward, f_ext, gravity) -> (qdd, tau), complete; with health where
    the mass matrix may be singular."""
    forward = np.array(problem.forward, dtype=bool)
    watched, zero = weak_coordinates(model, forward), np.zeros(model.nv)

    def method(own, q, qd, known, f_ext, gravity):
        tau, qdd = np.where(forward, known, zero), np.where(forward, zero, known)
        qdd, tau = solve(own, q, qd, tau, qdd, forward, f_ext, gravity)
        health = dynamics_health(own, q, forward, watched) if watched.any() else NONE
        return np.where(forward, qdd, tau), health

    return method


def _cluster_methods(mechanism, problem) -> tuple[dict[str, Method], np.ndarray]:
    """{name: Method} of a Mechanism, and the limits of their health."""
    forward = np.array(problem.forward, dtype=bool)
    if problem.kind == "inverse":
        methods = {"c-rnea": _judged(dynamics.inverse_dynamics)}
    else:
        watched = loops_pivots.weak_coordinates(mechanism, forward)
        projected = partial(dynamics.hybrid_dynamics, forward=forward, watched=watched)
        methods = {"projection": _judged(projected)}
        if forward.all():
            methods["c-aba"] = _judged(partial(dynamics.forward_dynamics, watched=watched))
    return methods, loops_health.HEALTHY


def _judged(function) -> Method:
    """Of function(mechanism, *state) -> (asked, condition of the constraints)."""

    def method(own, q, *state):
        asked, condition = function(own, q, *state)
        return asked, loop_health(own, q, condition)

    return method
