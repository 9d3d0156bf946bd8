"""Whether the mass matrix is regular at a position.

In an elimination from the tips to the root, the pivot of a coordinate is the inertia that its joint moves
while the joints of its subtree are free: D = S^T IA S of the articulated-body algorithm (RBDA section 7.2).
No body has a negative inertia, so the pivot is never less than the share of the joint's own body. One look at
a robot thus determines the coordinates whose pivot can vanish at some position; few robots have any. Those
are `weak`. Generated code checks the inertia that their joints move while all others, before and behind, are
free: 1 / (M^-1)_kk. No elimination order can hide a singularity from that. Several small pivots, one left
over from the other, may each be far from zero while M is singular.

For a robot with loops the matrix is G^T M G. It is regular at every position at which M of the tree is: G has
one row of its own for every independent joint. If links have almost no mass, an independent joint is still
safe if its own body has mass and all joints above it are independent: these are fixed when its pivot is
computed. The others are weak, for example the crank of a linkage in which only the rocker has mass: at the
rocker's turning points it moves nothing.
"""

import numpy as np

from dynamics_node.algorithms.crba import crba
from dynamics_node.algorithms.first_positions import generic_positions
from dynamics_node.algorithms.rates import sampled_rates
from dynamics_node.errors import ModelError
from dynamics_node.robot.robot import cached_on_robot
from dynamics_node.robot.transforms import joint_transforms
from dynamics_node.symbolic import definite_pivots, inverse_diagonal

ZERO = 1e-12  # a pivot relative to the numbers it is left over from
# Limit of `health`: the square of a loss that leaves two digits of an apparent inertia. Accelerations are
# accurate to 100 eps times the condition of M, which is as large there.
LARGEST_LOSS = np.array([1e26])
FAR = 1e3  # m, the longest slide


def weak_coordinates(robot, forward=None):
    """Which independent coordinates (nv,) of those where `forward` (nv,) is true have a pivot that may
    vanish."""
    return _weak(robot) if forward is None else _weak(robot) & np.asarray(forward, dtype=bool)


@cached_on_robot
def _weak(robot):
    massless = _weak_of_tree(robot.tree)
    if not massless.any():
        return np.zeros(robot.nv, dtype=bool)
    return (massless | _behind_dependent(robot))[robot.independent]


def _weak_of_tree(robot):
    """Coordinates (nv of the tree,) whose pivot may vanish."""
    sure = _least_pivots(robot) >= ZERO * inertia_scale(robot, _stretched(robot)[None])[0]
    return ~(sure & _all_definite(robot))


def require_watched(robot, coordinates):
    """Raise ModelError, with the joints by name, if coordinates (nv,) may be singular and are not checked by
    the solver."""
    names = [joint.name for joint in robot.independent_joints if coordinates[joint.v].any()]
    if names:
        raise ModelError(
            f"forward dynamics: the body of {', '.join(map(repr, names))} has almost no mass compared to its "
            "subtree, and this solver does not check for that: build one for this Robot"
        )


def total_loss(loss):
    """(..., 1): the sum of the squares of losses (..., k), up to LARGEST_LOSS."""
    return (loss * loss).sum(axis=-1, keepdims=True)


def losses(M, forward, watched, scale):
    """Ratios by which the apparent inertias of joints, while all others are free, are smaller than the
    numbers they are left over from: scale_k (M^-1)_kk (..., k) of the coordinates `watched` (nv,), with those
    fixed where `forward` (nv,) is false. M (..., nv, nv), scale (..., nv)."""
    free = np.flatnonzero(forward)
    return scale[..., watched] * inverse_diagonal(M[..., free[:, None], free], watched[free])


def lost(loss, watched):
    """A mask (..., nv) of the coordinates `watched` (nv,) whose losses (..., k) exceed LARGEST_LOSS."""
    mask = np.zeros((*loss.shape[:-1], len(watched)), dtype=bool)
    with np.errstate(all="ignore"):
        mask[..., watched] = ~(loss * loss <= LARGEST_LOSS)
    return mask


