"""Whether a robot has a result at a position: whether its loops are closed and regular, and whether its mass
matrix is, where accelerations are asked.
"""

import numpy as np

from dynamics_node.algorithms.assemblies import why_singular_loop
from dynamics_node.algorithms.constraint_equations import position_program
from dynamics_node.algorithms.loop_closure import TURNED
from dynamics_node.algorithms.pivots import LARGEST_LOSS, pivot_health, why_singular
from dynamics_node.algorithms.rates import SINGULAR, loop_health, rates_at
from dynamics_node.robot import Robot
from dynamics_node.robot.robot import fact
from dynamics_node.symbolic import Program, interpret, interpret_portable, power_of_two, trace

OPEN = 1e-6  # m or rad that an equation of a loop may miss
HEALTHY = np.array([SINGULAR, OPEN**2])  # limits of `loop_health`: the condition, and what loops may miss


def health_limits(robot: Robot, watched=()):
    """Limits (k,) of `health`; none of a tree of which nothing is watched."""
    loops = HEALTHY if robot.constrained else np.zeros(0)
    return np.concatenate([loops, LARGEST_LOSS]) if np.any(watched) else loops


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


@fact
def health_program(robot: Robot) -> Program:
    """q -> health of its loops."""
    return trace(lambda q: {"health": health(robot, q, rates_at(robot, q))}, {"q": (robot.nq,)}, HEALTHY)


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


# --- the limit of a Program's health ------------------------------------------------------------------------
#
# Found by trying the Program at random states with fewer digits: what is lost then does not depend on the
# last digits of a state, in which processors may differ; and what comes out is a power of two.

TRIED = 32  # states
ERROR = 1e-10  # of a result that its health lets pass, beside the largest entry
ROUNDING = 1e-15  # of results of which nothing is lost
BITS = 36  # binary digits that are tried with
ALL = 1e-2  # a result that misses by more has none left
NOTHING = 1e-20  # the square of what is rounding of a zero


def usual_size(values) -> float:
    """The median of what is lost (states,), about; 1 where that is nothing."""
    found = float(np.nanmedian(values))
    return float(power_of_two(found)) if found > NOTHING else 1.0


def health_limit(program, state, results) -> float:
    """Of the last entry of health: what it is where a result misses the right one by ERROR, if what is missed
    is lost by growing elements. state: {input: (TRIED, ...)}; results: tuples of names of outputs, of which
    those in a tuple are seen beside their largest entry."""
    right = interpret_portable(program, **state)
    found = interpret_portable(program, BITS, **state)
    missed = [_missed(_beside(found, names), _beside(right, names)) for names in results]
    lost = np.fmin(np.max(missed, axis=0), ALL) * 2.0 ** (BITS - 53)
    lost = np.maximum(lost, ROUNDING) / np.sqrt(right["health"][:, -1])
    return float(power_of_two((ERROR / np.nanmax(lost)) ** 2))


def _beside(found, names):
    """(states, all entries)."""
    return np.hstack([found[name].reshape(TRIED, -1) for name in names])


def _missed(found, right):
    """(states,): by how much results (states, n) miss the right ones, beside the largest entry of these."""
    size = np.maximum(np.abs(right).max(axis=1, initial=0.0), 1e-6)
    with np.errstate(invalid="ignore"):
        return np.abs(found - right).max(axis=1, initial=0.0) / size
