"""Closed positions from arbitrary or distant starts."""

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from dynamics_node.algorithms.constraint_equations import NEAR, closing_program, position_program, ranks_of
from dynamics_node.algorithms.loop_closure import (
    STEPS,
    TOLERANCE,
    bends,
    close_loops,
    opening,
    positions_of,
    shortened,
)
from dynamics_node.errors import ClosureError
from dynamics_node.robot import Robot
from dynamics_node.robot.robot import cached_on_robot
from dynamics_node.robot.state_arrays import REACH, moved, sample_positions
from dynamics_node.symbolic import interpret, interpret_portable, least_squares, product

SHAKE = 0.5  # rad or m off zero, which may be singular
WAY = 20  # steps from one assembly to another of the same branch
DRAWN = 1e-3  # rad or m from zero; closer positions are those of the drawing
NEIGHBORS, STEP = 6, 1e-2  # number of tested neighbors of a position, and their distance, rad or m
DAMPING = 1e-2  # of the first step of a damped search
GENERIC = 4  # positions that determine structure
STARTS = 40  # random starts of the search


def first_closed(robot: Robot, q: ArrayLike | None = None) -> np.ndarray:
    """Return a closed position for given independent joints.

    Newton's method starts from q. If that fails, it starts from the assembly nearest to zero: its
    independent joints move in steps to those of q. Other closed positions follow. Assemblies with the
    robot's number of dependent joints are preferred.

    Parameters
    ----------
    robot : Robot
        The robot; a tree is closed at every position.
    q : array_like (nq,), optional
        Values of the independent joints, and start values of the others, rad or m. `Robot.neutral` by
        default.

    Returns
    -------
    ndarray (nq,)
        q with other positions of the implicit joints, rad or m.

    Raises
    ------
    ClosureError
        Without a closed position; the message names the constraints.

    See Also
    --------
    close_loops : faster, for many positions near closed ones.

    Examples
    --------
    >>> from dynamics_demo.robots import five_bar
    >>> robot = dn.parse_robot(five_bar())
    >>> robot.q_names
    ('j1', 'j3', 'j2', 'j4')
    >>> dn.first_closed(robot, [1.9, 0.0, 1.2, 0.0]).round(3)  # j1 and j2 are independent
    array([ 1.9  , -1.078,  1.2  ,  1.102])
    """
    closed = np.array(robot.neutral() if q is None else q, dtype=float)
    for cluster in robot.clusters:
        if cluster.dependent:
            closed = _first_closed(replace(robot, clusters=(cluster,)), cluster, closed)
    return closed


def _first_closed(robot, cluster, q):
    """`first_closed` of a robot with this cluster alone."""
    other, failures = None, list[ClosureError]()
    for start in _starts(robot.tree, cluster, q):
        try:
            closed = close_loops(robot, q) if start is None else continued(robot, start, q)
        except ClosureError as error:
            failures.append(error)
            continue
        if is_as_loaded(robot.tree, cluster, closed):
            return closed
        other = closed if other is None else other
    if other is None:
        raise failures[0]
    return other


def continued(robot, start, q):
    """The closed position (nq,) with the independent joints of q, reached in steps from a closed one. The
    steps keep the branch where a single Newton solve would lose it. Raises ClosureError."""
    moving = positions_of(robot.tree, [v for c in robot.clusters if c.dependent for v in c.independent])
    there, start = np.array(q, dtype=float), np.asarray(start, dtype=float)
    dependent = positions_of(robot.tree, [v for c in robot.clusters for v in c.dependent])
    there[dependent] = start[dependent]
    goal = _with_near_quaternions(robot, np.asarray(q, dtype=float), start)
    for part in np.linspace(0, 1, WAY + 1)[1:]:
        there[moving] = start[moving] + part * (goal[moving] - start[moving])
        there = close_loops(robot, _of_unit_length(robot, there))
    return there


