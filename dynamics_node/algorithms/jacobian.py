"""Pose and Jacobian of links, walked from the link to the root (RBDA section 4.3)."""

import numpy as np

from dynamics_node.algorithms.transforms import joint_transforms
from dynamics_node.symbolic import rotation_transform, transform_origin, transform_rotation, transpose

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
