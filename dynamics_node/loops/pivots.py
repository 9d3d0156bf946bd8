"""Whether the projected mass matrix G^T M G is regular at a position, as that of a tree in
algorithms/pivots.py.

It is at every position where M of the tree is: G has one row of its own for every independent joint. M can be
singular only with links that have almost no mass. Then an independent joint is still beyond doubt if its own
body has some and hangs on independent joints alone: these are held when its pivot is left over. The others
are `weak`, as the crank of a linkage whose rocker alone has mass: at the rocker's turning points it moves
nothing.
"""

import numpy as np

from dynamics_node.algorithms import crba, pivots
from dynamics_node.loops.rates import SINGULAR
from dynamics_node.loops.spanning import closure_matrix
from dynamics_node.spatial import transpose


def weak_coordinates(mechanism, forward=None):
    """Which independent coordinates (nv,), of those where `forward` (nv,) is true, have a pivot that may
    vanish."""
    tree = mechanism.tree
    chosen = np.ones(mechanism.nv, dtype=bool) if forward is None else np.asarray(forward, dtype=bool)
    massless = pivots.weak_coordinates(tree)
    if not massless.any():
        return np.zeros(mechanism.nv, dtype=bool)
    return chosen & (massless | _behind_dependent(mechanism))[mechanism.independent]


def _behind_dependent(mechanism):
    """Coordinates of the tree (nv of the tree,) of joints that hang on a dependent one."""
    tree, independent = mechanism.tree, set(mechanism.independent.tolist())
    behind = np.zeros(tree.nv, dtype=bool)
    for i, body in enumerate(tree.bodies):
        above = [tree.bodies[k].joint.v.start for k in tree.ancestors[i] if k != i]
        behind[body.joint.v] = not independent.issuperset(above)
    return behind


def singularity(mechanism, q, G, M, forward, watched):
    """What a mass matrix M (nv, nv) that is nearly singular adds to the condition of the constraints, on
    symbols, so that beyond SINGULAR either fails. forward, watched (nv,) bool: as of
    `algorithms.pivots.losses`; G (nv of the tree, nv)."""
    loss = pivots.losses(M, forward, watched, _scale(mechanism, q, G))
    return SINGULAR / pivots.HEALTHY[0] * pivots.health(loss)[0]


def _scale(mechanism, q, G):
    """Of what size the numbers are that a pivot is left over from: (..., nv)."""
    moved = transpose(G * G) @ pivots.inertia_scale(mechanism.tree, q)[..., None]
    sharing = {v: 1 + len(own.dependent) for own in mechanism.clusters for v in own.independent}
    return moved[..., 0] * np.array([float(sharing[v]) for v in mechanism.independent.tolist()])


def singular(mechanism, q, forward, watched):
    """As `algorithms.pivots.singular`, at closed positions q (..., nq)."""
    G = closure_matrix(mechanism, q)
    M = transpose(G) @ crba(mechanism.tree, q) @ G
    return pivots.lost(pivots.losses(M, forward, watched, _scale(mechanism, q, G)), watched)


def why_singular(mechanism, forward, q):
    """As `algorithms.pivots.why_singular`, at closed positions q (..., nq)."""
    watched = weak_coordinates(mechanism, forward)
    if not watched.any():
        return None
    found = singular(mechanism, np.asarray(q, dtype=float), np.asarray(forward, dtype=bool), watched)
    return pivots.in_words(mechanism, found.reshape(-1, mechanism.nv).any(axis=0))
