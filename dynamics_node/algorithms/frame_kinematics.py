"""Poses, motions and Jacobians of links, along the path from link to root (RBDA section 4.3); Jacobians of
all bodies at once, in their own axes.
"""

import numpy as np

from dynamics_node.algorithms.recursion import joint_motions
from dynamics_node.errors import InputError
from dynamics_node.robot.transforms import joint_transforms
from dynamics_node.symbolic import (
    cross_matrix,
    cross_motion,
    inverse_motion_transform,
    matvec,
    rotation_transform,
    skew,
    transform_origin,
    transform_rotation,
    transpose,
)

REFERENCES = ("world_aligned", "body", "world")  # for Jacobians, motions and wrenches of a link
PINOCCHIO = {"LOCAL_WORLD_ALIGNED": "world_aligned", "LOCAL": "body", "WORLD": "world"}


def frame_jacobian(robot, q, link, reference="world_aligned"):
    """J (..., 6, nv), angular rows first: J qd = velocity of the link.

    reference: 'world_aligned' (of the link's origin, in axes of the root), 'body' (the same in axes of
    the link) or 'world' (of the point of the link at the root's origin, in axes of the root), or the
    Pinocchio name of one. Raises KeyError for an unknown link, ValueError for an unknown reference.
    """
    J, X, _ = _columns_and_transform(robot, q, link)
    return _to_reference(X, reference, J)


def frame_jacobian_change(robot, q, qd, link, reference="world_aligned"):
    """J and dJ/dt (..., 6, nv) at rates qd (..., nv); arguments and errors as in `frame_jacobian`."""
    J, X, parts = _columns_and_transform(robot, q, link)
    change = np.zeros(J.shape, dtype=np.result_type(J.dtype, qd.dtype))
    ahead = np.zeros((*qd.shape[:-1], 6), dtype=qd.dtype)
    for v, columns in parts:  # ahead: velocity of the link relative to the columns' frame
        change[..., v] += -cross_matrix(ahead) @ columns
        ahead = ahead + matvec(columns, qd[..., v])
    moving = reference_named(reference)  # of its axes relative to those of the link
    if moving != "body":
        turn = np.concatenate([ahead[..., :3], np.zeros_like(ahead[..., 3:])], axis=-1)
        change = change + cross_matrix(turn if moving == "world_aligned" else ahead) @ J
    return _to_reference(X, reference, J), _to_reference(X, reference, change)


def reference_named(reference):
    """One of REFERENCES, for one of them, a Pinocchio name, or its `ReferenceFrame`. Raises ValueError for
    others."""
    word = str(getattr(reference, "name", reference))
    name = PINOCCHIO.get(word.upper(), word.lower())
    if name not in REFERENCES:
        raise InputError(
            f"unknown reference {reference!r}; choose one of {', '.join(REFERENCES)} (Pinocchio: "
            f"{', '.join(PINOCCHIO)})"
        )
    return name


def motion_to_reference(X, reference):
    """The map (..., 6, 6) of motion vectors from link axes to a reference; X from the root to the link."""
    name = reference_named(reference)
    if name == "body":
        return np.eye(6)
    return inverse_motion_transform(X) if name == "world" else rotation_transform(transpose(X[..., :3, :3]))


def _to_reference(X, reference, columns):
    T = motion_to_reference(X, reference)
    return columns if reference_named(reference) == "body" else T @ columns


def frame_pose(robot, q, link):
    """R (..., 3, 3) from link to root axes and p (..., 3), the link's origin in the root frame, m."""
    X = frame_transform(robot, q, link)
    return transpose(transform_rotation(X)), transform_origin(X)


def frame_transform(robot, q, link):
    """X (..., 6, 6) from the root to a link."""
    return _columns_and_transform(robot, q, link)[1]


def frame_poses(robot, q, links=None):
    """R (..., n, 3, 3) and p (..., n, 3) as in `frame_pose`, of n links: by default of all, in the order of
    `robot.frames`."""
    frames = [robot.frame(link) for link in (robot.frames if links is None else links)]
    if not frames:
        raise InputError("frame_poses needs at least one link")
    X_up, batch = joint_transforms(robot, q), q.shape[:-1]
    at = body_poses(robot, X_up, {frame.body for frame in frames} - {-1})
    poses = [_of_frame(frame, *at[frame.body]) for frame in frames]
    return tuple(
        np.stack(
            [np.broadcast_to(array, (*batch, *array.shape[array.ndim - axes :])) for array in part],
            axis=-1 - axes,
        )
        for axes, part in zip((2, 1), zip(*poses, strict=True), strict=True)
    )


def body_poses(robot, X_up, bodies):
    """{body: (E (..., 3, 3) from root axes to those of the body, p (..., 3) of its origin in the root frame)}
    of the bodies and their ancestors, and of the root, -1."""
    poses = {-1: (np.eye(3), np.zeros(3))}
    for i in sorted({i for body in bodies for i in robot.ancestors[body]}):
        poses[i] = _next_pose(X_up, i, *poses[robot.parents[i]])
    return poses


