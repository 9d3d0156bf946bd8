"""Joints and bodies that share constraints, and which of the joints tell the others."""

import numpy as np

from dynamics_node.algorithms.tangent import moved
from dynamics_node.loops.constraints import members_of, position_program
from dynamics_node.loops.equations import RANK
from dynamics_node.loops.first_positions import closed_anywhere, closed_near
from dynamics_node.loops.kinds import Linear, LoopJoint, coordinates_of
from dynamics_node.loops.mechanism import Cluster
from dynamics_node.model import ModelError
from dynamics_node.program import interpret
from dynamics_node.spatial import pivoted

REACHES = (1.5, 0.2)  # rad or m from zero where closed positions are looked for
MOST = 0.8  # of the closed positions that must have one rank
WEAK = 1e6  # condition of K_dep beyond which a choice of independent joints is refused
MOVES, TRIED = (1e-2, 1e-4), 8  # rad or m that independent joints are moved by, at so many closed positions
ROUNDING = 1e-13  # m or rad that a closed loop is open by after Newton's last step


def clusters(tree, constraints, flags):
    """In the order of their first bodies: those that constraints tie, and every other body alone."""
    groups: list[tuple[set, list]] = []
    for constraint in constraints:
        members, tied = members_of(tree, constraint), [constraint]
        if not members:
            raise ModelError(f"loop {constraint.name!r}: no joint moves its ends against each other")
        for other in [group for group in groups if group[0] & members]:
            groups.remove(other)
            members, tied = members | other[0], other[1] + tied
        groups.append((members, tied))
    taken = set().union(*(members for members, _ in groups))
    groups += [({i}, []) for i in range(tree.nbodies) if i not in taken]
    for members, tied in sorted(groups, key=lambda group: min(group[0])):
        yield _cluster(tree, tuple(sorted(members)), tuple(tied), flags)


def _cluster(tree, bodies, constraints, flags):
    coordinates = [v for i in bodies for v in range(tree.nv)[tree.bodies[i].joint.v]]
    if not constraints:
        return Cluster(bodies, (), tuple(coordinates), (), np.zeros((0, tree.nq)))
    if any(tree.bodies[i].joint.type.is_free for i in bodies):
        raise ModelError(f"{_names(constraints)}: a floating joint can take no part in a loop")
    _require_single_positions(tree, constraints)
    K, rank, samples = _usual_positions(tree, constraints, coordinates)
    if rank == 0:
        return Cluster(bodies, constraints, tuple(coordinates), (), samples)
    if rank == len(coordinates):
        raise ModelError(f"{_names(constraints)}: the joints of the loop cannot move (mobility 0)")
    dependent = _dependent(tree, bodies, coordinates, constraints, flags, K, rank)
    if (usual := _usual_condition(K, dependent)) > WEAK:
        _refuse(tree, constraints, coordinates, dependent, _following_best(K, rank), usual)
    independent = tuple(v for k, v in enumerate(coordinates) if k not in dependent)
    cluster = Cluster(bodies, constraints, independent, tuple(coordinates[k] for k in dependent), samples)
    _require_motion(tree, cluster)
    return cluster


def _require_single_positions(tree, constraints):
    """Raise ModelError for a gear or the like at a joint with several coordinates."""
    several = {v: j for j in tree.independent_joints if not j.type.is_scalar for v in range(tree.nv)[j.v]}
    for constraint in constraints:
        coordinates = () if isinstance(constraint, LoopJoint) else coordinates_of(constraint)
        for joint in (several[v] for v in coordinates if v in several):
            raise ModelError(f"{constraint.name!r}: {joint.kind} joint {joint.name!r} has no single position")


def _require_motion(tree, cluster):
    """Raise ModelError where an independent joint moves to first order alone: such a frame shakes, and no
    other position is near in which it is closed."""
    for v in cluster.independent:
        if not any(_follow(tree, cluster, v, move) for move in MOVES):
            raise ModelError(
                f"{_names(cluster.constraints)}: {tree.v_names[v]!r} cannot move: the loop is closed at "
                "single positions (mobility 0, though its equations leave a motion to first order)"
            )


def _follow(tree, cluster, v, move):
    """Whether the dependent joints can follow when an independent one is moved from a closed position, to
    rounding: what shakes misses by the square of the move."""
    tried = cluster.samples[:TRIED]
    start = moved(tree, tried, [v], np.full((len(tried), 1), move))
    return len(closed_near(tree, cluster.constraints, cluster.dependent, start, ROUNDING)) > 0


