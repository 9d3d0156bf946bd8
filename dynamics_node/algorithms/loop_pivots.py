"""Whether the mass matrix G^T M G of a robot is regular at a position: see algorithms/pivots.py for its tree.

It is at every position where M of the tree is: G has one row of its own for every independent joint. M can be
singular only with links that have almost no mass. Then an independent joint is still beyond doubt if its own
body has some and hangs on independent joints alone: these are fixed when its pivot is left over. The others
are `weak`, as the crank of a linkage whose rocker alone has mass: at the rocker's turning points it moves
nothing.
"""

import numpy as np

from dynamics_node.algorithms import pivots
from dynamics_node.algorithms.crba import crba
from dynamics_node.algorithms.spanning import sampled_rates


def weak_coordinates(robot, forward=None):
    """Which independent coordinates (nv,), of those where `forward` (nv,) is true, have a pivot that may
    vanish."""
    chosen = np.ones(robot.nv, dtype=bool) if forward is None else np.asarray(forward, dtype=bool)
    massless = pivots.weak_coordinates(robot.tree)
    if not massless.any():
        return np.zeros(robot.nv, dtype=bool)
    return chosen & (massless | _behind_dependent(robot))[robot.independent]


def _behind_dependent(robot):
    """Coordinates of the tree (nv of the tree,) of joints that hang on a dependent one."""
    tree, independent = robot.tree, set(robot.independent.tolist())
    behind = np.zeros(tree.nv, dtype=bool)
    for i, body in enumerate(tree.bodies):
        above = {v for k in tree.ancestors[i] if k != i for v in tree.bodies[k].joint.moved_by}
        behind[body.joint.v] = not independent.issuperset(above)
    return behind


def pivot_health(robot, rates, q, forward, watched):
    """`algorithms.pivots.health` (1,) of the mass matrix at q (nq,), on symbols. rates: explicit ones of the
    robot; forward, watched (nv,) bool as of `algorithms.pivots.losses`."""
    M = rates.congruence(crba(robot.tree, q))
    return pivots.health(pivots.losses(M, forward, watched, _scale(robot, rates, q)))


def _scale(robot, rates, q):
    """Of what size the numbers are that a pivot is left over from: (..., nv)."""
    sharing = {v: 1.0 + len(own.dependent) for own in robot.clusters for v in own.independent}
    sizes = rates.squares(pivots.inertia_scale(robot.tree, q))
    return sizes * np.array([sharing[v] for v in robot.independent.tolist()])


def singular(robot, q, forward, watched):
    """(..., nv) bool at closed positions q (..., nq): coordinates, of those `watched` (nv,), that can move
    without moving any mass, those where `forward` (nv,) is false being fixed."""
    q = np.asarray(q, dtype=float)
    rates = sampled_rates(robot, q)
    M = rates.congruence(crba(robot.tree, q))
    return pivots.lost(pivots.losses(M, forward, watched, _scale(robot, rates, q)), watched)


def why_singular(robot, forward, q):
    """Why torques determine no accelerations at one of the positions q (..., nq), joints by name, or None."""
    watched = weak_coordinates(robot, forward)
    if not watched.any():
        return None
    lost = singular(robot, q, np.asarray(forward, dtype=bool), watched)
    return pivots.in_words(robot, lost.reshape(-1, robot.nv).any(axis=0))