def _with_near_quaternions(robot, q, start):
    """q (nq,) with each quaternion in the sign nearer to `start`."""
    near = np.array(q)
    for _, at in robot.quaternions:
        near[at] = q[at] if q[at] @ start[at] >= 0 else -q[at]
    return near


def _of_unit_length(robot, q):
    for _, at in robot.quaternions:
        q[at] = q[at] / np.linalg.norm(q[at])
    return q


def _starts(tree, cluster, q):
    """None for q itself; then closed positions (nq,), with the joints outside the cluster as in q: the one
    nearest to zero, and then those with the independent joints of q, the nearest to zero first."""
    yield None
    coordinates = [*cluster.independent, *cluster.dependent]
    at, random = positions_of(tree, coordinates), np.random.default_rng(3)
    zero = tree.neutral()  # may be a singular position
    shake = random.uniform(-SHAKE, SHAKE, (STARTS, len(coordinates)))
    starts = moved(tree, np.tile(zero, (STARTS, 1)), coordinates, shake)
    near = closed_near(tree, cluster.constraints, coordinates, starts)
    same = ranks_of(_matrices(tree, cluster.constraints, coordinates, near)) == len(cluster.dependent)
    near = np.concatenate([near[same], cluster.samples])
    by_size = np.argsort(np.linalg.norm((near - zero)[:, at], axis=1))
    yield _with(q, at, near[by_size[0]])
    starts = np.tile(q, (STARTS, 1))
    dependent = positions_of(tree, cluster.dependent)
    starts[:, dependent] = sample_positions(tree, STARTS, random, np.pi)[:, dependent]
    closed = closed_near(tree, cluster.constraints, cluster.dependent, starts)
    yield from closed[np.argsort(np.linalg.norm((closed - zero)[:, at], axis=1))]


def _with(q, places, other):
    """q (nq,) with some numbers of another position."""
    out = q.copy()
    out[places] = other[places]
    return out


def _matrices(tree, constraints, coordinates, q):
    """K (count, rows, coordinates) at q (count, nq)."""
    return interpret(position_program(tree, constraints), q=q)["K"][:, :, list(coordinates)]


def is_as_loaded(tree, cluster, q):
    """Whether a closed q (nq,) is in an assembly with the cluster's number of dependent joints, or at a
    singular position of such an assembly."""
    coordinates, usual = [*cluster.independent, *cluster.dependent], len(cluster.dependent)
    (rank,) = ranks_of(_matrices(tree, cluster.constraints, coordinates, q[None]), NEAR)
    return rank == usual or (rank < usual and not is_regular(tree, cluster.constraints, coordinates, q, rank))


def is_regular(tree, constraints, coordinates, q, rank):
    """Whether the motions of a closed q (nq,), where K has this rank, lead to closed positions of the same
    rank. From a singular position they lead to a greater rank, or back."""
    motions = np.linalg.svd(_matrices(tree, constraints, coordinates, q[None])[0])[2][rank:]
    if not len(motions):
        return True
    steps = np.random.default_rng(9).normal(size=(NEIGHBORS, len(motions))) @ motions
    steps *= STEP / np.linalg.norm(steps, axis=1, keepdims=True)
    starts = moved(tree, np.tile(q, (NEIGHBORS, 1)), coordinates, steps)
    closed = closed_near(tree, constraints, coordinates, starts)
    distinct = np.linalg.norm(closed - q, axis=1) > 0.3 * STEP
    same = ranks_of(_matrices(tree, constraints, coordinates, closed), NEAR) == rank
    return np.count_nonzero(distinct & same) > NEIGHBORS / 2


def anywhere(tree, random, reach=1.5):
    """STARTS positions (count, nq): zero, and random ones within `reach`."""
    starts = sample_positions(tree, STARTS, random, reach)
    starts[0] = tree.neutral()
    return starts


