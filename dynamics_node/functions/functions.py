"""Quantities of a robot at once, by NumPy, for a few states or from time to time.

A call interprets the recursion: 0.2 to 0.9 ms for an arm. In a loop use the compiled function of the same
quantity, `build_quantity(robot, "mass_matrix")`: about 1 us a call, and millions of states at a time.

All take closed q (..., nq), qd (..., nv), gravity (..., 3) over one batch, arrays or lists; they raise
InputError with argument and coordinate by name, and KeyError for an unknown link. At singular positions of
loops results are NaN.
"""

import numpy as np

from dynamics_node import algorithms
from dynamics_node.algorithms import quantity_ways as of
from dynamics_node.algorithms.loop_pivots import why_singular
from dynamics_node.algorithms.spanning import sampled_rates
from dynamics_node.functions.arguments import Arguments, robot_signature
from dynamics_node.functions.checks import SolutionError
from dynamics_node.robot import Robot


def mass_matrix(robot: Robot, q):
    """M (..., nv, nv), armature included. Interpreted; `build_quantity(robot, "mass_matrix")` compiles it."""
    (q,) = _checked(robot, q=q)
    return of.mass_matrix(robot, sampled_rates(robot, q), q)[0]


def bias(robot: Robot, q, qd, f_ext=None, gravity=None):
    """h (..., nv) of M qdd + h = tau: gravity, Coriolis and centrifugal terms, external wrenches f_ext
    (..., nbodies, 6) as of a Solver. gravity in place of the robot's. Interpreted; `build_quantity(robot,
    "bias")` compiles it."""
    optional = {"f_ext": f_ext, "gravity": gravity}
    given = {name: value for name, value in optional.items() if value is not None}
    q, qd, *arrays = _checked(robot, q=q, qd=qd, **given)
    return of.bias(robot, sampled_rates(robot, q, qd), q, **dict(zip(given, arrays, strict=True)))[0]


def link_jacobian(robot: Robot, q, link, reference="world_aligned"):
    """J (..., 6, nv), angular rows first: J qd = velocity of the link's origin. reference: 'world_aligned'
    (axes of the root) or 'body'; ValueError for another."""
    (q,) = _checked(robot, q=q)
    return of.jacobian(robot, sampled_rates(robot, q), q, link, reference)[0]


def link_pose(robot: Robot, q, link):
    """R (..., 3, 3) from link to root axes and p (..., 3), the link's origin in the root frame, m."""
    (q,) = _checked(robot, q=q)
    return algorithms.link_pose(robot.tree, q, link)


def operational_space_inertia(robot: Robot, q, links, reference="world_aligned"):
    """Lambda^-1 (..., 6 k, 6 k) and J (..., 6 k, nv) of k links. Raises SolutionError where the mass matrix
    is singular. Interpreted; `build_quantity(robot, "operational_space_inertia", links=[...])` compiles
    it."""
    (q,) = _checked(robot, q=q)
    if reason := why_singular(robot, np.ones(robot.nv, dtype=bool), q):
        raise SolutionError(reason)
    try:
        return of.operational_space_inertia(robot, sampled_rates(robot, q), q, links, reference)
    except np.linalg.LinAlgError:
        raise SolutionError("the mass matrix is singular at this position") from None


def _checked(robot, **values):
    """The arrays of the arguments, over one batch."""
    arguments = Arguments(robot_signature(robot), values)
    arguments.refuse_bad()
    return arguments.spread().values()
