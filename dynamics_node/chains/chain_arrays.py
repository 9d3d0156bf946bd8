"""A Robot as arrays for the parallel solvers, its inverse dynamics by scans, and checks for unsupported
robots.

(I - G) V = S qd, (I - G) V' = S qdd - ad, (I - G)^T F = J V' - ad^T (Yang, Wu, Pan, eq. 2; the signs are
those of RBDA table 5.1).
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np

from dynamics_node.chains.scans import Bidiagonal, Poses, cross
from dynamics_node.errors import ModelError
from dynamics_node.robot import Robot
from dynamics_node.symbolic import (
    axis_rotation_parts,
    matvec,
    quaternion_rotation,
    transform_origin,
    transform_rotation,
)
from dynamics_node.text import listed

WIDEST = 8  # joints at one depth: work grows with the cube
ZERO = 1e-12  # an eigenvalue of an inertia relative to the largest


@dataclass(frozen=True, eq=False)
class RobotArrays:
    """A Robot as arrays over its n bodies: turning and sliding joints, the root perhaps floating.

    R = P + cos(q) C + sin(q) Q and t = t0 + q slide place a body in its parent, P, C, Q (n, 3, 3), t0 and
    slide (n, 3); S (n, 6) is the unit motion of its joint, and q_at, v_at (n,) are the indices of its
    coordinate. A floating root has S = 0, and its coordinates come first.
    """

    model: Robot

    def __post_init__(self):
        require_supported_joints(self.model)

    @property
    def parents(self):
        return self.model.parents

    @property
    def floating(self):
        return self.model.floating_base

    @property
    def joints(self):
        """The bodies with a joint of one coordinate."""
        return slice(int(self.floating), self.model.nbodies)

    @cached_property
    def depths(self):
        """(n,), 0 for a root."""
        return np.array([len(chain) - 1 for chain in self.model.ancestors], dtype=int)

    @cached_property
    def width(self):
        """Largest number of joints at one depth."""
        return int(np.bincount(self.depths[self.joints]).max(initial=1))

    @cached_property
    def constants(self) -> "Constants":
        """The constants as float64 of NumPy."""
        bodies = self.model.bodies
        parts = [_placement(body) for body in bodies]
        single = [body.joint.type.is_scalar for body in bodies]
        S = np.array([b.joint.S[:, 0] if one else np.zeros(6) for b, one in zip(bodies, single, strict=True)])
        armature = [
            self.model.armature[b.joint.v.start] if one else 0.0
            for b, one in zip(bodies, single, strict=True)
        ]
        P, C, Q, t0, slide = (np.array(part) for part in zip(*parts, strict=True))
        return Constants(
            *(P, C, Q, t0, slide),
            S,
            self.model.inertias,
            np.array(armature),
            np.array([body.joint.q.start for body in bodies]),
            np.array([body.joint.v.start for body in bodies]),
        )


class Constants(NamedTuple):
    """See RobotArrays; J (n, 6, 6) inertias about the bodies' origins, armature (n,) of the rotors."""

    P: Any
    C: Any
    Q: Any
    t0: Any
    slide: Any
    S: Any
    J: Any
    armature: Any
    q_at: Any
    v_at: Any


def _placement(body):
    """P, C, Q, t0, slide of a body; of a floating root the pose of its joint's frame."""
    X, axis = body.X_tree, body.joint.axis
    E, t0 = transform_rotation(X).T, transform_origin(X)
    none = np.zeros((3, 3))
    if body.joint.type.turns:
        P, C, Q = (E @ part for part in axis_rotation_parts(axis))
        c, s = np.cos(body.joint.offset), np.sin(body.joint.offset)
        return P, c * C + s * Q, c * Q - s * C, t0, np.zeros(3)
    if body.joint.type.slides:
        return E, none, none, t0 + body.joint.offset * (E @ axis), E @ axis
    return E, none, none, t0, np.zeros(3)


@lru_cache(maxsize=64)
def constants(robot: RobotArrays, xp, dtype) -> Constants:
    """The constants as arrays of an array module, of dtype."""
    own = robot.constants
    numbers = [xp.asarray(array, dtype=dtype) for array in own[:-2]]
    return Constants(*numbers, *(xp.asarray(array) for array in own[-2:]))


