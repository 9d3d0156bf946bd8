"""Rotation matrices. R takes coordinates of the rotated frame to the original one."""

import numpy as np

from dynamics_node.symbolic.algebra import skew
from dynamics_node.symbolic.fixed_order import sine_cosine

UNIT = 1e-6  # by how much the length of a quaternion may differ from 1 to be taken as its direction


def rpy_rotation(rpy):
    """R of fixed-axis roll, pitch, yaw in rad, as URDF has it: Rz(yaw) Ry(pitch) Rx(roll)."""
    (sr, cr), (sp, cp), (sy, cy) = map(sine_cosine, np.asarray(rpy, dtype=float).tolist())
    return np.array(
        [
            [cy * cp, cy * sp * sr - sy * cr, cy * sp * cr + sy * sr],
            [sy * cp, sy * sp * sr + cy * cr, sy * sp * cr - cy * sr],
            [-sp, cp * sr, cp * cr],
        ]
    )


def quaternion_rotation(quaternion, xp=np):
    """R (..., 3, 3) of a Hamilton quaternion x y z w (..., 4), whatever its length. xp: its array module."""
    x, y, z, w = (quaternion[..., k] for k in range(4))
    t = 2 / (x * x + y * y + z * z + w * w)
    rows = (
        (1 - t * (y * y + z * z), t * (x * y - z * w), t * (x * z + y * w)),
        (t * (x * y + z * w), 1 - t * (x * x + z * z), t * (y * z - x * w)),
        (t * (x * z - y * w), t * (y * z + x * w), 1 - t * (x * x + y * y)),
    )
    return xp.stack([xp.stack(row, axis=-1) for row in rows], axis=-2)


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
    u = turn / 4, exact to second order in the turn and without a root. The length's error is squared."""
    u = 0.25 * turn
    size = (u * u).sum(axis=-1, keepdims=True)
    along = 4.0 * (quaternion_rates(quaternion) @ u[..., None])[..., 0]
    p = (along + (1.0 - size) * quaternion) / (1.0 + size)
    return 0.5 * (3.0 - (p * p).sum(axis=-1, keepdims=True)) * p


def quaternion_difference(to, start):
    """The turn (..., 3) by which `turned_quaternion` takes a quaternion `start` (..., 4) to `to`, both of
    unit length and in the same hemisphere: 4 v / (1 + w), (v, w) being their quotient."""
    v = 2.0 * (np.swapaxes(quaternion_rates(start), -1, -2) @ to[..., None])[..., 0]
    w = (start * to).sum(axis=-1, keepdims=True)
    return 4.0 * v / (1.0 + w)
