"""An elimination ordering of the factor graph as a Program, of trees and of robots with loops.

The plan is made in the frames of the Program: what vanishes in the robot's own frames need not vanish there,
and the other way round. Where pivots may become weak at some state, the last entry of health tells what they
lose (graph/watch.py); its limit is found by trying the Program.
"""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from dynamics_node.algorithms import crba, pivots
from dynamics_node.algorithms.pivots import dynamics_health, weak_coordinates
from dynamics_node.graph import (
    FactorGraph,
    Ordering,
    Plan,
    build_graph,
    build_spanned_graph,
    chosen_ordering,
    eliminate_watched,
    filled,
    generic_graph,
    growth,
    joint_values,
    plan_elimination,
    problem_graph,
    stacked,
)
from dynamics_node.loops import health as loops_health
from dynamics_node.loops import pivots as loops_pivots
from dynamics_node.loops.first_positions import closed_samples
from dynamics_node.loops.health import loop_health
from dynamics_node.loops.mechanism import Mechanism, tree_of
from dynamics_node.loops.rates import explicit_rates
from dynamics_node.model import Model
from dynamics_node.model.parameters import generic_parameters
from dynamics_node.model.regroup import regroup
from dynamics_node.model.sample import sample_positions
from dynamics_node.problem import Problem
from dynamics_node.program import Program
from dynamics_node.programs.dynamics import problem_program
from dynamics_node.programs.economical import economical, parameter_values
from dynamics_node.programs.trial import TRIED, health_limit, usual_size
from dynamics_node.spatial import symmetric


def elimination_program(
    robot: Model | Mechanism,
    problem: Problem,
    ordering: str | Ordering | Iterable[str],
    wrenches=False,
    parameters=(),
) -> Program:
    """The Program of an ordering: one of ORDERINGS by name, an Ordering, or names of variables. Other
    arguments, inputs and outputs as of `dynamics_programs`.

    Raises ValueError for an unknown one, SingularPivotError (naming the variable) for one that cannot be
    followed.
    """
    graph = economical_graph(robot, problem, parameters)
    chosen = chosen_ordering(ordering, robot, problem, graph)
    plan = plan_elimination(graph, chosen.variables)
    return plan_program(robot, problem, plan, wrenches, parameters)


def economical_graph(robot: Model | Mechanism, problem: Problem, parameters=()) -> FactorGraph:
    """`generic_graph` in the frames of the Program; of `parameters` besides with values none of which is zero
    by chance."""
    own, _ = economical(robot)
    graph = generic_graph(own, problem)
    if not parameters:
        return graph
    tree = regroup(generic_parameters(tree_of(own), parameters))
    other = own.with_tree(tree) if isinstance(own, Mechanism) else tree
    return stacked(generic_graph(other, problem), graph)


def plan_program(
    robot: Model | Mechanism, problem: Problem, plan: Plan, wrenches=False, parameters=(), tried=True
) -> Program:
    """The Program of a Plan of `economical_graph`. tried: else its limits are for counting operations
    only."""
    if plan.safe or not tried:
        usual = {step.variable: 2.0 for step in plan.steps if not step.pivot.safe}
        return _plan_program(robot, problem, plan, usual, wrenches, parameters)
    states = _Tried(robot, problem, plan, parameters)
    program = _plan_program(robot, problem, plan, states.weakness(), wrenches, parameters)
    return replace(program, limits=(*program.limits[:-1], states.limit(program)))


def _plan_program(robot, problem, plan, usual, wrenches, parameters):
    """usual: {variable: how weak its pivot is}, of those that may be weak; their health has no limit yet."""
    graph_of = _closed_graph if isinstance(robot, Mechanism) else _open_graph
    graph_at, limits = graph_of(robot, problem)
    forward, zero = np.array(problem.forward, dtype=bool), np.zeros(robot.nv)

    def method(own, q, qd, known, f_ext, gravity):
        qdd, tau = np.where(forward, zero, known), np.where(forward, known, zero)
        graph, health = graph_at(own, q, qd, qdd, tau, f_ext, gravity)
        net, weakness = eliminate_watched(graph, plan)
        qdd, tau = joint_values(own, net.solve(), qdd, tau)
        if usual:
            health = np.append(health, growth(weakness, usual))
        return np.where(forward, qdd, tau), health

    if usual:
        limits = np.append(limits, np.inf)
    return problem_program(robot, problem, method, wrenches, parameters, limits)


class _Tried:
    """A Plan at random states."""

    def __init__(self, robot, problem, plan, parameters):
        random = np.random.default_rng(23)
        self._own, _ = economical(robot)
        self._plan, self._returns = plan, tuple(problem.returns(robot))
        sample = closed_samples if isinstance(robot, Mechanism) else sample_positions
        rates = random.uniform(-1, 1, (3, TRIED, robot.nv))
        self._state = dict(zip(("qd", "qdd", "tau"), rates, strict=True)) | {
            "q": sample(self._own, TRIED, random),
            "f_ext": np.zeros((TRIED, robot.nbodies, 6)),
            "gravity": robot.gravity,
            **parameter_values(robot, parameters),
        }
        names = ("q", "qd", "qdd", "tau")
        graph = problem_graph(self._own, problem, *(self._state[name] for name in names))
        blocks = [factor.blocks for factor in economical_graph(robot, problem, parameters).factors]
        self._graph = filled(graph, blocks)

    def weakness(self):
        """{variable: how weak its pivot usually is}."""
        _, weakness = eliminate_watched(self._graph, self._plan)
        return {x: usual_size(value) for x, value in weakness.items()}

    def limit(self, program):
        """See `health_limit`."""
        state = {name: self._state[name] for name in program.inputs}
        return health_limit(program, state, [self._returns])


def _open_graph(model, problem):
    """function(own, q, qd, ...) -> (graph, health) of a Model, and the limits of health."""
    watched = weak_coordinates(model, problem.forward)

    def graph_at(own, q, *state):
        health = np.zeros(0)
        if watched.any():
            health = dynamics_health(own, q, np.array(problem.forward), watched)
        return build_graph(own, problem, q, *state), health

    return graph_at, pivots.HEALTHY if watched.any() else np.zeros(0)


def _closed_graph(mechanism, problem):
    """function(own, q, qd, ...) -> (graph, health) of a Mechanism, and the limits of health."""
    forward = np.array(problem.forward, dtype=bool)
    watched = loops_pivots.weak_coordinates(mechanism, forward)

    def graph_at(own, q, qd, *state):
        G, _, condition = explicit_rates(own, q, qd)
        if watched.any():
            M = symmetric(G.T @ crba(own.tree, q) @ G)
            condition = condition + loops_pivots.singularity(own, q, G, M, forward, watched)
        health = loop_health(own, q, condition)
        return build_spanned_graph(own, problem, q, G @ qd, *state), health

    return graph_at, loops_health.HEALTHY
