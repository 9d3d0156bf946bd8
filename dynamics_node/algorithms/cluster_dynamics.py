"""Inverse and forward dynamics of a robot with loops, on symbols of one state (paper 3, secs. V and VI).

Motion and wrenches of the bodies are those of the tree at qd = G yd, qdd = G ydd + g; so C-RNEA is RNEA
between G and G^T, see quantities.py. C-ABA lets clusters give way as a whole: a joint is a cluster of one.
"""

from typing import NamedTuple

import numpy as np

from dynamics_node.algorithms.accelerations import body_motions, body_wrenches
from dynamics_node.algorithms.jacobian import frame_jacobian, frame_pose
from dynamics_node.algorithms.quantity_ways import inverse_dynamics, mass_matrix
from dynamics_node.algorithms.recursion import rotor_inertia
from dynamics_node.algorithms.transforms import joint_transforms
from dynamics_node.symbolic import inverse_congruence, matvec, rotation_transform, solve_definite, symmetric


def hybrid_dynamics(robot, rates, q, known, f_ext=None, gravity=None, *, forward):
    """What is asked (..., nv), through the mass matrix: RBDA section 9.1, O(nv^3).

    rates: explicit. known (..., nv): tau where forward (nv,) bool is true, qdd elsewhere; asked is the other
    one of the two.
    """
    (M,) = mass_matrix(robot, rates, q)
    tau = inverse_dynamics(robot, rates, q, np.where(forward, 0.0, known), f_ext, gravity)
    free = np.flatnonzero(forward)
    if not free.size:
        return tau
    M_free = M[..., free[:, None], free]
    qdd = solve_definite(M_free, (known - tau)[..., free, None])[..., 0]
    asked = tau + matvec(M[..., free], qdd)
    asked[..., free] = qdd
    return asked


class _Given(NamedTuple):
    """What the inward sweep leaves of a cluster: S by body; U by the bodies outside that it hangs on, seen
    from there; D, u."""

    S: dict
    U: dict
    D: np.ndarray
    u: np.ndarray


def forward_dynamics(robot, rates, q, tau, f_ext=None, gravity=None):
    """qdd (nv,) by C-ABA. Eqs. (52), (55), (56); what velocities and gravity do comes first, with qdd = 0, as
    in `aba`. rates: explicit."""
    tree = robot.tree
    X_up = joint_transforms(tree, q)
    g = rates.accelerations(np.zeros(robot.nv))
    wrenches = body_wrenches(tree, body_motions(tree, X_up, rates.qd, g, gravity))
    pA = wrenches if f_ext is None else wrenches - f_ext
    return _outward(robot, X_up, _inward(robot, X_up, rates.G, g, pA, tau))


def extended_forces(robot, rates, q, links, reference="world_aligned"):
    """Lambda^-1 (6k, 6k) and J (6k, nv) of k links by C-EFPA. Eq. (62): unit wrenches at the links go to the
    root, each cluster giving way; Lambda^-1 sums what they do on the way. rates: explicit."""
    tree = robot.tree
    X_up = joint_transforms(tree, q)
    still = np.zeros((tree.nbodies, 6))
    given = _inward(robot, X_up, rates.G, np.zeros(tree.nv), still, np.zeros(robot.nv))
    wrenches = [_unit_wrenches(tree, q, link, reference) for link in links]
    total = np.zeros((6 * len(links), 6 * len(links)), dtype=object)
    for cluster, (S, U, D, _) in reversed(list(zip(robot.clusters, given, strict=True))):
        felt = [sum(S[i].T @ P[i] for i in cluster.bodies if i in P) for P in wrenches]
        W = np.concatenate([np.zeros((len(D), 6)) if isinstance(w, int) else w for w in felt], axis=1)
        total = total + inverse_congruence(D, W.T)
        solved = solve_definite(D, W) if U else W
        for k, P in enumerate(wrenches):
            if not isinstance(felt[k], int):
                _carry(tree, X_up, cluster, P)
                for parent, own in U.items():
                    P[parent] = P[parent] - own @ solved[:, 6 * k : 6 * k + 6]
    J = np.concatenate([rates.columns(frame_jacobian(tree, q, link, reference)) for link in links])
    return symmetric(total), J


def _unit_wrenches(tree, q, link, reference):
    """{body: (6, 6)}: the force on the body of unit wrenches at a link, in the axes of the reference."""
    frame = tree.frame(link)
    if frame.body < 0:
        return {}
    P = frame.X.T
    if reference == "world_aligned":
        P = P @ rotation_transform(frame_pose(tree, q, link)[0]).T
    return {frame.body: P}


def _carry(tree, X_up, cluster, forces):
    """Forces {body: (6, k)} on the bodies of a cluster to the bodies outside that it hangs on, in place."""
    for i in reversed(cluster.bodies):
        parent, own = tree.parents[i], forces.pop(i, None)
        if parent >= 0:
            moved = np.zeros((6, 1)) if own is None else X_up.forces(i, own)
            forces[parent] = forces[parent] + moved if parent in forces else moved


