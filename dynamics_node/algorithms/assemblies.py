"""The assemblies of a loop: closed positions with the same rank of its equations.

Closed positions form branches. The number of independent equations depends on the branch: a Sarrus linkage
lifts its table on one, with one motion, and swings both folded legs on another, with two. A robot is built
for one number, so this module chooses among the closed positions it can reach.
"""

from typing import NamedTuple

import numpy as np

from dynamics_node.algorithms.constraint_equations import NEAR, RANK, position_program, ranks_of
from dynamics_node.algorithms.first_positions import (
    SHAKE,
    STARTS,
    anywhere,
    brought_nearer,
    closed_near,
    downhill,
    is_as_loaded,
    is_regular,
)
from dynamics_node.algorithms.loop_closure import TOLERANCE, why_constraint_open
from dynamics_node.robot.state_arrays import moved
from dynamics_node.symbolic import interpret

REACHES = (1.5, np.pi)  # rad or m from zero; ranges of the search for closed positions
MORE = 3  # slower searches in the last range, if those close nothing
FEW, TRIED = 8, 3  # positions of an assembly that suffice, and that are tested
WEAK, ROUNDS = 1e-3, 4  # least size of K relative to the best position; rounds of a search for better ones
STILL = 1e-6  # rad or m; joints that move less are locked, while others move by one
CONTRADICTS = 1e-6  # largest residual of consistent equations
HEALTHY = 1e4  # largest accepted condition of the dependent columns of K


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
    K = interpret(position_program(tree, constraints), q=q)["K"][:, :, coordinates]
    sizes = np.linalg.svd(K, compute_uv=False)
    ranks = (sizes > RANK * sizes[:, :1]).sum(axis=1)
    by_rank = {rank: np.flatnonzero(ranks == rank) for rank in sorted(set(ranks.tolist()))}
    for rank, places in by_rank.items():
        least = sizes[places, max(rank, 1) - 1].astype(np.float32)  # float32: ties go to the first
        best = places[np.argsort(-least, kind="stable")]
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
    K = interpret(position_program(tree, constraints), q=q)["K"][:, :, coordinates]
    sizes = np.linalg.svd(K, compute_uv=False)
    same = (sizes > RANK * sizes[:, :1]).sum(axis=1) == rank
    least = np.where(same, sizes[:, max(rank, 1) - 1], 0.0).astype(
        np.float32
    )  # float32: ties go to the first
    order = np.argsort(-least, kind="stable")
    order = order[least[order] >= WEAK * least.max()]
    return q[order], K[order]


def _still(K, rank):
    """Number of coordinates that cannot move at most positions, where K (count, rows, n) has this rank."""
    motions = np.linalg.svd(K)[2][:, rank:]
    return int(np.median((np.abs(motions).max(axis=1, initial=0.0) < STILL).sum(axis=1)))


# --- reasons of singular positions --------------------------------------------------------------------------


def why_singular_loop(robot, q):
    """Why closed loops (up to rounding) do not determine the motion of the dependent joints at one of the
    positions q (..., nq): the reason at the worst cluster and position."""
    tree, q = robot.tree, np.asarray(q, dtype=float).reshape(-1, robot.nq)
    tied = [cluster for cluster in robot.clusters if cluster.dependent]
    conditions = np.array([_conditions(tree, cluster, q) for cluster in tied])
    worst, at = np.unravel_index(np.argmax(conditions), conditions.shape)
    return _reason(tree, tied[worst], q[at])


def _conditions(tree, cluster, q):
    """(count,): condition of the dependent columns of K at q (count, nq). Infinite if the equations
    contradict each other: the other columns are then no combination of these."""
    K = interpret(position_program(tree, cluster.constraints), q=q)["K"]
    K_dep, K_ind = K[:, :, list(cluster.dependent)], K[:, :, list(cluster.independent)]
    missed = np.abs(K_ind - K_dep @ (np.linalg.pinv(K_dep) @ K_ind)).max(axis=(1, 2), initial=0.0)
    return np.where(missed > CONTRADICTS, np.inf, np.linalg.cond(K_dep))


def _reason(tree, cluster, q):
    coordinates, usual = [*cluster.independent, *cluster.dependent], len(cluster.dependent)
    names = ", ".join(sorted(constraint.name for constraint in cluster.constraints))
    closed = closed_near(tree, cluster.constraints, coordinates, q[None])
    at = closed[0] if len(closed) else q
    program = position_program(tree, cluster.constraints)
    (rank,) = ranks_of(interpret(program, q=at[None])["K"][:, :, coordinates], NEAR)
    (condition,) = _conditions(tree, cluster, at[None])
    singular = f"a loop is at a singular position, or too near: {names}"
    if rank == usual and condition > HEALTHY:
        joints = ", ".join(repr(tree.v_names[v]) for v in cluster.independent)
        return f"{singular}: its other joints do not follow from {joints} there (condition {condition:.2g})"
    if rank == usual:
        gap = np.abs(interpret(program, q=q)["gaps"]).max()
        return (
            f"{names}: equations contradict each other where the loop is open by {gap:.2g}: see close_loops"
        )
    if is_as_loaded(tree, cluster, at):
        return f"{singular}: {rank} of its equations are independent there, and {usual} as it was loaded"
    free = len(coordinates) - rank
    if not free:
        return f"{names}: a rigid assembly: {rank} equations are independent, and {usual} as it was loaded"
    return (
        f"{names}: another assembly: {rank} equations are independent and {free} joints move freely, "
        f"{usual} and {len(cluster.independent)} in that for which it was loaded. To load this one, mark "
        f'{rank} of its joints with independent="false"'
    )
