"""Forward and hybrid dynamics: the articulated-body algorithm, RBDA Table 7.1 and section 9.2.

First all accelerations with those of the forward joints at zero, and the wrenches they take; then what
the forward joints add. A joint with known acceleration passes its articulated inertia on whole; a joint
with known torque passes what is left when it gives way. Velocities and gravity enter the first step only.
"""

from typing import NamedTuple

import numpy as np

from dynamics_node.algorithms.accelerations import body_accelerations, body_wrenches
from dynamics_node.algorithms.transforms import joint_transforms
from dynamics_node.spatial import matvec, solve, symmetric, transpose


class _Joint(NamedTuple):
    """What the inward sweep leaves for the outward one."""

    IA: np.ndarray
    pA: np.ndarray  # noqa: N815
    U: np.ndarray | None
    D: np.ndarray | None
    u: np.ndarray | None


def aba(model, q, qd, tau, qdd=None, forward=None, f_ext=None, gravity=None):
    """Accelerations from torques, and torques where accelerations are known.

    q (..., nq), qd (..., nv); tau (..., nv) is read where `forward` (nv,) bool is true (everywhere
    by default), qdd (..., nv) elsewhere; f_ext, gravity as in `rnea`. Returns qdd, tau (..., nv), complete.
    Raises ValueError for a robot with mimic joints (see mass_matrix_dynamics) and when `forward`
    splits one joint's coordinates.
    """
    if model.has_mimic:
        raise ValueError("the articulated-body recursion needs one joint per coordinate: mimic joints")
    gives_way = _joints_that_give_way(model, forward)
    driven = np.zeros_like(tau) if qdd is None else _where_driven(model, gives_way, qdd)
    X_up = joint_transforms(model, q)
    pA = body_wrenches(model, body_accelerations(model, X_up, qd, driven, gravity))
    if f_ext is not None:
        pA = pA - f_ext
    joints = _inward(model, X_up, pA, tau, gives_way)
    return _outward(model, X_up, joints, tau, driven)


def _joints_that_give_way(model, forward):
    if forward is None:
        return [True] * model.nbodies
    chosen = [np.asarray(forward)[body.joint.v] for body in model.bodies]
    for body, mask in zip(model.bodies, chosen, strict=True):
        if mask.any() != mask.all():
            raise ValueError(f"joint {body.joint.name!r} must be forward or inverse as a whole")
    return [bool(mask.all()) for mask in chosen]


def _where_driven(model, gives_way, qdd):
    """qdd with zeros at the joints that give way."""
    driven = np.array(qdd)
    for body, free in zip(model.bodies, gives_way, strict=True):
        if free:
            driven[..., body.joint.v] = 0.0
    return driven


def _inward(model, X_up, pA, tau, gives_way):
    """Articulated inertias and bias forces from the tips to the root."""
    IA = list(model.inertias)
    pA = [pA[..., i, :] for i in range(model.nbodies)]
    joints: list[_Joint] = [None] * model.nbodies  # type: ignore[list-item]
    for i in reversed(range(model.nbodies)):
        joint, S = model.bodies[i].joint, model.bodies[i].joint.S
        Ia, pa = IA[i], pA[i]
        joints[i] = _Joint(IA[i], pA[i], None, None, None)
        if gives_way[i]:
            U = IA[i] @ S
            D = S.T @ U + np.diag(model.armature[joint.v])
            u = tau[..., joint.v] - pA[i] @ S
            K = transpose(solve(D, transpose(U)))
            Ia = _given_way(IA[i], K, U, S, model.armature[joint.v])
            pa = pA[i] + matvec(K, u)
            joints[i] = _Joint(IA[i], pA[i], U, D, u)
        parent = model.parents[i]
        if parent >= 0:
            IA[parent] = IA[parent] + X_up.inertia(i, Ia)
            pA[parent] = pA[parent] + X_up.force(i, pa)
    return joints


def _given_way(IA, K, U, S, armature):
    """Ia = IA - U D^-1 U^T, what is left of IA when the joint gives way. Without armature S^T Ia = 0:
    where S spans coordinate axes, whole rows and columns vanish."""
    Ia = symmetric(IA - K @ transpose(U))
    free = np.flatnonzero(S.any(axis=1))
    if len(free) == S.shape[1] and not np.any(armature != 0):
        Ia[..., free, :] = 0.0
        Ia[..., :, free] = 0.0
    return Ia


def _outward(model, X_up, joints, tau, driven):
    """What the forward joints add to the accelerations, from the root to the tips."""
    qdd_out, tau_out = np.zeros_like(tau), np.zeros_like(tau)
    added: list[np.ndarray] = []
    for i, (IA, pA, U, D, u) in enumerate(joints):
        joint, parent = model.bodies[i].joint, model.parents[i]
        inherited = X_up.motion(i, added[parent]) if parent >= 0 else np.zeros_like(pA)
        if U is not None:
            rest = u - matvec(transpose(U), inherited)
            rates = solve(D, rest[..., None])[..., 0]
            effort = tau[..., joint.v]
            added.append(inherited + rates @ joint.S.T)
        else:
            rates = driven[..., joint.v]
            effort = (matvec(IA, inherited) + pA) @ joint.S + model.armature[joint.v] * rates
            added.append(inherited)
        qdd_out[..., joint.v], tau_out[..., joint.v] = rates, effort
    return qdd_out, tau_out
