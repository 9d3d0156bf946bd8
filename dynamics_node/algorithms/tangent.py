"""The tangent space of positions: how q changes along velocities."""

import numpy as np

from dynamics_node.spatial import quaternion_rotation


def tangent_map(model, q):
    """T (..., nq, nv) with dq/dt = T qd. Only for a floating joint it is not the identity: velocities are in
    body axes, the derivative of a quaternion p is p * (w, 0) / 2 (RBDA eq. 4.12; Hamilton product)."""
    T = np.zeros((*q.shape[:-1], model.nq, model.nv), dtype=np.result_type(q.dtype, float))
    for joint in model.independent_joints:
        at, rates = joint.q.start, joint.v.start
        if joint.kind == "floating":
            quaternion = q[..., at + 3 : at + 7]
            T[..., at : at + 3, rates + 3 : rates + 6] = quaternion_rotation(quaternion)
            T[..., at + 3 : at + 7, rates : rates + 3] = _quaternion_rates(quaternion)
        else:
            T[..., at, rates] = 1.0
    return T


def _quaternion_rates(quaternion):
    """(..., 4, 3): the derivative of x y z w, by the angular velocity in body axes."""
    x, y, z, w = (quaternion[..., k] for k in range(4))
    rows = ((w, -z, y), (z, w, -x), (-y, x, w), (-x, -y, -z))
    return 0.5 * np.stack([np.stack(row, axis=-1) for row in rows], axis=-2)
