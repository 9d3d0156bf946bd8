"""Exponentials and logarithms of rotations and of rigid motions, exact for numbers of any size.

Murray, Li, Sastry: A Mathematical Introduction to Robotic Manipulation, chapter 2. The derivative of the
exponential of SE(3) is that of SO(3) in dual numbers. 6-vectors have the angular part first. These functions
take numbers: as expressions, the quotients have no value at angle 0. `quaternion_exp` and `moved_along` take
symbols, too, by power series. The graphs of trajectories move positions by `turned_quaternion`, which agrees
to second order.
"""

from math import factorial
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dynamics_node.errors import InputError
from dynamics_node.symbolic.rotation import quaternion_rotation
from dynamics_node.symbolic.spatial import skew

SMALL = 0.3  # rad; below it series replace quotients, with a remainder below rounding
TERMS = 7  # of each series
TERMS_OF_SYMBOLS = 12  # exact to rounding up to half a turn
ROTATION = 1e-5  # largest entry of R R^T - 1: that of float32 is smaller


class Pose(NamedTuple):
    """The pose of a frame in a reference frame.

    Attributes
    ----------
    rotation : ndarray (..., 3, 3)
        Rotation matrix from the axes of the frame to those of the reference.
    position : ndarray (..., 3)
        Its origin in the reference, m.
    """

    rotation: np.ndarray
    position: np.ndarray


def exp3(rotation_vector: ArrayLike) -> np.ndarray:
    """Return the rotation about a constant axis: the exponential map of SO(3).

    Parameters
    ----------
    rotation_vector : array_like (..., 3)
        The axis times the angle in rad.

    Returns
    -------
    ndarray (..., 3, 3)
        The rotation matrix, by Rodrigues' formula.

    Raises
    ------
    ValueError
        For another shape.

    References
    ----------
    Murray, Li and Sastry, "A Mathematical Introduction to Robotic Manipulation", eq. (2.14).

    Examples
    --------
    >>> dn.exp3([0.0, 0.0, np.pi / 2]).round(12) + 0.0
    array([[ 0., -1.,  0.],
           [ 1.,  0.,  0.],
           [ 0.,  0.,  1.]])
    """
    return quaternion_rotation(quaternion_exp(_shaped("rotation_vector", rotation_vector, (3,))))


def log3(rotation: ArrayLike) -> np.ndarray:
    """Return the rotation vector of a rotation: the inverse of `exp3`.

    Parameters
    ----------
    rotation : array_like (..., 3, 3)
        A rotation matrix.

    Returns
    -------
    ndarray (..., 3)
        The axis times the angle in rad, which is at most pi. At half a turn it is one of two solutions.

    Raises
    ------
    ValueError
        For another shape, and for a matrix that is no rotation.

    Examples
    --------
    >>> dn.log3(dn.exp3([0.1, -0.2, 0.3])).round(12)
    array([ 0.1, -0.2,  0.3])
    """
    rotation = _shaped("rotation", rotation, (3, 3))
    _require_rotation(rotation)
    return quaternion_log(rotation_quaternion(rotation))


def exp6(motion: ArrayLike) -> Pose:
    """Return the rigid motion of a body at a constant velocity: the exponential map of SE(3).

    Parameters
    ----------
    motion : array_like (..., 6)
        Angular and linear velocity in body axes, times the time: rad and m.

    Returns
    -------
    Pose
        rotation (..., 3, 3) and position (..., 3), m, of the body after the time in the axes before.

    Raises
    ------
    ValueError
        For another shape.

    References
    ----------
    Murray, Li and Sastry, "A Mathematical Introduction to Robotic Manipulation", eq. (2.36).

    Examples
    --------
    >>> rotation, position = dn.exp6([0.0, 0.0, np.pi, 0.0, np.pi, 0.0])  # half a circle of radius 1
    >>> position.round(12) + 0.0
    array([-2.,  0.,  0.])
    """
    w, v = np.split(_shaped("motion", motion, (6,)), 2, axis=-1)
    return Pose(exp3(w), moved_along(w, v))


