"""The equations of a tree with more unknowns and fewer operations, as in its recursions.

A is the classical acceleration here: the spatial one without w x v, so no linear velocity is left
(algorithms/rnea.py). Also unknown are U = wd^ + w^ w^, and motions and wrenches between the plane turns of a
transform. Each of these unknowns has an equation of its own, with ones. A search of pivots from here may
reach the cost of the recursions.
"""

from dataclasses import replace

import numpy as np

from dynamics_node.algorithms.recursion import joint_motions, outward
from dynamics_node.graph.factors import ACCELERATION, LinearFactor, Variable, acceleration, wrench
from dynamics_node.graph.sensor_system import SensorSystem
from dynamics_node.robot.transforms import FactoredTransforms, joint_transforms
from dynamics_node.symbolic import Translation, pseudo_inertia, skew, transpose

_HAT = np.zeros((9, 6))  # of wd^ by (wd, a), row by row
for _k in range(3):
    _HAT[:, _k] = skew(np.eye(3)[_k]).ravel()


def finer(system: SensorSystem, tree, q, rates, gravity) -> SensorSystem:
    """The system of one state on symbols; rates (nv of the tree,): of all joints."""
    return _Finer(tree, q, rates, gravity).system(system)


class _Finer:
    def __init__(self, tree, q, rates, gravity):
        self.tree, self.gravity = tree, gravity
        X_up = joint_transforms(tree, q)
        assert isinstance(X_up, FactoredTransforms), "of symbols"
        self.X_up = X_up
        self.turns = [self.X_up.turns(i) for i in range(tree.nbodies)]
        self.moved = joint_motions(tree, rates)
        self.w = self._angular_velocities()
        self.V = outward(tree, self.X_up, self.moved)
        self.J = pseudo_inertia(tree.inertias)

    def _angular_velocities(self):
        velocities: list[np.ndarray] = []
        for i, parent in enumerate(self.tree.parents):
            before = velocities[parent] if parent >= 0 else np.zeros(3)
            velocities.append(self.X_up.vector(i, before) + self.moved[i, :3])
        return velocities

    def system(self, system):
        exact = [new for factor in system.exact for new in self._rewritten(factor)]
        bodies = range(self.tree.nbodies)
        exact += [self._turning(i) for i in bodies]
        exact += [factor for i in bodies for factor in (*self._propagated_motion(i), *self._transmitted(i))]
        return system._replace(exact=tuple(exact), noisy=tuple(map(self._classical, system.noisy)))

    def _rewritten(self, factor):
        if factor.kind == "acceleration":
            yield self._acceleration(factor)
        elif factor.kind == "wrench":
            yield self._wrench(factor)
        else:
            yield self._classical(factor)

    def _classical(self, factor):
        """A factor in the spatial acceleration."""
        rhs = factor.rhs
        for x, block in factor.blocks.items():
            if x.kind == ACCELERATION:
                V = self.V[x.body]
                rhs = rhs + block[..., 3:] @ (skew(V[:3]) @ V[3:])
        return replace(factor, rhs=rhs)

    # --- (5) ------------------------------------------------------------------------------------------------

    def _acceleration(self, factor):
        """A_i from the motion before the joint's turn, and from qdd."""
        i, parent = factor.body, self.tree.parents[factor.body]
        blocks = {x: B for x, B in factor.blocks.items() if x != acceleration(parent)}
        before, turning, sliding = self.w[i] - self.moved[i, :3], self.moved[i, :3], self.moved[i, 3:]
        if parent < 0:
            before = np.zeros(3)
        rhs = np.concatenate([skew(before) @ turning, skew(before + self.w[i]) @ sliding])
        last = len(self.turns[i])
        turn = self.turns[i][0].matrix() if last else np.eye(6)
        return replace(factor, blocks=blocks | {_motion(i, max(last - 1, 0)): -turn}, rhs=rhs)

    def _propagated_motion(self, i):
        """The motion of the parent at the origin of body i, then turned, one turn after the other."""
        parent, r = self.tree.parents[i], self.X_up.origin(i)
        blocks, rhs = {_motion(i, 0): np.eye(6)}, np.zeros(6)
        if parent >= 0:
            shift = np.zeros((6, 9), dtype=object)
            for k in range(3):
                shift[3 + k, 3 * k : 3 * k + 3] = r
            blocks |= {acceleration(parent): -np.eye(6), _spin(parent): -shift}
        else:
            rhs = np.concatenate([np.zeros(3), -self.gravity])
        yield LinearFactor(_motion(i, 0).kind, i, blocks, rhs)
        for k, turn in enumerate(reversed(self.turns[i][1:]), 1):
            x = _motion(i, k)
            yield LinearFactor(x.kind, i, {x: np.eye(6), _motion(i, k - 1): -turn.matrix()}, np.zeros(6))

    # --- (6) ------------------------------------------------------------------------------------------------

    def _turning(self, i):
        """U = wd^ + w^ w^."""
        x, hat = _spin(i), skew(self.w[i])
        return LinearFactor(x.kind, i, {x: np.eye(9), acceleration(i): -_HAT}, (hat @ hat).ravel())

    def _wrench(self, factor):
        i, J = factor.body, self.J[factor.body]
        blocks = {x: B for x, B in factor.blocks.items() if x != acceleration(i)}
        for child, parent in enumerate(self.tree.parents):
            if parent == i:
                del blocks[wrench(child)]
                blocks[_force(child, len(self.turns[child]))] = -transpose(
                    Translation(self.X_up.origin(child)).matrix()
                )
        ms, mass = J[:3, 3], J[3, 3]
        straight = np.zeros((6, 6), dtype=object)
        straight[:3, 3:], straight[3:, 3:] = skew(ms), mass * np.eye(3)
        return replace(
            factor,
            blocks=blocks | {acceleration(i): -straight, _spin(i): -_by_spin(J[:3, :3], ms)},
            rhs=np.zeros(6),
        )

    def _transmitted(self, i):
        """F_i turned back, one turn after the other, into the axes of the parent."""
        before = wrench(i)
        for k, turn in enumerate(self.turns[i], 1):
            x = _force(i, k)
            yield LinearFactor(x.kind, i, {x: np.eye(6), before: -transpose(turn.matrix())}, np.zeros(6))
            before = x


def _by_spin(sigma, ms):
    """(6, 9): moment and force of a body by its U, see `body_wrench`."""
    block = np.zeros((6, 9), dtype=object)
    for i, j, k in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
        for sign, row, column in (
            (1, (k, j), (j, j)), (-1, (j, k), (k, k)), (1, (k, k), (j, k)), (-1, (j, j), (j, k)),
            (1, (k, i), (i, j)), (-1, (j, i), (i, k)),
        ):  # fmt: skip
            block[i, 3 * row[0] + row[1]] = sign * sigma[column]
        block[3 + i, 3 * i : 3 * i + 3] = ms
    return block


def _motion(body, step):
    return Variable(f"M{step}_", body, 6)


def _force(body, step):
    """The force after `step` turns; after none the wrench at the joint."""
    return Variable(f"G{step}_", body, 6) if step else wrench(body)


def _spin(body):
    return Variable("U", body, 9)
