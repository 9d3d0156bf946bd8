"""Rates of every joint from those of the independent ones, as numbers."""

from operator import attrgetter

import numpy as np

from dynamics_node.algorithms.projection import Identity, Projection
from dynamics_node.algorithms.rates import SINGULAR, explicit_rates
from dynamics_node.robot import Robot
from dynamics_node.robot.robot import fact
from dynamics_node.symbolic import Program, interpret, matvec, trace


@fact
def spanning_program(mechanism, judged=False) -> Program:
    """q (nq,), qd, qdd (nv,) -> rates, accelerations (nv of the tree,), and G (nv of the tree, nv); judged:
    and the condition of the constraints."""

    def function(q, qd, qdd):
        G, g, condition = explicit_rates(mechanism, q, qd)
        found = {"rates": G @ qd, "accelerations": G @ qdd + g, "G": G}
        return found | ({"condition": condition} if judged else {})

    return trace(function, {"q": (mechanism.nq,), "qd": (mechanism.nv,), "qdd": (mechanism.nv,)})


def spanning(robot: Robot, q, qd=None, qdd=None):
    """Positions, velocities and accelerations of every joint, those that follow from others included.

    Parameters
    ----------
    robot : Robot
    q : array_like (..., nq)
        Closed positions.
    qd, qdd : array_like (..., nv), optional
        Of the independent joints; accelerations need velocities where the robot has loops.

    Returns
    -------
    tuple of three arrays
        Over the joints of `robot.bodies` in order, with all coordinates; None for an argument that is
        not given. Rates at singular positions are NaN.
    """
    q, qd, qdd = (None if array is None else np.asarray(array, dtype=float) for array in (q, qd, qdd))
    rates = (None, None) if qd is None else spread_rates(robot, q, qd, qdd)
    joints = [body.joint for body in robot.bodies]
    every = [
        None if array is None else np.concatenate([of(joint)(array) for joint in joints], axis=-1)
        for of, array in zip((_POSITION, _RATE, _RATE), (q, *rates), strict=True)
    ]
    return tuple(every)


_POSITION, _RATE = attrgetter("position"), attrgetter("rate")


def spread_rates(robot: Robot, q, qd, qdd=None):
    """Rates and accelerations (..., nv of the tree) at closed q (..., nq), for those of the independent
    joints (..., nv); None for accelerations that are not given."""
    if not robot.constrained:
        return qd, qdd
    found = _spread(robot, q, qd, np.zeros(robot.nv) if qdd is None else qdd)
    return found["rates"], None if qdd is None else found["accelerations"]


def _spread(mechanism, q, qd, qdd):
    with np.errstate(all="ignore"):  # what is singular is told by its condition
        found = interpret(spanning_program(mechanism, judged=True), q=q, qd=qd, qdd=qdd)
    singular = ~(found.pop("condition") <= SINGULAR)
    for array in found.values():
        array[singular] = np.nan
    return found


class SampledRates(Projection):
    """At closed positions q (..., nq) and rates qd (..., nv) as numbers; NaN at singular positions."""

    def __init__(self, robot, q, qd):
        spread = _spread(robot, q, qd, np.zeros(robot.nv))
        self.G, self.qd, self._g = spread["G"], spread["rates"], spread["accelerations"]

    def accelerations(self, qdd):
        """qdd (..., nv of the tree)."""
        return matvec(self.G, qdd) + self._g


def sampled_rates(robot: Robot, q, qd=None) -> SampledRates | Identity:
    """The rates of many states as numbers, qd (nv,) being zero by default."""
    qd = np.zeros(robot.nv) if qd is None else qd
    return SampledRates(robot, q, qd) if robot.constrained else Identity(robot.nv, qd)


def closure_matrix(mechanism, q):
    """G (..., nv of the tree, nv) at closed q (..., nq): rates of all joints by those of the independent
    ones; NaN at singular positions."""
    zero = np.zeros(mechanism.nv)
    return _spread(mechanism, q, zero, zero)["G"]