def singularity_message(robot, coordinates):
    """A message that the joints of `coordinates` (nv,) bool move without moving mass; None if there are
    none."""
    names = [joint.name for joint in robot.independent_joints if coordinates[joint.v].any()]
    if not names:
        return None
    return (
        f"{', '.join(map(repr, names))} can move almost without moving any mass at this position: torques do "
        "not determine the accelerations (singular mass matrix)"
    )


def inertia_scale(robot, q):
    """The size (..., nv) at q (..., nq) of the numbers that an apparent inertia is left over from. For every
    coordinate: mass and moment of inertia of its subtree, with levers added up without their directions, so
    that nothing cancels."""
    X_up = joint_transforms(robot, q)
    composite = [mass_moments(inertia) for inertia in robot.inertias]
    scale = np.zeros((*q.shape[:-1], robot.nv), q.dtype)
    sharing = np.zeros(robot.nv)
    for i in reversed(range(robot.nbodies)):
        joint, parent = robot.bodies[i].joint, robot.parents[i]
        moment, mass = composite[i]
        scale[..., joint.v] = scale[..., joint.v] + joint_scale(joint.S, moment, mass)
        sharing[joint.v] += 1
        if parent >= 0:
            moment_above, mass_above = composite[parent]
            composite[parent] = moment_above + moved_moment(moment, mass, X_up.origin(i)), mass_above + mass
    return scale * sharing + (robot.axle_map**2).T @ robot.armature


def mass_moments(inertia):
    """Trace of the moments, and mass, of an inertia (6, 6)."""
    return np.array([inertia[0, 0] + inertia[1, 1] + inertia[2, 2], inertia[5, 5]])


def moved_moment(moment, mass, r):
    """The moment about the parent's origin, r (..., 3) away."""
    return moment + mass * (r * r).sum(axis=-1)


def joint_scale(S, moment, mass):
    """The size (..., k) for a joint that turns all of a moment (...) and shifts all of a mass."""
    turning, sliding = ((part * part).sum(axis=0) for part in (S[:3], S[3:]))
    return np.asarray(moment)[..., None] * turning + mass * sliding


def _stretched(robot):
    """q (nq,) with all slides at the longest one."""
    q = robot.neutral()
    for joint in (body.joint for body in robot.bodies):
        q[[joint.q.start + k for k in joint.type.lengths]] = FAR
    return q


def _least_pivots(robot):
    """For every coordinate (nv,), the smallest pivot at any position: that of the joint's body alone, with
    all joints before it fixed."""
    least = np.array(robot.armature[: robot.nv], dtype=float)
    before = np.full(robot.nbodies + 1, -1)  # last coordinate above a body; the root has the last entry
    for i, (body, parent) in enumerate(zip(robot.bodies, robot.parents, strict=True)):
        at, S = body.joint.v, body.joint.S
        if before[parent] < at.start and len(body.joint.moved_by) == S.shape[1]:
            with np.errstate(all="ignore"):
                pivots = definite_pivots(S.T @ body.inertia @ S)
            least[at] += np.nan_to_num(pivots)
        before[i] = max(before[parent], at.stop - 1)
    return least


def _all_definite(robot):
    """Whether no body has a negative inertia."""
    eigenvalues = np.linalg.eigvalsh(robot.inertias)
    return bool((eigenvalues[:, 0] >= -ZERO * eigenvalues[:, -1]).all()) if robot.nbodies else True


# --- at positions -------------------------------------------------------------------------------------------


def _behind_dependent(robot):
    """Coordinates of the tree (nv of the tree,) of joints below a dependent one."""
    tree, independent = robot.tree, set(robot.independent.tolist())
    behind = np.zeros(tree.nv, dtype=bool)
    for i, body in enumerate(tree.bodies):
        above = {v for k in tree.ancestors[i] if k != i for v in tree.bodies[k].joint.moved_by}
        behind[body.joint.v] = not independent.issuperset(above)
    return behind


