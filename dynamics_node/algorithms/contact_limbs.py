"""Forward and hybrid dynamics with contacts, forces with their limbs: constrained articulated bodies.

Unit forces of the contacts of a limb propagate to the body p at which the tree forks, as in
algorithms/force_propagation.py. There the limb is eliminated. The forces of its contacts follow from the
acceleration of p: L lambda + b + P^T A_p = 0 with L = sum F^T D^-1 F over the joints of the limb. So p
carries the limb as an inertia P L^-1 P^T and a force P L^-1 b; no matrix over several limbs arises. Contacts
between two links couple limbs, and are left to forces last. Contacts of one body are a patch
(algorithms/contact_patches.py).

L is singular where the joints of a limb do not move its contacts, as at a stretched leg. `health` measures
it; such states are left to forces last.

Vereshchagin 1974, Computer simulation of the dynamics of complicated mechanisms of robot manipulators. Popov,
Vereshchagin and Zenkevich 1978. Sathya and Carpentier 2024, Constrained articulated body dynamics algorithms.
"""

import numpy as np

from dynamics_node.algorithms.aba import ClusterSolution, accelerations_and_torques, forward_clusters, inward
from dynamics_node.algorithms.contact_dynamics import SMALL, PlacedContacts, loaded
from dynamics_node.algorithms.contact_equations import accelerations_along, contact_equations
from dynamics_node.algorithms.contact_patches import patches
from dynamics_node.algorithms.first_positions import generic_positions
from dynamics_node.algorithms.force_propagation import joint_forces, propagate
from dynamics_node.algorithms.reduced_frames import parameter_values
from dynamics_node.algorithms.rnea import body_motions, body_wrenches
from dynamics_node.robot.transforms import joint_transforms
from dynamics_node.symbolic import (
    half_solved,
    interpret_portable,
    inverse_congruence,
    matvec,
    solve_definite,
    symmetric,
)

WEAKEST = 2.0**36  # limit of `health`: the sum of squares of the mean size of L relative to its pivots


class NoLimbsError(Exception):
    """Contacts that no limb carries alone."""


def contact_dynamics_by_limbs(
    robot, rates, q, known, f_ext, gravity, active, accelerations, *, contacts, forward
):
    """Unknowns (nv,), contact forces (rows,), and health (2,). Arguments as in
    `contact_dynamics`. Raises NoLimbsError."""
    tree, zero = robot.tree, np.zeros(robot.nv)
    tau, prescribed = np.where(forward, known, zero), np.where(forward, zero, known)
    X_up, changes = joint_transforms(tree, q), rates.accelerations(prescribed)
    motions = body_motions(tree, X_up, rates.qd, changes, gravity)
    pA = body_wrenches(tree, motions) - (0.0 if f_ext is None else f_ext)
    touch = PlacedContacts(contacts, contact_equations(tree, X_up, contacts), active)
    limbs = _TouchedLimbs(robot, X_up, touch, accelerations)
    limbs.start(accelerations_along(tree, X_up, motions, rates.qd, gravity, limbs.equations))
    is_forward = forward_clusters(robot, forward)
    solutions = inward(robot, X_up, rates.G, pA, changes, tau, is_forward, limbs.propagate_forces)
    limbs.require_closed()
    qdd, torques = accelerations_and_torques(robot, X_up, solutions, tau, prescribed, limbs.loaded)
    health = np.concatenate([[limbs.health], touch.invalid()])
    return np.where(forward, qdd, torques), touch.along_axes(limbs.components()), health


