"""Forward and hybrid dynamics: the articulated-body algorithm over clusters of bodies (paper 3, eqs. 52, 55
and 56). For clusters of one body it is that of RBDA Table 7.1 and section 9.2.

The first pass computes all accelerations with those of the forward joints at zero, and the wrenches for them.
The second adds the accelerations of the forward joints. A cluster with known accelerations passes its whole
articulated inertia on; one with known torques passes on the part that its motion does not absorb. Velocities
and gravity enter the first pass only.
"""

from typing import NamedTuple

import numpy as np

from dynamics_node.algorithms.rates import rates_at
from dynamics_node.algorithms.recursion import rotor_inertia
from dynamics_node.algorithms.rnea import body_motions, body_wrenches
from dynamics_node.errors import InputError
from dynamics_node.robot.transforms import joint_transforms
from dynamics_node.symbolic import matvec, solve_definite, symmetric, transpose


class JointSolution(NamedTuple):
    """Results of the inward sweep at a joint: U (..., 6, k) = IA S. Known torque: D = S^T U and
    u = tau - S^T pA. Known acceleration: D is None and u = S^T pA."""

    U: np.ndarray
    D: np.ndarray | None
    u: np.ndarray


class ClusterSolution(NamedTuple):
    """Results of the inward sweep at a cluster: S {body: (..., 6, d)}; U {body: (..., 6, d)}, of a single
    body at that body, else at the parent bodies outside the cluster; D and u as in JointSolution."""

    S: dict[int, np.ndarray]
    U: dict[int, np.ndarray]
    D: np.ndarray | None
    u: np.ndarray


def aba(robot, q, qd, tau, qdd=None, forward=None, f_ext=None, gravity=None, rates=None):
    """Accelerations from torques, and torques where accelerations are known.

    q (..., nq), qd (..., nv); tau (..., nv) is read where `forward` (nv,) bool is true (everywhere by
    default), qdd (..., nv) elsewhere; f_ext, gravity as in `rnea`; rates: explicit ones, if available. Robots
    with loops: one state on symbols. Returns qdd, tau (..., nv), complete. Raises ValueError if `forward`
    splits a cluster's coordinates.
    """
    tree, forward = robot.tree, forward_clusters(robot, forward)
    rates = rates_at(robot, q, qd, explicit=True) if rates is None else rates
    prescribed = np.zeros_like(tau) if qdd is None else _where_prescribed(robot, forward, qdd)
    X_up, changes = joint_transforms(tree, q), rates.accelerations(prescribed)
    pA = body_wrenches(tree, body_motions(tree, X_up, rates.qd, changes, gravity))
    pA = pA if f_ext is None else pA - f_ext
    solutions = inward(robot, X_up, rates.G, pA, changes, tau, forward)
    return accelerations_and_torques(robot, X_up, solutions, tau, prescribed)


def forward_clusters(robot, forward=None):
    """For every cluster, whether its torques are known. Raises ValueError if `forward` splits one."""
    if forward is None:
        return [True] * len(robot.clusters)
    chosen = [np.asarray(forward)[at] for at in columns(robot)]
    for cluster, mask in zip(robot.clusters, chosen, strict=True):
        if mask.any() != mask.all():
            names = ", ".join(repr(robot.bodies[i].joint.name) for i in cluster.bodies)
            raise InputError(f"joint {names} must be forward or inverse as a whole")
    return [bool(mask.all()) for mask in chosen]


def columns(robot):
    """Indices in qd of the independent coordinates of every cluster; slices if possible."""
    at = {v: k for k, v in enumerate(robot.independent.tolist())}
    return [_as_slice([at[v] for v in cluster.independent]) for cluster in robot.clusters]


def _as_slice(places):
    """Contiguous indices as a slice."""
    if places and places == list(range(places[0], places[0] + len(places))):
        return slice(places[0], places[0] + len(places))
    return places


def _where_prescribed(robot, forward, qdd):
    """qdd with zeros at the forward clusters."""
    prescribed = np.array(qdd)
    for at, is_forward in zip(columns(robot), forward, strict=True):
        if is_forward:
            prescribed[..., at] = 0.0
    return prescribed