def pivot_health(robot, rates, q, forward, watched):
    """`algorithms.health` (1,) of the mass matrix at q (nq,), on symbols. rates: explicit ones of the robot;
    forward, watched (nv,) bool as in `algorithms.losses`."""
    M = rates.congruence(crba(robot.tree, q))
    return total_loss(losses(M, forward, watched, _scale(robot, rates, q)))


def _scale(robot, rates, q):
    """The size (..., nv) of the numbers that a pivot is left over from."""
    sharing = {v: 1.0 + len(cluster.dependent) for cluster in robot.clusters for v in cluster.independent}
    sizes = rates.squares(inertia_scale(robot.tree, q))
    return sizes * np.array([sharing[v] for v in robot.independent.tolist()])


def singular(robot, q, forward, watched):
    """(..., nv) bool at closed positions q (..., nq): the coordinates of `watched` (nv,) that can move
    without moving any mass, with those fixed where `forward` (nv,) is false."""
    q = np.asarray(q, dtype=float)
    rates = sampled_rates(robot, q)
    M = rates.congruence(crba(robot.tree, q))
    return lost(losses(M, forward, watched, _scale(robot, rates, q)), watched)


def why_singular(robot, forward, q):
    """Why torques determine no accelerations at one of the positions q (..., nq), joints by name, or None."""
    watched = weak_coordinates(robot, forward)
    if not watched.any():
        return None
    lost = singular(robot, q, np.asarray(forward, dtype=bool), watched)
    return singularity_message(robot, lost.reshape(-1, robot.nv).any(axis=0))


# --- at every position --------------------------------------------------------------------------------------


def require_determined(robot, forward):
    """Raise ModelError, with the joints by name, if torques of the joints where `forward` (nv,) is true do
    not determine the accelerations at any position."""
    names = undetermined_joints(robot, forward)
    if names:
        listed = ", ".join(map(repr, names))
        raise ModelError(
            f"forward dynamics: {listed} can move without moving any mass or rotor, so no torque determines "
            "their accelerations (singular mass matrix): give a link below them mass and inertia, or a "
            "joint an armature"
        )


def undetermined_joints(robot, forward=None) -> tuple[str, ...]:
    """Names of joints that can move without moving any mass or rotor, with those outside `forward` fixed.
    There is none if every coordinate moves mass and none is weak."""
    chosen = np.ones(robot.nv, dtype=bool) if forward is None else np.asarray(forward, dtype=bool)
    free = np.zeros(robot.nv, dtype=bool)
    moving = (_least_pivots(robot.tree) > 0.0).all()
    if chosen.any() and (not moving or weak_coordinates(robot, chosen).any()):
        q = generic_positions(robot)
        M = sampled_rates(robot, q).congruence(crba(robot.tree, q))[:, chosen][:, :, chosen]
        M = M[np.isfinite(M).all(axis=(1, 2))]
        free[chosen] = free_coordinates(M) if len(M) else False
    return tuple(joint.name for joint in robot.independent_joints if free[joint.v].any())


def free_coordinates(M):
    """Which coordinates (n,) bool move in the null space that mass matrices M (states, n, n) share at all
    states."""
    size = np.sqrt(np.maximum(np.einsum("...kk->...k", M), 0.0))
    scale = np.where(size > 0, size, 1.0)
    values, vectors = np.linalg.eigh(M / (scale[:, :, None] * scale[:, None, :]))
    missing = (values < ZERO).sum(axis=-1).min()
    state = np.argmax(values[:, missing] if missing < M.shape[-1] else values[:, -1])
    return np.abs(vectors[state, :, :missing]).max(axis=-1, initial=0.0) > 1e-6
