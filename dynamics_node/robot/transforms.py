"""The transforms X_up from every body's parent to the body, at a position.

Floats are one array: a single product of matrices is fastest in NumPy. Symbols are factors: the turn or slide
of the joint, the fixed turns, the fixed shift. Applied one after the other, they cost far fewer scalar
operations than their product.
"""

from functools import reduce

import numpy as np

from dynamics_node.robot.robot import cached_on_robot
from dynamics_node.symbolic import (
    Rotation,
    Translation,
    axis_rotation,
    congruence,
    length,
    matvec,
    product,
    transform_origin,
    transform_rotation,
    transpose,
)

ROUNDING = 1e-13  # a sine within this of zero is rounding


class Transforms:
    """X_up (..., nbodies, 6, 6) as one array."""

    def __init__(self, X):
        self._X = X
        self._origins = transform_origin(X)

    def matrix(self, i):
        """X_up of body i (..., 6, 6)."""
        return self._X[..., i, :, :]

    def origin(self, i):
        """Origin (..., 3) of body i in the parent's axes."""
        return self._origins[..., i, :]

    def vector(self, i, x):
        """A vector (..., 3) of the parent in the axes of body i: E x."""
        return matvec(self._X[..., i, :3, :3], x)

    def motion(self, i, v):
        """A motion vector (..., 6) of the parent, in the frame of body i: X v."""
        return matvec(self.matrix(i), v)

    def force(self, i, f):
        """A force vector (..., 6) on body i, in the parent's frame: X^T f."""
        return matvec(transpose(self.matrix(i)), f)

    def forces(self, i, F):
        """Several force vectors, the columns of F (..., 6, k): X^T F."""
        return transpose(self.matrix(i)) @ F

    def inertia(self, i, inertia):
        """An inertia (..., 6, 6) of body i, in the parent's frame: X^T I X."""
        return congruence(self.matrix(i), inertia)


class FactoredTransforms:
    """Joint transforms on symbols, products of elementary ones: X_up[i] = factors[i][0] factors[i][1] ..."""

    def __init__(self, factors):
        self._factors = factors

    def matrix(self, i):
        return _product(self._factors[i])

    def origin(self, i):
        place, turns = np.zeros(3), []
        for factor in reversed(self._factors[i]):
            if isinstance(factor, Rotation):
                turns.append(factor)
            else:
                place = place + reduce(lambda x, turn: turn.vector_back(x), reversed(turns), factor.r)
        return place

    def turns(self, i):
        """The rotations among the factors, in order."""
        return [factor for factor in self._factors[i] if isinstance(factor, Rotation)]

    def vector(self, i, x):
        return reduce(lambda x, turn: turn.vector(x), reversed(self.turns(i)), x)

    def vector_back(self, i, x):
        """A vector (3,) of body i in the axes of the parent: E^T x."""
        return reduce(lambda x, turn: turn.vector_back(x), self.turns(i), x)

    def point_back(self, i, p):
        """A point (3,) of body i in the frame of the parent."""
        return reduce(lambda p, factor: factor.point_back(p), self._factors[i], p)

    def motion(self, i, v):
        return reduce(lambda x, factor: factor.motion(x), reversed(self._factors[i]), v)

    def force(self, i, f):
        return reduce(lambda x, factor: factor.force(x), self._factors[i], f)

    def forces(self, i, F):
        return np.stack([self.force(i, F[..., k]) for k in range(F.shape[-1])], axis=-1)

    def inertia(self, i, inertia):
        return reduce(lambda x, factor: factor.inertia(x), self._factors[i], inertia)


def joint_transforms(robot, q, bodies=None) -> Transforms | FactoredTransforms:
    """X_up of every body at q (..., nq); for symbols, optionally of some bodies only, in order."""
    if q.dtype == object:
        bodies = range(robot.nbodies) if bodies is None else bodies
        return FactoredTransforms({i: _factors(robot.bodies[i], q) for i in bodies})
    X0, Xc, Xs, Xp = _transform_parts(robot)
    position = _first_coordinates(robot, q)[..., None, None]
    X_up = X0 + np.cos(position) * Xc + np.sin(position) * Xs + position * Xp
    for i, body in enumerate(robot.bodies):
        if body.joint.type.parts is None:
            X_up[..., i, :, :] = _product(_joint_factors(body.joint, q)) @ body.X_tree
    return Transforms(X_up)


@cached_on_robot
def _transform_parts(robot):
    """Constants X0, Xc, Xs, Xp (nbodies, 6, 6) of X_up = X0 + cos(a) Xc + sin(a) Xs + a Xp, with the position
    a of the joint. If a joint transform does not have this form (`parts` of its type), Xc = Xs = Xp = 0."""
    parts = np.array([_joint_parts(body.joint) for body in robot.bodies]).reshape(-1, 4, 6, 6)
    X_tree = np.array([body.X_tree for body in robot.bodies]).reshape(-1, 1, 6, 6)
    return tuple(np.moveaxis(parts @ X_tree, 1, 0))


def _joint_parts(joint):
    if joint.type.parts is None:
        return np.eye(6), *np.zeros((3, 6, 6))
    return joint.type.parts(joint.axis)


def _first_coordinates(robot, q):
    """The position (..., nbodies) of every joint at q (..., nq); its first coordinate if it has several."""
    index, offset = _places_of_joints(robot)
    positions = q[..., index] + offset
    for i, body in enumerate(robot.bodies):
        if body.joint.masters is not None:
            positions[..., i] = body.joint.position(q)[..., 0]
    return positions


@cached_on_robot
def _places_of_joints(robot):
    """Index in q of the first coordinate of every joint, and its offset."""
    joints = [body.joint for body in robot.bodies]
    return np.array([j.q.start for j in joints], dtype=int), np.array([j.offset for j in joints])


def _factors(body, q):
    X_tree = body.X_tree
    fixed = (*fixed_turns(transform_rotation(X_tree)), Translation(fixed_shift(X_tree)))
    return (*_joint_factors(body.joint, q), *fixed)


def _joint_factors(joint, q):
    return joint.type.factors(joint.axis, joint.position(q))


def _product(factors):
    return reduce(np.matmul, (factor.matrix() for factor in factors))


def fixed_turns(E):
    """A constant rotation as turns about z, x, z, without the trivial ones.

    Each is computed from the remainder of those before. An error of the first, which is large for nearly
    parallel axes, is thus corrected by the last.
    """
    turns = []
    sine = length(E[:2, 2])
    if sine >= ROUNDING:
        turns.append((2, E[1, 2] / sine, E[0, 2] / sine))
        turns.append((0, E[2, 2], sine))
    elif E[2, 2] < 0:
        turns.append((0, -1.0, 0.0))
    turns = [(axis, _snap(c), _snap(s)) for axis, c, s in turns]
    rest = reduce(lambda rest, turn: product(axis_rotation(*turn).E.astype(float).T, rest), turns, E)
    size = length(rest[0, :2])
    turns.append((2, _snap(rest[0, 0] / size), _snap(rest[0, 1] / size)))
    return [axis_rotation(*turn) for turn in turns if turn[1:] != (1.0, 0.0)]


def fixed_shift(X):
    """The origin r (..., 3) of constant transforms, with rounding replaced by zero."""
    r = transform_origin(X)
    size = np.abs(r).max(axis=-1, keepdims=True)
    return np.where(np.abs(r) < ROUNDING * size, 0.0, r)


def _snap(x):
    """A cosine or sine, with values near -1, 0 and 1 rounded to them."""
    nearest = round(x)
    return float(nearest) if abs(x - nearest) < ROUNDING else float(x)
