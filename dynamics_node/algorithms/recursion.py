"""The two sweeps of every recursive algorithm, and their terms.

Notation of RBDA; X_up are the Transforms of the present position.
"""

import numpy as np


def joint_motions(robot, rates):
    """S_i times its rates, for every body: (..., nv) -> (..., nbodies, 6)."""
    bodies, places, S = robot.scalar_motions
    motions = np.zeros((*rates.shape[:-1], robot.nbodies, 6), rates.dtype)
    motions[..., bodies, :] = rates[..., places, None] * S
    for body, place, S in robot.vector_motions:
        motions[..., body, :] = rates[..., place] @ S.T
    return motions


def joint_forces(robot, wrenches):
    """Generalized forces of the wrenches at the joints: (..., nbodies, 6) -> (..., nv)."""
    bodies, places, S = robot.scalar_motions
    forces = np.zeros((*wrenches.shape[:-2], robot.nv), wrenches.dtype)
    along = (wrenches[..., bodies, :] * S).sum(axis=-1)
    if robot.explicit_joints:  # these share coordinates
        np.add.at(np.moveaxis(forces, -1, 0), places, np.moveaxis(along, -1, 0))
    else:
        forces[..., places] = along
    for body, place, S in robot.vector_motions:
        forces[..., place] += wrenches[..., body, :] @ S
    return forces


def rotor_torques(robot, changes):
    """Torques (..., nv) for rotors at accelerations (..., nv); momenta for velocities."""
    if not robot.shared_joints:
        return robot.armature * changes
    return (robot.armature * (changes @ robot.axle_map.T)) @ robot.axle_map


def rotor_inertia(robot):
    """(nv, nv)"""
    if not robot.shared_joints:
        return np.diag(robot.armature)
    return robot.axle_map.T @ (robot.armature[:, None] * robot.axle_map)


def outward(robot, X_up, increments, root=None):
    """x_i = X_up_i x_parent + increment_i from the root to the tips: (..., nbodies, 6)."""
    out: list[np.ndarray] = []
    for i, parent in enumerate(robot.parents):
        inherited = out[parent] if parent >= 0 else root
        x = increments[..., i, :]
        out.append(x if inherited is None else x + X_up.motion(i, inherited))
    return np.stack(out, axis=-2) if out else increments


def inward(robot, X_up, wrenches):
    """f_parent += X_up_i^T f_i from the tips to the root: (..., nbodies, 6)."""
    out = [wrenches[..., i, :] for i in range(robot.nbodies)]
    for i in reversed(range(robot.nbodies)):
        parent = robot.parents[i]
        if parent >= 0:
            out[parent] = out[parent] + X_up.force(i, out[i])
    return np.stack(out, axis=-2) if out else wrenches


def root_acceleration(robot, gravity=None):
    """Acceleration of the root (..., 6) equivalent to gravity: upward, -g."""
    g = robot.gravity if gravity is None else gravity
    return np.concatenate([np.zeros_like(g), -g], axis=-1)
