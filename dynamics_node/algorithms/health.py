"""Whether a robot has a result at a position: its loops are closed and regular, and, for forward dynamics,
its mass matrix is regular.
"""

import numpy as np

from dynamics_node.algorithms.assemblies import why_singular_loop
from dynamics_node.algorithms.loop_closure import why_constraint_open
from dynamics_node.algorithms.pivots import LARGEST_LOSS, pivot_health, why_singular
from dynamics_node.algorithms.rates import SINGULAR, loop_health, rates_at
from dynamics_node.robot import Robot
from dynamics_node.robot.robot import cached_on_robot
from dynamics_node.symbolic import Program, interpret_portable, power_of_two, trace

OPEN = 1e-6  # m or rad; largest residual of an equation of a loop
HEALTHY = np.array([SINGULAR, OPEN**2])  # limits of `loop_health`: the condition and the residual


def health_limits(robot: Robot, watched=()):
    """Limits (k,) of `health`; none for a tree without watched coordinates."""
    loops = HEALTHY if robot.constrained else np.zeros(0)
    return np.concatenate([loops, LARGEST_LOSS]) if np.any(watched) else loops


def health(robot: Robot, q, rates, forward=(), watched=()):
    """(k,) on symbols at q (nq,), for `health_limits`.

    For loops: the squared condition of the constraints and the sum of squared residuals. For a mass matrix
    that may be singular: `pivot_health`. rates: those of the robot at q; forward, watched (nv,): as in
    `weak_coordinates`.
    """
    parts = []
    if robot.constrained:
        parts.append(loop_health(robot, q, rates.condition))
    if np.any(watched):
        parts.append(pivot_health(robot, rates_at(robot, q, explicit=True), q, np.array(forward), watched))
    return np.concatenate(parts) if parts else np.zeros(0)


@cached_on_robot
def health_program(robot: Robot) -> Program:
    """q -> health of its loops."""
    return trace(lambda q: {"health": health(robot, q, rates_at(robot, q))}, {"q": (robot.nq,)}, HEALTHY)


def why_not(robot: Robot, forward, q):
    """Why there is no solution at one of the positions q (..., nq): a loop is open or singular, or torques of
    the coordinates `forward` (nv,) determine no acceleration. None if the reason is unknown."""
    if reason := why_open(robot, q):
        return reason
    if forward is not None and (reason := why_singular(robot, forward, q)):
        return reason
    return why_singular_loop(robot, q) if robot.constrained else None


def why_open(robot: Robot, q):
    """Which loop is open at one of the positions q (..., nq), in words; None if all are closed."""
    reason = why_constraint_open(robot.tree, robot.constraints, q, OPEN)
    return f"{reason}; q must be closed: see close_loops" if reason else None


# --- the limit of a Program's health ------------------------------------------------------------------------
#
# Determined by running the Program at random states with fewer digits: the loss then does not depend on the
# last digits of a state, which differ between processors. The limit is a power of two.

TRIED = 32  # states
ERROR = 1e-10  # largest accepted error, relative to the largest entry
ROUNDING = 1e-15  # error of results that lose no digits
BITS = 36  # binary digits of the test run
ALL = 1e-2  # a larger error means that no digit is left
NOTHING = 1e-20  # square of the rounding of a zero


def usual_size(values) -> float:
    """The median of losses (states,), as a power of two; 1 if it is negligible."""
    size = float(np.nanmedian(values))
    return float(power_of_two(size)) if size > NOTHING else 1.0


def health_limit(program, state, results) -> float:
    """Limit of the last entry of health: its value at which the error of a result is ERROR, if the error
    comes from growth of elements. state: {input: (TRIED, ...)}; results: tuples of names of outputs; the
    outputs of a tuple share the largest entry as reference."""
    right = interpret_portable(program, **state)
    rounded = interpret_portable(program, BITS, **state)
    missed = [_missed(_columns(rounded, names), _columns(right, names)) for names in results]
    lost = np.fmin(np.max(missed, axis=0), ALL) * 2.0 ** (BITS - 53)
    lost = np.maximum(lost, ROUNDING) / np.sqrt(right["health"][:, -1])
    return float(power_of_two((ERROR / np.nanmax(lost)) ** 2))


def _columns(results, names):
    """The named results as one array (states, entries)."""
    return np.hstack([results[name].reshape(TRIED, -1) for name in names])


def _missed(results, right):
    """(states,): errors of results (states, n), relative to the largest right entry."""
    size = np.maximum(np.abs(right).max(axis=1, initial=0.0), 1e-6)
    with np.errstate(invalid="ignore"):
        return np.abs(results - right).max(axis=1, initial=0.0) / size
