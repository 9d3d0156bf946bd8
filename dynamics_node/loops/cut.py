"""A loop joint cut open: what its two ends do to each other (paper 1, section VII).

Everything is seen from the frame of the loop on its successor: T (6, r) are the directions in which the
ends cannot move against each other, S (6, 6 - r) those in which they can, so

    T^T (X_p V_p - X_s V_s) = 0,    T^T (X_p A_p - X_s A_s) = T^T (V_s x V_p) - (dT/dt)^T (V_p - V_s)
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from dynamics_node.algorithms.recursion import joint_motions, outward
from dynamics_node.algorithms.transforms import joint_transforms
from dynamics_node.loops.constraints import across, common_ancestor, end_frames, frame_in
from dynamics_node.program import Program, trace
from dynamics_node.spatial import cross_motion, motion_transform

# of the angular and of the linear directions across, across, along the axis: those that stay free
_FREE: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    "fixed": ((), ()),
    "revolute": ((2,), ()),
    "prismatic": ((), (2,)),
    "ball": ((0, 1, 2), ()),
    "planar": ((2,), (0, 1)),
}


class _Directions(NamedTuple):
    """T, S and dT/dt; those of a rod are T alone, for a rod bears a force along itself and nothing else."""

    T: np.ndarray
    S: np.ndarray
    T_rate: np.ndarray


@lru_cache(maxsize=64)  # loops of the robots at hand
def cut_program(tree, loop) -> Program:
    """q, qd (of the tree) -> X_p, X_s (6, 6) from the bodies of the ends to the loop frame, T, S; rate (r,) =
    T^T (X_p V_p - X_s V_s) and change (r,), the right-hand side for accelerations."""

    def function(q, qd):
        X_up = joint_transforms(tree, q)
        (P, p), (S, s) = end_frames(tree, X_up, loop)
        X_p, X_s = (_into(tree, X_up, loop, body, S, s) for body in (loop.predecessor, loop.successor))
        v = outward(tree, X_up, joint_motions(tree, qd))
        V_p, V_s = (_moved(X, v, i) for X, i in ((X_p, loop.predecessor), (X_s, loop.successor)))
        along = _directions(loop, S.T @ P, S.T @ (p - s), V_p - V_s)
        change = along.T.T @ cross_motion(V_s, V_p) - along.T_rate.T @ (V_p - V_s)
        rate = along.T.T @ (V_p - V_s)
        return {"X_p": X_p, "X_s": X_s, "T": along.T, "S": along.S, "rate": rate, "change": change}

    return trace(function, {"q": (tree.nq,), "qd": (tree.nv,)})


def _into(tree, X_up, loop, body, S, s):
    """X (6, 6) from a body to the frame with axes S and origin s, both seen from where the paths meet."""
    top = common_ancestor(tree, loop.predecessor, loop.successor)
    B, b = frame_in(tree, X_up, top, body, np.eye(3), np.zeros(3))
    return motion_transform(S.T @ B, B.T @ (s - b))


def _moved(X, v, body):
    return X @ v[body] if body >= 0 else np.zeros(6)


def _directions(loop, P, d, w):
    """P: axes, d: origin of the predecessor's frame in the successor's; w (6,): how it moves there."""
    if loop.kind == "rod":
        return _rod(loop, d, w)
    if loop.kind == "universal":
        return _universal(loop, P, w)
    units = np.concatenate([_angular(_axes(loop.axis)), _linear(_axes(loop.axis))], axis=1)
    angular, linear = _FREE[loop.kind]
    free = [*angular, *(3 + k for k in linear)]
    kept = [k for k in range(6) if k not in free]
    return _Directions(units[:, kept], units[:, free], np.zeros((6, len(kept))))


def _axes(axis):
    """Columns: two directions across an axis, and the axis."""
    return np.stack([*across(axis), axis / np.linalg.norm(axis)], axis=1)


def _angular(columns):
    return np.concatenate([columns, np.zeros_like(columns)])


def _linear(columns):
    return np.concatenate([np.zeros_like(columns), columns])


def _universal(loop, P, w):
    """The turn about the cross product of both axes is what the joint bears."""
    first = P @ (loop.axis / np.linalg.norm(loop.axis))
    second = loop.second_axis / np.linalg.norm(loop.second_axis)
    turning = np.cross(np.cross(w[:3], first), second)
    T = np.concatenate([_angular(np.cross(first, second)[:, None]), _linear(np.eye(3))], axis=1)
    T_rate = np.concatenate([_angular(turning[:, None]), np.zeros((6, 3))], axis=1)
    return _Directions(T, _angular(np.stack([first, second], axis=1)), T_rate)


def _rod(loop, d, w):
    turning = w[3:] + np.cross(w[:3], d)
    T, T_rate = (_linear(x[:, None] / loop.length) for x in (d, turning))
    return _Directions(T, np.zeros((6, 0)), T_rate)
