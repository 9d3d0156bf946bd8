"""What loop joints transmit: the Lagrange multipliers of their equations, on symbols of one state.

Passive joints bear no torque: K_dep^T lambda = tau_dep, the torques of the tree at the dependent joints,
where drives stand at the independent ones. T lambda is the wrench in the loop frame, see loop_cut.py. Gears,
belts and other constraints between coordinates act as drives do, between a body and its parent.
"""

import numpy as np

from dynamics_node.algorithms.constraint_elimination import Elimination
from dynamics_node.algorithms.constraint_equations import position_program
from dynamics_node.algorithms.loop_cut import cut_program
from dynamics_node.robot import ModelError
from dynamics_node.robot.constraints import LoopJoint
from dynamics_node.robot.robot import fact
from dynamics_node.symbolic import Program, derivative_name, interpret, jacobian, trace

REDUNDANT = ("refuse", "least")


def loop_wrenches(mechanism, q, tau, redundant="refuse"):
    """(nbodies, 6): what the loop joints exert ON the bodies, each in its axes at its origin, moment first;
    0.0 where there are none.

    q (nq,); tau (nv of the tree,): torques of the tree as it moves. redundant: of a cluster with more
    equations than dependent joints, whose multipliers are not unique, 'refuse' raises ModelError, 'least'
    takes those with the least sum of squares, in N and N m in the loop frames.
    """
    if redundant not in REDUNDANT:
        raise ValueError(f"unknown choice {redundant!r} for redundant; there are {', '.join(REDUNDANT)}")
    loops = [c for c in mechanism.clusters if any(isinstance(one, LoopJoint) for one in c.constraints)]
    if not loops:
        return 0.0
    tree = mechanism.tree
    total = np.zeros((tree.nbodies, 6), dtype=object)
    for cluster in loops:
        _add(total, tree, cluster, q, tau, redundant)
    return total


def _add(total, tree, cluster, q, tau, redundant):
    rows = [_rows(tree, constraint, q) for constraint in cluster.constraints]
    K = np.concatenate(rows)[:, list(cluster.dependent)]
    if len(K) > len(cluster.dependent) and redundant == "refuse":
        names = ", ".join(repr(constraint.name) for constraint in cluster.constraints)
        raise ModelError(
            f"joints bridged by {names} bear what their motion does not tell: {len(K)} components hold "
            f"{len(cluster.dependent)} joints; redundant='least' of build takes the least ones"
        )
    elimination = Elimination(K, np.ones(len(K)))
    multipliers = elimination.solve_transposed(tau[list(cluster.dependent)][:, None])[:, 0]
    ends = np.cumsum([len(own) for own in rows])[:-1]
    for constraint, own in zip(cluster.constraints, np.split(multipliers, ends), strict=True):
        if isinstance(constraint, LoopJoint):
            _transmit(total, tree, constraint, q, own)


def _rows(tree, constraint, q):
    """K (rows, nv of the tree) in m or rad of one constraint; of a loop joint those of its T."""
    if isinstance(constraint, LoopJoint):
        found = interpret(_rate_program(tree, constraint), q=q, qd=np.zeros(tree.nv))
        return found[derivative_name("rate", "qd")]
    return interpret(position_program(tree, (constraint,)), q=q)["K"]


@fact
def _rate_program(tree, loop) -> Program:
    return jacobian(cut_program(tree, loop), ["rate"], ["qd"])


@fact
def _cut_program(tree, loop) -> Program:
    """What of `cut_program` depends on positions alone."""
    names = ("X_p", "X_s", "T")

    def function(q):
        found = interpret(cut_program(tree, loop), q=q, qd=np.zeros(tree.nv))
        return {name: found[name] for name in names}

    return trace(function, {"q": (tree.nq,)})


def _transmit(total, tree, loop, q, multipliers):
    found = interpret(_cut_program(tree, loop), q=q)
    force = found["T"] @ multipliers
    for body, X, sign in ((loop.predecessor, "X_p", 1.0), (loop.successor, "X_s", -1.0)):
        if body >= 0:
            total[body] = total[body] + sign * (found[X].T @ force)
