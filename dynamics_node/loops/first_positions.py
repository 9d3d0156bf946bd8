"""Closed positions from nothing, or from far away."""

import numpy as np

from dynamics_node.algorithms.tangent import moved
from dynamics_node.loops.constraints import position_program
from dynamics_node.loops.positions import (
    STEPS,
    TOLERANCE,
    ClosureError,
    are_closed,
    bends,
    close_loops,
    positions_of,
    shortened,
)
from dynamics_node.model.sample import sample_positions
from dynamics_node.program import interpret, interpret_portable
from dynamics_node.spatial import least_squares

SHAKE = 0.5  # rad or m, off the position with all joints at zero, which may be singular
WAY = 20  # steps from one assembly to another of the same branch
DRAWN = 1e-3  # rad or m from zero, where linkages are as they are drawn
STARTS = 40  # random positions from which closed ones are looked for


def first_closed(mechanism, q):
    """`close_loops` of one position (nq,) of which only the independent joints are known: from q, or else
    from the assembly that is nearest to all joints at zero, whose independent joints are moved there in
    steps.

    Raises ClosureError.
    """
    q = np.asarray(q, dtype=float)
    try:
        return close_loops(mechanism, q)
    except ClosureError:
        start = _near_zero(mechanism, q)
        if start is None:
            raise
    return continued(mechanism, start, q)


def continued(mechanism, start, q):
    """The closed position (nq,) with the independent joints of q, reached in steps from a closed one, so
    that the branch is kept where Newton's method alone would lose it. Raises ClosureError."""
    own = positions_of(mechanism.tree, [v for c in mechanism.clusters if c.dependent for v in c.independent])
    there, start = np.array(q, dtype=float), np.asarray(start, dtype=float)
    dependent = positions_of(mechanism.tree, [v for c in mechanism.clusters for v in c.dependent])
    there[dependent] = start[dependent]
    goal = _with_near_quaternions(mechanism, np.asarray(q, dtype=float), start)
    for part in np.linspace(0, 1, WAY + 1)[1:]:
        there[own] = start[own] + part * (goal[own] - start[own])
        there = close_loops(mechanism, _of_unit_length(mechanism, there))
    return there


def _with_near_quaternions(mechanism, q, start):
    """q (nq,) with each quaternion in the sign that is nearer to that of `start`."""
    near = np.array(q)
    for _, at in mechanism.quaternions:
        near[at] = q[at] if q[at] @ start[at] >= 0 else -q[at]
    return near


def _of_unit_length(mechanism, q):
    for _, at in mechanism.quaternions:
        q[at] = q[at] / np.linalg.norm(q[at])
    return q


def _near_zero(mechanism, q):
    """q with every loop in the assembly nearest to zero; None when there is none."""
    tree, start = mechanism.tree, q.copy()
    for cluster in mechanism.clusters:
        if cluster.dependent:
            coordinates = [*cluster.independent, *cluster.dependent]
            at = positions_of(tree, coordinates)
            zero = tree.neutral()  # which may itself be a singular position
            shake = np.random.default_rng(3).uniform(-SHAKE, SHAKE, (STARTS, len(coordinates)))
            starts = moved(tree, np.tile(zero, (STARTS, 1)), coordinates, shake)
            found = closed_near(tree, cluster.constraints, coordinates, starts)
            if not len(found):
                return None
            start[at] = found[np.argmin(np.linalg.norm(found[:, at] - zero[at], axis=1)), at]
    return start


def closed_anywhere(tree, constraints, coordinates, random, reach=1.5):
    """Closed positions (count, nq) found from STARTS random ones within `reach`, and from zero."""
    starts = sample_positions(tree, STARTS, random, reach)
    starts[0] = tree.neutral()
    return closed_near(tree, constraints, coordinates, starts)


def closed_samples(mechanism, count, random):
    """Random closed positions (count, nq), the dependent joints determined by the others better than at half
    of all: not the best determined, nor all joints at zero, for these are right angles, at which other things
    vanish."""
    tree = mechanism.tree
    q = sample_positions(tree, count, random)
    for cluster in mechanism.clusters:
        if cluster.constraints:
            at = positions_of(tree, [*cluster.independent, *cluster.dependent])
            drawn = np.abs(cluster.samples[:, at]).max(axis=1) < DRAWN
            samples = cluster.samples if drawn.all() else cluster.samples[~drawn]
            weakness = _weakness(tree, cluster, samples).astype(np.float32)  # of equal ones the first
            better = np.argsort(weakness, kind="stable")[: (len(samples) + 1) // 2]
            q[:, at] = samples[random.permutation(better)[np.arange(count) % len(better)]][:, at]
    return q


def _weakness(tree, cluster, q):
    """Condition of K_dep (count,) at q (count, nq)."""
    K = interpret(position_program(tree, cluster.constraints), q=q)["K"]
    return np.linalg.cond(K[:, :, list(cluster.dependent)]) if cluster.dependent else np.zeros(len(q))


def closed_near(tree, constraints, coordinates, q, tolerance=TOLERANCE):
    """q (count, nq) moved to closed positions with all joints of `coordinates` (velocity numbers) free;
    states that do not get there are left out. tolerance: m or rad that they may be open. The same digits
    on every machine: rows and joints are chosen by such positions."""
    program = position_program(tree, constraints)
    bent = bends(tree, constraints, coordinates)
    q = np.array(q, dtype=float)
    for _ in range(STEPS):
        found = interpret_portable(program, q=q)
        if np.abs(found["gaps"]).max(initial=0.0) < tolerance:
            break
        step = least_squares(found["K"][:, :, list(coordinates)], -found["phi"])
        q = moved(tree, q, coordinates, shortened(step, bent))
    return q[are_closed(interpret_portable(program, q=q), tolerance)]
