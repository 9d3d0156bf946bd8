"""Forward and inverse dynamics by the parallel solvers of Yang, Wu, Pan: JSIIA and ABIA, CFA in cfa.py."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from dynamics_node.chains.cfa import Cfa
from dynamics_node.chains.chain_arrays import Motions, RobotArrays, constants
from dynamics_node.chains.scans import Bidiagonal, Matrices, Poses, Same, cross, from_root
from dynamics_node.chains.tridiagonal import substituted, transposed
from dynamics_node.symbolic import matvec


class Jsiia:
    """The joint-space inertia inversion algorithm: accelerations = Jsiia(motions)(torques), M qdd = torques,
    both (..., nv). Raises LinAlgError if M is not positive definite, with array modules that check it.

    The mass matrix by scans, and its Cholesky factor (sec. IV-A; composite inertias as in RBDA table 6.2).
    All placements come from one scan; then all vectors are in the axes of the root. Composite inertias are
    then plain sums along the tree, and M_ij = S_j^T Jc_i S_i if j is i or above it.
    """

    def __init__(self, motions: Motions):
        self.L = motions.xp.linalg.cholesky(mass_matrix(motions.xp, motions.robot, motions.poses))

    def __call__(self, torques):
        return substituted(self.L, torques)


def mass_matrix(xp, robot: RobotArrays, poses: Poses):
    """M (..., nv, nv), symmetric."""
    placed = _placed(xp, robot, poses)
    composite, columns = _composite(xp, robot, placed), _columns(xp, robot, placed)
    body, above = _bodies(robot)
    pairs = matvec(composite[..., body, :, :], columns) @ transposed(xp, columns)
    M = xp.where(xp.asarray(above), pairs, xp.where(xp.asarray(above.T), transposed(xp, pairs), 0))
    own = constants(robot, xp, M.dtype)
    rotors = xp.zeros(robot.model.nv, dtype=M.dtype)
    rotors[own.v_at] = own.armature
    return M + rotors * xp.eye(robot.model.nv, dtype=M.dtype)


def _placed(xp, robot, poses):
    """Poses of the bodies in the root frame, or in that of a floating base, which may be far away."""
    if robot.floating:
        R, t = poses.R.copy(), poses.t.copy()
        R[..., 0, :, :], t[..., 0, :] = xp.eye(3, dtype=R.dtype), 0
        poses = Poses(xp, R, t)
    return from_root(poses, robot.parents)


def _composite(xp, robot, placed):
    """Inertias (..., n, 6, 6) of every body with its subtree, in the axes of the root."""
    Ad = placed.matrices()
    J = transposed(xp, Ad) @ constants(robot, xp, Ad.dtype).J @ Ad
    sums = Bidiagonal(Same(xp), robot.parents).backward(J.reshape(*J.shape[:-2], 36))
    return sums.reshape(J.shape)


def _columns(xp, robot, placed):
    """The motion (..., nv, 6) of every coordinate, in the axes of the root."""
    own = constants(robot, xp, placed.R.dtype)
    w = matvec(placed.R, own.S[:, :3])
    v = matvec(placed.R, own.S[:, 3:]) + cross(xp, placed.t, w)
    columns = xp.zeros((*w.shape[:-2], robot.model.nv, 6), dtype=w.dtype)
    columns[..., own.v_at, :] = xp.concatenate([w, v], axis=-1)
    if robot.floating:
        columns[..., :6, :] = xp.eye(6, dtype=w.dtype)
    return columns


@lru_cache(maxsize=64)
def _bodies(robot):
    """The body (nv,) that every coordinate moves first, and whether (nv, nv) that of the column is the row's
    or above it."""
    body = np.zeros(robot.model.nv, dtype=int)
    above = np.zeros((robot.model.nbodies, robot.model.nbodies), dtype=bool)
    for i, chain in enumerate(robot.model.ancestors):
        body[robot.model.bodies[i].joint.v] = i
        above[i, list(chain)] = True
    return body, above[body[:, None], body]


class Articulated(NamedTuple):
    """X (..., n, 6, 6), K (..., n, 6), D (..., n); base: the articulated inertia (..., 6, 6) of the root.
    For a floating base K = 0 and D = 1."""

    X: Any
    K: Any
    D: Any
    base: Any


class Abia:
    """The articulated-body inertia algorithm: accelerations = Abia(motions)(torques), M qdd = torques, both
    (..., nv).

    A hybrid: articulated inertias from the tips to the root, one after the other, on the host, then scans
    with them on the device (sec. IV-B; RBDA table 7.1). With D = S^T P S, K = P S D^-1, X = (1 - S K^T) Ad,
    for every body with a joint of one coordinate:

        z = (I - X^T)^-1 of the children's Ad^T K tau            nu = D^-1 (tau - S^T z)
        lambda = (I - X)^-1 S nu                                 qdd = nu - K^T Ad lambda_parent
    """

    def __init__(self, motions: Motions):
        self.xp, self.robot, self.handing = motions.xp, motions.robot, motions.scan
        self.own = constants(self.robot, self.xp, motions.poses.R.dtype)
        on_host = Poses(np, _on_host(motions.poses.R), _on_host(motions.poses.t))
        self.given = Articulated(*(self.xp.asarray(array) for array in articulated(self.robot, on_host)))
        self.scan = Bidiagonal(Matrices(self.xp, self.given.X), self.robot.parents)

    def __call__(self, torques):
        robot, own, (_, K, D, base) = self.robot, self.own, self.given
        tau = torques[..., own.v_at]
        z = self.scan.backward(self.handing.child_sums(K * tau[..., None]))
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
    """The Articulated of a robot by NumPy: one step for every body, over all states."""
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


# --- all solvers --------------------------------------------------------------------------------------------

SOLVERS: dict[str, Callable] = {"cfa": Cfa, "jsiia": Jsiia, "abia": Abia}  # M x = right, for Motions


def inverse_dynamics(xp, robot: RobotArrays, q, qd, qdd, gravity=None, f_ext=None):
    """tau (..., nv) of q (..., nq), qd, qdd (..., nv), gravity (3,) or (..., 3) in place of the model's, and
    wrenches f_ext (..., n, 6) of the environment on the bodies."""
    gravity = xp.asarray(robot.model.gravity, dtype=q.dtype) if gravity is None else gravity
    return Motions(xp, robot, q, qd, gravity, f_ext).torques(qdd)


def forward_dynamics(
    xp,
    robot: RobotArrays,
    q,
    qd,
    tau,
    gravity=None,
    f_ext=None,
    solver="cfa",
    corrections=1,
    tridiagonal="cr",
):
    """qdd (..., nv). corrections: number of steps of iterative refinement, each by the residual of inverse
    dynamics; tridiagonal: elimination method of cfa, one of WAYS. Other arguments as in inverse_dynamics."""
    gravity = xp.asarray(robot.model.gravity, dtype=q.dtype) if gravity is None else gravity
    motions = Motions(xp, robot, q, qd, gravity, f_ext)
    solve = Cfa(motions, tridiagonal) if solver == "cfa" else SOLVERS[solver](motions)
    qdd = solve(tau - motions.torques(None))
    for _ in range(corrections):
        qdd = qdd + solve(tau - motions.torques(qdd))
    return qdd
