"""Alternative algorithms for the dynamics of robots with loops, for comparison (paper 3, sec. II).

Projection and multipliers are exact. The independent tree, with or without rotor inertia reflected through
constant ratios, is an approximation.
"""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from dynamics_node.algorithms import crba, nonlinear_effects
from dynamics_node.algorithms.constraint_rates import velocity_program
from dynamics_node.algorithms.dynamics_programs import problem_program
from dynamics_node.algorithms.reduced_frames import economical_robot
from dynamics_node.errors import ModelError
from dynamics_node.robot import Robot, forward_dynamics, inverse_dynamics
from dynamics_node.robot.from_description import tree_from_description
from dynamics_node.robot.loading import read_description, robot_from_description
from dynamics_node.robot.loops.equations import counting_equations
from dynamics_node.robot.selection import Selection
from dynamics_node.robot.validate import validate
from dynamics_node.symbolic import Program, interpret, solve_definite


def alternative_programs(robot: Robot, tree: Robot | None = None) -> dict[str, Program]:
    """Inverse dynamics by projection and forward dynamics by multipliers, over the joints of a spanning tree.

    tree: of a robot with explicit joints, see `spanning_tree`; by default the tree of a robot with loops.
    """

    def spanning(own, rates, q):  # own: the robot in reduced frames; a given tree has its own
        if tree is not None:
            return _of_explicit_joints(robot, tree, rates, q)
        return _Spanning(own.tree, q, rates, *_independent_equations(own, q, rates.qd), own.independent)

    def projected(own, rates, q, qdd, f_ext=None, gravity=None):
        return projected_dynamics(spanning(own, rates, q), qdd, gravity)

    def lagrange(own, rates, q, tau, f_ext=None, gravity=None):
        return lagrange_dynamics(spanning(own, rates, q), tau, gravity)

    return {
        "projected M and h": problem_program(robot, inverse_dynamics(robot), projected),
        "Lagrange": problem_program(robot, forward_dynamics(robot), lagrange),
    }


def projected_dynamics(spanning, qdd, gravity):
    """tau (nv,) = G^T (M (G qdd + g) + h) with M and h of the tree, on symbols, without f_ext.

    The library's algorithm is the article's "projected RNEA": the recursion over the tree between G and G^T.
    """
    tree, q, rates = spanning.tree, spanning.q, spanning.rates
    h = nonlinear_effects(tree, q, rates.qd, gravity=gravity)
    return rates.independent(crba(tree, q) @ rates.accelerations(qdd) + h)


def lagrange_dynamics(spanning, tau, gravity):
    """qdd (nv,) by multipliers over all joints of the tree (range-space method), on symbols, without
    f_ext."""
    tree, q, K = spanning.tree, spanning.q, spanning.K
    effort = np.zeros(tree.nv, dtype=object)
    effort[spanning.independent] = tau
    right = effort - nonlinear_effects(tree, q, spanning.rates.qd, gravity=gravity)
    solved = solve_definite(crba(tree, q), np.concatenate([K.T, right[:, None]], axis=1))
    MK, free = solved[:, :-1], solved[:, -1]
    multipliers = solve_definite(K @ MK, (spanning.k - K @ free)[:, None])[:, 0] if len(K) else np.zeros(0)
    return (free + MK @ multipliers)[spanning.independent]


class _Spanning(NamedTuple):
    """A tree at positions q, with the constraints K qdd = k; K (r, nv of the tree), k (r,).

    independent: indices of the robot's coordinates in v of the tree.
    """

    tree: Robot
    q: np.ndarray
    rates: Any
    K: np.ndarray
    k: np.ndarray
    independent: np.ndarray


class _Ratios(NamedTuple):
    """Rates with constant constraints: qd of the tree is G times qd of the robot."""

    G: np.ndarray
    qd: np.ndarray

    def accelerations(self, qdd):
        return self.G @ qdd

    def independent(self, torques):
        return self.G.T @ torques


def _of_explicit_joints(robot, tree, rates, q):
    """A spanning tree in which explicit joints have coordinates, with constraints of constant ratios."""
    own = {body.joint.name: body.joint for body in robot.bodies}
    positions, G = np.zeros(tree.nq, dtype=object), np.zeros((tree.nv, robot.nv))
    independent = np.zeros(robot.nv, dtype=int)
    dependent = []
    for body in tree.bodies:
        joint, places = own[body.joint.name], body.joint.v
        G[places] = joint.rate(np.eye(robot.nv)).T
        if joint.masters is None:
            positions[body.joint.q] = q[joint.q]
            independent[joint.v] = np.arange(places.start, places.stop)
        else:
            positions[body.joint.q] = joint.position(q)
            dependent.append(places.start)
    K = np.zeros((len(dependent), tree.nv))
    K[:, independent] = -G[dependent]
    K[np.arange(len(dependent)), dependent] = 1.0
    return _Spanning(tree, positions, _Ratios(G, G @ rates.qd), K, np.zeros(len(K)), independent)


def _independent_equations(mechanism, q, rates):
    """K (r, nv of the tree) and k (r,) of the linearly independent rows."""
    K, k = [np.zeros((0, mechanism.tree.nv))], [np.zeros(0)]
    for cluster in mechanism.clusters:
        if cluster.dependent:
            program = velocity_program(mechanism.tree, cluster.constraints)
            equations, rows = (
                interpret(program, q=q, qd=rates),
                counting_equations(mechanism.tree, cluster).rows,
            )
            K.append(equations["K"][rows])
            k.append(equations["k"][rows])
    return np.concatenate(K), np.concatenate(k)


def spanning_tree(text, **choices) -> Robot:
    """URDF+ text of a geared robot -> the Robot with coordinates for explicit joints, in reduced frames.
    choices: see parse_robot."""
    description = read_description(text)
    validate(description)
    joints = tuple(replace(joint, mimic=None) for joint in description.joints)
    tree = tree_from_description(replace(description, couplings=(), joints=joints), Selection(**choices))
    return economical_robot(tree)[0]


def independent_tree(text, reflect=True, **choices) -> Robot:
    """URDF+ text of a geared robot -> the Robot whose dependent joints are fixed at zero.

    reflect: add the inertia of every dependent body about its joint, times the square of its ratio, as rotor
    inertia of the independent joints ("approximate"; otherwise "unconstrained"). choices: see parse_robot.
    Raises ModelError, also for loops without constant ratios.
    """
    description = read_description(text)
    validate(description)
    robot = robot_from_description(description, Selection(**choices))
    if robot.constraints:
        raise ModelError(f"{robot.constraints[0].name!r} has no constant ratio to reflect inertia through")
    joints = tuple(replace(joint, mimic=None) for joint in description.joints)
    described = {joint.name for joint in joints}
    names = [joint.name for joint in robot.independent_joints if joint.name in described]
    armature = choices.get("armature", {}) | (_reflected(robot) if reflect else {})
    return tree_from_description(
        replace(description, couplings=(), joints=joints),
        Selection(**(choices | {"joints": names, "armature": armature})),
    )


def _reflected(robot):
    """{joint: reflected inertia}: of the bodies of the dependent explicit joints, about their axes."""
    inertias: dict[str, float] = {}
    for body in robot.bodies:
        if masters := body.joint.masters:
            for name, v, weight in zip(masters.names, masters.v, masters.weights, strict=True):
                S = body.joint.S[:, v - body.joint.v.start]
                own = S @ body.inertia @ S + weight**2 * body.joint.armature
                inertias[name] = inertias.get(name, 0.0) + own
    return inertias
