"""The constraint-force algorithm: forward dynamics as one block tri-diagonal system in the constraint
forces of the joints (Yang, Wu, Pan, sec. IV-C, with the errata of docs/explanation/parallel.md;
Fijany, Sharf, D'Eleuterio 1995).

K = (I - G) J^-1 (I - G)^T takes wrenches F across the joints to their relative accelerations. With F = S tau
+ W x, x the constraint forces, and no relative acceleration along W, W^T K F = 0, so

    (W^T K W) x = -W^T K S tau,    qdd = S^T K F.

A rotor of inertia a adds one unknown sqrt(a) qdd, with column -sqrt(a) S in W and 1 on the diagonal. A joint
without a rotor has a column of zeros instead, as have the gaps at a depth with fewer joints than another. The
blocks are those of all joints at one depth; a floating base has no constraint force and no block.
"""

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from dynamics_node.chains.chain_arrays import Motions, RobotArrays, joint_forces, joint_motions
from dynamics_node.chains.tridiagonal import WAYS, transposed
from dynamics_node.symbolic import matvec


class Cfa:
    """accelerations = Cfa(motions, way)(torques): M qdd = torques, both (..., nv). way: one of WAYS."""

    def __init__(self, motions: Motions, way="cr"):
        self.xp, self.robot, self.scan = motions.xp, motions.robot, motions.scan
        self.constraint_columns = constraint_columns(self.robot, self.xp, motions.poses.R.dtype)
        self.grid = grid(self.robot)
        D, U = blocks(self.xp, self.robot, motions.poses)
        self.solve = WAYS[way](self.xp, D, U)

    def __call__(self, torques):
        xp, robot = self.xp, self.robot
        active = joint_motions(xp, robot, torques)
        pull = self._across(active)
        right = -matvec(transposed(xp, self.constraint_columns.W), pull)
        x = self._by_body(self.solve(self._by_depth(right)))
        F = active + matvec(self.constraint_columns.W, x)
        return joint_forces(xp, robot, self._across(F))

    def _by_depth(self, rows):
        """Rows (..., n, m) of the bodies as (..., depths, width m)."""
        grouped = self.xp.zeros((*rows.shape[:-2], *self.grid.shape, rows.shape[-1]), dtype=rows.dtype)
        grouped[..., self.grid.level, self.grid.place, :] = rows[..., self.robot.joints, :]
        return grouped.reshape(*grouped.shape[:-2], -1)

    def _by_body(self, grouped):
        """The inverse of `_by_depth`: rows (..., n, m) of the bodies, zeros for a floating base."""
        m, n = self.constraint_columns.W.shape[-1], self.robot.model.nbodies
        apart = grouped.reshape(*grouped.shape[:-1], self.grid.shape[1], m)
        rows = self.xp.zeros((*grouped.shape[:-2], n, m), dtype=grouped.dtype)
        rows[..., self.robot.joints, :] = apart[..., self.grid.level, self.grid.place, :]
        return rows

    def _across(self, F):
        """K F: relative accelerations across the joints (..., n, 6)."""
        a = matvec(self.constraint_columns.J_inverse, F - self.scan.child_sums(F))
        return a - self.scan.inherited(a)


def blocks(xp, robot: RobotArrays, poses):
    """D (..., depths, width m, width m) and U of one depth and the next."""
    own, at = constraint_columns(robot, xp, poses.R.dtype), grid(robot)
    moved = transposed(xp, poses.matrices()) @ own.W  # Ad^T W
    batch, m = moved.shape[:-3], moved.shape[-1]
    depths, width = at.shape
    D = xp.zeros((*batch, depths, width, width, m, m), dtype=moved.dtype)
    D[..., at.empty[0], at.empty[1], at.empty[1], :, :] = xp.eye(m, dtype=D.dtype)
    D[..., at.level, at.place, at.place, :, :] = own.diagonal[robot.joints]
    one, other, parent = at.siblings
    pulled = transposed(xp, moved[..., one, :, :]) @ (own.J_inverse[parent] @ moved[..., other, :, :])
    D[..., at.level_of[one], at.place_of[one], at.place_of[other], :, :] += pulled
    U = xp.zeros((*batch, depths - 1, width, width, m, m), dtype=moved.dtype)
    above, child = at.couples
    coupled = -transposed(xp, own.J_inverse[above] @ own.W[above]) @ moved[..., child, :, :]
    U[..., at.level_of[above], at.place_of[above], at.place_of[child], :, :] = coupled
    return _joined(xp, D), _joined(xp, U)


