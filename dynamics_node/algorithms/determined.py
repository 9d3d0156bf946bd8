"""Whether torques determine accelerations: where the mass matrix is singular at every position.

The articulated-body recursion tells without a mass matrix (RBDA section 7.2): D = S^T IA S is what a joint
has to move when the joints beyond it give way. Where that is rounding beside what it moves when they are
fixed, it and those beyond can move without moving any mass.
"""

import numpy as np

from dynamics_node.algorithms.aba import clusters_that_give_way, give_way, hold
from dynamics_node.algorithms.crba import crba
from dynamics_node.algorithms.first_positions import closed_samples
from dynamics_node.algorithms.pivots import ZERO
from dynamics_node.algorithms.spanning import sampled_rates
from dynamics_node.algorithms.transforms import joint_transforms
from dynamics_node.robot.errors import ModelError
from dynamics_node.symbolic import matvec, transpose

STATES = 3


def require_determined(robot, forward):
    """Raise ModelError, with the joints by name, when torques of the joints where `forward` (nv,) is true
    leave accelerations open at every position."""
    names = undetermined_joints(robot, forward)
    if names:
        listed = ", ".join(map(repr, names))
        raise ModelError(
            f"forward dynamics: {listed} can move without moving any mass or rotor, so no torque determines "
            "their accelerations (singular mass matrix): give the links that they carry mass and inertia, or "
            "a joint of them an armature"
        )


def undetermined_joints(robot, forward=None) -> tuple[str, ...]:
    """Names of joints that can move without moving any mass or rotor, those without `forward` being fixed."""
    q = closed_samples(robot, STATES, np.random.default_rng(22))
    chosen = np.ones(robot.nv, dtype=bool) if forward is None else np.asarray(forward, dtype=bool)
    if robot.constrained or robot.explicit_joints:
        free = _free_by_matrix(robot, q, chosen)
    else:
        free = _free_by_sweeps(robot, q, clusters_that_give_way(robot, chosen))
    return tuple(joint.name for joint in robot.independent_joints if free[joint.v].any())


def _free_by_matrix(robot, q, chosen):
    M = sampled_rates(robot, q).congruence(crba(robot.tree, q))
    M = M[np.isfinite(M).all(axis=(1, 2))]
    free = np.zeros(robot.nv, dtype=bool)
    if len(M) and chosen.any():
        free[chosen] = free_coordinates(M[:, chosen][:, :, chosen])
    return free


def free_coordinates(M):
    """Which coordinates (n,) bool move in the null space that mass matrices M (states, n, n) have at every
    one of the states."""
    if not M.shape[-1]:
        return np.zeros(0, dtype=bool)
    size = np.sqrt(np.einsum("...kk->...k", M))
    scale = np.where(size > 0, size, 1.0)
    values, vectors = np.linalg.eigh(M / (scale[:, :, None] * scale[:, None, :]))
    missing = (values < ZERO).sum(axis=-1).min()
    state = np.argmax(values[:, missing] if missing < M.shape[-1] else values[:, -1])
    return np.abs(vectors[state, :, :missing]).max(axis=-1, initial=0.0) > 1e-6


def _free_by_sweeps(model, q, gives_way):
    X_up = joint_transforms(model, q)
    articulated, composite = list(model.inertias), list(model.inertias)
    joints, open_at = [None] * model.nbodies, {}
    still = np.zeros((len(q), 6))
    for i in reversed(range(model.nbodies)):
        joint, parent = model.bodies[i].joint, model.parents[i]
        armature = model.armature[joint.v]
        own = np.broadcast_to(articulated[i], (len(q), 6, 6))
        if gives_way[i]:
            open_at[i] = _null_motion(own, composite[i], joint.S, armature)
        free = gives_way[i] and open_at[i] is None
        tau = np.zeros((len(q), joint.S.shape[1]))
        joints[i], left, _ = (give_way if free else hold)(own, still, joint.S, np.diag(armature), tau)
        if parent >= 0:
            articulated[parent] = articulated[parent] + X_up.inertia(i, left)
            composite[parent] = composite[parent] + X_up.inertia(i, composite[i])
    return _moved_with(model, X_up, joints, open_at)


def _null_motion(articulated, composite, S, armature):
    """Rates (k,) of a joint that take no torque at any of the states, or None."""
    D = transpose(S) @ articulated @ S + np.diag(armature)
    fixed = np.einsum("...kk->...k", transpose(S) @ composite @ S) + armature
    fixed = np.broadcast_to(fixed, D.shape[:-1])
    scale = np.sqrt(np.where(fixed > 0, fixed, 1.0))
    values, vectors = np.linalg.eigh(D / (scale[:, :, None] * scale[:, None, :]))
    most = np.argmax(values[:, 0])
    return vectors[most, :, 0] / scale[most] if values[most, 0] < ZERO else None


def _moved_with(model, X_up, joints, open_at):
    """Which coordinates move when the open joints do and those beyond give way: (nv,) bool."""
    moved = np.zeros(model.nv, dtype=bool)
    for start in [i for i, rates in open_at.items() if rates is not None]:
        motions = {start: model.bodies[start].joint.S @ open_at[start]}
        moved[model.bodies[start].joint.v] = True
        for i in range(start + 1, model.nbodies):
            if model.parents[i] not in motions:
                continue
            inherited, joint = X_up.motion(i, motions[model.parents[i]]), model.bodies[i].joint
            motions[i] = inherited
            if joints[i].D is not None:
                rates = -np.linalg.solve(joints[i].D, matvec(transpose(joints[i].U), inherited)[..., None])[
                    ..., 0
                ]
                moved[joint.v] |= (np.abs(rates) > 1e-6 * np.abs(inherited).max()).any(axis=0)
                motions[i] = inherited + rates @ joint.S.T
    return moved
