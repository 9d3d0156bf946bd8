"""Closed positions from arbitrary or distant starts."""

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from dynamics_node.algorithms.loop_closure import close_loops
from dynamics_node.errors import ClosureError
from dynamics_node.robot import Robot
from dynamics_node.robot.loops.assemblies import SHAKE, STARTS, is_as_loaded
from dynamics_node.robot.loops.equations import constraint_jacobian, ranks_of
from dynamics_node.robot.loops.newton import closed_near, positions_of
from dynamics_node.robot.robot import cached_on_robot
from dynamics_node.robot.state_arrays import REACH, moved, sample_positions
from dynamics_node.robot.wrong_calls import explains_wrong_calls

PATH_STEPS = 20  # steps from one assembly to another of the same branch
DRAWN = 1e-3  # rad or m from zero; closer positions are those of the drawing
GENERIC = 4  # positions that determine structure


@explains_wrong_calls
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
    for part in np.linspace(0, 1, PATH_STEPS + 1)[1:]:
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
    ranks = ranks_of(constraint_jacobian(tree, cluster.constraints, coordinates, near))
    near = np.concatenate([near[ranks == len(cluster.dependent)], cluster.samples])
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
    if not cluster.dependent:
        return np.zeros(len(q))
    return np.linalg.cond(constraint_jacobian(tree, cluster.constraints, cluster.dependent, q))
