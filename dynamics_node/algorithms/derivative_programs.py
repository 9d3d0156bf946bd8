"""Derivatives of inverse, forward and hybrid dynamics as Programs.

Those of a tree are computed by composite bodies, in half the operations (derivative_stages.py). They need a
motion subspace that stands still in its body, which joints of a closed loop have not: there the Program of
inverse dynamics is derived, and the others follow from M qdd + h = tau without deriving a solver: where x
changes, M dqdd = dtau - d(ID)/dx at the accelerations at hand (Carpentier and Mansard 2018, Analytical
derivatives of rigid body dynamics algorithms, sec. IV).
"""

import numpy as np

from dynamics_node.algorithms.derivative_stages import derivative_stages
from dynamics_node.algorithms.dynamics_programs import recursive_programs
from dynamics_node.algorithms.health import health, health_limits
from dynamics_node.algorithms.pivots import weak_coordinates
from dynamics_node.algorithms.rates import rates_at
from dynamics_node.algorithms.reduced_frames import economical, parameter_shapes, with_inputs
from dynamics_node.algorithms.tangent import tangent_map
from dynamics_node.robot import Problem, Robot, inverse_dynamics
from dynamics_node.symbolic import (
    LaneProgram,
    Program,
    derivative_name,
    flattened,
    interpret,
    jacobian,
    solve_definite,
    trace,
)

FEW = 8  # coordinates of a robot with explicit joints up to which the derived Program may be the shorter one


def derivative_program(
    robot: Robot, problem: Problem, wrenches=False, parameters=()
) -> Program | LaneProgram:
    """The Program of d asked / d(q, qd, known), outputs dq, dqd and dknown (nv, nv).

    Inputs q, qd, what of qdd and tau the Problem knows (both for hybrid ones), f_ext if there are wrenches,
    gravity, then parameters as of `dynamics_programs`. dq is along the tangent space: column k belongs to a
    motion with velocity k at rate 1, in which loops stay closed. f_ext and gravity stay as they are. That of
    a robot with loops has the output health besides, and that of a tree whose mass matrix may be singular
    at some position.
    """
    shapes, more = problem.reads(robot, wrenches), parameter_shapes(robot, parameters)
    shapes["gravity"] = shapes.pop("gravity")  # last: callers may leave it out
    if robot.constrained:
        return _derived(robot, problem, shapes, more, wrenches, parameters)
    stages = derivative_stages(robot, problem, shapes | more)
    if not robot.explicit_joints or robot.nv > FEW:
        return stages
    return min(stages, _derived(robot, problem, shapes, more, wrenches, parameters), key=_length)


def _length(program):
    return len((flattened(program) if isinstance(program, LaneProgram) else program).ops)


def _derived(mechanism, problem, shapes, more, wrenches, parameters):
    (inverse,) = recursive_programs(mechanism, inverse_dynamics(mechanism), wrenches, parameters).values()
    derived = jacobian(inverse, ["tau"], ["q", "qd", "qdd"])
    forward = np.array(problem.forward, dtype=bool)
    watched = weak_coordinates(mechanism, forward)

    def function(**state):
        results = _derivatives(mechanism, forward, inverse, derived, **state)
        if mechanism.constrained or watched.any():
            own, q = with_inputs(economical(mechanism)[0], **{name: state[name] for name in more}), state["q"]
            results["health"] = health(own, q, rates_at(own, q, state["qd"]), forward, watched)
        return results

    return trace(function, shapes | more, health_limits(mechanism, watched))


def tangent(robot, q):
    """(nq, nv): how q changes along velocities."""
    return rates_at(robot, q, explicit=True).columns(tangent_map(robot.tree, q))


def _derivatives(mechanism, forward, inverse, derived, q, qd, qdd=None, tau=None, **others):
    """{name: derivatives}. inverse, derived: the Programs of inverse dynamics and of its
    derivatives; others: gravity (, f_ext) and parameters."""
    nv, free, driven = mechanism.nv, np.flatnonzero(forward), np.flatnonzero(~forward)
    given = dict(q=q, qd=qd, **others)
    M = interpret(derived, **given, qdd=np.zeros(nv))[derivative_name("tau", "qdd")]
    M_free = M[free[:, None], free]
    accelerations = np.zeros(nv) if qdd is None else np.where(forward, 0.0, qdd)
    if free.size:
        torques = interpret(inverse, **given, qdd=accelerations)["tau"]
        rest = (tau - torques)[free]
        accelerations = np.array(accelerations, dtype=object)
        accelerations[free] = solve_definite(M_free, rest[:, None])[:, 0]
    D = interpret(derived, **given, qdd=accelerations)
    dq = D[derivative_name("tau", "q")] @ tangent(mechanism, q)
    # what torques change by, when accelerations stay (dq, dqd), and when those known change
    changes = np.concatenate([dq, D[derivative_name("tau", "qd")], np.where(forward, 0.0, M)], axis=1)
    own = np.eye(nv)[free]
    own = np.concatenate([np.zeros((len(free), 2 * nv)), own], axis=1)
    asked = np.array(changes, dtype=object)
    if free.size:
        asked[free] = solve_definite(M_free, own - changes[free])
        asked[driven] = changes[driven] + M[driven[:, None], free] @ asked[free]
    return dict(zip(("dq", "dqd", "dknown"), np.split(asked, 3, axis=1), strict=True))