def body_poses(xp, robot: RobotArrays, q) -> Poses:
    """The placement of every body in its parent at q (..., nq)."""
    own = constants(robot, xp, q.dtype)
    angle = q[..., own.q_at]
    turn = angle[..., None, None]
    R = own.P + xp.cos(turn) * own.C + xp.sin(turn) * own.Q
    t = own.t0 + angle[..., None] * own.slide
    if robot.floating:
        R[..., 0, :, :] = own.P[0] @ quaternion_rotation(q[..., 3:7], xp)
        t[..., 0, :] = own.t0[0] + matvec(own.P[0], q[..., :3])
    return Poses(xp, R, t)


def joint_motions(xp, robot: RobotArrays, rates):
    """S times rates (..., nv) of every body (..., n, 6)."""
    own = constants(robot, xp, rates.dtype)
    motions = rates[..., own.v_at, None] * own.S
    if robot.floating:
        motions[..., 0, :] = rates[..., :6]
    return motions


def joint_forces(xp, robot: RobotArrays, wrenches):
    """S^T of wrenches (..., n, 6): (..., nv)."""
    own = constants(robot, xp, wrenches.dtype)
    forces = xp.zeros((*wrenches.shape[:-2], robot.model.nv), dtype=wrenches.dtype)
    forces[..., own.v_at] = (wrenches * own.S).sum(axis=-1)
    if robot.floating:
        forces[..., :6] = wrenches[..., 0, :]
    return forces


def rotor_torques(xp, robot: RobotArrays, qdd):
    """Torques (..., nv) for the rotors."""
    own = constants(robot, xp, qdd.dtype)
    torques = xp.zeros_like(qdd)
    torques[..., own.v_at] = own.armature * qdd[..., own.v_at]
    return torques


# --- unsupported robots -------------------------------------------------------------------------------------


def require_supported_joints(model):
    """Raise ModelError, naming the joints, if no solver of this package supports them."""
    if not model.bodies:
        raise ModelError(f"robot {model.name!r} has no joint that moves: build with solver 'cluster'")
    if model.explicit_joints:
        names = [joint.name for joint in model.explicit_joints]
        raise ModelError(_unsupported(names, "follow other joints"))
    roots = {0} if model.floating_base else set()
    other = [
        b.joint.name for i, b in enumerate(model.bodies) if not b.joint.type.is_scalar and i not in roots
    ]
    if other:
        raise ModelError(_unsupported(other, "are neither revolute nor prismatic, nor a floating base"))


def require_narrow_tree(robot: RobotArrays):
    """Raise ModelError if the tree is too wide for blocks of all joints at one depth."""
    if robot.width > WIDEST:
        raise ModelError(
            f"{robot.width} joints lie at the same depth of the tree: solver cfa is for chains and narrow "
            f"trees, up to {WIDEST} joints at one depth, since its blocks grow with them; build with "
            "solver 'cluster', 'abia' or 'jsiia'"
        )


def require_definite_inertias(model):
    """Raise ModelError, naming the links, if an inertia has no inverse."""
    values = np.linalg.eigvalsh(model.inertias)
    names = [
        b.name for b, v in zip(model.bodies, values, strict=True) if not v[0] > ZERO * max(v[-1], 1e-300)
    ]
    if names:
        raise ModelError(
            f"links {listed(map(repr, names))} have no definite inertia (no mass, or no moment about some "
            "axis), but solver cfa needs its inverse: lump them with other links, or build with solver "
            "'cluster', 'abia' or 'jsiia'"
        )


def _unsupported(names, why):
    return (
        f"joints {listed(map(repr, names))} {why}: solvers cfa, jsiia and abia do not support them; build "
        "with solver 'cluster'"
    )


class Motions:
    """A robot's states q (..., nq), qd (..., nv) with gravity (3,) or (..., 3) and wrenches of the
    environment f_ext (..., n, 6), or None: the data of its dynamics."""

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
        """-g (..., n, 6) in the frame of every root."""
        xp, velocities = self.xp, self.velocities
        started = xp.zeros_like(velocities)
        for i, parent in enumerate(self.robot.parents):
            if parent < 0:
                started[..., i, 3:] = -matvec(xp.swapaxes(self.poses.R[..., i, :, :], -1, -2), self.gravity)
        return started

    def torques(self, qdd):
        """tau (..., nv) for qdd (..., nv); for None the torque at zero acceleration: gravity, velocities and
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
