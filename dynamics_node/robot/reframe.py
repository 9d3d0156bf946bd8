"""The robot in frames, and with inertial parameters, that cost fewer operations.

A frame may lie anywhere on its joint's axis and turn about it: joint coordinates and torques stay the same.
Here z is the axis, the origin is the foot of the common normal with the parent's axis, and x lies along
the common normal with the child's. The fixed part of a transform becomes a turn about x and a shift
without y (Denavit and Hartenberg's choice, in Craig's form), and S a unit column.

Base parameters: mass that a joint does not move may count with the parent instead. For a turning body these
are the mass, the first moment along the axis and the second one; for a sliding body all second moments.
Parts that reach the root drop out. Khalil and Dombre: Modeling, identification and control of robots, 2002,
section 9.4.
"""

from dataclasses import replace

import numpy as np

from dynamics_node.robot.description import snapped
from dynamics_node.robot.robot import Robot
from dynamics_node.symbolic import (
    angle_of,
    dot,
    inertia_of_pseudo,
    inverse_motion_transform,
    length,
    motion_transform,
    product,
    pseudo_inertia,
    sine_cosine,
    transform_origin,
    transform_rotation,
    transformed_inertia,
    without_rounding,
)

# Sine of the angle between two axes; below it their common normal may be too far away, at up to their
# distance over this sine, and digits are lost.
PARALLEL = 0.1
COINCIDENT = 1e-9  # m; parallel axes closer than this coincide
ROUNDING = 1e-13  # entries within this of 0, 1 and -1 are set to that


def reframe(robot: Robot) -> tuple[Robot, np.ndarray]:
    """The Robot in its new frames, and T (nbodies, 6, 6): motion transforms from the old body frames.

    Bodies of joints without an axis keep their frame: their rates are components in it. A wrench f_ext on an
    old frame is T^-T f_ext on the new one.
    """
    T = [_new_frame(robot, i) for i in range(robot.nbodies)]
    bodies = []
    for body, T_i in zip(robot.bodies, T, strict=True):
        parent = inverse_motion_transform(T[body.parent]) if body.parent >= 0 else np.eye(6)
        X_tree, joint = product(T_i, body.X_tree, parent), body.joint
        if joint.type.has_axis:
            joint = replace(joint, axis=np.array([0.0, 0.0, 1.0]))
        if joint.type.turns:
            X_tree, angle = _without_turn(X_tree)
            joint = replace(joint, offset=joint.offset + angle)
        inertia = without_rounding(inertias_in(T_i, body.inertia))
        bodies.append(replace(body, joint=joint, X_tree=snapped(X_tree, ROUNDING), inertia=inertia))
    frames = {name: _moved(frame, T) for name, frame in robot.frames.items()}
    return replace(robot, bodies=tuple(bodies), frames=frames), np.array(T).reshape(-1, 6, 6)


def inertias_in(T, inertias):
    """Spatial inertias (..., 6, 6) of old frames in the new ones, T (..., 6, 6) as from `reframe`."""
    return transformed_inertia(inverse_motion_transform(T), inertias)


def _new_frame(robot, i):
    """T of body i."""
    joint = robot.bodies[i].joint
    if not joint.type.has_axis:
        return np.eye(6)
    z = joint.axis
    x = _towards_child(robot, i) if joint.type.turns else None
    if x is None:
        x = np.eye(3)[np.argmin(np.abs(z))]
    x = x - dot(x, z) * z
    x = x / length(x)
    return motion_transform(np.array([x, np.cross(z, x), z]), _foot(robot, i))


def _foot(robot, i):
    """The point at which the common normal with the parent's axis meets the axis of body i, in its old
    frame."""
    body = robot.bodies[i]
    if body.parent < 0 or not (body.joint.type.turns and robot.bodies[body.parent].joint.type.turns):
        return np.zeros(3)
    E, z = transform_rotation(body.X_tree), body.joint.axis
    other = product(E, robot.bodies[body.parent].joint.axis)
    point = -product(E, transform_origin(body.X_tree))
    cosine = dot(z, other)
    sine_squared = 1.0 - cosine**2
    if sine_squared < PARALLEL**2:
        return dot(point, z) * z
    return (dot(point, z) - cosine * dot(point, other)) / sine_squared * z


def _towards_child(robot, i):
    """Direction of the common normal with the axis of the first turning child, in the old frame of i."""
    for child in robot.bodies:
        if child.parent == i and child.joint.type.turns:
            z = robot.bodies[i].joint.axis
            other = product(transform_rotation(child.X_tree).T, child.joint.axis)
            normal = np.cross(z, other)
            if length(normal) < PARALLEL:
                apart = transform_origin(child.X_tree)
                normal = apart - dot(apart, z) * z
            return normal if length(normal) > COINCIDENT else None
    return None


def _without_turn(X):
    """X without its last turn about z, and the angle of that turn."""
    E = transform_rotation(X)
    angle = angle_of(-E[1, 0], E[0, 0]) if length(E[:2, 0]) > ROUNDING else 0.0
    s, c = sine_cosine(angle)
    back = np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])
    return motion_transform(product(back, E), transform_origin(X)), angle


def _moved(frame, T):
    if frame.body < 0:
        return frame
    return replace(frame, X=product(frame.X, inverse_motion_transform(T[frame.body])))


# --- base parameters ----------------------------------------------------------------------------------------


def regroup(robot: Robot) -> Robot:
    """The Robot with base parameters, for one from `reframe` (z is the axis of every joint).

    Torques, accelerations, mass matrix and bias stay the same. The inertia of one body alone, and the
    wrench at its joint across the axis, lose their meaning.
    """
    J = list(pseudo_inertia(robot.inertias))
    for i in reversed(range(robot.nbodies)):
        body = robot.bodies[i]
        J[i] = without_rounding(J[i])  # of sums
        still = _only(J[i], _unmoved(body.joint))
        J[i] = J[i] - still
        if body.parent >= 0:
            T = _to_parent(body.X_tree)
            J[body.parent] = J[body.parent] + transformed_inertia(T.T, still)
    inertias = inertia_of_pseudo(np.array(J).reshape(-1, 4, 4))
    bodies = [replace(body, inertia=inertia) for body, inertia in zip(robot.bodies, inertias, strict=True)]
    return replace(robot, bodies=tuple(bodies))


def regrouped_away(robot: Robot):
    """(nbodies, 4, 4) bool: entries of the pseudo-inertias that `regroup` makes zero."""
    gone = np.zeros((robot.nbodies, 4, 4), dtype=bool)
    for i, body in enumerate(robot.bodies):
        rows = _unmoved(body.joint)
        gone[i][np.ix_(rows, rows)] = True
    return gone


def _unmoved(joint):
    return joint.type.still_points(joint.axis)


def _only(J, rows):
    kept = np.zeros_like(J)
    at = np.ix_(rows, rows)
    kept[at] = J[at]
    return kept


def _to_parent(X):
    """Homogeneous transform of points from the body to the parent of motion transform X."""
    T = np.eye(4)
    T[:3, :3], T[:3, 3] = transform_rotation(X).T, transform_origin(X)
    return T