def inward(robot, X_up, G, pA, changes, tau, forward, after=None) -> list[ClusterSolution]:
    """Articulated inertias and bias forces from the tips to the root: the results at every cluster.

    G (nv of the tree, nv); pA (..., nbodies, 6); changes (..., nv of the tree): joint accelerations of the
    tree, for rotors; forward: whether the torques of each cluster are known; after(number, solution,
    inertia, pA): called after every cluster.
    """
    tree, R = robot.tree, rotor_inertia(robot.tree)
    inertia, pA = _Inertias(tree.inertias), [pA[..., i, :] for i in range(tree.nbodies)]
    solutions: list[ClusterSolution] = []
    numbered = list(enumerate(zip(robot.clusters, columns(robot), forward, strict=True)))
    for number, (cluster, at, is_forward) in reversed(numbered):
        v = sorted((*cluster.independent, *cluster.dependent))
        weights, known = G[v][:, at], tau[..., at] if is_forward else None
        S = motion_subspaces(tree, X_up, cluster, G[:, at])
        rotors = weights.T @ R[np.ix_(v, v)]
        rotor_force = rotors @ weights, matvec(rotors, changes[..., v])
        by_itself = len(cluster.bodies) == 1 and not cluster.dependent and inertia.is_alone(*cluster.bodies)
        pass_on = _by_itself if by_itself else _together
        solutions.append(pass_on(tree, X_up, cluster.bodies, S, inertia, pA, rotor_force, known))
        if after:
            after(number, solutions[-1], inertia, pA)
    return solutions[::-1]


def motion_subspaces(tree, X_up, cluster, G):
    """{body: S (..., 6, d)}: eq. (24)."""
    S: dict = {}
    for i in cluster.bodies:
        joint, parent = tree.bodies[i].joint, tree.parents[i]
        S[i] = joint.S @ G[joint.v]
        if parent in S:
            moved = [X_up.motion(i, S[parent][..., k]) for k in range(S[parent].shape[-1])]
            S[i] = S[i] + np.stack(moved, axis=-1)
    return S


# --- a single body ------------------------------------------------------------------------------------------


def prescribed_joint(IA, pA, S, rotors, tau):
    """A joint with known acceleration: its JointSolution, and the whole inertia and force for the parent."""
    return JointSolution(IA @ S, None, pA @ S), IA, pA


def forward_joint(IA, pA, S, rotors, tau):
    """A joint with known torque: its JointSolution, and the projected inertia and force for the parent.
    rotors (k, k): their inertia."""
    U = IA @ S
    D = S.T @ U + rotors
    u = tau - pA @ S
    K = transpose(
        _solve(D.astype(u.dtype, copy=False), transpose(U))
    )  # in a trace, constants count as symbols
    return JointSolution(U, D, u), _projected_inertia(IA, K, U, S, rotors), pA + matvec(K, u)


def _solve(D, right):
    """x (..., k, n) of D x = right."""
    return right / D if D.shape[-1] == 1 else solve_definite(D, right)


def _projected_inertia(IA, K, U, S, rotors):
    """Ia = IA - U D^-1 U^T, the inertia of IA that the parent sees. Without rotors S^T Ia = 0: if S spans
    coordinate axes, whole rows and columns vanish."""
    Ia = symmetric(IA - K @ transpose(U))
    free = np.flatnonzero(S.any(axis=1))
    if len(free) == S.shape[1] and not np.any(rotors != 0):
        Ia[..., free, :] = 0.0
        Ia[..., :, free] = 0.0
    return Ia


def _by_itself(tree, X_up, bodies, S, inertia, pA, rotors, tau):
    """Project the inertia before its transform to the parent: it then has rows and columns of zeros. With
    `_together` a Panda would take 1372 operations, not 1285; Solo12 3120, not 2892."""
    (i,), (R, torques) = bodies, rotors
    known = None if tau is None else tau - torques
    given, Ia, pA[i] = (prescribed_joint if tau is None else forward_joint)(
        inertia.of(i, i), pA[i], S[i], R, known
    )
    inertia.replace(i, Ia)
    _carry_on(tree, X_up, bodies, inertia, pA)
    return ClusterSolution(S, {i: given.U}, given.D, given.u + torques if tau is None else given.u)


# --- bodies that loops or explicit joints tie ---------------------------------------------------------------


