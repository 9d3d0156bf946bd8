"""Joints and bodies that share constraints, and the choice of independent joints."""

import numpy as np

from dynamics_node.errors import ModelError
from dynamics_node.robot.constraints import LoopJoint
from dynamics_node.robot.grouping import Cluster, groups_of, members_of, tied
from dynamics_node.robot.loops.assemblies import assemblies, why_not_assembled
from dynamics_node.robot.loops.newton import brought_nearer
from dynamics_node.robot.state_arrays import moved
from dynamics_node.symbolic import pivoted

WEAK = 1e6  # largest accepted size of K relative to the least of K_dep, for a choice of independent joints
MOVES, TRIED = (1e-2, 1e-4), 8  # rad or m of test moves of independent joints; number of closed positions
PREFERRED = 1024.0  # factor of columns that are preferred as dependent
ROUNDING = 1e-13  # m or rad; opening of a closed loop after Newton's last step


def clusters(tree, constraints, flags):
    """The clusters, in the order of their first bodies: bodies tied by constraints, and every other body
    alone."""
    members = [members_of(tree, constraint) for constraint in constraints]
    for constraint, bodies_of in zip(constraints, members, strict=True):
        if not bodies_of:
            raise ModelError(f"loop {constraint.name!r}: no joint moves its ends against each other")
    for bodies in groups_of(tree, members):
        pairs = zip(constraints, members, strict=True)
        yield _cluster(tree, bodies, tuple(one for one, bodies_of in pairs if bodies_of <= {*bodies}), flags)


def _cluster(tree, bodies, constraints, flags):
    joints = [tree.bodies[i].joint for i in bodies]
    coordinates = [v for joint in joints if joint.masters is None for v in joint.moved_by]
    if not constraints:
        return tied(tree, bodies)
    if any(tree.bodies[i].joint.type.is_free for i in bodies):
        raise ModelError(f"{_names(constraints)}: a floating joint cannot be part of a loop")
    _require_single_positions(tree, constraints)
    candidates = assemblies(tree, constraints, coordinates)
    if not candidates:
        raise ModelError(f"{_names(constraints)}: {why_not_assembled(tree, constraints, coordinates)}")
    marked = _marked(tree, coordinates, flags)
    driven = [k for k, v in enumerate(coordinates) if flags.get(_joint_at(tree, v).name)]
    stuck = []
    for assembly in _fitting(constraints, coordinates, candidates, marked):
        cluster = _assembled(tree, bodies, coordinates, constraints, assembly, marked, driven)
        if (why := _immobility_reason(tree, cluster)) is None:
            return cluster
        stuck.append(why)
    raise ModelError(f"{_names(constraints)}: {stuck[0]}")


def _fitting(constraints, coordinates, candidates, marked):
    """The assemblies with as many dependent joints as the file marks; all if it marks none. Raises
    ModelError."""
    movable = [one for one in candidates if 0 < one.rank < len(coordinates)]
    if marked is None or not movable:
        return candidates
    if fitting := [one for one in movable if one.rank == len(marked)]:
        return fitting
    ranks = " or ".join(map(str, sorted(one.rank for one in movable)))
    raise ModelError(
        f"{_names(constraints)}: {ranks} joints follow from the others, but the file marks {len(marked)} as "
        f"dependent: {', '.join(map(repr, marked.values()))}"
    )


def _assembled(tree, bodies, coordinates, constraints, assembly, marked, driven):
    """The Cluster in an assembly, without independent joints if it is rigid. Raises ModelError for a bad
    choice of joints."""
    rank, K = assembly.rank, assembly.K
    if rank == len(coordinates):
        return Cluster(bodies, constraints, (), tuple(coordinates), assembly.positions)
    if rank == 0:
        dependent = []
    elif marked is None:
        dependent = _dependent_columns(K, rank, [_joint_at(tree, v).name for v in coordinates], driven)
    else:
        dependent = list(marked)
    positions = assembly.positions
    if dependent and not _fit(K, dependent):
        better = _best_columns(K, rank, np.ones(len(coordinates)))
        if _fit(K, better) or not _are_regular(K, dependent).any():
            _raise_bad_choice(tree, constraints, coordinates, dependent, K, better)
        positions = positions[_are_regular(K, dependent)]  # other branches need other dependent joints
    independent = tuple(v for k, v in enumerate(coordinates) if k not in dependent)
    return Cluster(bodies, constraints, independent, tuple(coordinates[k] for k in dependent), positions)