def _usual_condition(K, dependent):
    return np.float32(np.median(np.linalg.cond(K[:, :, dependent])))  # without digits of the processor


def _refuse(tree, constraints, coordinates, dependent, better, usual):
    given, could = (
        ", ".join(repr(tree.v_names[v]) for k, v in enumerate(coordinates) if k not in taken)
        for taken in (dependent, better)
    )
    raise ModelError(
        f"{_names(constraints)}: {given} cannot be the independent joints, the others do not follow from "
        f"them (condition {usual:.3g}); {could} could"
    )


def _names(constraints):
    return ", ".join(repr(constraint.name) for constraint in constraints)


def _usual_positions(tree, constraints, coordinates):
    """K (count, rows, coordinates) at closed positions of usual rank, the best conditioned first, that rank,
    and the positions (count, nq): degenerate ones do not decide. Where elsewhere the joints are assembled in
    other, rigid ways, those near zero do."""
    for reach in REACHES:
        closed = closed_anywhere(tree, constraints, coordinates, np.random.default_rng(7), reach)
        if not len(closed):
            raise ModelError(f"{_names(constraints)}: no position was found in which the loop is closed")
        K = interpret(position_program(tree, constraints), q=closed)["K"][:, :, coordinates]
        sizes = np.linalg.svd(K, compute_uv=False)
        ranks = (sizes > RANK * sizes[:, :1]).sum(axis=1)
        usual = int(np.bincount(ranks).argmax())
        if (ranks == usual).mean() >= MOST:
            keep = np.flatnonzero(ranks == usual)
            if usual:
                least = sizes[keep, usual - 1].astype(np.float32)  # of equal ones the first
                keep = keep[np.argsort(-least, kind="stable")]
            return K[keep], usual, closed[keep]
    raise ModelError(
        f"{_names(constraints)}: the number of independent equations changes with the position "
        f"({sorted(set(ranks.tolist()))}): no fixed choice of rows is consistent"
    )


def _dependent(tree, bodies, coordinates, constraints, flags, K, rank):
    """Places among the coordinates of the dependent joints: as the file says; else those that mimic, and of
    the others those that follow best."""
    joints = [tree.bodies[i].joint for i in bodies]
    names = {v: joint.name for joint in joints for v in range(tree.nv)[joint.v]}
    flagged = [k for k, v in enumerate(coordinates) if flags.get(names[v]) is False]
    mimics = {constraint.name for constraint in constraints if isinstance(constraint, Linear)}
    followers = [k for k, v in enumerate(coordinates) if names[v] in mimics]
    if not flagged:
        return _whole_joints_if_possible(K, rank, followers, [names[v] for v in coordinates])
    marked = sorted({*flagged, *followers})
    if len(marked) != rank:
        named = ", ".join(repr(names[coordinates[k]]) for k in marked)
        raise ModelError(
            f"{_names(constraints)}: {rank} joints follow from the others, but the file marks {len(marked)} "
            f"as dependent: {named}"
        )
    return marked


def _whole_joints_if_possible(K, rank, first, owners):
    """Columns that follow well, with all coordinates of a joint among them or none where there is such a
    choice. owners: the joint of every column."""
    found = _following_best(K, rank, first)
    if _are_whole(found, owners):
        return found
    several = [k for k, name in enumerate(owners) if owners.count(name) > 1]
    other = _following_best(K, rank, [*first, *several])
    return other if _are_whole(other, owners) and _usual_condition(K, other) <= WEAK else found


def _are_whole(columns, owners):
    chosen = {owners[k] for k in columns}
    return len(columns) == sum(name in chosen for name in owners)


def _following_best(K, rank, first=()):
    """Columns of K (count, rows, n) that follow well at most positions: those that follow best at one, and
    where that is another branch of assembly, those that do at most."""
    found = _by_rank(K[0], rank, first)
    if _usual_condition(K, found) <= WEAK:
        return found
    choices = [_by_rank(one, rank, first) for one in K]
    return min(choices, key=lambda columns: _usual_condition(K, columns))


def _by_rank(K, rank, first=()):
    """Columns that follow best, by pivots: some of them first; of equal ones the later, for rotors
    and passive joints come after what they hang on."""
    weights = np.ones(K.shape[1])
    weights[list(first)] = 1e3
    order, _ = pivoted((K * weights).T[::-1], rank)
    return sorted(K.shape[1] - 1 - k for k in order)
