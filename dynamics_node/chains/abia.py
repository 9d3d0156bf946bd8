"""The articulated-body inertia algorithm, a hybrid: articulated inertias from the tips to the root one
after the other, on the host, then scans with them, on the device (Yang, Wu, Pan, sec. IV-B; RBDA table
7.1).

With D = S^T P S, K = P S D^-1, X = (1 - S K^T) Ad, of every body with a joint of one coordinate:

    z = (I - X^T)^-1 of what children hand on, Ad^T K tau    nu = D^-1 (tau - S^T z)
    lambda = (I - X)^-1 S nu                                 qdd = nu - K^T Ad lambda_parent
"""

from typing import Any, NamedTuple

import numpy as np

from dynamics_node.chains.chain_arrays import Motions, RobotArrays, constants
from dynamics_node.chains.scans import Bidiagonal, Matrices, Poses
from dynamics_node.chains.tridiagonal import substituted, transposed
from dynamics_node.symbolic import matvec


class Articulated(NamedTuple):
    """X (..., n, 6, 6), K (..., n, 6), D (..., n); base: the articulated inertia (..., 6, 6) of the root.
    Of a floating base K = 0 and D = 1."""

    X: Any
    K: Any
    D: Any
    base: Any


class Abia:
    """accelerations = Abia(motions)(torques): M qdd = torques, both (..., nv)."""

    def __init__(self, motions: Motions):
        self.xp, self.robot, self.handing = motions.xp, motions.robot, motions.scan
        self.own = constants(self.robot, self.xp, motions.poses.R.dtype)
        on_host = Poses(np, _on_host(motions.poses.R), _on_host(motions.poses.t))
        self.given = Articulated(*(self.xp.asarray(array) for array in articulated(self.robot, on_host)))
        self.scan = Bidiagonal(Matrices(self.xp, self.given.X), self.robot.parents)

    def __call__(self, torques):
        robot, own, (_, K, D, base) = self.robot, self.own, self.given
        tau = torques[..., own.v_at]
        z = self.scan.backward(self.handing.handed_on(K * tau[..., None]))
        nu = (tau - (own.S * z).sum(axis=-1)) / D
        moved = own.S * nu[..., None]
        if robot.floating:
            moved[..., 0, :] = substituted(self.xp.linalg.cholesky(base), torques[..., :6] - z[..., 0, :])
        added = self.scan.forward(moved)
        qdd = self.xp.zeros_like(torques)
        qdd[..., own.v_at] = nu - (K * self.handing.inherited(added)).sum(axis=-1)
        if robot.floating:
            qdd[..., :6] = moved[..., 0, :]
        return qdd


def articulated(robot: RobotArrays, poses: Poses) -> Articulated:
    """By NumPy: a step for every body, each of them over all states."""
    own, Ad = constants(robot, np, poses.R.dtype), poses.matrices()
    batch, n = Ad.shape[:-3], Ad.shape[-3]
    P = np.array(np.broadcast_to(own.J, (*batch, n, 6, 6)))
    X, K, D = np.array(Ad), np.zeros((*batch, n, 6), Ad.dtype), np.ones((*batch, n), Ad.dtype)
    for i in reversed(range(int(robot.floating), n)):
        S, parent = own.S[i], robot.parents[i]
        U = matvec(P[..., i, :, :], S)
        D[..., i] = U @ S + own.armature[i]
        K[..., i, :] = U / D[..., i, None]
        X[..., i, :, :] -= S[:, None] * matvec(transposed(np, Ad[..., i, :, :]), K[..., i, :])[..., None, :]
        if parent >= 0:
            left = P[..., i, :, :] - K[..., i, :, None] * U[..., None, :]
            P[..., parent, :, :] += transposed(np, Ad[..., i, :, :]) @ left @ Ad[..., i, :, :]
    return Articulated(X, K, D, P[..., 0, :, :])


def _on_host(array):
    """An array of CuPy as one of NumPy."""
    return array.get() if hasattr(array, "get") else array