def _inward(mechanism, X_up, G, g, pA, tau):
    """What the inward sweep leaves of every cluster, in their order."""
    tree, pA = mechanism.tree, list(pA)
    inertia = _Inertias(tree.inertias)
    given: list[_Given] = []
    for cluster, own in reversed(list(zip(mechanism.clusters, _columns(mechanism), strict=True))):
        S = _motion_subspace(tree, X_up, cluster, G[:, own])
        rotors = _rotors(tree, cluster, G[:, own], g)
        given.append(_give_way(tree, X_up, cluster, S, inertia, pA, tau[own], rotors))
    return given[::-1]


def _columns(mechanism):
    """Numbers of the independent coordinates of every cluster."""
    at = {v: k for k, v in enumerate(mechanism.independent.tolist())}
    return [[at[v] for v in cluster.independent] for cluster in mechanism.clusters]


def _motion_subspace(tree, X_up, cluster, G):
    """{body: S (6, d)}: eq. (24)."""
    S: dict = {}
    for i in cluster.bodies:
        joint, parent = tree.bodies[i].joint, tree.parents[i]
        S[i] = joint.S @ G[joint.v]
        if parent in S:
            S[i] = S[i] + np.stack([X_up.motion(i, column) for column in S[parent].T], axis=-1)
    return S


def _rotors(tree, cluster, G, g):
    """Inertia (d, d) and force (d,) of the rotor inertias of a cluster's joints."""
    v = sorted((*cluster.independent, *cluster.dependent))
    weighted = G[v].T @ rotor_inertia(tree)[np.ix_(v, v)]
    return weighted @ G[v], weighted @ g[v]


def _give_way(tree, X_up, cluster, S, inertia, pA, tau, rotors):
    """Eliminate a cluster: its inertia and forces go to the bodies outside, less what makes it give way.
    That is subtracted there, where it is one small product, not between all pairs of bodies of the
    cluster."""
    bodies = cluster.bodies
    U = {i: sum(inertia.of(i, j) @ S[j] for j in bodies) for i in bodies}
    D = symmetric(sum(S[i].T @ U[i] for i in bodies) + rotors[0])
    u = tau - sum(S[i].T @ pA[i] for i in bodies) - rotors[1]
    for i in reversed(bodies):
        parent = tree.parents[i]
        inertia.carry(X_up, i, parent)
        if parent >= 0:
            pA[parent] = pA[parent] + X_up.force(i, pA[i])
    _carry(tree, X_up, cluster, U)
    if U:
        solved = solve_definite(D, np.concatenate([*(own.T for own in U.values()), u[:, None]], axis=1))
        _subtract(U, solved, inertia, pA)
    return _Given(S, U, D, u)


def _subtract(U, solved, inertia, pA):
    """U D^-1 U^T and -U D^-1 u, at the bodies outside; solved: D^-1 [U^T u]."""
    for k, (i, own) in enumerate(U.items()):
        pA[i] = pA[i] + own @ solved[:, -1]
        for m, j in enumerate(list(U)[: k + 1]):
            block = own @ solved[:, 6 * m : 6 * m + 6]
            inertia.add(i, j, -symmetric(block) if i == j else -block)


class _Inertias:
    """Blocks (6, 6) of the articulated inertia between bodies: of a pair in either order one is kept."""

    def __init__(self, inertias):
        self._blocks = {(i, i): inertia for i, inertia in enumerate(inertias)}

    def of(self, i, j):
        """The block of rows i, columns j."""
        block = self._blocks.get((max(i, j), min(i, j)))
        if block is None:
            return np.zeros((6, 6))
        return block if i >= j else block.T

    def add(self, i, j, block):
        key, block = ((i, j), block) if i >= j else ((j, i), block.T)
        self._blocks[key] = self._blocks[key] + block if key in self._blocks else block

    def carry(self, X_up, i, parent):
        """Let the parent move with what body i is made of: blocks with i become blocks with the parent."""
        for a, b in [pair for pair in self._blocks if i in pair]:
            block = self._blocks.pop((a, b))
            if parent < 0:
                continue
            if a == b:
                self.add(parent, parent, X_up.inertia(i, block))
                continue
            other, rows = (b, block) if a == i else (a, block.T)
            moved = X_up.forces(i, rows)
            if other == parent:
                self.add(parent, parent, symmetric(moved + moved.T))
            else:
                self.add(parent, other, moved)


def _outward(mechanism, X_up, given):
    """Accelerations ydd (nv,) of the independent joints, from the root to the tips."""
    tree, ydd, added = mechanism.tree, np.zeros(mechanism.nv, dtype=object), dict[int, np.ndarray]()
    columns = _columns(mechanism)
    for cluster, own, (S, U, D, u) in zip(mechanism.clusters, columns, given, strict=True):
        rest = u - sum(U[parent].T @ added[parent] for parent in U)
        ydd[own] = solve_definite(D, rest[:, None])[:, 0]
        inherited: dict[int, np.ndarray] = {}
        for i in cluster.bodies:
            parent = tree.parents[i]
            before = inherited.get(parent, added.get(parent, np.zeros(6)))
            inherited[i] = X_up.motion(i, before) if parent >= 0 else np.zeros(6)
        added.update({i: inherited[i] + S[i] @ ydd[own] for i in cluster.bodies})
    return ydd
