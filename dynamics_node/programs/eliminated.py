"""An elimination ordering of the factor graph as a Program, of trees and of robots with loops.

The plan is made in the frames of the Program: what vanishes in the robot's own frames need not vanish there,
and the other way round. Where a pivot may become weak at some state, health tells how weak it is, see
graph/watch.py: beyond the limit the result may have lost digits.
"""

from collections.abc import Iterable

import numpy as np

from dynamics_node.algorithms import pivots
from dynamics_node.algorithms.pivots import dynamics_health, weak_coordinates
from dynamics_node.graph import (
    FactorGraph,
    Ordering,
    Plan,
    build_graph,
    build_spanned_graph,
    custom_ordering,
    eliminate_watched,
    generic_graph,
    joint_values,
    ordering_of,
    plan_elimination,
    stacked,
    usual_sizes,
    watch,
)
from dynamics_node.loops import health as loops_health
from dynamics_node.loops.closure import closure
from dynamics_node.loops.health import loop_health
from dynamics_node.loops.mechanism import Mechanism, tree_of
from dynamics_node.model import Model
from dynamics_node.model.parameters import generic_parameters
from dynamics_node.problem import Problem
from dynamics_node.program import Program
from dynamics_node.programs.dynamics import problem_program
from dynamics_node.programs.economical import economical


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
    chosen = ordering_in(graph, robot, problem, ordering)
    plan = plan_elimination(graph, chosen.variables)
    return plan_program(robot, problem, graph, plan, wrenches, parameters)


def ordering_in(graph, robot, problem, ordering) -> Ordering:
    """The Ordering of one of ORDERINGS by name, or of names of variables."""
    if isinstance(ordering, Ordering):
        return ordering
    if isinstance(ordering, str):
        return ordering_of(ordering, robot, problem, graph)
    return custom_ordering(ordering, graph)


def economical_graph(robot: Model | Mechanism, problem: Problem, parameters=()) -> FactorGraph:
    """`generic_graph` in the frames of the Program; of `parameters` besides with values none of which is zero
    by chance."""
    own, _ = economical(robot, regroups=False)
    graph = generic_graph(own, problem)
    if not parameters:
        return graph
    tree = generic_parameters(tree_of(own), parameters)
    other = own.with_tree(tree) if isinstance(own, Mechanism) else tree
    return stacked(generic_graph(other, problem), graph)


def plan_program(
    robot: Model | Mechanism, problem: Problem, graph: FactorGraph, plan: Plan, wrenches=False, parameters=()
) -> Program:
    """The Program of a Plan of `economical_graph`."""
    sizes = {} if plan.safe else usual_sizes(graph, plan)
    state_of = _closed_graph if isinstance(robot, Mechanism) else _open_graph
    graph_at, limits = state_of(robot, problem)
    limits = np.concatenate([limits, watch.HEALTHY if not plan.safe else np.zeros(0)])
    forward, zero = np.array(problem.forward, dtype=bool), np.zeros(robot.nv)

    def method(own, q, qd, known, f_ext, gravity):
        qdd, tau = np.where(forward, zero, known), np.where(forward, known, zero)
        graph, health = graph_at(own, q, qd, qdd, tau, f_ext, gravity)
        net, weakness = eliminate_watched(graph, plan, sizes)
        qdd, tau = joint_values(own, net.solve(), qdd, tau)
        if weakness:
            health = np.append(health, sum(weakness.values()))
        return np.where(forward, qdd, tau), health

    # the inertia of one body may be a pivot: nothing is regrouped
    return problem_program(robot, problem, method, wrenches, parameters, regroups=False, limits=limits)


def _open_graph(model, problem):
    """function(own, q, qd, ...) -> (graph, health) of a Model, and the limits of health."""
    watched = weak_coordinates(model, problem.forward)

    def graph_at(own, q, *state):
        health = np.zeros(0)
        if watched.any():
            health = dynamics_health(own, q, np.array(problem.forward), watched, by_mass_matrix=False)
        return build_graph(own, problem, q, *state), health

    return graph_at, pivots.HEALTHY if watched.any() else np.zeros(0)


def _closed_graph(mechanism, problem):
    """The same of a Mechanism."""

    def graph_at(own, q, qd, *state):
        G, _, condition = closure(own, q, qd)
        health = loop_health(own, q, condition)
        return build_spanned_graph(own, problem, q, G @ qd, *state), health

    return graph_at, loops_health.HEALTHY
