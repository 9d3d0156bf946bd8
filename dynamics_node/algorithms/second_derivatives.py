"""Second derivatives of inverse dynamics as a Program: its derivatives, derived once more."""

import numpy as np

from dynamics_node.algorithms.derivative_programs import derivative_program, tangent
from dynamics_node.robot import inverse_dynamics
from dynamics_node.symbolic import Program, Staged, derivative_name, flattened, interpret, jacobian, trace

SECOND = ("dq_dq", "dq_dqd", "dqd_dqd", "dqdd_dq")
_PAIRS = {"dq_dq": ("dq", "q"), "dq_dqd": ("dq", "qd"), "dqd_dqd": ("dqd", "qd"), "dqdd_dq": ("dknown", "q")}


def second_derivative_program(robot, parameters=()) -> Program:
    """q, qd, qdd, gravity -> SECOND, each (nv, nv, nv): entry i, j, k of dq_dqd is the derivative of d tau_i
    / d q_j by qd_k; dqdd_dq is dM/dq. By q they are along the tangent space, as in `derivative_program`:
    dq_dq is the rate of d tau_i / d q_j in a motion with velocity k at rate 1, which is symmetric in j and k
    where velocities are rates of coordinates. What is not here is zero, or follows by symmetry."""
    first = derivative_program(robot, inverse_dynamics(robot), parameters=parameters)
    first = flattened(first) if isinstance(first, Staged) else first
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
