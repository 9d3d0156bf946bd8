"""The joint-space inertia inversion algorithm: the mass matrix by scans, and its Cholesky factor (Yang, Wu,
Pan, sec. IV-A; composite inertias as in RBDA table 6.2).

All placements come from one scan; then everything is written in the axes of the root, in which composite
inertias are plain sums along the tree, and M_ij = S_j^T Jc_i S_i where j is i or above it.
"""

from functools import lru_cache

import numpy as np

from dynamics_node.chains.chain_arrays import Motions, RobotArrays, constants
from dynamics_node.chains.scans import Bidiagonal, Poses, Same, cross, from_root
from dynamics_node.chains.tridiagonal import substituted, transposed
from dynamics_node.symbolic import matvec


class Jsiia:
    """accelerations = Jsiia(motions)(torques): M qdd = torques, both (..., nv). Raises LinAlgError where M
    is not positive definite, if the array module tells."""

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
    """Where every body is seen from the root; from a floating base itself, which may be far away."""
    if robot.floating:
        R, t = poses.R.copy(), poses.t.copy()
        R[..., 0, :, :], t[..., 0, :] = xp.eye(3, dtype=R.dtype), 0
        poses = Poses(xp, R, t)
    return from_root(poses, robot.parents)


def _composite(xp, robot, placed):
    """Inertias (..., n, 6, 6) of every body with all that it carries, in the axes of the root."""
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
