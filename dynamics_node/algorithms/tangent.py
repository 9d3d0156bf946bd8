"""The tangent space of positions: how q changes along velocities."""

import numpy as np


def tangent_map(model, q):
    """T (..., nq, nv) with dq/dt = T qd at q (..., nq): the identity but for joints with a quaternion."""
    T = np.zeros((*q.shape[:-1], model.nq, model.nv), dtype=np.result_type(q.dtype, float))
    for joint in model.independent_joints:
        T[..., joint.q, joint.v] = joint.type.tangent(q[..., joint.q])
    return T
