"""Quantities of a robot at one state, at once: where the next question is about another quantity, or another
link, to trace a Program takes longer than to compute with numbers."""

from typing import Any

import numpy as np

from dynamics_node.algorithms import QUANTITIES, derivative_program
from dynamics_node.algorithms.derivative_programs import tangent
from dynamics_node.algorithms.health import why_not
from dynamics_node.algorithms.loop_pivots import why_singular
from dynamics_node.algorithms.rates import SINGULAR
from dynamics_node.algorithms.second_derivatives import SECOND
from dynamics_node.functions.checks import SolutionError
from dynamics_node.robot import Robot, inverse_dynamics
from dynamics_node.symbolic import interpret

STEP = 1e-30  # imaginary: its square vanishes beside anything that counts


def evaluate_quantity(robot: Robot, name: str, state, **options) -> tuple[np.ndarray, ...]:
    """What a quantity of QUANTITIES returns at one state, by NumPy; nothing is compiled or kept.

    state: {name: array} of all that the quantity reads: q (nq,), closed and checked before, qd, qdd (nv,),
    gravity (3,). options and errors as of `build_quantity`; SolutionError where there is no finite result.
    """
    quantity = QUANTITIES[name]
    arrays = {read: state[read] for read in quantity.reads}
    with np.errstate(all="ignore"):  # what is singular or too large is told below
        found = _evaluated(robot, name, arrays, options)
    results = tuple(np.asarray(array, dtype=float) for array in found)
    if not all(np.isfinite(array).all() for array in results):
        raise SolutionError(f"{name} has no finite value at this state")
    return results


def _evaluated(robot, name, arrays, options) -> Any:
    quantity = QUANTITIES[name]
    if quantity.write is not None:
        return _second_derivatives(robot, **arrays)
    robot = quantity.seen(robot, options)
    q, qd = arrays.pop("q"), arrays.pop("qd", None)
    rates = quantity.rates(robot, q, qd)
    if not float(rates.condition) <= SINGULAR:
        raise SolutionError(why_not(robot, None, q))
    if quantity.inverts and (reason := why_singular(robot, (True,) * robot.nv, q)):
        raise SolutionError(reason)
    return quantity.way(robot, rates, q, *arrays.values(), **options)


def _second_derivatives(robot, q, qd, qdd, gravity):
    """SECOND as of `second_derivative_program`: first derivatives beside the state by imaginary steps, which
    lose no digit (Squire and Trapp 1998). To derive a Program of 38 joints twice takes 20 s and 1 GB."""
    first = derivative_program(robot, inverse_dynamics(robot))
    T = np.asarray(tangent(robot, q), dtype=float)
    given = {"qdd": qdd, "gravity": gravity}
    by_q = interpret(first, q=q + 1j * STEP * T.T, qd=qd, **given)
    by_qd = interpret(first, q=q, qd=qd + 1j * STEP * np.eye(robot.nv), **given)
    blocks = {"dq_dq": by_q["dq"], "dq_dqd": by_qd["dq"], "dqd_dqd": by_qd["dqd"], "dqdd_dq": by_q["dknown"]}
    return tuple(np.moveaxis(blocks[name].imag / STEP, 0, -1) for name in SECOND)
