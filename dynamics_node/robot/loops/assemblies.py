"""The assemblies of a loop: closed positions with the same rank of its equations.

Closed positions form branches. The number of independent equations depends on the branch: a Sarrus linkage
lifts its table on one, with one motion, and swings both folded legs on another, with two. A robot is built
for one number, so this module chooses among the closed positions it can reach.
"""

from typing import NamedTuple

import numpy as np

from dynamics_node.robot.loops.equations import NEAR, constraint_jacobian, ranks_of
from dynamics_node.robot.loops.newton import (
    TOLERANCE,
    brought_nearer,
    closed_near,
    downhill,
    why_constraint_open,
)
from dynamics_node.robot.state_arrays import moved, sample_positions

STARTS = 40  # random starts of the search
SHAKE = 0.5  # rad or m off a position, which may be singular
NEIGHBORS, STEP = 6, 1e-2  # number of tested neighbors of a position, and their distance, rad or m
REACHES = (1.5, np.pi)  # rad or m from zero; ranges of the search for closed positions
MORE = 3  # slower searches in the last range, if those close nothing
FEW, TRIED = 8, 3  # positions of an assembly that suffice, and that are tested
WEAK, ROUNDS = 1e-3, 4  # least size of K relative to the best position; rounds of a search for better ones
STILL = 1e-6  # rad or m; joints that move less are locked, while others move by one


class Assembly(NamedTuple):
    """rank: of K at its positions (count, nq), the best conditioned first; K (count, rows, coordinates) at
    those; still: number of coordinates that cannot move; far: of the position nearest to zero, rad or m."""

    rank: int
    positions: np.ndarray
    K: np.ndarray
    still: int
    far: np.float32


def assemblies(tree, constraints, coordinates) -> list[Assembly]:
    """The assemblies with the fewest locked joints first, then the one nearest to all joints at zero. Empty
    if there is no closed position."""
    by_rank: dict[int, Assembly] = {}
    for starts in _starts(tree, constraints, coordinates, by_rank):
        closed = closed_near(tree, constraints, coordinates, starts)
        for assembly in _by_rank(tree, constraints, coordinates, closed):
            known = by_rank.setdefault(assembly.rank, assembly)
            if len(known.positions) < min(FEW, len(assembly.positions)):
                by_rank[assembly.rank] = assembly
        if len(by_rank) == 1 and all(
            len(assembly.positions) >= FEW and not assembly.still for assembly in by_rank.values()
        ):
            break  # if joints are locked, another assembly may move them
    return sorted(by_rank.values(), key=lambda assembly: (assembly.still, assembly.far))


def _starts(tree, constraints, coordinates, by_rank):
    """Starts (count, nq) of Newton's method, with damped steps before it as long as there is no assembly,
    unless a loop does not close alone."""
    for reach in REACHES:
        yield anywhere(tree, np.random.default_rng(7), reach)
    for seed in range(MORE):
        if by_rank or (seed == 0 and _open_alone(tree, constraints, coordinates)):
            return
        starts = anywhere(tree, np.random.default_rng(8 + seed), REACHES[-1])
        yield downhill(tree, constraints, coordinates, starts)


def why_not_assembled(tree, constraints, coordinates):
    """Why there are no `assemblies`: a loop that does not close alone, or all of them together."""
    alone = _open_alone(tree, constraints, coordinates)
    reason = alone or _why_open(tree, constraints, coordinates)
    if reason is None:
        return "every closed position is singular"
    though = "" if alone or len(constraints) == 1 else ", though each loop closes alone"
    return (
        f"no closed position: at the best of {STARTS} starts, {reason}{though}; check the lengths of the "
        "links and the frames of the loops"
    )


def _open_alone(tree, constraints, coordinates):
    """Why a constraint does not close without the others. None if all do."""
    reasons = (_why_open(tree, (constraint,), coordinates) for constraint in constraints)
    return next(filter(None, reasons), None)


def _why_open(tree, constraints, coordinates):
    """Which constraint is open at the best of some starts. None if one start closes all."""
    starts = downhill(tree, constraints, coordinates, anywhere(tree, np.random.default_rng(7), REACHES[-1]))
    q, still_open = brought_nearer(tree, constraints, coordinates, starts)
    nearest = np.argmin(still_open)
    if still_open[nearest] < TOLERANCE:
        return None
    return why_constraint_open(tree, constraints, q[nearest], TOLERANCE)


