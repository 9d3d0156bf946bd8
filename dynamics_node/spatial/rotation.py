"""Rotation matrices. R takes coordinates of the rotated frame to the original one."""

import numpy as np

from dynamics_node.spatial.algebra import skew


def rpy_rotation(rpy):
    """R of fixed-axis roll, pitch, yaw in rad, as URDF has it: Rz(yaw) Ry(pitch) Rx(roll)."""
    (cr, cp, cy), (sr, sp, sy) = np.cos(rpy), np.sin(rpy)
    return np.array(
        [
            [cy * cp, cy * sp * sr - sy * cr, cy * sp * cr + sy * sr],
            [sy * cp, sy * sp * sr + cy * cr, sy * sp * cr - cy * sr],
            [-sp, cp * sr, cp * cr],
        ]
    )


def quaternion_rotation(quaternion):
    """R (..., 3, 3) of a Hamilton quaternion x y z w (..., 4), whatever its length."""
    x, y, z, w = (quaternion[..., k] for k in range(4))
    t = 2 / (x * x + y * y + z * z + w * w)
    rows = (
        (1 - t * (y * y + z * z), t * (x * y - z * w), t * (x * z + y * w)),
        (t * (x * y + z * w), 1 - t * (x * x + z * z), t * (y * z - x * w)),
        (t * (x * z - y * w), t * (y * z + x * w), 1 - t * (x * x + y * y)),
    )
    return np.stack([np.stack(row, axis=-1) for row in rows], axis=-2)


def axis_rotation_parts(axis):
    """The constant matrices (P, C, S) of R = P + cos(angle) C + sin(angle) S about a unit axis (3,)."""
    along = np.outer(axis, axis)
    return along, np.eye(3) - along, skew(np.asarray(axis))
