"""Forward and hybrid dynamics with contacts, forces with their limbs: constrained articulated bodies.

Unit forces of the contacts of a limb propagate to the body p at which the tree forks, as in
algorithms/force_propagation.py. There the limb is eliminated. The forces of its contacts follow from the
acceleration of p: L lambda + b + P^T A_p = 0 with L = sum F^T D^-1 F over the joints of the limb. So p
carries the limb as an inertia P L^-1 P^T and a force P L^-1 b; no matrix over several limbs arises. Contacts
between two links couple limbs, and are left to forces last.

L is singular where the joints of a limb do not move its contacts: at a stretched leg, or with redundant
contacts. `health` measures it; such states are left to forces last.

Vereshchagin 1974, Computer simulation of the dynamics of complicated mechanisms of robot manipulators. Popov,
Vereshchagin and Zenkevich 1978. Sathya and Carpentier 2024, Constrained articulated body dynamics algorithms.
"""

import numpy as np

from dynamics_node.algorithms.aba import ClusterSolution, accelerations_and_torques, forward_clusters, inward
from dynamics_node.algorithms.contact_dynamics import SMALL, Touch, loaded
from dynamics_node.algorithms.contact_equations import accelerations_along, contact_equations
from dynamics_node.algorithms.force_propagation import joint_forces, propagate
from dynamics_node.algorithms.rnea import body_motions, body_wrenches
from dynamics_node.robot.transforms import joint_transforms
from dynamics_node.symbolic import half_solved, inverse_congruence, matvec, solve_definite, symmetric

WEAKEST = 2.0**36  # limit of `health`: the sum of squares of the mean size of L relative to its pivots


class NoLimbsError(Exception):
    """Contacts that no limb carries alone."""


def contact_dynamics_by_limbs(
    robot, rates, q, known, f_ext, gravity, active, accelerations, *, contacts, forward
):
    """Unknowns (nv,), contact forces (rows,), and health: (1,), or (2,) with wheels. Arguments as in
    `contact_dynamics`. Raises NoLimbsError."""
    tree, zero = robot.tree, np.zeros(robot.nv)
    tau, driven = np.where(forward, known, zero), np.where(forward, zero, known)
    X_up, changes = joint_transforms(tree, q), rates.accelerations(driven)
    motions = body_motions(tree, X_up, rates.qd, changes, gravity)
    pA = body_wrenches(tree, motions) - (0.0 if f_ext is None else f_ext)
    touch = Touch(contacts, contact_equations(tree, X_up, contacts), active)
    free = accelerations_along(tree, X_up, motions, rates.qd, gravity, touch.equations)
    limbs = _TouchedLimbs(robot, X_up, touch, free - touch.along_equations(accelerations))
    is_forward = forward_clusters(robot, forward)
    solutions = inward(robot, X_up, rates.G, pA, changes, tau, is_forward, limbs.passed)
    limbs.require_closed()
    qdd, torques = accelerations_and_torques(robot, X_up, solutions, tau, driven, limbs.loaded)
    health = np.concatenate([[limbs.health], touch.leaning()])
    return np.where(forward, qdd, torques), touch.along_axes(limbs.components()), health


