"""Whether a robot has a result at a state, and why not, in words."""

from dynamics_node.algorithms.pivots import weak_coordinates, why_singular
from dynamics_node.loops import pivots as loops_pivots
from dynamics_node.loops.health import why_not
from dynamics_node.loops.mechanism import Mechanism


def watched_coordinates(robot, forward):
    """Coordinates (nv,) whose pivots the Programs of a robot watch, where `forward` (nv,) is true."""
    if isinstance(robot, Mechanism):
        return loops_pivots.weak_coordinates(robot, forward)
    return weak_coordinates(robot, forward)


def why_no_result(robot, forward, q, **_):
    """Why there is no solution at one of the positions q (..., nq), or None if that is not known."""
    if isinstance(robot, Mechanism):
        return why_not(robot, q, forward)
    return why_singular(robot, forward, q)