def _together(tree, X_up, bodies, S, inertia, pA, rotors, tau):
    """Transform the inertia and forces of a cluster to the bodies outside, then project. The projection is
    one small product there, instead of one for every pair of bodies of the cluster."""
    R, torques = rotors
    U = {i: sum(inertia.of(i, j) @ S[j] for j in bodies) for i in bodies}
    D = symmetric(sum(transpose(S[i]) @ U[i] for i in bodies) + R)
    u = sum(matvec(transpose(S[i]), pA[i]) for i in bodies) + torques
    _carry_on(tree, X_up, bodies, inertia, pA)
    carry_forces(tree, X_up, bodies, U)
    if tau is None:
        return ClusterSolution(S, U, None, u)
    u = tau - u
    solved = {i: _solve(D, transpose(force)) for i, force in U.items()}
    for k, (i, force) in enumerate(U.items()):
        pA[i] = pA[i] + matvec(transpose(solved[i]), u)
        for j in list(U)[: k + 1]:
            block = force @ solved[j]
            inertia.add(i, j, -symmetric(block) if i == j else -block)
    return ClusterSolution(S, U, D, u)


def _carry_on(tree, X_up, bodies, inertia, pA):
    """Propagate inertia and forces of the bodies to their parents."""
    for i in reversed(bodies):
        parent = tree.parents[i]
        inertia.carry(X_up, i, parent)
        if parent >= 0:
            pA[parent] = pA[parent] + X_up.force(i, pA[i])


def carry_forces(tree, X_up, bodies, forces):
    """Propagate forces {body: (..., 6, k)} on the bodies of a cluster to their parents outside, in place."""
    for i in reversed(bodies):
        parent, force = tree.parents[i], forces.pop(i, None)
        if parent >= 0:
            moved = np.zeros((6, 1)) if force is None else X_up.forces(i, force)
            forces[parent] = forces[parent] + moved if parent in forces else moved


class _Inertias:
    """Blocks (..., 6, 6) of the articulated inertia between bodies; a pair is stored in one order."""

    def __init__(self, inertias):
        self._blocks = {(i, i): inertia for i, inertia in enumerate(inertias)}

    def of(self, i, j):
        """The block of rows i, columns j."""
        block = self._blocks.get((max(i, j), min(i, j)))
        if block is None:
            return np.zeros((6, 6))
        return block if i >= j else transpose(block)

    def is_alone(self, i):
        """Whether a body is not coupled with another one."""
        return all(i not in pair or pair == (i, i) for pair in self._blocks)

    def replace(self, i, block):
        """Replace the diagonal block of a body."""
        self._blocks[i, i] = block

    def add(self, i, j, block):
        key, block = ((i, j), block) if i >= j else ((j, i), transpose(block))
        self._blocks[key] = self._blocks[key] + block if key in self._blocks else block

    def carry(self, X_up, i, parent):
        """Merge body i into its parent: blocks with i become blocks with the parent."""
        for a, b in [pair for pair in self._blocks if i in pair]:
            block = self._blocks.pop((a, b))
            if parent < 0:
                continue
            if a == b:
                self.add(parent, parent, X_up.inertia(i, block))
                continue
            other, rows = (b, block) if a == i else (a, transpose(block))
            moved = X_up.forces(i, rows)
            if other == parent:
                self.add(parent, parent, symmetric(moved + transpose(moved)))
            else:
                self.add(parent, other, moved)


# --- outward ------------------------------------------------------------------------------------------------


def accelerations_and_torques(robot, X_up, solutions, tau, prescribed, loaded=None):
    """qdd, tau (..., nv): add the accelerations of the forward clusters, from the root to the tips.

    solutions: of `inward`; prescribed (..., nv): accelerations of the others. loaded(number, solution,
    added): a solution with forces that depend on accelerations {body: (..., 6)} above it."""
    parents, still = robot.tree.parents, np.zeros((*tau.shape[:-1], 6))
    qdd_out, tau_out = np.zeros_like(tau), np.zeros_like(tau)
    added: dict[int, np.ndarray] = {}
    for number, (cluster, at) in enumerate(zip(robot.clusters, columns(robot), strict=True)):
        given = solutions[number]
        S, U, D, u = loaded(number, given, added) if loaded else given
        for i in cluster.bodies:  # inherited
            added[i] = X_up.motion(i, added[parents[i]]) if parents[i] >= 0 else still
        joint_force = sum(matvec(transpose(U[i]), added[i]) for i in U)
        if D is None:
            qdd_out[..., at], tau_out[..., at] = prescribed[..., at], joint_force + u
            continue
        rates = _solve(D, (u - joint_force)[..., None])[..., 0]
        qdd_out[..., at], tau_out[..., at] = rates, tau[..., at]
        added |= {i: added[i] + matvec(S[i], rates) for i in cluster.bodies}
    return qdd_out, tau_out
