"""A Robot as arrays for the parallel solvers, its inverse dynamics by scans, and checks for unsupported
robots.

(I - G) V = S qd, (I - G) V' = S qdd - ad, (I - G)^T F = J V' - ad^T (Yang, Wu, Pan, eq. 2; the signs are
those of RBDA table 5.1). Motions and wrenches are columns (..., n, 6, 1).
"""

from functools import partial

import numpy as np

from dynamics_node.chains.tree_scan import TreeScan, transposed
from dynamics_node.errors import ModelError
from dynamics_node.robot import Robot
from dynamics_node.robot.robot import cached_on_robot
from dynamics_node.symbolic import cross_matrix, quaternion_rotation
from dynamics_node.text import listed

WIDEST = 8  # joints at one depth: work grows with the cube
ZERO = 1e-12  # an eigenvalue of an inertia relative to the largest


class ChainArrays:
    """The constants of a Robot over its n bodies: turning and sliding joints, the root perhaps floating. They
    are arrays of a module `xp`, NumPy or CuPy, of a dtype.

    P, C, S, L (n, 6, 6): the transform of motions from the parent is P + cos(a) C + sin(a) S + a L at the
    position a of the joint. axes (n, 6, 1): unit motions of the joints, zero for a floating root, whose
    coordinates come first. q_at, v_at (n,): indices of the coordinates.
    """

    def __init__(self, robot: Robot, xp, dtype):
        require_supported_joints(robot)
        self.robot, self.xp, self.dtype = robot, xp, dtype
        joints, array = [body.joint for body in robot.bodies], partial(xp.asarray, dtype=dtype)
        still = (np.eye(6), *np.zeros((3, 6, 6)))
        parts = [j.type.parts(j.axis) if j.type.parts else still for j in joints]
        X_tree = np.array([body.X_tree for body in robot.bodies])
        self.P, self.C, self.S, self.L = array(np.moveaxis(np.array(parts) @ X_tree[:, None], 1, 0))
        self.axes = array([j.S[:, :1] if j.type.is_scalar else np.zeros((6, 1)) for j in joints])
        self.J, self.rotors = array(robot.inertias), array(robot.armature)
        self.offsets = array([j.offset for j in joints])
        self.q_at = xp.asarray([j.q.start for j in joints])
        self.v_at = xp.asarray([j.v.start for j in joints])
        self.generators = array(cross_matrix(np.eye(6)).reshape(6, 36))
        self.roots = np.flatnonzero(np.array(robot.parents) < 0)

    def transforms(self, q):
        """X (..., n, 6, 6) from the parents at q (..., nq); of a floating root without its place."""
        xp, a = self.xp, (q[..., self.q_at] + self.offsets)[..., None, None]
        X = self.P + xp.cos(a) * self.C + xp.sin(a) * self.S + a * self.L
        if self.robot.floating_base:
            E = transposed(quaternion_rotation(q[..., 3:7], xp))
            for rows in (slice(3), slice(3, 6)):
                X[..., 0, rows, :] = E @ X[..., 0, rows, :]
        return X

    def motions(self, rates):
        """S times rates (..., nv): of every body."""
        motions = self.axes * rates[..., self.v_at, None, None]
        if self.robot.floating_base:
            motions[..., 0, :, 0] = rates[..., :6]
        return motions

    def cross(self, V):
        """The matrices (..., n, 6, 6) of V x."""
        return (V[..., 0] @ self.generators).reshape(*V.shape[:-1], 6)

    def forces(self, wrenches):
        """S^T of wrenches: (..., nv)."""
        forces = self.xp.zeros((*wrenches.shape[:-3], self.robot.nv), dtype=wrenches.dtype)
        forces[..., self.v_at] = (wrenches * self.axes).sum(axis=(-1, -2))
        if self.robot.floating_base:
            forces[..., :6] = wrenches[..., 0, :, 0]
        return forces


@cached_on_robot
def chain_arrays(robot, xp, dtype) -> ChainArrays:
    """The ChainArrays of a Robot. Raises ModelError if no solver of this package supports it."""
    return ChainArrays(robot, xp, dtype)


def depths(robot: Robot):
    """(n,) of the bodies, 0 for a root."""
    return np.array([len(chain) - 1 for chain in robot.ancestors], dtype=int)


class Motions:
    """A robot's states q (..., nq), qd (..., nv) with gravity (3,) or (..., 3) and wrenches of the
    environment f_ext (..., n, 6), or None: the data of its dynamics."""

    def __init__(self, xp, robot: Robot, q, qd, gravity, f_ext=None):
        self.arrays = chain_arrays(robot, xp, q.dtype)
        self.f_ext = 0 if f_ext is None else f_ext[..., None]
        X, roots = self.arrays.transforms(q), self.arrays.roots
        fall = X[..., roots, :, 3:] @ gravity[..., None, :, None]
        X[..., roots, :, :] = 0
        self.scan, rates = TreeScan(X, robot.parents), self.arrays.motions(qd)
        V = self.scan.forward(rates)
        cross = self.arrays.cross(V)
        self.started = cross @ rates
        self.started[..., roots, :, :] -= fall
        self.momentum_rate = -transposed(cross) @ (self.arrays.J @ V)

    def torques(self, qdd):
        """tau (..., nv) for qdd (..., nv); for None the torque at zero acceleration: gravity, velocities and
        wrenches."""
        arrays, started = self.arrays, self.started
        if qdd is not None:
            started = started + arrays.motions(qdd)
        F = arrays.J @ self.scan.forward(started) + self.momentum_rate - self.f_ext
        tau = arrays.forces(self.scan.backward(F))
        return tau if qdd is None else tau + arrays.rotors * qdd


# --- unsupported robots -------------------------------------------------------------------------------------


def require_supported_joints(robot: Robot):
    """Raise ModelError, naming the joints, if no solver of this package supports them."""
    if not robot.bodies:
        raise ModelError(f"robot {robot.name!r} has no joint that moves: build with solver 'cluster'")
    if robot.explicit_joints or robot.shared_joints:
        names = [joint.name for joint in (*robot.explicit_joints, *robot.shared_joints)]
        raise ModelError(_unsupported(names, "follow other joints"))
    roots = {0} if robot.floating_base else set()
    other = [
        b.joint.name for i, b in enumerate(robot.bodies) if not b.joint.type.is_scalar and i not in roots
    ]
    if other:
        raise ModelError(_unsupported(other, "are neither revolute nor prismatic, nor a floating base"))


def require_narrow_tree(robot: Robot):
    """Raise ModelError if the tree is too wide for blocks of all joints at one depth."""
    widest = int(np.bincount(depths(robot)).max())
    if widest > WIDEST:
        raise ModelError(
            f"{widest} joints lie at the same depth of the tree: solver cfa is for chains and narrow "
            f"trees, up to {WIDEST} joints at one depth, since its blocks grow with them; build with "
            "solver 'cluster', 'abia' or 'jsiia'"
        )


def require_definite_inertias(robot: Robot):
    """Raise ModelError, naming the links, if an inertia has no inverse."""
    values = np.linalg.eigvalsh(robot.inertias)
    names = [
        b.name for b, v in zip(robot.bodies, values, strict=True) if not v[0] > ZERO * max(v[-1], 1e-300)
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