def _by_rank(tree, constraints, coordinates, q):
    """Assemblies of closed positions q (count, nq), except singular ones."""
    if not len(q):
        return
    K = constraint_jacobian(tree, constraints, coordinates, q)
    ranks = ranks_of(K)
    by_rank = {rank: np.flatnonzero(ranks == rank) for rank in sorted(set(ranks.tolist()))}
    for rank, places in by_rank.items():
        best = places[np.argsort(-_least(K[places], rank), kind="stable")]
        regular = (is_regular(tree, constraints, coordinates, one, rank) for one in q[best[:TRIED]])
        if len(by_rank) == 1 or np.mean([*regular]) > 0.5:
            still, far = _still(K[best[:FEW]], rank), np.float32(np.abs(q[best]).max(axis=1).min())
            positions, K_there = _regular(tree, constraints, coordinates, q[best], rank)
            yield Assembly(rank, positions, K_there, still, far)


def _regular(tree, constraints, coordinates, q, rank):
    """The positions q (count, nq) that are not nearly singular, the best first, and K there. If these are
    few, others near them: many starts lead to singular positions, such as that of flat parallelograms."""
    random = np.random.default_rng(11)
    q, K = _well_conditioned(tree, constraints, coordinates, q, rank)
    for _ in range(ROUNDS):
        if len(q) >= FEW or rank == len(coordinates):
            break
        steps = random.uniform(-SHAKE, SHAKE, (2 * FEW, len(coordinates)))
        starts = moved(tree, np.resize(q, (2 * FEW, tree.nq)), coordinates, steps)
        more = closed_near(tree, constraints, coordinates, starts)
        q, K = _well_conditioned(tree, constraints, coordinates, np.concatenate([q, more]), rank)
    return q, K


def _well_conditioned(tree, constraints, coordinates, q, rank):
    K = constraint_jacobian(tree, constraints, coordinates, q)
    same = ranks_of(K) == rank
    q, K, least = q[same], K[same], _least(K[same], rank)
    order = np.argsort(-least, kind="stable")
    order = order[least[order] >= WEAK * least.max()]
    return q[order], K[order]


def _least(K, rank):
    """(count,): the least nonzero size of matrices K (count, rows, n) of this rank. float32: ties go to the
    first."""
    return np.linalg.svd(K, compute_uv=False)[:, max(rank, 1) - 1].astype(np.float32)


def _still(K, rank):
    """Number of coordinates that cannot move at most positions, where K (count, rows, n) has this rank."""
    motions = np.linalg.svd(K)[2][:, rank:]
    return int(np.median((np.abs(motions).max(axis=1, initial=0.0) < STILL).sum(axis=1)))


def anywhere(tree, random, reach=1.5):
    """STARTS positions (count, nq): zero, and random ones within `reach`."""
    starts = sample_positions(tree, STARTS, random, reach)
    starts[0] = tree.neutral()
    return starts


def is_as_loaded(tree, cluster, q):
    """Whether a closed q (nq,) is in an assembly with the cluster's number of dependent joints, or at a
    singular position of such an assembly."""
    coordinates, usual = [*cluster.independent, *cluster.dependent], len(cluster.dependent)
    (rank,) = ranks_of(constraint_jacobian(tree, cluster.constraints, coordinates, q[None]), NEAR)
    return rank == usual or (rank < usual and not is_regular(tree, cluster.constraints, coordinates, q, rank))


def is_regular(tree, constraints, coordinates, q, rank):
    """Whether the motions of a closed q (nq,), where K has this rank, lead to closed positions of the same
    rank. From a singular position they lead to a greater rank, or back."""
    motions = np.linalg.svd(constraint_jacobian(tree, constraints, coordinates, q[None])[0])[2][rank:]
    if not len(motions):
        return True
    steps = np.random.default_rng(9).normal(size=(NEIGHBORS, len(motions))) @ motions
    steps *= STEP / np.linalg.norm(steps, axis=1, keepdims=True)
    starts = moved(tree, np.tile(q, (NEIGHBORS, 1)), coordinates, steps)
    closed = closed_near(tree, constraints, coordinates, starts)
    distinct = np.linalg.norm(closed - q, axis=1) > 0.3 * STEP
    same = ranks_of(constraint_jacobian(tree, constraints, coordinates, closed), NEAR) == rank
    return np.count_nonzero(distinct & same) > NEIGHBORS / 2
