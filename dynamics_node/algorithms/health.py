"""Whether a robot has a result at a position: whether its loops are closed and regular, and whether its mass
matrix is, where accelerations are asked."""

import numpy as np

from dynamics_node.algorithms import pivots
from dynamics_node.algorithms.assemblies import why_singular_loop
from dynamics_node.algorithms.constraint_equations import gaps, position_program, turned
from dynamics_node.algorithms.loop_closure import TURNED
from dynamics_node.algorithms.pivots import pivot_health, why_singular
from dynamics_node.algorithms.rates import SINGULAR, rates_at
from dynamics_node.robot import Robot
from dynamics_node.robot.robot import fact
from dynamics_node.symbolic import Program, interpret, trace

OPEN = 1e-6  # m or rad that an equation of a loop may miss
HEALTHY = np.array([SINGULAR, OPEN**2])  # limits of `loop_health`: the condition, and what loops may miss


def health_limits(robot: Robot, watched=()):
    """Limits (k,) of `health`; none of a tree of which nothing is watched."""
    loops = HEALTHY if robot.constrained else np.zeros(0)
    return np.concatenate([loops, pivots.HEALTHY]) if np.any(watched) else loops


def health(robot: Robot, q, rates, forward=(), watched=()):
    """(k,) on symbols at q (nq,), for `health_limits`.

    Of loops the squared condition of the constraints and the sum of the squares of what they miss; of a mass
    matrix that may be singular `pivot_health`. rates: those of the robot at q; forward, watched (nv,): as of
    `weak_coordinates`.
    """
    parts = []
    if robot.constrained:
        parts.append(loop_health(robot, q, rates.condition))
    if np.any(watched):
        parts.append(pivot_health(robot, rates_at(robot, q, explicit=True), q, np.array(forward), watched))
    return np.concatenate(parts) if parts else np.zeros(0)


def loop_health(mechanism: Robot, q, condition):
    """(2,): the squared condition of the constraints, as `explicit_rates` gives it, and the sum of the
    squares of what they miss at q (nq,), on symbols."""
    missed = [make(mechanism.tree, mechanism.constraints, q) for make in (gaps, turned)]
    return np.array([condition, sum(part @ part for part in missed)], dtype=object)


@fact
def health_program(mechanism: Robot) -> Program:
    """q -> health of its loops."""
    return trace(
        lambda q: {"health": health(mechanism, q, rates_at(mechanism, q))}, {"q": (mechanism.nq,)}, HEALTHY
    )


def why_not(robot: Robot, forward, q):
    """Why there is no solution at one of the positions q (..., nq): a loop is open, or singular, or where
    `forward` (nv,) is true torques determine no acceleration. None if that is not known."""
    for constraint in robot.constraints:
        program = position_program(robot.tree, (constraint,))
        found = interpret(program, q=q)
        gap = np.abs(found["gaps"]).max(initial=0.0)
        if gap > OPEN:
            return f"{constraint.name!r} is open by {gap:.3g}: q must be closed, see close_loops"
        if found["turned"].max(initial=0.0) > TURNED:
            return f"{constraint.name!r} is open: its ends are turned away from each other, see close_loops"
    if forward is not None and (reason := why_singular(robot, forward, q)):
        return reason
    return why_singular_loop(robot, q) if robot.constrained else None