@cached_on_robot
def generic_positions(robot):
    """GENERIC fixed closed positions (count, nq), none of them special: an entry that vanishes at all of them
    vanishes everywhere."""
    return closed_samples(robot, GENERIC, np.random.default_rng(20))


def closed_samples(robot, count, random, reach=REACH):
    """Random closed positions (count, nq) at which the dependent joints are better conditioned than at half
    of the samples. The best ones and zero are avoided: they have right angles, at which other terms vanish.
    reach: the range, in rad or m, of joints without constraints."""
    tree = robot.tree
    q = sample_positions(tree, count, random, reach)
    for cluster in robot.clusters:
        if cluster.constraints:
            at = positions_of(tree, [*cluster.independent, *cluster.dependent])
            drawn = np.abs(cluster.samples[:, at]).max(axis=1) < DRAWN
            samples = cluster.samples if drawn.all() else cluster.samples[~drawn]
            weakness = _weakness(tree, cluster, samples).astype(np.float32)  # ties go to the first
            better = np.argsort(weakness, kind="stable")[: (len(samples) + 1) // 2]
            q[:, at] = samples[random.permutation(better)[np.arange(count) % len(better)]][:, at]
    return q


def _weakness(tree, cluster, q):
    """Condition of K_dep (count,) at q (count, nq)."""
    K = interpret(position_program(tree, cluster.constraints), q=q)["K"]
    return np.linalg.cond(K[:, :, list(cluster.dependent)]) if cluster.dependent else np.zeros(len(q))


def closed_near(tree, constraints, coordinates, q, tolerance=TOLERANCE):
    """q (count, nq) moved to closed positions, with all joints of `coordinates` (velocity numbers) free;
    states that do not converge are left out. tolerance: m or rad."""
    nearer, still_open = brought_nearer(tree, constraints, coordinates, q, tolerance)
    return nearer[still_open < tolerance]


def downhill(tree, constraints, coordinates, q):
    """q (count, nq) moved by damped steps (Levenberg and Marquardt): slower than Newton's method, but more of
    the starts end near closed positions. Damping bounds the steps, so slides may move far in one. The result
    has the same digits on every machine."""
    program = closing_program(tree, constraints)
    q, damping = np.array(q, dtype=float), np.full(len(q), DAMPING)
    here = interpret_portable(program, q=q)
    for _ in range(2 * STEPS):
        size = _squares(here)
        K = here["K"][:, :, list(coordinates)]
        step = least_squares(K, -here["open"], damping * np.minimum(size, 1.0))
        trial = moved(tree, q, coordinates, step)
        there = interpret_portable(program, q=trial)
        better = _squares(there) < size
        q[better] = trial[better]
        for name, values in here.items():
            values[better] = there[name][better]
        damping = np.clip(np.where(better, damping / 4, damping * 4), 1e-12, 1e6)
    return q


def _squares(equations):
    """(count,): a measure of the openings that grows up to half a turn."""
    parts = np.concatenate([equations["gaps"] ** 2, 2.0 * equations["turned"]], axis=1)
    return product(parts, np.ones(parts.shape[1]))


def brought_nearer(tree, constraints, coordinates, q, tolerance=TOLERANCE):
    """q (count, nq) moved towards closed positions by Newton's method, and their openings (count,), m or rad.
    The result has the same digits on every machine: it decides about rows and joints."""
    program, bent = closing_program(tree, constraints), bends(tree, constraints, coordinates)
    q = np.array(q, dtype=float)
    left = np.arange(len(q))
    for _ in range(STEPS if len(q) else 0):
        equations = interpret_portable(program, q=q[left])
        step = least_squares(equations["K"][:, :, list(coordinates)], -equations["open"])
        q[left] = moved(tree, q[left], coordinates, shortened(step, bent))
        left = left[opening(equations) >= tolerance]  # the last step squares the opening
        if not len(left):
            break
    return q, opening(interpret_portable(program, q=q))
