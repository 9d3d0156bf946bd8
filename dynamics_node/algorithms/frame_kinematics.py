"""Where a link is, how it moves and how that changes."""

import numpy as np

from dynamics_node.algorithms.jacobian import require_reference
from dynamics_node.algorithms.recursion import joint_motions
from dynamics_node.algorithms.transforms import joint_transforms
from dynamics_node.symbolic import cross_motion, matvec, skew, transform_origin, transform_rotation, transpose


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
