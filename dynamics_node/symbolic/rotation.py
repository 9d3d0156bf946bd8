"""Rotation matrices, quaternions and angles.

A rotation matrix R takes coordinates of the rotated frame to the original one. Sines of C libraries differ in
the last digit. Sines of constants are rounded correctly (`sine_cosine`, `angle_of`), so that a Program is the
same on every machine.
"""

import math
from functools import lru_cache

import numpy as np

from dynamics_node.symbolic.spatial import skew

GIMBAL = 1e-7  # cosine of the pitch of a quarter turn
UNIT = 1e-6  # largest difference from 1 of the length of a unit quaternion
_BITS = 256  # of the fractions that represent angles, sines and cosines
_QUARTER = 0x3243F6A8885A308D313198A2E03707344A4093822299F31D0082EFA98EC4E6C89 // 2  # pi / 2
_FAR = 2.0**64  # rad; above it these bits are too few


def rpy_rotation(rpy):
    """R of fixed-axis roll, pitch, yaw in rad, as in URDF: Rz(yaw) Ry(pitch) Rx(roll)."""
    (sr, cr), (sp, cp), (sy, cy) = map(sine_cosine, np.asarray(rpy, dtype=float).tolist())
    return np.array(
        [
            [cy * cp, cy * sp * sr - sy * cr, cy * sp * cr + sy * sr],
            [sy * cp, sy * sp * sr + cy * cr, sy * sp * cr - cy * sr],
            [-sp, cp * sr, cp * cr],
        ]
    )


def rpy_angles(R):
    """Roll, pitch and yaw (rad) of a rotation (3, 3): `rpy_rotation` of them is R."""
    flat = np.hypot(R[0, 0], R[1, 0])
    roll, yaw = np.arctan2(R[2, 1], R[2, 2]), np.arctan2(R[1, 0], R[0, 0])
    if flat < GIMBAL:  # pitch of a quarter turn: roll and yaw are about the same axis
        roll, yaw = 0.0, np.arctan2(-R[0, 1], R[1, 1])
    return float(roll), float(np.arctan2(-R[2, 0], flat)), float(yaw)


def quaternion_rotation(quaternion, xp=np):
    """R (..., 3, 3) of a Hamilton quaternion x y z w (..., 4), of any length. xp: its array module."""
    x, y, z, w = (quaternion[..., k] for k in range(4))
    t = 2 / (x * x + y * y + z * z + w * w)
    rows = (
        (1 - t * (y * y + z * z), t * (x * y - z * w), t * (x * z + y * w)),
        (t * (x * y + z * w), 1 - t * (x * x + z * z), t * (y * z - x * w)),
        (t * (x * z - y * w), t * (y * z + x * w), 1 - t * (x * x + y * y)),
    )
    return xp.stack([xp.stack(list(row), axis=-1) for row in rows], axis=-2)


def axis_rotation_parts(axis):
    """The constant matrices (P, C, S) of R = P + cos(angle) C + sin(angle) S about a unit axis (3,)."""
    along = np.outer(axis, axis)
    return along, np.eye(3) - along, skew(np.asarray(axis))


def quaternion_rates(quaternion):
    """(..., 4, 3): the derivative of x y z w (..., 4) by the angular velocity in body axes, p (w, 0) / 2 in
    Hamilton's product (RBDA eq. 4.12)."""
    x, y, z, w = (quaternion[..., k] for k in range(4))
    rows = ((w, -z, y), (z, w, -x), (-y, x, w), (-x, -y, -z))
    return 0.5 * np.stack([np.stack(row, axis=-1) for row in rows], axis=-2)


def turned_quaternion(quaternion, turn):
    """The quaternion x y z w (..., 4) after a turn (..., 3) in body axes: p (2 u, 1 - u u) / (1 + u u) with
    u = turn / 4, exact to second order in the turn and without a square root. It squares the error of the
    length."""
    u = 0.25 * turn
    size = (u * u).sum(axis=-1, keepdims=True)
    along = 4.0 * (quaternion_rates(quaternion) @ u[..., None])[..., 0]
    return nearer_to_unit((along + (1.0 - size) * quaternion) / (1.0 + size))


def nearer_to_unit(quaternion):
    """The quaternion (..., 4) with the error of its length squared, without a square root."""
    return 0.5 * (3.0 - (quaternion * quaternion).sum(axis=-1, keepdims=True)) * quaternion


def quaternion_difference(to, start):
    """The turn (..., 3) by which `turned_quaternion` takes the quaternion `start` (..., 4) to `to`, both of
    unit length and in the same hemisphere: 4 v / (1 + w) for their quotient (v, w)."""
    v = 2.0 * (np.swapaxes(quaternion_rates(start), -1, -2) @ to[..., None])[..., 0]
    w = (start * to).sum(axis=-1, keepdims=True)
    return 4.0 * v / (1.0 + w)


@lru_cache(maxsize=4096)
def sine_cosine(angle: float) -> tuple[float, float]:
    """Sine and cosine of an angle in rad."""
    if not abs(angle) <= _FAR:
        return (math.sin(angle), math.cos(angle)) if math.isfinite(angle) else (math.nan, math.nan)
    sine, cosine = _sine_cosine(_fraction(angle))
    return sine / (1 << _BITS), cosine / (1 << _BITS)


def angle_of(sine: float, cosine: float) -> float:
    """The angle in [-pi, pi] whose sine and cosine have this ratio and these signs: atan2, refined by one
    step of Newton's method to full precision."""
    first = math.atan2(sine, cosine)
    y, x = _fraction(sine), _fraction(cosine)
    s, c = _sine_cosine(_fraction(first))
    return (_fraction(first) + ((y * c - x * s) << _BITS) // (x * c + y * s)) / (1 << _BITS)


def _fraction(x):
    """A float in units of 2^-_BITS."""
    numerator, denominator = float(x).as_integer_ratio()
    return (numerator << _BITS) // denominator


def _sine_cosine(angle):
    quarters = (2 * angle + _QUARTER) // (2 * _QUARTER)
    rest = angle - quarters * _QUARTER
    square = rest * rest >> _BITS
    s, c = _series(rest, square, 2), _series(1 << _BITS, square, 1)
    return ((s, c), (c, -s), (-s, -c), (-c, s))[quarters % 4]


def _series(term, square, n):
    """term (1 - square / n (n + 1) + square^2 / n (n + 1) (n + 2) (n + 3) - ...)"""
    total = term
    while term:
        term = -(term * square >> _BITS) // (n * (n + 1))
        total, n = total + term, n + 2
    return total
