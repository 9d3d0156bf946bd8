"""A loop joint cut open: what its two ends do to each other (paper 1, section VII).

Everything is seen from the frame of the loop on its successor. The equations phi of the joint tell the
directions T (6, r) in which its ends cannot move against each other: dphi/dt = T^T (X_p V_p - X_s V_s) is
zero while the loop is closed. Most kinds then have the T of two equal frames, which is constant. So

    T^T (X_p V_p - X_s V_s) = 0,    T^T (X_p A_p - X_s A_s) = T^T (V_s x V_p) - (dT/dt)^T (V_p - V_s)

and what the joint transmits is a force T lambda.
"""

import numpy as np

from dynamics_node.algorithms.constraint_equations import common_ancestor, end_frames, frame_in, scale_of
from dynamics_node.algorithms.recursion import joint_motions, outward
from dynamics_node.algorithms.transforms import joint_transforms
from dynamics_node.robot.robot import fact
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


@fact
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
        found = interpret(rate, **at, w=w)
        change = found["T"].T @ cross_motion(V_s, V_p)
        if loop.type.varies:
            change = change - _directions(interpret(slopes, **at, w=w), "rate", **at).T @ w
        return {"X_p": X_p, "X_s": X_s, "T": found["T"], "rate": found["rate"], "change": change}

    return trace(function, {"q": (tree.nq,), "qd": (tree.nv,)})


def _rate_program(loop) -> Program:
    """P, d, w (6,): how the predecessor's frame moves -> T, and rate = T^T w of phi in m, rad or 1."""
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
    """X (6, 6) from a body to the frame with axes S and origin s, both seen from where the paths meet."""
    top = common_ancestor(tree, loop.predecessor, loop.successor)
    B, b = frame_in(tree, X_up, top, body, np.eye(3), np.zeros(3))
    return motion_transform(S.T @ B, B.T @ (s - b))


def _moved(X, v, body):
    return X @ v[body] if body >= 0 else np.zeros(6)
