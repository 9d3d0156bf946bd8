"""Robot and Problem -> FactorGraph: the equations of the tree, and those of loops and contacts (paper 1,
secs. III and VII).

Loop joints are cut. A dependent joint has a known torque, zero, and an unknown acceleration. Only rows of the
constraints that no other one implies enter, so there are as many equations as unknowns.
"""

from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from dynamics_node.algorithms.constraint_rates import velocity_program
from dynamics_node.algorithms.first_positions import generic_positions
from dynamics_node.algorithms.loop_forces import cut_program
from dynamics_node.algorithms.rates import sampled_rates
from dynamics_node.algorithms.recursion import root_acceleration
from dynamics_node.errors import InputError
from dynamics_node.graph.contact_factors import require_no_minimum, with_contacts
from dynamics_node.graph.factor_graph import FactorGraph, known_values, tree_factors
from dynamics_node.graph.factors import (
    LinearFactor,
    Variable,
    coupling_factor,
    coupling_force,
    coupling_force_blocks,
    loop_acceleration_factor,
    loop_wrench_blocks,
    with_blocks,
    wrench,
)
from dynamics_node.robot import Problem
from dynamics_node.robot.constraints import LoopJoint
from dynamics_node.robot.robot import cached_on_robot
from dynamics_node.symbolic import interpret, pivoted


class _Opened(NamedTuple):
    """Factors of a constraint, and {body: blocks} of its terms in wrench and torque factors."""

    factors: tuple[LinearFactor, ...]
    on_wrenches: Mapping[int, Mapping]
    on_torques: Mapping[int, Mapping]


def build_graph(robot, problem, q, qd, qdd, tau, f_ext=None, gravity=None, contacts=None, selected=None):
    """The graph at closed states q (..., nq), qd, qdd, tau (..., nv); only known parts of qdd and tau are
    read. f_ext, gravity as in `rnea`; contacts: the ContactState of a problem that has any; selected: rows of
    every constraint, `selected_rows` by default."""
    rates = sampled_rates(robot, q, qd).qd
    return build_spanned_graph(robot, problem, q, rates, qdd, tau, f_ext, gravity, contacts, selected)


def build_spanned_graph(
    robot, problem, q, rates, qdd, tau, f_ext=None, gravity=None, contacts=None, selected=None
):
    """`build_graph` from the velocities of all joints, rates (..., nv of the tree), on floats or symbols."""
    factors = robot_factors(robot, q, rates, f_ext, gravity, selected)
    if problem.contacts:
        require_no_minimum(problem)
        factors = with_contacts(robot.tree, problem, factors, q, rates, gravity, contacts)
    graph = FactorGraph(tuple(factors))
    spanned = spanning_problem(robot, problem)
    values = (_spanned(robot, array) for array in (qdd, tau))
    return graph.given(known_values(robot.tree, spanned, *values))


def robot_factors(robot, q, qd, f_ext=None, gravity=None, selected=None):
    """The equations at closed q (..., nq) with every acceleration and torque unknown; qd (..., nv of the
    tree) are those of all joints. selected: as in `build_graph`."""
    tree, wrenches, torques = robot.tree, defaultdict[int, dict](dict), defaultdict[int, dict](dict)
    a_root = root_acceleration(tree, gravity)
    added: list[LinearFactor] = []
    selected = selected_rows(robot) if selected is None else selected
    for number, (constraint, rows) in enumerate(zip(robot.constraints, selected, strict=True), tree.nbodies):
        if rows:
            open_it = _cut if isinstance(constraint, LoopJoint) else _uncoupled
            opened = open_it(tree, number, constraint, list(rows), q, qd, a_root)
            added += opened.factors
            for all_blocks, own in ((wrenches, opened.on_wrenches), (torques, opened.on_torques)):
                for body, blocks in own.items():
                    all_blocks[body].update(blocks)
    more = {"wrench": wrenches, "torque": torques}
    for factor in tree_factors(tree, q, qd, f_ext, gravity):
        yield with_blocks(factor, more.get(factor.kind, {}).get(factor.body, {}))
    yield from added


