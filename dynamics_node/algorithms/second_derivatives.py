"""Second derivatives of inverse dynamics as a Program: its derivatives, derived once more."""

from functools import lru_cache

import numpy as np

from dynamics_node.algorithms.derivative_programs import derivative_program, tangent
from dynamics_node.robot import inverse_dynamics
from dynamics_node.symbolic import (
    LaneProgram,
    Program,
    derivative_name,
    flattened,
    interpret,
    jacobian,
    trace,
)

SECOND = ("dq_dq", "dq_dqd", "dqd_dqd", "dqdd_dq")
_PAIRS = {"dq_dq": ("dq", "q"), "dq_dqd": ("dq", "qd"), "dqd_dqd": ("dqd", "qd"), "dqdd_dq": ("dknown", "q")}


STEP = 1e-30  # imaginary: its square vanishes beside anything that counts


def second_derivative_program(robot, problem=None, wrenches=False, parameters=()) -> Program:
    """q, qd, qdd, gravity -> SECOND, each (nv, nv, nv): entry i, j, k of dq_dqd is the derivative of d tau_i
    / d q_j by qd_k; dqdd_dq is dM/dq. By q they are along the tangent space, as in `derivative_program`:
    dq_dq is the rate of d tau_i / d q_j in a motion with velocity k at rate 1, which is symmetric in j and k
    where velocities are rates of coordinates. What is not here is zero, or follows by symmetry."""
    first = derivative_program(robot, inverse_dynamics(robot), parameters=parameters)
    first = flattened(first) if isinstance(first, LaneProgram) else first
    second = jacobian(first, ["dq", "dqd", "dknown"], ["q", "qd"])

    def function(**state):
        derived = interpret(second, **state)
        T = tangent(robot, state["q"])
        found = {}
        for name, (of, by) in _PAIRS.items():
            block = derived[derivative_name(of, by)]
            found[name] = np.matmul(block, T) if by == "q" else block
        if first.limits:
            found["health"] = interpret(first, **state)["health"]
        return found

    return trace(function, first.inputs, first.limits)


def second_derivatives(robot, rates, q, qdd, gravity):
    """SECOND at one state, as numbers: first derivatives beside the state by imaginary steps, which lose no
    digit (Squire and Trapp 1998). To derive a Program of 38 joints twice takes 20 s and 1 GB."""
    first, qd = _first(robot), rates.qd[robot.independent].astype(float)
    T = np.asarray(tangent(robot, q), dtype=float)
    given = {"qdd": qdd, "gravity": gravity}
    by_q = interpret(first, q=q + 1j * STEP * T.T, qd=qd, **given)
    by_qd = interpret(first, q=q, qd=qd + 1j * STEP * np.eye(robot.nv), **given)
    blocks = {"dq_dq": by_q["dq"], "dq_dqd": by_qd["dq"], "dqd_dqd": by_qd["dqd"], "dqdd_dq": by_q["dknown"]}
    return tuple(np.moveaxis(blocks[name].imag / STEP, 0, -1) for name in SECOND)


@lru_cache(maxsize=4)
def _first(robot):
    return derivative_program(robot, inverse_dynamics(robot))