def log6(rotation: ArrayLike, position: ArrayLike) -> np.ndarray:
    """Return the constant velocity of a rigid motion in a unit of time: the inverse of `exp6`.

    Parameters
    ----------
    rotation : array_like (..., 3, 3)
        A rotation matrix.
    position : array_like (..., 3)
        The position, m.

    Returns
    -------
    ndarray (..., 6)
        Angular and linear part in body axes, rad and m; the angle is at most pi.

    Raises
    ------
    ValueError
        For another shape, and for a matrix that is no rotation.

    Examples
    --------
    >>> dn.log6(*dn.exp6([0.1, -0.2, 0.3, 1.0, 2.0, 3.0])).round(12)
    array([ 0.1, -0.2,  0.3,  1. ,  2. ,  3. ])
    """
    w = log3(rotation)
    return np.concatenate([w, velocity_to(w, _shaped("position", position, (3,)))], axis=-1)


def _shaped(name, value, tail):
    """The value as array (..., *tail)."""
    array = np.asarray(value, dtype=float)
    if array.ndim < len(tail) or array.shape[-len(tail) :] != tail:
        shape = ", ".join(map(str, ("...", *tail)))
        raise InputError(f"{name} must have shape ({shape}), not {array.shape}")
    return array


def _require_rotation(R):
    """Raise ValueError for matrices (..., 3, 3) that are no rotations; NaN passes."""
    apart = np.abs(R @ np.swapaxes(R, -1, -2) - np.eye(3)).max(initial=0.0)
    if apart > ROTATION:
        raise InputError(f"rotation is not orthogonal: R R^T differs from 1 by {apart:.3g}")
    if (np.linalg.det(R) < 0.0).any():
        raise InputError("rotation is a reflection: its determinant is negative")


def quaternion_exp(w):
    """The unit quaternion x y z w (..., 4) of a rotation vector (..., 3)."""
    if w.dtype.hasobject:
        square = 0.25 * (w * w).sum(axis=-1, keepdims=True)
        return np.concatenate([0.5 * _power_series(1, square) * w, _power_series(0, square)], axis=-1)
    half = 0.5 * np.linalg.norm(w, axis=-1, keepdims=True)
    return np.concatenate([0.5 * np.sinc(half / np.pi) * w, np.cos(half)], axis=-1)


def quaternion_log(quaternion):
    """The rotation vector (..., 3), with a length of at most pi, of a unit quaternion x y z w (..., 4)."""
    quaternion = np.where(quaternion[..., 3:] < 0.0, -quaternion, quaternion)
    v, w = quaternion[..., :3], quaternion[..., 3:]
    sine = np.linalg.norm(v, axis=-1, keepdims=True)
    return v * np.where(sine > 0.0, 2.0 * np.arctan2(sine, w) / np.where(sine > 0.0, sine, 1.0), 2.0)


def quaternion_product(a, b):
    """Hamilton's product of quaternions x y z w (..., 4)."""
    (u, s), (v, t) = ((q[..., :3], q[..., 3:]) for q in (a, b))
    real = s * t - (u * v).sum(axis=-1, keepdims=True)
    return np.concatenate([s * v + t * u + np.cross(u, v), real], axis=-1)


def moved_along(w, v):
    """The origin (..., 3) of a body, in the axes before, after a unit of time at constant angular velocity w
    and linear velocity v (..., 3) in body axes."""
    first, second, _, _ = _coefficients(w)
    across = np.cross(w, v)
    return v + first * across + second * np.cross(w, across)


def velocity_to(w, position):
    """The linear velocity (..., 3) with which `moved_along` reaches a position (..., 3)."""
    angle = np.linalg.norm(w, axis=-1, keepdims=True)
    small = angle < 0.01
    half = np.where(small, 1.0, 0.5 * angle)
    series = (1.0 + angle**2 * (1.0 + angle**2 / 42.0) / 60.0) / 12.0
    second = np.where(small, series, (1.0 - half / np.tan(half)) / (4.0 * half * half))
    across = np.cross(w, position)
    return position - 0.5 * across + second * np.cross(w, across)


