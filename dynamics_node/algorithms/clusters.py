"""Joints and bodies that share constraints, and which of the joints tell the others."""

import numpy as np

from dynamics_node.algorithms.assemblies import assemblies
from dynamics_node.algorithms.constraint_equations import members_of
from dynamics_node.algorithms.first_positions import closed_near
from dynamics_node.robot import Cluster, ModelError
from dynamics_node.robot.constraints import LoopJoint
from dynamics_node.robot.robot import groups_of
from dynamics_node.robot.state_arrays import moved
from dynamics_node.symbolic import pivoted

WEAK = 1e6  # condition of K_dep beyond which a choice of independent joints is refused
MOVES, TRIED = (1e-2, 1e-4), 8  # rad or m that independent joints are moved by, at so many closed positions
ROUNDING = 1e-13  # m or rad that a closed loop is open by after Newton's last step


def clusters(tree, constraints, flags):
    """In the order of their first bodies: those that constraints tie, and every other body alone."""
    members = [set(members_of(tree, constraint)) for constraint in constraints]
    for constraint, own in zip(constraints, members, strict=True):
        if not own:
            raise ModelError(f"loop {constraint.name!r}: no joint moves its ends against each other")
    for bodies in groups_of(tree, members):
        pairs = zip(constraints, members, strict=True)
        yield _cluster(tree, bodies, tuple(one for one, own in pairs if own <= {*bodies}), flags)


def _cluster(tree, bodies, constraints, flags):
    joints = [tree.bodies[i].joint for i in bodies]
    coordinates = [v for joint in joints if joint.masters is None for v in joint.moved_by]
    if not constraints:
        return Cluster(bodies, (), tuple(coordinates), (), np.zeros((0, tree.nq)))
    if any(tree.bodies[i].joint.type.is_free for i in bodies):
        raise ModelError(f"{_names(constraints)}: a floating joint can take no part in a loop")
    _require_single_positions(tree, constraints)
    found = assemblies(tree, constraints, coordinates)
    if not found:
        raise ModelError(f"{_names(constraints)}: no position was found in which the loop is closed")
    marked = _marked(tree, coordinates, flags)
    stuck = []
    for assembly in _fitting(constraints, coordinates, found, marked):
        cluster = _assembled(tree, bodies, coordinates, constraints, assembly, marked)
        if (why := _why_stuck(tree, cluster)) is None:
            return cluster
        stuck.append(why)
    raise ModelError(f"{_names(constraints)}: {stuck[0]}")


def _fitting(constraints, coordinates, found, marked):
    """The assemblies with as many dependent joints as the file marks; all if it marks none. Raises
    ModelError."""
    movable = [one for one in found if 0 < one.rank < len(coordinates)]
    if marked is None or not movable:
        return found
    if fitting := [one for one in movable if one.rank == len(marked)]:
        return fitting
    ranks = " or ".join(map(str, sorted(one.rank for one in movable)))
    raise ModelError(
        f"{_names(constraints)}: {ranks} joints follow from the others, but the file marks {len(marked)} as "
        f"dependent: {', '.join(map(repr, marked.values()))}"
    )


def _assembled(tree, bodies, coordinates, constraints, assembly, marked):
    """The Cluster in an assembly, with no independent joint where it is rigid. Raises ModelError for a bad
    choice of joints."""
    rank, K = assembly.rank, assembly.K
    if rank == len(coordinates):
        return Cluster(bodies, constraints, (), tuple(coordinates), assembly.positions)
    if rank == 0:
        dependent = []
    elif marked is None:
        dependent = _whole_joints_if_possible(K, rank, [_joint_at(tree, v).name for v in coordinates])
    else:
        dependent = list(marked)
    if dependent and (usual := _usual_condition(K, dependent)) > WEAK:
        _refuse(tree, constraints, coordinates, dependent, _following_best(K, rank), usual)
    independent = tuple(v for k, v in enumerate(coordinates) if k not in dependent)
    return Cluster(
        bodies, constraints, independent, tuple(coordinates[k] for k in dependent), assembly.positions
    )


def _require_single_positions(tree, constraints):
    """Raise ModelError for a gear or the like at a joint with several coordinates."""
    several = {v: j for j in tree.independent_joints if not j.type.is_scalar for v in range(tree.nv)[j.v]}
    for constraint in constraints:
        coordinates = () if isinstance(constraint, LoopJoint) else constraint.coordinates
        for joint in (several[v] for v in coordinates if v in several):
            raise ModelError(f"{constraint.name!r}: {joint.kind} joint {joint.name!r} has no single position")


def _why_stuck(tree, cluster):
    """Why the joints cannot move: not at all; or to first order alone, as of a frame that shakes, near which
    there is no other position in which it is closed. None where they can."""
    if not cluster.independent:
        return "the joints of the loop cannot move (mobility 0)"
    for v in cluster.independent if cluster.dependent else ():
        if not any(_follow(tree, cluster, v, move) for move in MOVES):
            return (
                f"{tree.v_names[v]!r} cannot move: the loop is closed at single positions (mobility 0, "
                "though its equations leave a motion to first order)"
            )
    return None


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


def _marked(tree, coordinates, flags):
    """{place among the coordinates: joint} of the dependent joints that the file marks; None where it marks
    none."""
    joints = {k: _joint_at(tree, v).name for k, v in enumerate(coordinates)}
    return {k: name for k, name in joints.items() if flags.get(name) is False} or None


def _joint_at(tree, v):
    """The joint with a velocity coordinate."""
    return next(joint for joint in tree.independent_joints if joint.v.start <= v < joint.v.stop)


def _whole_joints_if_possible(K, rank, owners):
    """Columns that follow well, with all coordinates of a joint among them or none where there is such a
    choice. owners: the joint of every column."""
    found = _following_best(K, rank)
    if _are_whole(found, owners):
        return found
    several = [k for k, name in enumerate(owners) if owners.count(name) > 1]
    other = _following_best(K, rank, several)
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
