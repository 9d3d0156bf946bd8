"""The transforms X_up from every body's parent to the body, at a position.

Over floats they are one array, since one product of matrices is what NumPy does fastest. Over symbols
each is kept as its factors, a turn or slide of the joint, the fixed turn, the fixed shift: applied one
after the other they cost far fewer scalar operations than their product.
"""

from functools import reduce

import numpy as np

from dynamics_node.model.model import joint_transform_parts
from dynamics_node.spatial import (
    congruence,
    matvec,
    motion_transform,
    quaternion_rotation,
    rotation_transform,
    transform_origin,
    transform_rotation,
    transpose,
)


class Transforms:
    """X_up (..., nbodies, 6, 6) as one array."""

    def __init__(self, X):
        self._X = X

    def matrix(self, i):
        """X_up of body i (..., 6, 6)."""
        return self._X[..., i, :, :]

    def motion(self, i, v):
        """A motion vector (..., 6) of the parent, seen from body i: X v."""
        return matvec(self.matrix(i), v)

    def force(self, i, f):
        """A force vector (..., 6) on body i, seen from the parent: X^T f."""
        return matvec(transpose(self.matrix(i)), f)

    def forces(self, i, F):
        """Several force vectors, the columns of F (..., 6, k): X^T F."""
        return transpose(self.matrix(i)) @ F

    def inertia(self, i, inertia):
        """An inertia (..., 6, 6) of body i, seen from the parent: X^T I X."""
        return congruence(self.matrix(i), inertia)


class FactoredTransforms(Transforms):
    """X_up[i] = factors[i][0] @ factors[i][1] @ ..."""

    def __init__(self, factors):
        self._factors = factors

    def matrix(self, i):
        return reduce(np.matmul, self._factors[i])

    def motion(self, i, v):
        return reduce(lambda x, factor: matvec(factor, x), reversed(self._factors[i]), v)

    def force(self, i, f):
        return reduce(lambda x, factor: matvec(transpose(factor), x), self._factors[i], f)

    def forces(self, i, F):
        return reduce(lambda x, factor: transpose(factor) @ x, self._factors[i], F)

    def inertia(self, i, inertia):
        return reduce(lambda x, factor: congruence(factor, x), self._factors[i], inertia)


def joint_transforms(model, q) -> Transforms:
    """X_up of every body at q (..., nq)."""
    if q.dtype == object:
        return FactoredTransforms([_factors(body, q) for body in model.bodies])
    index, multiplier, offset, (X0, Xc, Xs, Xp) = model.transform_parts
    position = (multiplier * q[..., index] + offset)[..., None, None]
    X_up = X0 + np.cos(position) * Xc + np.sin(position) * Xs + position * Xp
    for i, body in enumerate(model.bodies):
        if body.joint.kind == "floating":
            turn, shift = _pose_factors(q[..., body.joint.q])
            X_up[..., i, :, :] = turn @ shift @ body.X_tree
    return Transforms(X_up)


def _factors(body, q):
    joint, X_tree = body.joint, body.X_tree
    fixed = (
        rotation_transform(transform_rotation(X_tree)),
        motion_transform(np.eye(3), transform_origin(X_tree)),
    )
    if joint.kind == "floating":
        return (*_pose_factors(q[..., joint.q]), *fixed)
    position = (joint.multiplier * q[..., joint.q] + joint.offset)[..., None]
    P, C, S, slide = joint_transform_parts(joint)
    return (P + np.cos(position) * C + np.sin(position) * S + position * slide, *fixed)


def _pose_factors(pose):
    """Turn and shift to a body whose pose x y z qx qy qz qw (..., 7) in the parent is given."""
    turn = rotation_transform(transpose(quaternion_rotation(pose[..., 3:])))
    shift = np.broadcast_to(np.eye(3), (*pose.shape[:-1], 3, 3))
    return turn, motion_transform(shift, pose[..., :3])
