"""The floating base: pose and twist of the root link, from odometry."""

from typing import NamedTuple

import numpy as np

from dynamics_node.node.state.joint_memory import BadMessage
from dynamics_node.robot import Robot
from dynamics_node.symbolic import UNIT, transform_origin, transform_rotation


class Base(NamedTuple):
    """Root link: pose x y z qx qy qz qw, twist (angular, linear) in its axes; ns of stamp and reception."""

    pose: np.ndarray
    twist: np.ndarray
    stamp: int
    received: int


def read_base(model: Robot, pose, twist, stamp, now, link="") -> Base:
    """Base of a robot from numbers: pose of the floating link in root axes, twist in its own. link: its name,
    '' is the same. Raises BadMessage for another link and for what is no pose and twist."""
    body = model.tree.bodies[0]
    if link not in ("", body.name):
        raise BadMessage(f"child_frame_id {link!r} is not the floating link {body.name!r}")
    pose, twist = np.array(pose, dtype=float), np.array(twist, dtype=float)
    if not (np.isfinite(pose).all() and np.isfinite(twist).all()):
        raise BadMessage("pose or twist of the base is not finite")
    norm = np.linalg.norm(pose[3:])
    if abs(norm - 1) > UNIT:
        raise BadMessage(f"quaternion of the base has norm {norm:.9g}, not 1")
    if not np.array_equal(body.X_tree, np.eye(6)):
        pose = _from_frame(body.X_tree, pose)
    return Base(pose, twist, stamp, now)


def _from_frame(X, pose):
    """A pose as seen from the frame at X (6, 6) of the one that it was seen from."""
    from scipy.spatial.transform import (
        Rotation,
    )  # half of the time that a node takes to start, for few robots

    E, origin = transform_rotation(X), transform_origin(X)
    turned = Rotation.from_matrix(E) * Rotation.from_quat(pose[3:])
    return np.concatenate([E @ (pose[:3] - origin), turned.as_quat()])
