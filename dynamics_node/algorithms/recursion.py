"""The two sweeps of every recursive algorithm, and their terms.

Notation of RBDA; X_up are the Transforms of the present position.
"""

import numpy as np


def joint_motions(model, rates):
    """S_i times its rates, for every body: (..., nv) -> (..., nbodies, 6)."""
    bodies, places, S = model.scalar_motions
    motions = np.zeros((*rates.shape[:-1], model.nbodies, 6), rates.dtype)
    motions[..., bodies, :] = rates[..., places, None] * S
    for body, place, S in model.vector_motions:
        motions[..., body, :] = rates[..., place] @ S.T
    return motions


def joint_forces(model, wrenches):
    """Generalized forces of the wrenches at the joints: (..., nbodies, 6) -> (..., nv)."""
    bodies, places, S = model.scalar_motions
    forces = np.zeros((*wrenches.shape[:-2], model.nv), wrenches.dtype)
    own = (wrenches[..., bodies, :] * S).sum(axis=-1)
    if model.explicit_joints:  # these share coordinates
        np.add.at(np.moveaxis(forces, -1, 0), places, np.moveaxis(own, -1, 0))
    else:
        forces[..., places] = own
    for body, place, S in model.vector_motions:
        forces[..., place] += wrenches[..., body, :] @ S
    return forces


def rotor_torques(model, changes):
    """Torques (..., nv) for rotors at accelerations (..., nv); momenta for velocities."""
    if not model.shared_joints:
        return model.armature * changes
    return (model.armature * (changes @ model.axle_map.T)) @ model.axle_map


def rotor_inertia(model):
    """(nv, nv)"""
    if not model.shared_joints:
        return np.diag(model.armature)
    return model.axle_map.T @ (model.armature[:, None] * model.axle_map)


def outward(model, X_up, increments, root=None):
    """x_i = X_up_i x_parent + increment_i from the root to the tips: (..., nbodies, 6)."""
    out: list[np.ndarray] = []
    for i, parent in enumerate(model.parents):
        inherited = out[parent] if parent >= 0 else root
        x = increments[..., i, :]
        out.append(x if inherited is None else x + X_up.motion(i, inherited))
    return np.stack(out, axis=-2) if out else increments


def inward(model, X_up, wrenches):
    """f_parent += X_up_i^T f_i from the tips to the root: (..., nbodies, 6)."""
    out = [wrenches[..., i, :] for i in range(model.nbodies)]
    for i in reversed(range(model.nbodies)):
        parent = model.parents[i]
        if parent >= 0:
            out[parent] = out[parent] + X_up.force(i, out[i])
    return np.stack(out, axis=-2) if out else wrenches


def root_acceleration(model, gravity=None):
    """Acceleration of the root (..., 6) equivalent to gravity: upward, -g."""
    g = model.gravity if gravity is None else gravity
    return np.concatenate([np.zeros_like(g), -g], axis=-1)