def _joined(xp, blocks):
    """(..., width, width, m, m) as (..., width m, width m)."""
    *batch, width, _, m, _ = blocks.shape
    return xp.swapaxes(blocks, -3, -2).reshape(*batch, width * m, width * m)


class Constraints(NamedTuple):
    """J_inverse (n, 6, 6); W (n, 6, m): constraint forces, with columns of zeros for joints with fewer;
    diagonal (n, m, m): contribution of the body itself to the system."""

    J_inverse: Any
    W: Any
    diagonal: Any


@lru_cache(maxsize=64)
def constraint_columns(robot: RobotArrays, xp, dtype) -> Constraints:
    """The Constraints as arrays of an array module, of dtype."""
    own = robot.constants
    W = np.array([_complement(S, a) for S, a in zip(own.S, own.armature, strict=True)])
    if not own.armature.any():
        W = W[:, :, :5]
    J_inverse = np.linalg.inv(own.J)
    J_inverse = (J_inverse + transposed(np, J_inverse)) / 2
    free = np.all(W * (np.arange(W.shape[-1]) < 5) == 0, axis=1)
    diagonal = transposed(np, W) @ J_inverse @ W + free[:, :, None] * np.eye(W.shape[-1])
    return Constraints(*(xp.asarray(array, dtype=dtype) for array in (J_inverse, W, diagonal)))


def _complement(S, armature):
    """Five unit columns orthogonal to S (6,), and that of the rotor; zeros for a floating base."""
    if not S.any():
        return np.zeros((6, 6))
    basis = np.linalg.qr(np.column_stack([S, np.eye(6)]))[0]
    return np.column_stack([basis[:, 1:], -np.sqrt(armature) * S])


class Grid(NamedTuple):
    """Indices of the joints' rows: shape (depths, width). level, place: of the bodies with joints; level_of,
    place_of: of any body; empty: (levels, places) without a joint; siblings: (one, other, parent) of all
    pairs on one parent, each with itself as well; couples: (body, child)."""

    shape: tuple[int, int]
    level: Any
    place: Any
    level_of: Any
    place_of: Any
    empty: Any
    siblings: Any
    couples: Any


@lru_cache(maxsize=64)
def grid(robot: RobotArrays) -> Grid:
    """The Grid with joints of one depth in a row."""
    parents, first = robot.parents, int(robot.floating)
    level_of = robot.depths - first
    widths = np.zeros(max(level_of.max() + 1, 1), dtype=int)
    place_of = np.zeros_like(level_of)
    for i in range(first, len(parents)):
        place_of[i] = widths[level_of[i]]
        widths[level_of[i]] += 1
    shape = (len(widths), max(int(widths.max()), 1))
    taken = np.zeros(shape, dtype=bool)
    taken[level_of[first:], place_of[first:]] = True
    bodies = range(first, len(parents))
    siblings = [(i, j, parents[i]) for i in bodies for j in bodies if parents[i] == parents[j] >= 0]
    couples = [(parents[i], i) for i in bodies if parents[i] >= first]
    return Grid(
        shape, level_of[first:], place_of[first:], level_of, place_of, np.nonzero(~taken),
        np.array(siblings, dtype=int).reshape(-1, 3).T, np.array(couples, dtype=int).reshape(-1, 2).T,
    )  # fmt: skip
