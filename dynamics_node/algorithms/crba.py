"""Mass matrix: the composite rigid body algorithm, RBDA Table 6.2."""

import numpy as np

from dynamics_node.algorithms.recursion import rotor_inertia
from dynamics_node.algorithms.transforms import joint_transforms
from dynamics_node.symbolic import transpose


def crba(model, q):
    """M (..., nv, nv), armature included; explicit joints add to their masters' rows and columns."""
    X_up = joint_transforms(model, q)
    composite = composite_inertias(model, X_up)
    M = np.zeros((*q.shape[:-1], model.nv, model.nv), dtype=np.result_type(q.dtype, float))
    for i, body in enumerate(model.bodies):
        F = composite[i] @ body.joint.S
        at = body.joint.v
        M[..., at, at] += body.joint.S.T @ F
        for j, above in steps_up(model, i):
            F = X_up.forces(j, F)
            block = model.bodies[above].joint.S.T @ F
            row = model.bodies[above].joint.v
            M[..., row, at] += block
            M[..., at, row] += transpose(block)
    return M + rotor_inertia(model)


def composite_inertias(model, X_up):
    """[(..., 6, 6)]: the inertia of every body with all that it carries, in its axes."""
    composite = list(model.inertias)
    for i in reversed(range(model.nbodies)):
        parent = model.parents[i]
        if parent >= 0:
            composite[parent] = composite[parent] + X_up.inertia(i, composite[i])
    return composite


def steps_up(model, i):
    """(body, its parent) for every step from body i to the root."""
    while model.parents[i] >= 0:
        yield i, model.parents[i]
        i = model.parents[i]