def _require_single_positions(tree, constraints):
    """Raise ModelError for a gear or the like at a joint with several coordinates."""
    several = {v: j for j in tree.independent_joints if not j.type.is_scalar for v in range(tree.nv)[j.v]}
    for constraint in constraints:
        coordinates = () if isinstance(constraint, LoopJoint) else constraint.coordinates
        for joint in (several[v] for v in coordinates if v in several):
            raise ModelError(f"{constraint.name!r}: {joint.kind} joint {joint.name!r} has no single position")


def _immobility_reason(tree, cluster):
    """Why the joints cannot move, or None if they can. A shaky frame moves to first order only: it has no
    other closed position near this one."""
    if not cluster.independent:
        return "the joints of the loop cannot move (mobility 0)"
    stuck = list(cluster.independent) if cluster.dependent else []
    for move in MOVES:
        follow = _follow(tree, cluster, stuck, move)
        stuck = [v for v, follows in zip(stuck, follow, strict=True) if not follows]
    if stuck:
        return (
            f"{tree.v_names[stuck[0]]!r} cannot move: the loop closes at isolated positions only "
            "(mobility 0, though its equations leave a motion to first order)"
        )
    return None


def _follow(tree, cluster, independent, move):
    """Whether the dependent joints can follow a move of each of some independent ones from a closed position,
    to rounding. A shaky frame misses by the square of the move."""
    tried = cluster.samples[:TRIED]
    starts = np.concatenate(
        [tried[:0], *(moved(tree, tried, [v], np.full((len(tried), 1), move)) for v in independent)]
    )
    _, still_open = brought_nearer(tree, cluster.constraints, cluster.dependent, starts, ROUNDING)
    return (still_open.reshape(len(independent), len(tried)) < ROUNDING).any(axis=1)


def _are_regular(K, dependent):
    """(count,): at which positions dependent columns of K (count, rows, n) follow from the others."""
    largest, least = (np.linalg.svd(one, compute_uv=False) for one in (K, K[:, :, dependent]))
    return least[:, -1] * WEAK >= largest[:, 0]


def _fit(K, dependent):
    """Whether dependent columns follow from the others at most positions."""
    return np.mean(_are_regular(K, dependent)) >= 0.5


def _raise_bad_choice(tree, constraints, coordinates, dependent, K, better):
    regular = _are_regular(K, dependent)
    given, alternative = (
        ", ".join(repr(tree.v_names[v]) for k, v in enumerate(coordinates) if k not in taken)
        for taken in (dependent, better)
    )
    advice = f"use {alternative}" if _fit(K, better) else "other choices do not, either"
    raise ModelError(
        f"{_names(constraints)}: {given} cannot be the independent joints: they do not determine the others "
        f"at {(~regular).sum()} of {len(regular)} closed positions; {advice}"
    )


def _names(constraints):
    return ", ".join(repr(constraint.name) for constraint in constraints)


def _marked(tree, coordinates, flags):
    """{index of the coordinate: joint} of the dependent joints that the file marks; None if it marks none."""
    joints = {k: _joint_at(tree, v).name for k, v in enumerate(coordinates)}
    return {k: name for k, name in joints.items() if flags.get(name) is False} or None


def _joint_at(tree, v):
    """The joint with a velocity coordinate."""
    return next(joint for joint in tree.independent_joints if joint.v.start <= v < joint.v.stop)


def _dependent_columns(K, rank, owners, driven):
    """Well-conditioned dependent columns, if possible without `driven` ones, and with all coordinates of a
    joint or none. owners: the joint of every column."""
    weights = np.ones(len(owners))
    weights[driven] = 1.0 / PREFERRED
    columns = _best_columns(K, rank, weights)
    if _are_whole(columns, owners):
        return columns
    several = [PREFERRED if owners.count(name) > 1 else 1.0 for name in owners]
    other = _best_columns(K, rank, weights * several)
    return other if _are_whole(other, owners) and _fit(K, other) else columns


def _are_whole(columns, owners):
    chosen = {owners[k] for k in columns}
    return len(columns) == sum(name in chosen for name in owners)


def _best_columns(K, rank, weights):
    """Columns of K (count, rows, n) that are well conditioned at most positions: the best at the first
    position, or, if those fail on other branches of assembly, those that are at the most positions."""
    columns = _by_rank(K[0], rank, weights)
    if _fit(K, columns):
        return columns
    choices = [_by_rank(one, rank, weights) for one in K]
    return max(choices, key=lambda columns: np.count_nonzero(_are_regular(K, columns)))


def _by_rank(K, rank, weights):
    """The best conditioned columns, by pivoting: those of larger weight preferred; of equal ones the last,
    since rotors and passive joints come after their parents."""
    order, _ = pivoted((K * weights).T[::-1], rank)
    return sorted(K.shape[1] - 1 - k for k in order)
