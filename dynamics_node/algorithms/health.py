"""Whether a robot has a result at a position: its loops are closed and regular, and, for forward dynamics,
its mass matrix is regular.
"""

import numpy as np

from dynamics_node.algorithms.pivots import LARGEST_LOSS, pivot_health, why_singular
from dynamics_node.algorithms.rates import SINGULAR, loop_health, rates_at
from dynamics_node.robot import Robot
from dynamics_node.robot.loops.assemblies import is_as_loaded
from dynamics_node.robot.loops.equations import NEAR, constraint_jacobian, position_program, ranks_of
from dynamics_node.robot.loops.newton import closed_near, why_constraint_open
from dynamics_node.robot.robot import cached_on_robot
from dynamics_node.symbolic import Program, interpret, interpret_portable, power_of_two, trace

OPEN = 1e-6  # m or rad; largest residual of an equation of a loop
HEALTHY = np.array([SINGULAR, OPEN**2])  # limits of `loop_health`: the condition and the residual
CONTRADICTS = 1e-6  # largest residual of consistent equations
LARGEST_CONDITION = 1e4  # of the dependent columns of K


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
    parts = cluster.dependent, cluster.independent
    K_dep, K_ind = (constraint_jacobian(tree, cluster.constraints, part, q) for part in parts)
    missed = np.abs(K_ind - K_dep @ (np.linalg.pinv(K_dep) @ K_ind)).max(axis=(1, 2), initial=0.0)
    return np.where(missed > CONTRADICTS, np.inf, np.linalg.cond(K_dep))


def _reason(tree, cluster, q):
    coordinates, usual = [*cluster.independent, *cluster.dependent], len(cluster.dependent)
    names = ", ".join(sorted(constraint.name for constraint in cluster.constraints))
    closed = closed_near(tree, cluster.constraints, coordinates, q[None])
    at = closed[0] if len(closed) else q
    (rank,) = ranks_of(constraint_jacobian(tree, cluster.constraints, coordinates, at[None]), NEAR)
    (condition,) = _conditions(tree, cluster, at[None])
    singular = f"a loop is at a singular position, or too near: {names}"
    if rank == usual and condition > LARGEST_CONDITION:
        joints = ", ".join(repr(tree.v_names[v]) for v in cluster.independent)
        return f"{singular}: its other joints do not follow from {joints} there (condition {condition:.2g})"
    if rank == usual:
        gap = np.abs(interpret(position_program(tree, cluster.constraints), q=q)["gaps"]).max()
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
