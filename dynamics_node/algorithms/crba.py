"""Mass matrix and Coriolis matrix: the composite rigid body algorithm, RBDA Table 6.2.

C with C qd = Coriolis and centrifugal torques and dM/dt - 2 C skew-symmetric is the sum of J_i^T (I_i dJ_i/dt
+ B_i J_i) over the bodies, B = (v x* I - I v x + (I v) x*) / 2; the last term is the matrix that takes m to
m x* (I v): Echeandia and Wensing, Numerical methods to compute the Coriolis matrix and Christoffel symbols
for rigid-body systems, 2021. Every subtree has one composite inertia and one composite B.
"""

import numpy as np

from dynamics_node.algorithms.recursion import joint_motions, outward, rotor_inertia
from dynamics_node.robot.transforms import joint_transforms
from dynamics_node.symbolic import cross_force, cross_motion, matvec, transpose


def crba(robot, q):
    """M (..., nv, nv), armature included; explicit joints add to their masters' rows and columns."""
    X_up = joint_transforms(robot, q)
    composite = composite_inertias(robot, X_up)
    M = np.zeros((*q.shape[:-1], robot.nv, robot.nv), dtype=np.result_type(q.dtype, float))
    joints = [body.joint for body in robot.bodies]
    S = [joint.subspace for joint in joints]
    for i, joint in enumerate(joints):
        F = composite[i] @ S[i]
        M[..., joint.v, joint.v] += by_coordinates(S[i].T @ F, joint, joint)
        for j, above in steps_up(robot, i):
            F = X_up.forces(j, F)
            row = joints[above].v
            block = by_coordinates(S[above].T @ F, joints[above], joint)
            M[..., row, joint.v] += block
            M[..., joint.v, row] += transpose(block)
    return M + rotor_inertia(robot)


def by_coordinates(block, row, column):
    """A block (..., k, l) between the own rates of two joints, between the coordinates that move them.

    Weights of explicit joints are applied last, to one number: before, they would multiply all entries of a
    force.
    """
    if row.masters is None and column.masters is None:
        return block
    left, right = row.weights.T, column.weights
    return block * (left @ right) if block.shape[-2:] == (1, 1) else left @ block @ right


def composite_inertias(robot, X_up):
    """[(..., 6, 6)]: the inertia of every body with its subtree, in its axes."""
    composite = list(robot.inertias)
    for i in reversed(range(robot.nbodies)):
        parent = robot.parents[i]
        if parent >= 0:
            composite[parent] = composite[parent] + X_up.inertia(i, composite[i])
    return composite


def steps_up(robot, i):
    """(body, its parent) for every step from body i toward the root."""
    while robot.parents[i] >= 0:
        yield i, robot.parents[i]
        i = robot.parents[i]


# --- Coriolis matrix ----------------------------------------------------------------------------------------


def coriolis_matrix(robot, q, qd):
    """C (..., nv, nv). q (..., nq), qd (..., nv)."""
    X_up = joint_transforms(robot, q)
    v = outward(robot, X_up, joint_motions(robot, qd))
    inertias, B = composite_inertias(robot, X_up), _composite(robot, X_up, v)
    S = [body.joint.subspace for body in robot.bodies]
    turning = [_columns(cross_motion, v[..., i, :], subspace) for i, subspace in enumerate(S)]
    C = np.zeros((*q.shape[:-1], robot.nv, robot.nv), dtype=np.result_type(q, qd, float))
    for i, body in enumerate(robot.bodies):
        at = body.joint.v
        rates_force = inertias[i] @ turning[i] + B[i] @ S[i]
        momenta, turned = inertias[i] @ S[i], transpose(B[i]) @ S[i]
        C[..., at, at] += by_coordinates(S[i].T @ rates_force, body.joint, body.joint)
        for j, above in steps_up(robot, i):
            rates_force, momenta, turned = (X_up.forces(j, F) for F in (rates_force, momenta, turned))
            joint = robot.bodies[above].joint
            C[..., joint.v, at] += by_coordinates(S[above].T @ rates_force, joint, body.joint)
            block = transpose(momenta) @ turning[above] + transpose(turned) @ S[above]
            C[..., at, joint.v] += by_coordinates(block, body.joint, joint)
    return C


def _composite(robot, X_up, v):
    """B (..., 6, 6) of every body with its subtree, in its axes."""
    B = [_of_body(inertia, v[..., i, :]) for i, inertia in enumerate(robot.inertias)]
    for i in reversed(range(robot.nbodies)):
        parent = robot.parents[i]
        if parent >= 0:
            half = transpose(X_up.forces(i, B[i]))
            B[parent] = B[parent] + transpose(X_up.forces(i, half))
    return B


def _of_body(inertia, v):
    h = matvec(inertia, v)
    unit = np.eye(6)
    columns = [
        cross_force(v, inertia[:, k]) - matvec(inertia, cross_motion(v, unit[k])) + cross_force(unit[k], h)
        for k in range(6)
    ]
    return 0.5 * np.stack(columns, axis=-1)


def _columns(product, v, matrix):
    """A product of v with every column of a matrix (6, k)."""
    return np.stack([product(v, column) for column in matrix.T], axis=-1)