def _cut(tree, number, loop, selected, q, qd, a_root):
    cut = interpret(cut_program(tree, loop), q=q, qd=qd)
    F = _force(number, loop, selected)
    factor = loop_acceleration_factor(number, loop, cut, selected, a_root)
    return _Opened((factor,), loop_wrench_blocks(loop, F, cut, selected), {})


def _uncoupled(tree, number, constraint, selected, q, qd, a_root):
    velocities = interpret(velocity_program(tree, (constraint,)), q=q, qd=qd)
    K, k = velocities["K"][..., selected, :], velocities["k"][..., selected]
    v_of = {body.joint.v.start: i for i, body in enumerate(tree.bodies) if body.joint.masters is None}
    joints = {v_of[v]: v for v in constraint.coordinates}
    C = _force(number, constraint, selected)
    return _Opened((coupling_factor(number, joints, K, k),), {}, coupling_force_blocks(C, joints, K))


def spanning_problem(robot, problem) -> Problem:
    """The Problem of the tree, with the same contacts: dependent joints are forward joints with zero torque.
    Raises ValueError if that splits a joint."""
    forward = np.ones(robot.tree.nv, dtype=bool)
    forward[robot.independent] = problem.forward
    for joint in robot.tree.independent_joints:
        if forward[joint.v].any() != forward[joint.v].all():
            raise InputError(
                f"only some coordinates of {joint.kind} joint {joint.name!r} follow from the loop; the "
                "factor graph needs all or none: choose solver 'cluster'"
            )
    return Problem(problem.kind, tuple(forward.tolist()), problem.contacts)


def constraint_variables(robot) -> list[Variable]:
    """The unknown forces of the constraints."""
    numbered = enumerate(zip(robot.constraints, selected_rows(robot), strict=True), robot.nbodies)
    return [_force(number, constraint, selected) for number, (constraint, selected) in numbered if selected]


def _force(number, constraint, selected):
    kind = wrench if isinstance(constraint, LoopJoint) else coupling_force
    return kind(number, len(selected))


def _spanned(robot, values):
    """Values over the coordinates of the tree, zero at the dependent ones."""
    out = np.zeros((*values.shape[:-1], robot.tree.nv), values.dtype)
    out[..., robot.independent] = values
    return out


@cached_on_robot
def selected_rows(robot) -> tuple[tuple[int, ...], ...]:
    """For every constraint the rows of its acceleration factor that no other row of its cluster implies at
    most positions."""
    return rows_selected_at(robot, generic_positions(robot)[0])


def rows_selected_at(robot, q) -> tuple[tuple[int, ...], ...]:
    """`selected_rows` at one closed position q (nq,), at which other rows may be independent."""
    selected: list[tuple[int, ...]] = []
    for cluster in robot.clusters:
        if cluster.constraints:
            K = [_rates(robot.tree, constraint, q) for constraint in cluster.constraints]
            labels = [(c, row) for c, rows in enumerate(K) for row in range(len(rows))]
            chosen = [labels[k] for k in _independent_rows(np.concatenate(K), len(cluster.dependent))]
            selected += [tuple(r for c, r in sorted(chosen) if c == n) for n in range(len(K))]
    return tuple(selected)


def _rates(tree, constraint, q):
    """K (rows, nv of the tree) with K qd = 0."""
    if isinstance(constraint, LoopJoint):
        units = np.eye(tree.nv)
        motion = interpret(cut_program(tree, constraint), q=np.tile(q, (tree.nv, 1)), qd=units)
        return motion["rate"].T
    return interpret(velocity_program(tree, (constraint,)), q=q, qd=np.zeros(tree.nv))["K"]


def _independent_rows(K, rank):
    """Numbers of the best conditioned rows."""
    return pivoted(K, rank)[0]
