"""Forward and hybrid dynamics: the articulated-body algorithm, RBDA Table 7.1 and section 9.2.

First all accelerations with those of the forward joints at zero, and the wrenches they take; then what
the forward joints add. A joint with known acceleration passes its articulated inertia on whole; a joint
with known torque passes what is left when it gives way. Velocities and gravity enter the first step only.
"""

from typing import NamedTuple

import numpy as np

from dynamics_node.algorithms.accelerations import body_motions, body_wrenches
from dynamics_node.algorithms.transforms import joint_transforms
from dynamics_node.symbolic import matvec, solve, symmetric, transpose


class Given(NamedTuple):
    """Results of the inward sweep at one joint: U (..., 6, k) = IA S. Known torque: D = S^T U and
    u = tau - S^T pA. Known acceleration: D is None and u = S^T pA."""

    U: np.ndarray
    D: np.ndarray | None
    u: np.ndarray


def aba(model, q, qd, tau, qdd=None, forward=None, f_ext=None, gravity=None):
    """Accelerations from torques, and torques where accelerations are known.

    q (..., nq), qd (..., nv); tau (..., nv) is read where `forward` (nv,) bool is true (everywhere
    by default), qdd (..., nv) elsewhere; f_ext, gravity as in `rnea`. Returns qdd, tau (..., nv), complete.
    Raises ValueError for a robot with explicit joints and when `forward`
    splits one joint's coordinates.
    """
    if model.explicit_joints:
        raise ValueError("the articulated-body recursion needs one joint per coordinate: explicit joints")
    gives_way = joints_that_give_way(model, forward)
    driven = np.zeros_like(tau) if qdd is None else _where_driven(model, gives_way, qdd)
    X_up = joint_transforms(model, q)
    pA = body_wrenches(model, body_motions(model, X_up, qd, driven, gravity))
    if f_ext is not None:
        pA = pA - f_ext
    joints = _inward(model, X_up, pA, tau, gives_way)
    return _outward(model, X_up, joints, tau, driven)


def joints_that_give_way(model, forward=None):
    """Whether every body's joint has a known torque. Raises ValueError when `forward` splits a joint."""
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
    joints: list[Given] = [None] * model.nbodies  # type: ignore[list-item]
    for i in reversed(range(model.nbodies)):
        joint, armature = model.bodies[i].joint, model.armature[model.bodies[i].joint.v]
        pass_on = give_way if gives_way[i] else hold
        joints[i], Ia, pa = pass_on(IA[i], pA[i], joint.S, armature, tau[..., joint.v])
        parent = model.parents[i]
        if parent >= 0:
            IA[parent] = IA[parent] + X_up.inertia(i, Ia)
            pA[parent] = pA[parent] + X_up.force(i, pa)
    return joints


def hold(IA, pA, S, armature, tau):
    """A driven joint: what it leaves, and the inertia and force that it passes on whole."""
    return Given(IA @ S, None, pA @ S), IA, pA


def give_way(IA, pA, S, armature, tau):
    """A joint with known torque: what it leaves, and what of inertia and force is left when it gives way."""
    U = IA @ S
    D = S.T @ U + np.diag(armature)
    u = tau - pA @ S
    own = D.astype(u.dtype, copy=False)  # in a trace constants are eliminated as symbols are, in one order
    K = transpose(solve(own, transpose(U)))
    return Given(U, D, u), _given_way(IA, K, U, S, armature), pA + matvec(K, u)


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
    for i, given in enumerate(joints):
        joint, parent = model.bodies[i].joint, model.parents[i]
        inherited = X_up.motion(i, added[parent]) if parent >= 0 else np.zeros((*tau.shape[:-1], 6))
        at = joint.v
        if given.D is None:
            rates, own = driven[..., at], inherited
            effort = matvec(transpose(given.U), inherited) + given.u + model.armature[at] * rates
        else:
            rates, effort = accelerate(given, inherited), tau[..., at]
            own = inherited + rates @ joint.S.T
        added.append(own)
        qdd_out[..., at], tau_out[..., at] = rates, effort
    return qdd_out, tau_out


def accelerate(given: Given, inherited):
    """Acceleration (..., k) of a joint that gives way, its parent's added acceleration being inherited."""
    rest = given.u - matvec(transpose(given.U), inherited)
    return solve(given.D, rest[..., None])[..., 0]
