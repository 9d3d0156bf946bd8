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
    joints = [body.joint for body in model.bodies]
    S = [joint.subspace for joint in joints]
    for i, joint in enumerate(joints):
        F = composite[i] @ S[i]
        M[..., joint.v, joint.v] += by_coordinates(S[i].T @ F, joint, joint)
        for j, above in steps_up(model, i):
            F = X_up.forces(j, F)
            row = joints[above].v
            block = by_coordinates(S[above].T @ F, joints[above], joint)
            M[..., row, joint.v] += block
            M[..., joint.v, row] += transpose(block)
    return M + rotor_inertia(model)


def by_coordinates(block, row, column):
    """A block (..., k, l) between the own rates of two joints, between the coordinates that move them.

    Weights of explicit joints come last, as one number: before, they would multiply all entries of a force.
    """
    if row.masters is None and column.masters is None:
        return block
    left, right = row.weights.T, column.weights
    return block * (left @ right) if block.shape[-2:] == (1, 1) else left @ block @ right


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
