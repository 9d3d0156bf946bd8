"""Wrenches: of the environment on links, at joints, and at sensors.

A joint's wrench is that of the parent ON the child, moment first. At a sensor (see sensors.ForceTorque) it is
in the axes of the sensor about its origin: the reading of a force/torque sensor in free air. Below it, m kg
at rest give a force of m |g| upward.
"""

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from dynamics_node.algorithms.frame_kinematics import frame_pose
from dynamics_node.algorithms.recursion import inward
from dynamics_node.algorithms.rnea import body_motions, body_wrench, body_wrenches, root_motion
from dynamics_node.errors import InputError
from dynamics_node.robot import Robot
from dynamics_node.robot.subtree import subtree
from dynamics_node.robot.transforms import joint_transforms
from dynamics_node.robot.wrong_calls import explains_wrong_calls
from dynamics_node.symbolic import (
    inverse_motion_transform,
    matvec,
    pseudo_inertia,
    skew,
    transform_origin,
    transform_rotation,
    transpose,
)


@explains_wrong_calls
def external_wrenches(
    robot: Robot,
    wrenches: Mapping[str, Any],
    *,
    axes: Literal["link", "world"] = "link",
    q: ArrayLike | None = None,
) -> np.ndarray:
    """Return the array `f_ext` of wrenches that the environment exerts ON links.

    Parameters
    ----------
    robot : Robot
        The robot.
    wrenches : mapping of str to array_like (..., 6)
        Wrench on every touched link at the link's origin: moment, N m, then force, N. On a link that is fixed
        to the root, it has no effect.
    axes : {'link', 'world'}
        Axes of moments and forces: of each link, or of the root. The point is the link's origin in both.
    q : array_like (..., nq), optional
        Positions, for the axes of the root.

    Returns
    -------
    ndarray (..., nbodies, 6)
        Wrenches on the bodies in their axes at their origins, over the common batch.

    Raises
    ------
    KeyError
        For an unknown link.
    InputError
        For a wrench of another shape, unknown axes, and positions of another shape or without need.

    References
    ----------
    Xie and Dellaert, "A Unified Method for Solving Inverse, Forward, and Hybrid Manipulator Dynamics using
    Factor Graphs", eq. (6): the tool wrench F_t, exerted BY the tool on the world, is the negative wrench.

    Examples
    --------
    >>> f_ext = dn.external_wrenches(robot, {"panda_hand": [0, 0, 0, 0, 0, -10.0]})
    >>> f_ext.shape
    (7, 6)
    >>> inverse = dn.build(robot, "inverse_dynamics", backend="numpy", f_ext=True)
    >>> zero = np.zeros(7)
    >>> (inverse(zero, zero, zero, f_ext=f_ext) - inverse(zero, zero, zero)).round(3) + 0.0
    array([ 0.   ,  0.88 ,  0.   , -0.055,  0.   , -0.88 ,  0.   ])

    The hand points down: a force upward is one along its negative z axis.

    >>> up = dn.external_wrenches(robot, {"panda_hand": [0, 0, 0, 0, 0, 10.0]}, axes="world", q=zero)
    >>> bool(np.allclose(up, f_ext))
    True
    """
    if axes not in ("link", "world"):
        raise InputError(f"unknown axes {axes!r}; there are link, world")
    if (axes == "world") != (q is not None):
        raise InputError("give q with axes='world'; wrenches in axes of links need no q")
    wrenches = {link: np.asarray(w, dtype=float) for link, w in wrenches.items()}
    for link, w in wrenches.items():
        if w.shape[-1:] != (6,):
            raise InputError(f"wrench on {link!r} must have shape (..., 6), moment first, not {w.shape}")
    if q is not None:
        q = np.asarray(q, dtype=float)
        if q.shape[-1:] != (robot.nq,):
            raise InputError(f"q must have shape (..., {robot.nq}), not {q.shape}")
        wrenches = {link: _in_link(robot, link, w, q) for link, w in wrenches.items()}
    batch = np.broadcast_shapes(*(w.shape[:-1] for w in wrenches.values()))
    f_ext = np.zeros((*batch, robot.nbodies, 6))
    for link, w in wrenches.items():
        frame = robot.frame(link)
        if frame.body >= 0:
            f_ext[..., frame.body, :] += matvec(transpose(frame.X), w)
    return f_ext