class _TouchedLimbs:
    """The contacts during the two sweeps of the articulated-body algorithm."""

    def __init__(self, robot, X_up, touch, b):
        if any(len(equation.sides) > 1 for equation in touch.equations):
            raise NoLimbsError
        self._tree, self._X_up, self._touch = robot.tree, X_up, touch
        self._clusters = robot.clusters
        ends = np.cumsum([0, *touch.sizes])
        self._rows = [np.arange(*ends[k : k + 2]) for k in range(len(touch.sizes))]
        self._open = set(range(len(touch.sizes)))
        units = [touch.units[rows] for rows in self._rows]
        self._wrenches = [
            {body: P * unit for body, P in own.items()}
            for own, unit in zip(touch.wrenches(), units, strict=True)
        ]
        self._L = np.zeros((len(b), len(b)), dtype=object)
        self._b = touch.units * b
        self._freedom = np.zeros(len(touch.sizes))
        self._forces: dict[int, tuple] = {}  # of clusters: rows, and forces (d, rows) at their joints
        self._limbs: dict[int, tuple] = {}  # by the cluster at the top: rows, p, half solutions
        self._lambdas = np.zeros(len(b), dtype=object)
        self.health = 0.0

    def passed(self, number, given: ClusterSolution, inertia, pA):
        """After a cluster has passed its inertia on: propagate forces; eliminate those of a complete limb."""
        bodies = self._clusters[number].bodies
        present = [k for k in sorted(self._open) if any(i in self._wrenches[k] for i in bodies)]
        if not present:
            return
        S, U, D, u = given
        d = len(u)
        F = np.concatenate(
            [joint_forces(S, self._wrenches[k], d, len(self._rows[k])) for k in present], axis=1
        )
        rows = np.concatenate([self._rows[k] for k in present])
        self._forces[number] = rows, F
        absorbed = {}
        if D is not None:
            products = inverse_congruence(D, np.concatenate([F, u[:, None]], axis=1).T)
            self._L[np.ix_(rows, rows)] += products[:-1, :-1]
            self._b[rows] += products[:-1, -1]
            self._freedom[present] += d
            absorbed = solve_definite(D, F)
        for k in present:
            own = np.isin(rows, self._rows[k])
            lost = {i: force @ absorbed[:, own] for i, force in U.items()} if D is not None else {}
            propagate(self._tree, self._X_up, bodies, self._wrenches[k], lost)
        self._close(number, present, rows, inertia, pA)

    def _close(self, number, present, rows, inertia, pA):
        """Eliminate the forces of a limb if it ends at one body at which the tree forks."""
        ends = {i for k in present for i in self._wrenches[k]}
        if len(ends) != 1 or self._freedom[present].min() < len(rows):
            return
        (p,) = ends
        if self._tree.parents.count(p) < 2 and not self._tree.bodies[p].joint.type.is_free:
            return
        s, L = self._touch.active[rows], self._L[np.ix_(rows, rows)]
        size = np.trace(L) * (1.0 / len(L)) + SMALL
        L = s[:, None] * L * s + np.diag((1.0 - s) * size)
        K = s[:, None] * np.concatenate([self._wrenches[k][p] for k in present], axis=1).T
        factor, pivots, half = half_solved(L, np.concatenate([K, (s * self._b[rows])[:, None]], axis=1))
        inverse = np.array([1.0 / pivot for pivot in pivots], dtype=object)
        scaled = inverse[:, None] * half
        inertia.add(p, p, symmetric(half[:, :6].T @ scaled[:, :6]))
        pA[p] = pA[p] + half[:, :6].T @ scaled[:, 6]
        self._limbs[number] = rows, p, factor, inverse, half
        loss = size * inverse
        self.health = self.health + loss @ loss
        self._open -= set(present)

    def require_closed(self):
        """Raise NoLimbsError if contacts are left at the root."""
        if self._open:
            raise NoLimbsError

    def loaded(self, number, given, added):
        """The solution of a cluster with the forces of its contacts; added {body: (6,)}: accelerations that
        joints above it add."""
        if number in self._limbs:
            rows, p, factor, inverse, half = self._limbs[number]
            x = -inverse * (half[:, 6] + matvec(half[:, :6], added[p]))
            for k in range(len(x)):
                x[k] = x[k] - factor[k, :k] @ x[:k] if k else x[k]
            self._lambdas[rows] = x
        if number not in self._forces:
            return given
        rows, F = self._forces[number]
        return loaded(given, F @ self._lambdas[rows])

    def components(self):
        """The forces (rows,) along P."""
        return self._touch.units * self._lambdas
