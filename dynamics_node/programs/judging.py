"""Whether a robot has a result at a state, and why not, in words."""

import numpy as np

from dynamics_node.algorithms.pivots import weak_coordinates, why_singular
from dynamics_node.loops.health import why_not
from dynamics_node.loops.mechanism import Mechanism


def watched_coordinates(robot, forward):
    """Coordinates (nv,) whose pivots the Programs of a robot watch, of those where `forward` (nv,) is true. A
    Mechanism's watch its loops instead."""
    if isinstance(robot, Mechanism):
        return np.zeros(robot.nv, dtype=bool)
    return weak_coordinates(robot, forward)


def why_no_result(robot, forward, q, **_):
    """Why there is no solution at one of the positions q (..., nq), or None if that is not known."""
    if isinstance(robot, Mechanism):
        return why_not(robot, q)
    return why_singular(robot, forward, q)