def _in_link(robot, link, wrench, q):
    """A wrench (..., 6) at a link's origin, from axes of the root to those of the link."""
    rotation, _ = frame_pose(robot.tree, q, link)
    parts = [matvec(transpose(rotation), part) for part in np.split(wrench, 2, axis=-1)]
    return np.concatenate(parts, axis=-1)


def reaction_wrenches(robot, q, qd, qdd, gravity=None, f_ext=0.0):
    """Wrenches (..., nbodies, 6) that parents exert ON the bodies through their joints, drives included, in
    the axes of the link that gives the body its name, at its origin, moment first. f_ext (..., nbodies, 6):
    of the environment ON the bodies in their axes at their origins; the other arguments as in `rnea`. For one
    joint, also a fixed one, in the axes of a sensor: `sensor_wrench`."""
    X_up = joint_transforms(robot, q)
    bodies = body_wrenches(robot, body_motions(robot, X_up, qd, qdd, gravity))
    wrenches = inward(robot, X_up, bodies - f_ext)
    back = [transpose(inverse_motion_transform(robot.frames[body.name].X)) for body in robot.bodies]
    reactions = [matvec(X, wrenches[..., i, :]) for i, X in enumerate(back)]
    return np.stack(reactions, axis=-2) if reactions else wrenches


def sensor_wrench(robot, q, qd, qdd, gravity=None, *, joint, xyz=(0, 0, 0), rpy=(0, 0, 0)):
    """Wrench (..., 6) at a sensor, for a Robot in which only the subtree of the joint has inertia, see
    `only_subtree`.

    q (..., nq), qd, qdd (..., nv), gravity as in `rnea`; xyz (m), rpy (rad): pose of the sensor in the child
    link of the joint, which may be fixed. Raises KeyError for an unknown joint.
    """
    below = subtree(robot, joint)
    X_up = joint_transforms(robot, q)
    motions = body_motions(robot, X_up, qd, qdd, gravity)
    wrenches = inward(robot, X_up, body_wrenches(robot, motions))
    X = inverse_motion_transform(below.sensor(xyz, rpy))
    if below.body >= 0:
        return matvec(transpose(X), wrenches[..., below.body, :])
    root = root_motion(robot.gravity if gravity is None else gravity)
    total = body_wrench(root.U, root.a, pseudo_inertia(below.inertia))
    for child in below.children:
        total = total + X_up.force(child, wrenches[..., child, :])
    return matvec(transpose(X), total)


def tool_regressor(robot, q, qd, qdd, gravity=None, *, joint, xyz=(0, 0, 0), rpy=(0, 0, 0)):
    """Y (..., 6, 4): contribution to `sensor_wrench` of a mass (kg) and a first moment (3,) (kg m, in sensor
    axes from its origin) fixed to the sensor. Arguments as there, of floats; any Robot."""
    below = subtree(robot, joint)
    if below.body >= 0:
        motion = body_motions(robot, joint_transforms(robot, q), qd, qdd, gravity)[below.body]
    else:
        motion = root_motion(robot.gravity if gravity is None else np.asarray(gravity))
    X = below.sensor(xyz, rpy)
    E, r = transform_rotation(X), transform_origin(X)
    a = matvec(E, motion.a + matvec(motion.U, r))
    U = E @ motion.U @ transpose(E)
    a = np.broadcast_to(a, (*q.shape[:-1], 3))
    U = np.broadcast_to(U, (*q.shape[:-1], 3, 3))
    top = np.concatenate([np.zeros((*a.shape, 1)), -skew(a)], axis=-1)
    return np.concatenate([top, np.concatenate([a[..., None], U], axis=-1)], axis=-2)