class _TouchedLimbs:
    """The contacts during the two sweeps of the articulated-body algorithm."""

    def __init__(self, robot, X_up, touch, accelerations):
        if any(len(equation.sides) > 1 for equation in touch.equations):
            raise NoLimbsError
        self._tree, self._X_up, self._touch = robot.tree, X_up, touch
        self._clusters = robot.clusters
        self._patches = patches(touch, touch.units * touch.along_equations(accelerations))
        self.equations = [patch.equation for patch in self._patches]
        ends = np.cumsum([0, *(equation.size for equation in self.equations)])
        self._rows = [np.arange(*ends[k : k + 2]) for k in range(len(self._patches))]
        self._open = set(range(len(self._patches)))
        self._wrenches = [
            {body: P * patch.scale for body, P in patch.equation.sides} for patch in self._patches
        ]
        self._L = np.zeros((ends[-1], ends[-1]), dtype=object)
        self._freedom = np.zeros(len(self._patches))
        self._forces: dict[int, tuple] = {}  # of clusters: rows, and forces (d, rows) at their joints
        self._limbs: dict[int, tuple] = {}  # by the cluster at the top: rows, p, half solutions
        self._x = np.zeros(ends[-1], dtype=object)  # forces along the P of patches
        self._lambdas = np.zeros(len(touch.active), dtype=object)
        self.health = 0.0

    def start(self, free):
        """free (rows of patches,): their accelerations without forces and motion of the joints."""
        self._l = np.concatenate([patch.scale for patch in self._patches]) * free

    def propagate_forces(self, number, given: ClusterSolution, inertia, pA):
        """Those of a cluster to its parents, after its inertia; those of a complete limb are eliminated."""
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
            self._l[rows] += products[:-1, -1]
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
        L = self._L[np.ix_(rows, rows)]
        size = np.trace(L) * (1.0 / len(L)) + SMALL
        L = self._active(present, self._active(present, L).T)
        starts = [0, *self._ends(present), len(L)]
        for k, at in zip(present, map(slice, starts, starts[1:]), strict=True):
            L[at, at] = L[at, at] + self._patches[k].idle * size
        P = np.concatenate([self._wrenches[k][p] for k in present], axis=1)
        gaps = np.concatenate([self._patches[k].gaps(self._l[self._rows[k]]) for k in present])
        K = np.concatenate([self._active(present, P.T), gaps[:, None]], axis=1)
        factor, pivots, half = half_solved(symmetric(L), K)
        inverse = np.array([1.0 / pivot for pivot in pivots], dtype=object)
        scaled = inverse[:, None] * half
        inertia.add(p, p, symmetric(half[:, :6].T @ scaled[:, :6]))
        pA[p] = pA[p] + half[:, :6].T @ scaled[:, 6]
        self._limbs[number] = present, p, factor, inverse, half
        loss = size * inverse
        self.health = self.health + loss @ loss
        self._open -= set(present)

    def _active(self, present, X):
        """The rows of X (rows of several patches, k) of active contacts."""
        parts = zip(present, np.split(X, self._ends(present)), strict=True)
        return np.concatenate([self._patches[k].active(own) for k, own in parts])

    def _ends(self, present):
        return np.cumsum([len(self._rows[k]) for k in present])[:-1]

    def require_closed(self):
        """Raise NoLimbsError if contacts are left at the root."""
        if self._open:
            raise NoLimbsError

    def loaded(self, number, given, added):
        """The solution of a cluster with the forces of its contacts; added {body: (6,)}: accelerations that
        joints above it add."""
        if number in self._limbs:
            present, p, factor, inverse, half = self._limbs[number]
            y = -inverse * (half[:, 6] + matvec(half[:, :6], added[p]))
            for k in range(len(y)):
                y[k] = y[k] - factor[k, :k] @ y[:k] if k else y[k]
            for k, own in zip(present, np.split(y, self._ends(present)), strict=True):
                patch = self._patches[k]
                self._x[self._rows[k]] = patch.along(own)
                self._lambdas[patch.places] = patch.forces(own)
        if number not in self._forces:
            return given
        rows, F = self._forces[number]
        return loaded(given, F @ self._x[rows])

    def components(self):
        """The forces (rows,) along P."""
        return self._touch.units * self._lambdas


def is_healthy_somewhere(program, robot, problem, wrenches, parameters) -> bool:
    """Whether a Program is healthy with all contacts active at a position that is not special. Redundant
    contacts are not."""
    q = generic_positions(robot)
    state = {name: np.zeros((len(q), *shape)) for name, shape in problem.reads(robot, wrenches).items()}
    state |= {"q": q, "active": np.ones((len(q), len(problem.contacts)))}
    state |= parameter_values(robot, parameters)
    healthy = interpret_portable(program, **state)["health"] <= program.limits
    return bool(healthy.all(axis=-1).any())
