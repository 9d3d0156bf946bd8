"""Closed positions: Newton's method on the constraints, as numbers, and one step of it as a Program."""

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from dynamics_node.algorithms.constraint_elimination import ConstraintElimination
from dynamics_node.algorithms.rates import explicit_rates, loop_health
from dynamics_node.algorithms.reduced_frames import economical_program
from dynamics_node.errors import ClosureError, InputError
from dynamics_node.robot import Robot
from dynamics_node.robot.loops.equations import closing_program, counting_equations, position_program
from dynamics_node.robot.loops.newton import (
    STEPS,
    TOLERANCE,
    bends,
    opening,
    positions_of,
    shortened,
    why_constraint_open,
)
from dynamics_node.robot.state_arrays import moved
from dynamics_node.robot.wrong_calls import explains_wrong_calls
from dynamics_node.symbolic import Program, interpret
from dynamics_node.text import listed

LAST_STEP = 1e-9  # m or rad; of a joint: near a singular position a small opening leaves it far from closed


@explains_wrong_calls
def close_loops(robot: Robot, q: ArrayLike, errors: Literal["raise", "nan"] = "raise") -> np.ndarray:
    """Return closed positions near given ones.

    Newton's method moves the implicit joints from their values, so the branch of assembly is kept. The
    independent joints keep theirs.

    Parameters
    ----------
    robot : Robot
        The robot; a tree is closed at every position.
    q : array_like (..., nq)
        Values of the independent joints, and start values of the others, rad or m.
    errors : {'raise', 'nan'}
        Whether a position without a closed one near it raises ClosureError, or sets the implicit joints of
        its result to NaN.

    Returns
    -------
    ndarray (..., nq)
        Positions that satisfy the constraints, to 1e-10 rad or m.

    Raises
    ------
    ClosureError
        For a position that is not finite, has no closed one near it, or has singular constraints on the way.
    ValueError
        For positions of another shape.

    See Also
    --------
    first_closed : slower, from any start.
    build_loop_solver : compiled, for the loop of a controller.

    Examples
    --------
    >>> from dynamics_demo.robots import four_bar
    >>> robot = dn.parse_robot(four_bar())
    >>> q = dn.first_closed(robot, [0.5, 0.0, 0.0])
    >>> q.round(3)
    array([ 0.5  , -1.657, -1.764])
    >>> q[0] += 0.1  # the crank
    >>> dn.close_loops(robot, q).round(3)
    array([ 0.6  , -1.803, -1.849])
    """
    q = np.array(q, dtype=float)
    if q.shape[-1:] != (robot.nq,):
        entries = listed(robot.q_names, 12)
        raise InputError(f"q must have shape (..., {robot.nq}), not {q.shape}; its entries: {entries}")
    rows = q.reshape(-1, robot.nq)
    finite = np.isfinite(rows).all(axis=1)
    if errors == "raise" and not finite.all():
        raise ClosureError("a position is not finite")
    closed = rows[finite]
    for cluster in robot.clusters:
        if cluster.dependent:
            _close_cluster(robot, cluster, closed, errors)
    rows[finite] = closed
    return rows.reshape(q.shape)


def _close_cluster(robot, cluster, q, errors):
    """Close a cluster in place, all states at once."""
    tree, program = robot.tree, closing_program(robot.tree, cluster.constraints)
    bent = bends(tree, cluster.constraints, cluster.dependent)
    for _ in range(STEPS):
        equations = interpret(program, q=q)
        K = equations["K"][:, :, list(cluster.dependent)]
        # of least squares where K is singular
        step = -(np.linalg.pinv(K, rcond=1e-9) @ equations["open"][..., None])[..., 0]
        step = shortened(step, bent)
        q[:] = moved(tree, q, cluster.dependent, step)
        if opening(equations).max(initial=0.0) < TOLERANCE and np.abs(step).max(initial=0.0) < LAST_STEP:
            break  # the last step squares the residual
    closed = opening(interpret(program, q=q)) < TOLERANCE
    if errors == "nan":
        q[np.ix_(~closed, positions_of(tree, cluster.dependent))] = np.nan
    elif not closed.all():
        reason = why_constraint_open(tree, cluster.constraints, q[~closed][0], TOLERANCE)
        raise ClosureError(
            f"no closed position near the start: {reason}; try another start, or dn.first_closed(robot, q)"
        )


# --- a step as a Program ------------------------------------------------------------------------------------


def step_program(robot: Robot) -> Program:
    """q -> following (nq,), after a Newton step of the dependent joints, and health at q. Health is a plain
    output without limits, since the step is meant for open loops."""
    return economical_program(robot, {"q": (robot.nq,)}, _step)


def _step(robot, q):
    condition = explicit_rates(robot, q, np.zeros(robot.nv)).condition
    return {"following": nearer_to_closed(robot, q), "health": loop_health(robot, q, condition)}


def nearer_to_closed(robot: Robot, q):
    """q (nq,) after a Newton step of the dependent joints, on symbols."""
    tree, following = robot.tree, np.array(q, dtype=object)
    for cluster in robot.clusters:
        if cluster.dependent:
            equations = interpret(position_program(tree, cluster.constraints), q=q)
            rows, sizes = counting_equations(tree, cluster)
            elimination = ConstraintElimination(equations["K"][rows][:, list(cluster.dependent)], sizes)
            step = -elimination.solve(equations["phi"][rows][:, None])[:, 0]
            following = moved(tree, following, cluster.dependent, step)
    return following