def _next_pose(X_up, i, E, p):
    """E from root axes to those of body i, and p of its origin, from E and p of its parent."""
    p = p + matvec(transpose(E), X_up.origin(i))
    columns = [X_up.vector(i, E[..., k]) for k in range(3)]
    return np.stack(np.broadcast_arrays(*columns), axis=-1), p


def _of_frame(frame, E, p):
    """R and p of a frame, from E and p of its body."""
    p = p + matvec(transpose(E), transform_origin(frame.X))
    return transpose(transform_rotation(frame.X) @ E), p


def _columns_and_transform(robot, q, link):
    """J in link axes; X from the root to the link; [(slice of v, columns of J)] of the joints between, from
    the link to the root."""
    frame = robot.frame(link)
    X_up = joint_transforms(robot, q)
    batch = q.shape[:-1]
    J = np.zeros((*batch, 6, robot.nv), dtype=np.result_type(q.dtype, float))
    X, parts = np.broadcast_to(frame.X, (*batch, 6, 6)), []
    for i in reversed(robot.ancestors[frame.body] if frame.body >= 0 else ()):
        joint = robot.bodies[i].joint
        parts.append((joint.v, X @ joint.S))
        J[..., joint.v] += parts[-1][1]
        X = X @ X_up.matrix(i)
    return J, X, parts


def frame_kinematics(robot, q, qd, qdd, link, reference="world_aligned"):
    """R (..., 3, 3) from link to root axes, p (..., 3), the link's origin in the root frame, and its velocity
    and acceleration (..., 6), angular rows first: J qd and its derivative J qdd + dJ/dt qd, with J of
    `frame_jacobian` in the same reference. So 'world_aligned' has the classical acceleration of the origin,
    'body' the spatial one in body axes, 'world' the spatial one in the root frame. Gravity is not included.

    q (..., nq), qd, qdd (..., nv). Raises KeyError for an unknown link, ValueError for an unknown reference.
    """
    frame, reference = robot.frame(link), reference_named(reference)
    X_up = joint_transforms(robot, q)
    rates, changes = joint_motions(robot, qd), joint_motions(robot, qdd)
    E, p, v, a = np.eye(3), np.zeros(3), np.zeros(6), np.zeros(6)
    for i in robot.ancestors[frame.body] if frame.body >= 0 else ():
        E, p = _next_pose(X_up, i, E, p)
        v = X_up.motion(i, v) + rates[..., i, :]
        a = X_up.motion(i, a) + changes[..., i, :] + cross_motion(v, rates[..., i, :])
    R, p = _of_frame(frame, E, p)
    v, a = matvec(frame.X, v), matvec(frame.X, a)
    if reference == "world_aligned":
        a = np.concatenate([a[..., :3], a[..., 3:] + matvec(skew(v[..., :3]), v[..., 3:])], axis=-1)
    if reference != "body":
        v, a = (_turned(R, vector) for vector in (v, a))
    if reference == "world":
        v, a = (_at_the_root(p, vector) for vector in (v, a))
    batch = q.shape[:-1]
    return tuple(
        np.broadcast_to(x, (*batch, *tail)) for x, tail in ((R, (3, 3)), (p, (3,)), (v, (6,)), (a, (6,)))
    )


def _turned(R, vector):
    return np.concatenate([matvec(R, vector[..., :3]), matvec(R, vector[..., 3:])], axis=-1)


def _at_the_root(p, vector):
    """The motion vector of a point p, moved to the root's origin in the same axes."""
    w = vector[..., :3]
    return np.concatenate([w, vector[..., 3:] + matvec(skew(p), w)], axis=-1)


# --- all bodies at once -------------------------------------------------------------------------------------


def body_jacobians(robot, X_up, starts=None):
    """[(indices (k,), J (..., 6, k))] of every body: the coordinates of v that move it, and its velocity in
    body axes at its origin for rate 1 of each.

    starts: [(..., 6, nv of the joint)] of every body, in place of the motion subspaces S: directions that are
    propagated outward as these are.
    """
    starts = [body.joint.S for body in robot.bodies] if starts is None else starts
    by_body: list[dict] = []
    for i, (body, parent) in enumerate(zip(robot.bodies, robot.parents, strict=True)):
        above = by_body[parent] if parent >= 0 else {}
        columns = {v: X_up.motion(i, column) for v, column in above.items()}
        for k, v in enumerate(range(robot.nv)[body.joint.v]):
            column = starts[i][..., k]
            columns[v] = columns[v] + column if v in columns else column
        by_body.append(columns)
    return [(np.array(list(columns)), _side_by_side(list(columns.values()))) for columns in by_body]


def _side_by_side(columns):
    return np.stack(np.broadcast_arrays(*columns), axis=-1)
