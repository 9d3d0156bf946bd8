"""An elimination ordering of the factor graph as a Program."""

from dynamics_node.algorithms import pivots
from dynamics_node.algorithms.pivots import weak_coordinates
from dynamics_node.graph import Plan, eliminate, joint_values, problem_graph
from dynamics_node.model import Model
from dynamics_node.problem import Problem
from dynamics_node.program import Program
from dynamics_node.programs.dynamics import NONE, problem_program, tree_method


def elimination_program(robot: Model, problem: Problem, plan: Plan, wrenches=False, parameters=()) -> Program:
    """The Program of a Plan, whose pivots are safe. Arguments, inputs and outputs as of
    `dynamics_programs`."""

    def solve(own, q, qd, tau, qdd, forward, f_ext, gravity):
        graph = problem_graph(own, problem, q, qd, qdd, tau, f_ext, gravity)
        return joint_values(own, eliminate(graph, plan).solve(), qdd, tau)

    limits = pivots.HEALTHY if weak_coordinates(robot, problem.forward).any() else NONE
    method = tree_method(robot, problem, solve)
    # the inertia of one body may be a pivot: nothing is regrouped
    return problem_program(robot, problem, method, wrenches, parameters, regroups=False, limits=limits)