def exp3_derivative(w):
    """The angular velocity in the axes after `exp3`, (..., 3, 3), by the rates of w (..., 3)."""
    first, second, _, _ = (one[..., None] for one in _coefficients(w))
    across = skew(w)
    return np.eye(3) - first * across + second * (across @ across)


def exp6_derivative(motion):
    """The velocity (..., 6, 6) in the body axes after `exp6`, by the rates of a motion (..., 6)."""
    w, v = motion[..., :3], motion[..., 3:]
    first, second, first_change, second_change = (one[..., None] for one in _coefficients(w))
    along = (w * v).sum(axis=-1)[..., None, None]  # the angle times its change along v
    A, B = skew(w), skew(v)
    coupling = along * (second_change * (A @ A) - first_change * A) - first * B + second * (A @ B + B @ A)
    block = exp3_derivative(w)
    rows = np.concatenate([block, np.zeros_like(block)], -1), np.concatenate([coupling, block], -1)
    return np.concatenate(rows, axis=-2)


def _coefficients(w):
    """(1 - cos x) / x^2 and (x - sin x) / x^3 at the angle x of w (..., 3), and their derivatives by x,
    divided by x: each (..., 1). On symbols without the derivatives."""
    square = (w * w).sum(axis=-1, keepdims=True)
    if w.dtype.hasobject:
        return _power_series(2, square), _power_series(3, square), None, None
    small = square < SMALL**2
    powers = np.where(small, square, 0.0) ** np.arange(TERMS)
    x = np.where(small, 1.0, np.sqrt(square))
    versine, rest = 1.0 - np.cos(x), x - np.sin(x)
    quotients = (
        versine / x**2,
        rest / x**3,
        (x * np.sin(x) - 2.0 * versine) / x**4,
        (x * versine - 3.0 * rest) / x**5,
    )
    series = ((powers @ row)[..., None] for row in _SERIES)
    return [np.where(small, few, exact) for few, exact in zip(series, quotients, strict=True)]


def _power_series(n, square):
    """The sum of (-1)^k x^2k / (2k + n)! on symbols of x^2: cos x, sin x / x, and the first two
    `_coefficients` for n = 0 to 3."""
    total = 0.0
    for k in reversed(range(TERMS_OF_SYMBOLS)):
        total = (-1) ** k / factorial(2 * k + n) + square * total
    return total


def _series():
    """Coefficients (4, TERMS) of `_coefficients` by powers of the square of the angle."""
    rows = [[(-1) ** k / factorial(2 * k + n) for k in range(TERMS + 1)] for n in (2, 3)]
    changes = [[2.0 * (k + 1) * row[k + 1] for k in range(TERMS)] for row in rows]
    return np.array([row[:TERMS] for row in rows] + changes)


_SERIES = _series()


def rotation_quaternion(rotation):
    """The unit quaternion x y z w (..., 4) of a rotation matrix (..., 3, 3), w not negative. The products of
    its largest entry with the others give them without cancellation."""
    R = rotation
    x, y, z = (R[..., k, k] for k in range(3))
    cross = {(i, j): R[..., i, j] + R[..., j, i] for i, j in ((0, 1), (0, 2), (1, 2))}
    turn = [R[..., i, j] - R[..., j, i] for i, j in ((2, 1), (0, 2), (1, 0))]
    rows = (
        (1 + x - y - z, cross[0, 1], cross[0, 2], turn[0]),
        (cross[0, 1], 1 - x + y - z, cross[1, 2], turn[1]),
        (cross[0, 2], cross[1, 2], 1 - x - y + z, turn[2]),
        (turn[0], turn[1], turn[2], 1 + x + y + z),
    )
    products = np.stack([np.stack(row, axis=-1) for row in rows], axis=-2)  # 4 times q q^T
    largest = np.argmax(np.einsum("...kk->...k", products), axis=-1)
    quaternion = np.take_along_axis(products, largest[..., None, None], axis=-2)[..., 0, :]
    quaternion = quaternion / np.linalg.norm(quaternion, axis=-1, keepdims=True)
    return np.where(quaternion[..., 3:] < 0.0, -quaternion, quaternion)
