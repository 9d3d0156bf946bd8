"""A loop joint cut open: the wrenches between its two ends (paper 1, section VII).

All vectors are in the frame of the loop on its successor. The equations phi of the joint give the constrained
directions T (6, r) of its ends: dphi/dt = T^T (X_p V_p - X_s V_s) is zero while the loop is closed. For most
kinds T is then that of two equal frames, which is constant. So

    T^T (X_p V_p - X_s V_s) = 0,    T^T (X_p A_p - X_s A_s) = T^T (V_s x V_p) - (dT/dt)^T (V_p - V_s)

and the joint transmits a force T lambda. Passive joints transmit no torque. With drives at the independent
joints, the multipliers follow from K_dep^T lambda = tau_dep, the torques of the tree at the dependent joints.
Constraints between coordinates act like drives, between a body and its parent.
"""

import numpy as np

from dynamics_node.algorithms.constraint_elimination import ConstraintElimination
from dynamics_node.algorithms.recursion import joint_motions, outward
from dynamics_node.errors import InputError, ModelError
from dynamics_node.robot.constraints import LoopJoint
from dynamics_node.robot.grouping import last_common
from dynamics_node.robot.loops.equations import end_frames, frame_in, position_program, scale_of
from dynamics_node.robot.robot import cached_on_robot
from dynamics_node.robot.transforms import joint_transforms
from dynamics_node.symbolic import (
    Program,
    cross_motion,
    derivative_name,
    interpret,
    jacobian,
    motion_transform,
    trace,
)

_PLACE = {"P": (3, 3), "d": (3,)}  # axes and origin of the predecessor's frame in the successor's


@cached_on_robot
def cut_program(tree, loop) -> Program:
    """q, qd (of the tree) -> X_p, X_s (6, 6) from the bodies of the ends to the loop frame, T; rate (r,) =
    T^T (X_p V_p - X_s V_s), and change (r,), the right-hand side for accelerations."""
    rate = _rate_program(loop)
    slopes = jacobian(rate, ["rate"], list(_PLACE))

    def function(q, qd):
        X_up = joint_transforms(tree, q)
        (P, p), (S, s) = end_frames(tree, X_up, loop)
        X_p, X_s = (_into(tree, X_up, loop, body, S, s) for body in (loop.predecessor, loop.successor))
        v = outward(tree, X_up, joint_motions(tree, qd))
        V_p, V_s = (_moved(X, v, i) for X, i in ((X_p, loop.predecessor), (X_s, loop.successor)))
        w, at = V_p - V_s, {"P": np.eye(3), "d": np.zeros(3)}
        at |= {name: x for name, x in (("P", S.T @ P), ("d", S.T @ (p - s))) if name in loop.type.varies}
        motion = interpret(rate, **at, w=w)
        change = motion["T"].T @ cross_motion(V_s, V_p)
        if loop.type.varies:
            change = change - _directions(interpret(slopes, **at, w=w), "rate", **at).T @ w
        return {"X_p": X_p, "X_s": X_s, "T": motion["T"], "rate": motion["rate"], "change": change}

    return trace(function, {"q": (tree.nq,), "qd": (tree.nv,)})


def _rate_program(loop) -> Program:
    """P, d, w (6,), the motion of the predecessor's frame -> T, and rate = T^T w of phi in m, rad or 1."""
    phi = trace(lambda P, d: {"phi": np.array(loop.type.phi(loop, P, np.eye(3), d), dtype=object)}, _PLACE)
    slopes = jacobian(phi, ["phi"], list(_PLACE))

    def function(P, d, w):
        T = _directions(interpret(slopes, P=P, d=d), "phi", P, d) / scale_of(loop)
        return {"T": T, "rate": T.T @ w}

    return trace(function, {**_PLACE, "w": (6,)})


def _directions(slopes, name, P, d):
    """(6, r): derivatives of an output by the motion of the predecessor's frame, from those by its axes and
    origin: dP/dt = w x P, dd/dt = v + w x d."""
    by_axes, by_origin = (slopes[derivative_name(name, place)] for place in _PLACE)
    turning = sum(np.cross(P[:, k], by_axes[:, :, k]) for k in range(3)) + np.cross(d, by_origin)
    return np.concatenate([turning, by_origin], axis=1).T


def _into(tree, X_up, loop, body, S, s):
    """X (6, 6) from a body to the frame with axes S and origin s, both in the frame of the last body on both
    paths."""
    top = last_common(tree, loop.predecessor, loop.successor)
    B, b = frame_in(tree, X_up, top, body, np.eye(3), np.zeros(3))
    return motion_transform(S.T @ B, B.T @ (s - b))


def _moved(X, v, body):
    return X @ v[body] if body >= 0 else np.zeros(6)


# --- multipliers --------------------------------------------------------------------------------------------

REDUNDANT = ("refuse", "least")


def loop_wrenches(robot, q, tau, redundant="refuse"):
    """(nbodies, 6): wrenches of the loop joints ON the bodies, each in its axes at its origin, moment first;
    0.0 if there are none.

    q (nq,); tau (nv of the tree,): torques of the tree for the motion. redundant: for a cluster with more
    equations than dependent joints, whose multipliers are not unique. 'refuse' raises ModelError; 'least'
    selects those with the least sum of squares, in N and N m in the loop frames.
    """
    if redundant not in REDUNDANT:
        raise InputError(f"unknown choice {redundant!r} for redundant; there are {', '.join(REDUNDANT)}")
    loops = [c for c in robot.clusters if any(isinstance(one, LoopJoint) for one in c.constraints)]
    if not loops:
        return 0.0
    tree = robot.tree
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
            f"joints bridged by {names} transmit wrenches that their motion does not determine: {len(K)} "
            f"components constrain {len(cluster.dependent)} joints; redundant='least' selects the smallest"
        )
    elimination = ConstraintElimination(K, np.ones(len(K)))
    multipliers = elimination.solve_transposed(tau[list(cluster.dependent)][:, None])[:, 0]
    ends = np.cumsum([len(block) for block in rows])[:-1]
    for constraint, forces in zip(cluster.constraints, np.split(multipliers, ends), strict=True):
        if isinstance(constraint, LoopJoint):
            _transmit(total, tree, constraint, q, forces)


def _rows(tree, constraint, q):
    """K (rows, nv of the tree) in m or rad of one constraint; for a loop joint those of its T."""
    if isinstance(constraint, LoopJoint):
        derivatives = interpret(_slopes_of_rate(tree, constraint), q=q, qd=np.zeros(tree.nv))
        return derivatives[derivative_name("rate", "qd")]
    return interpret(position_program(tree, (constraint,)), q=q)["K"]


@cached_on_robot
def _slopes_of_rate(tree, loop) -> Program:
    return jacobian(cut_program(tree, loop), ["rate"], ["qd"])


@cached_on_robot
def _cut_program(tree, loop) -> Program:
    """The outputs of `cut_program` that depend on positions only."""
    names = ("X_p", "X_s", "T")

    def function(q):
        cut = interpret(cut_program(tree, loop), q=q, qd=np.zeros(tree.nv))
        return {name: cut[name] for name in names}

    return trace(function, {"q": (tree.nq,)})


def _transmit(total, tree, loop, q, multipliers):
    cut = interpret(_cut_program(tree, loop), q=q)
    force = cut["T"] @ multipliers
    for body, X, sign in ((loop.predecessor, "X_p", 1.0), (loop.successor, "X_s", -1.0)):
        if body >= 0:
            total[body] = total[body] + sign * (cut[X].T @ force)
