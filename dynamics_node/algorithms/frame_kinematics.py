"""Pose, motion and Jacobian of links, walked from the link to the root (RBDA section 4.3); Jacobians of all
bodies at once, in their own axes.
"""

import numpy as np

from dynamics_node.algorithms.recursion import joint_motions
from dynamics_node.algorithms.transforms import joint_transforms
from dynamics_node.symbolic import (
    cross_motion,
    matvec,
    rotation_transform,
    skew,
    transform_origin,
    transform_rotation,
    transpose,
)

REFERENCES = ("world_aligned", "body")


def frame_jacobian(model, q, link, reference="world_aligned"):
    """J (..., 6, nv), angular rows first: J qd = velocity of the link's origin.

    reference: 'world_aligned' (axes of the model root) or 'body' (axes of the link). Raises KeyError
    for an unknown link, ValueError for an unknown reference.
    """
    require_reference(reference)
    columns, X = _columns_and_transform(model, q, link)
    if reference == "body":
        return columns
    return rotation_transform(transpose(transform_rotation(X))) @ columns


def require_reference(reference):
    """Raise ValueError for a reference that is none."""
    if reference not in REFERENCES:
        raise ValueError(f"unknown reference {reference!r}; choose one of {', '.join(REFERENCES)}")


def frame_pose(model, q, link):
    """R (..., 3, 3) from link to root axes and p (..., 3), the link's origin in the root frame, m."""
    X = _columns_and_transform(model, q, link)[1]
    return transpose(transform_rotation(X)), transform_origin(X)


def _columns_and_transform(model, q, link):
    """J in link axes, and X from the root to the link."""
    frame = model.frame(link)
    X_up = joint_transforms(model, q)
    batch = q.shape[:-1]
    J = np.zeros((*batch, 6, model.nv), dtype=np.result_type(q.dtype, float))
    X = np.broadcast_to(frame.X, (*batch, 6, 6))
    for i in reversed(model.ancestors[frame.body] if frame.body >= 0 else ()):
        J[..., model.bodies[i].joint.v] += X @ model.bodies[i].joint.S
        X = X @ X_up.matrix(i)
    return J, X


def frame_kinematics(model, q, qd, qdd, link, reference="world_aligned"):
    """R (..., 3, 3) from link to root axes, p (..., 3), the link's origin in the root frame, and its velocity
    and acceleration (..., 6), angular rows first: J qd and its derivative J qdd + dJ/dt qd, where J is that
    of `frame_jacobian` with the same reference. So 'world_aligned' has the classical acceleration of the
    origin, 'body' the spatial one in body axes; gravity does not count.

    q (..., nq), qd, qdd (..., nv). Raises KeyError for an unknown link, ValueError for an unknown reference.
    """
    require_reference(reference)
    frame = model.frame(link)
    X_up = joint_transforms(model, q)
    rates, changes = joint_motions(model, qd), joint_motions(model, qdd)
    E, p, v, a = np.eye(3), np.zeros(3), np.zeros(6), np.zeros(6)
    for i in model.ancestors[frame.body] if frame.body >= 0 else ():
        p = p + matvec(transpose(E), X_up.origin(i))
        E = np.stack(np.broadcast_arrays(*(X_up.vector(i, column) for column in _columns(E))), axis=-1)
        v = X_up.motion(i, v) + rates[..., i, :]
        a = X_up.motion(i, a) + changes[..., i, :] + cross_motion(v, rates[..., i, :])
    p = p + matvec(transpose(E), transform_origin(frame.X))
    R = transpose(transform_rotation(frame.X) @ E)
    v, a = matvec(frame.X, v), matvec(frame.X, a)
    if reference == "world_aligned":
        a = np.concatenate([a[..., :3], a[..., 3:] + matvec(skew(v[..., :3]), v[..., 3:])], axis=-1)
        v, a = (_turned(R, vector) for vector in (v, a))
    batch = q.shape[:-1]
    return tuple(
        np.broadcast_to(x, (*batch, *tail)) for x, tail in ((R, (3, 3)), (p, (3,)), (v, (6,)), (a, (6,)))
    )


def _columns(E):
    return [E[..., k] for k in range(3)]


def _turned(R, vector):
    return np.concatenate([matvec(R, vector[..., :3]), matvec(R, vector[..., 3:])], axis=-1)


# --- all bodies at once -------------------------------------------------------------------------------------


def body_jacobians(model, X_up, starts=None):
    """[(places (k,), J (..., 6, k))] of every body: the coordinates of v that move it, and its velocity in
    body axes at its origin where one of them has rate 1.

    starts: [(..., 6, nv of the joint)] of every body, in place of the motion subspaces S: directions that are
    carried outward as these are.
    """
    starts = [body.joint.S for body in model.bodies] if starts is None else starts
    found: list[dict] = []
    for i, (body, parent) in enumerate(zip(model.bodies, model.parents, strict=True)):
        above = found[parent] if parent >= 0 else {}
        columns = {v: X_up.motion(i, column) for v, column in above.items()}
        for k, v in enumerate(range(model.nv)[body.joint.v]):
            own = starts[i][..., k]
            columns[v] = columns[v] + own if v in columns else own
        found.append(columns)
    return [(np.array(list(own)), _side_by_side(list(own.values()))) for own in found]


def _side_by_side(columns):
    return np.stack(np.broadcast_arrays(*columns), axis=-1)
