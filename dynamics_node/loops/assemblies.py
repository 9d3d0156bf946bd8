"""The assemblies of a loop: closed positions of one rank of its equations.

Closed positions form branches, and how many equations are independent is a property of the branch: a Sarrus
linkage lifts its table on one, with one motion, and swings both folded legs on another, with two. A robot is
built for one number, so a choice is made among the closed positions that are at hand.
"""

from typing import NamedTuple

import numpy as np

from dynamics_node.algorithms.tangent import moved
from dynamics_node.loops.constraints import position_program
from dynamics_node.loops.equations import RANK
from dynamics_node.loops.first_positions import closed_anywhere, closed_near
from dynamics_node.program import interpret

REACHES = (1.5, np.pi)  # rad or m from zero where closed positions are looked for
FEW = 8  # positions of an assembly that suffice
BESIDE, STEP = 6, 1e-2  # as many positions beside one are looked at, about so far away, in rad or m
NEAR = 1e-5  # sizes beside the largest that count as zero near a singular position
STILL = 1e-6  # rad or m by which joints that stand still move while others move by one


class Assembly(NamedTuple):
    """rank: of K at its positions (count, nq), the best conditioned first; K (count, rows, coordinates)
    there; still: how many of the coordinates cannot move there."""

    rank: int
    positions: np.ndarray
    K: np.ndarray
    still: int


def assemblies(tree, constraints, coordinates) -> list[Assembly]:
    """Those with the fewest joints that stand still first, of them that which is nearest to all joints at
    zero. Empty where no closed position is found."""
    found: dict[int, Assembly] = {}
    for reach in REACHES:
        closed = closed_anywhere(tree, constraints, coordinates, np.random.default_rng(7), reach)
        for one in _by_rank(tree, constraints, coordinates, closed):
            known = found.setdefault(one.rank, one)
            if len(known.positions) < min(FEW, len(one.positions)):
                found[one.rank] = one
        if len(found) == 1 and all(len(one.positions) >= FEW for one in found.values()):
            break
    return sorted(found.values(), key=lambda one: (one.still, np.abs(one.positions).max(axis=1).min()))


def _by_rank(tree, constraints, coordinates, q):
    """Assemblies of closed positions q (count, nq), without singular ones."""
    if not len(q):
        return
    K = interpret(position_program(tree, constraints), q=q)["K"][:, :, coordinates]
    sizes = np.linalg.svd(K, compute_uv=False)
    ranks = (sizes > RANK * sizes[:, :1]).sum(axis=1)
    own = {rank: np.flatnonzero(ranks == rank) for rank in sorted(set(ranks.tolist()))}
    for rank, places in own.items():
        best = places[np.argsort(-sizes[places, rank - 1])] if rank else places
        if len(own) == 1 or _is_regular(tree, constraints, coordinates, q[best[:FEW]], rank):
            yield Assembly(rank, q[best], K[best], _still(K[best[:FEW]], rank))


def _is_regular(tree, constraints, coordinates, q, rank):
    """Whether at most of the closed positions q (count, nq) the rank is that of positions beside them."""
    beside = [rank_beside(tree, constraints, coordinates, one, rank) for one in q]
    return np.mean(np.equal(beside, rank)) > 0.5


def _still(K, rank):
    """How many coordinates cannot move where K (count, rows, n) has this rank, at most positions."""
    motions = np.linalg.svd(K)[2][:, rank:]
    return int(np.median((np.abs(motions).max(axis=1, initial=0.0) < STILL).sum(axis=1)))


def rank_beside(tree, constraints, coordinates, q, rank):
    """The rank of K at most closed positions near a closed q (nq,), where it is `rank`: a greater one where q
    is singular."""
    program = position_program(tree, constraints)
    K = interpret(program, q=q)["K"][:, coordinates]
    motions = np.linalg.svd(K)[2][rank:]
    steps = np.random.default_rng(9).normal(size=(BESIDE, len(motions))) @ motions
    starts = moved(tree, np.tile(q, (BESIDE, 1)), coordinates, STEP * steps)
    closed = closed_near(tree, constraints, coordinates, starts)
    if not len(closed):
        return rank
    sizes = np.linalg.svd(interpret(program, q=closed)["K"][:, :, coordinates], compute_uv=False)
    return int(np.median((sizes > NEAR * sizes[:, :1]).sum(axis=1)))
