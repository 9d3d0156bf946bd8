"""Inverse dynamics by scans: (I - G) V = S qd, (I - G) V' = S qdd - ad, (I - G)^T F = J V' - ad^T (Yang,
Wu, Pan, eq. 2; the signs are those of RBDA table 5.1)."""

from functools import cached_property

from dynamics_node.chains.bidiagonal import Bidiagonal
from dynamics_node.chains.chain_arrays import (
    RobotArrays,
    body_poses,
    constants,
    joint_forces,
    joint_motions,
    rotor_torques,
)
from dynamics_node.chains.poses import cross
from dynamics_node.symbolic import matvec


class Motions:
    """A robot's states q (..., nq), qd (..., nv) with gravity (3,) or (..., 3) and wrenches of the
    environment f_ext (..., n, 6), or None: what its accelerations take."""

    def __init__(self, xp, robot: RobotArrays, q, qd, gravity, f_ext=None):
        self.xp, self.robot, self.gravity, self.f_ext = xp, robot, gravity, f_ext
        self.poses = body_poses(xp, robot, q)
        self.scan = Bidiagonal(self.poses, robot.parents)
        self.J = constants(robot, xp, q.dtype).J
        rates = joint_motions(xp, robot, qd)
        self.velocities = self.scan.forward(rates)
        self.products = motion_products(xp, self.velocities, rates)

    @cached_property
    def free_fall(self):
        """-g of every root, seen from it (..., n, 6)."""
        xp, velocities = self.xp, self.velocities
        started = xp.zeros_like(velocities)
        for i, parent in enumerate(self.robot.parents):
            if parent < 0:
                started[..., i, 3:] = -matvec(xp.swapaxes(self.poses.R[..., i, :, :], -1, -2), self.gravity)
        return started

    def torques(self, qdd):
        """tau (..., nv) of qdd (..., nv); of None that of no acceleration: gravity, velocities and
        wrenches."""
        xp, robot, V = self.xp, self.robot, self.velocities
        started = self.products + self.free_fall
        if qdd is not None:
            started = started + joint_motions(xp, robot, qdd)
        F = matvec(self.J, self.scan.forward(started)) + force_products(xp, V, matvec(self.J, V))
        if self.f_ext is not None:
            F = F - self.f_ext
        tau = joint_forces(xp, robot, self.scan.backward(F))
        return tau if qdd is None else tau + rotor_torques(xp, robot, qdd)


def motion_products(xp, V, m):
    """V x m of motion vectors (..., 6)."""
    w, v, a, b = V[..., :3], V[..., 3:], m[..., :3], m[..., 3:]
    return xp.concatenate([cross(xp, w, a), cross(xp, w, b) + cross(xp, v, a)], axis=-1)


def force_products(xp, V, F):
    """V x* F of motion vectors and wrenches (..., 6)."""
    w, v, n, f = V[..., :3], V[..., 3:], F[..., :3], F[..., 3:]
    return xp.concatenate([cross(xp, w, n) + cross(xp, v, f), cross(xp, w, f)], axis=-1)
