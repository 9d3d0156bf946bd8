"""The constraint-force algorithm: forward dynamics as one block tri-diagonal system in the constraint
forces of the joints (Yang, Wu, Pan, sec. IV-C, with the errata of docs/explanation/parallel.md;
Fijany, Sharf, D'Eleuterio 1995).

K = (I - G) J^-1 (I - G)^T takes wrenches F across the joints to their relative accelerations. With F = S tau
+ W x, x the constraint forces, and no relative acceleration along W, W^T K F = 0, so

    (W^T K W) x = -W^T K S tau,    qdd = S^T K F.

A rotor of inertia a adds one unknown sqrt(a) qdd, with column -sqrt(a) S in W and 1 on the diagonal. A joint
without a rotor has a column of zeros instead, with 1 on the diagonal, as have a floating base and the gaps at
a depth with fewer joints than another. The blocks are those of all joints at one depth.
"""

from typing import Any, NamedTuple

import numpy as np

from dynamics_node.chains.chain_arrays import Motions, chain_arrays, depths
from dynamics_node.chains.tree_scan import transposed
from dynamics_node.chains.tridiagonal import CFA_ORDERINGS
from dynamics_node.robot.robot import cached_on_robot


class Cfa:
    """accelerations = Cfa(motions, ordering)(torques): M qdd = torques, both (..., nv). ordering: one of
    CFA_ORDERINGS."""

    def __init__(self, motions: Motions, ordering="cr"):
        self.arrays, self.scan = motions.arrays, motions.scan
        robot, xp, dtype = self.arrays.robot, self.arrays.xp, self.arrays.dtype
        self.own = constraint_arrays(robot, xp, dtype)
        self.solve = CFA_ORDERINGS[ordering](xp, *self._blocks())

    def _blocks(self):
        """D (..., depths, width m, width m) and U of one depth and the next: W^T K W = B^T J^-1 B. B has W at
        the body of a joint, and -X^T W at its parent."""
        own = self.own
        above = own.places.joined(self.arrays.xp, own.places.parent, -transposed(self.scan.X) @ own.W)
        D = own.diagonal + transposed(above) @ (own.J_inverse_above @ above)
        return D, own.W_J_inverse[:-1] @ above[..., 1:, :, :]

    def __call__(self, torques):
        places, W = self.own.places, self.own.W
        active = self.arrays.motions(torques)  # S tau
        right = -transposed(W) @ self._across(active)
        x = places.by_body(self.solve(places.by_depth(self.arrays.xp, right)))
        return self.arrays.forces(self._across(active + W @ x))

    def _across(self, F):
        """K F: relative accelerations across the joints (..., n, 6, 1)."""
        a = self.own.J_inverse @ (F - self.scan.child_sums(F))
        return a - self.scan.inherited(a)


class Places(NamedTuple):
    """Bodies in rows, one for each depth: level, place and the place of the parent (n,); width of a row."""

    level: Any
    place: Any
    parent: Any
    width: int

    def joined(self, xp, rows, blocks):
        """Blocks (..., n, a, b) of the bodies as (..., depths, width a, width b): at rows (n,), and at the
        columns of the bodies."""
        *batch, _, a, b = blocks.shape
        depths, width = max(self.level) + 1, self.width
        joined = xp.zeros((*batch, depths, width, width, a, b), dtype=blocks.dtype)
        joined[..., self.level, rows, self.place, :, :] = blocks
        return joined.swapaxes(-3, -2).reshape(*batch, depths, width * a, width * b)

    def by_depth(self, xp, columns):
        """Columns (..., n, m, 1) of the bodies as (..., depths, width m)."""
        *batch, _, m, _ = columns.shape
        rows = xp.zeros((*batch, max(self.level) + 1, self.width, m), dtype=columns.dtype)
        rows[..., self.level, self.place, :] = columns[..., 0]
        return rows.reshape(*rows.shape[:-2], -1)

    def by_body(self, rows):
        """The inverse of `by_depth`."""
        rows = rows.reshape(*rows.shape[:-1], self.width, -1)
        return rows[..., self.level, self.place, :, None]


class Constraints(NamedTuple):
    """W (n, 6, m): constraint forces; J_inverse (n, 6, 6); in blocks of all bodies at one depth: W^T J^-1,
    J^-1 of the depth above, and the contribution of the bodies themselves to the diagonal."""

    places: Places
    W: Any
    J_inverse: Any
    W_J_inverse: Any
    J_inverse_above: Any
    diagonal: Any


@cached_on_robot
def constraint_arrays(robot, xp, dtype) -> Constraints:
    """The Constraints of a Robot as arrays of an array module."""
    axes, places = chain_arrays(robot, np, np.dtype(float)).axes[..., 0], _places(robot)
    armature = [robot.armature[b.joint.v.start] if b.joint.type.is_scalar else 0.0 for b in robot.bodies]
    W = np.array([_complement(S, a) for S, a in zip(axes, armature, strict=True)])
    W = W if np.any(armature) else W[:, :, :5]
    J_inverse = np.linalg.inv(robot.inertias)
    J_inverse = (J_inverse + transposed(J_inverse)) / 2
    wide_W, wide_J = (places.joined(np, places.place, blocks) for blocks in (W, J_inverse))
    W_J = transposed(wide_W) @ wide_J
    free = np.arange(wide_W.shape[-1]) % W.shape[-1] == 5, ~wide_W.any(axis=1)
    diagonal = W_J @ wide_W + (free[0] | free[1])[:, :, None] * np.eye(wide_W.shape[-1])
    above = np.concatenate([np.zeros_like(wide_J[:1]), wide_J[:-1]])
    return Constraints(places, *(xp.asarray(a, dtype=dtype) for a in (W, J_inverse, W_J, above, diagonal)))


def _places(robot) -> Places:
    level, n = depths(robot), robot.nbodies
    place = np.array([np.sum(level[:i] == level[i]) for i in range(n)])
    return Places(level, place, place[np.maximum(robot.parents, 0)], int(place.max()) + 1)


def _complement(S, armature):
    """Five unit columns orthogonal to S (6,), and that of the rotor; zeros for a floating base."""
    if not S.any():
        return np.zeros((6, 6))
    basis = np.linalg.qr(np.column_stack([S, np.eye(6)]))[0]
    return np.column_stack([basis[:, 1:], -np.sqrt(armature) * S])
