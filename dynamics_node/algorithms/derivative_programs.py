"""Derivatives of inverse, forward and hybrid dynamics as Programs.

For a tree they are computed by composite bodies (composites.py), in half the operations. That needs a motion
subspace that is constant in its body. Joints of a closed loop lack it: there the Program of inverse dynamics
is differentiated. The others follow from M qdd + h = tau without differentiating a solver: if x changes,
M dqdd = dtau - d(ID)/dx at the present accelerations (Carpentier and Mansard 2018, Analytical derivatives of
rigid body dynamics algorithms, sec. IV).
"""

from functools import partial

import numpy as np

from dynamics_node.algorithms.composites import Composites, pseudo_inertias
from dynamics_node.algorithms.contact_derivatives import contact_derivative_program
from dynamics_node.algorithms.dynamics_programs import dynamics_programs
from dynamics_node.algorithms.health import health, health_limits
from dynamics_node.algorithms.pivots import LARGEST_LOSS, inertia_scale, losses, total_loss, weak_coordinates
from dynamics_node.algorithms.rates import rates_at, tangent
from dynamics_node.algorithms.reduced_frames import economical_robot, parameter_shapes, with_inputs
from dynamics_node.algorithms.solution_by_branches import BranchSolver
from dynamics_node.robot import Problem, Robot, inverse_dynamics
from dynamics_node.robot.inertial_parameters import PARAMETERS
from dynamics_node.robot.robot import cached_on_robot
from dynamics_node.symbolic import (
    LaneProgram,
    Program,
    Staging,
    derivative_name,
    flattened,
    interpret,
    inverse_motion_transform,
    jacobian,
    matvec,
    solve_definite,
    trace,
    transpose,
)

FEW = 8  # with explicit joints and up to this many coordinates, the differentiated Program may be shorter


def derivative_program(
    robot: Robot, problem: Problem, wrenches=False, parameters=()
) -> Program | LaneProgram:
    """The Program of the derivatives of the unknowns by q, qd and the knowns: outputs dq, dqd and dknown (nv,
    nv).

    Inputs: q, qd, the knowns of qdd and tau (both for hybrid problems), f_ext if there are wrenches, gravity,
    then parameters as in `dynamics_programs`. dq is along the tangent space: column k belongs to a motion
    with velocity k at rate 1, in which loops stay closed. f_ext and gravity are constant. The Program of a
    robot with loops also has the output health, as has that of a tree whose mass matrix may be singular at
    some position. With contacts see `contact_derivative_program`.
    """
    if problem.contacts:
        return contact_derivative_program(robot, problem, wrenches, parameters)
    shapes, more = problem.reads(robot, wrenches), parameter_shapes(robot, parameters)
    if robot.constrained:
        return _derived(robot, problem, shapes, more, wrenches, parameters)
    stages = derivative_stages(robot, problem, shapes | more)
    if not robot.explicit_joints or robot.nv > FEW:
        return stages
    return min(stages, _derived(robot, problem, shapes, more, wrenches, parameters), key=_length)


def _length(program):
    return len((flattened(program) if isinstance(program, LaneProgram) else program).ops)


def _derived(robot, problem, shapes, more, wrenches, parameters):
    (inverse,) = dynamics_programs(robot, inverse_dynamics(robot), wrenches, parameters).values()
    derived = jacobian(inverse, ["tau"], ["q", "qd", "qdd"])
    forward = np.array(problem.forward, dtype=bool)
    watched = weak_coordinates(robot, forward)
    limits = health_limits(robot, watched)

    def function(**state):
        results = _derivatives(robot, forward, inverse, derived, **state)
        if len(limits):
            reframed, q = (
                with_inputs(economical_robot(robot)[0], **{name: state[name] for name in more}),
                state["q"],
            )
            results["health"] = health(reframed, q, rates_at(reframed, q, state["qd"]), forward, watched)
        return results

    return trace(function, shapes | more, limits)


@cached_on_robot
def tangent_program(robot: Robot) -> Program:
    """q -> `tangent`."""
    return trace(lambda q: {"tangent": tangent(robot, q)}, {"q": (robot.nq,)})


def _derivatives(robot, forward, inverse, derived, q, qd, qdd=None, tau=None, **others):
    """{name: derivatives}. inverse, derived: the Programs of inverse dynamics and of its derivatives; others:
    gravity (, f_ext) and parameters."""
    nv, free, prescribed = robot.nv, np.flatnonzero(forward), np.flatnonzero(~forward)
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
    dq = D[derivative_name("tau", "q")] @ tangent(robot, q)
    # changes of torques at constant accelerations (dq, dqd), and with the knowns
    changes = np.concatenate([dq, D[derivative_name("tau", "qd")], np.where(forward, 0.0, M)], axis=1)
    units = np.eye(nv)[free]
    units = np.concatenate([np.zeros((len(free), 2 * nv)), units], axis=1)
    unknowns = np.array(changes, dtype=object)
    if free.size:
        unknowns[free] = solve_definite(M_free, units - changes[free])
        unknowns[prescribed] = changes[prescribed] + M[prescribed[:, None], free] @ unknowns[free]
    return dict(zip(("dq", "dqd", "dknown"), np.split(unknowns, 3, axis=1), strict=True))


# --- a tree, in stages --------------------------------------------------------------------------------------


def derivative_stages(robot: Robot, problem: Problem, inputs) -> LaneProgram:
    """The same as `derivative_program`, in stages, for inputs {name: shape}."""
    forward = np.array(problem.forward, dtype=bool)
    tree, T = economical_robot(robot)
    staging = Staging(inputs)
    given = staging.arrays
    J = pseudo_inertias(tree, given.get("inertia"))
    work = Composites(tree, staging, J, given["q"], given["qd"], given["gravity"])
    outer = None
    if "f_ext" in given:
        outer = work.of_bodies(matvec, transpose(inverse_motion_transform(T)), given["f_ext"])
    work.accelerate(np.where(forward, 0.0, given.get("qdd", np.zeros(robot.nv))), outer)
    armature = given.get("armature", tree.armature)
    M = work.masses(armature)
    if forward.any():
        results = _solved(work, forward, M, armature, given["tau"])
    else:
        results = dict(zip(("dq", "dqd"), work.derivatives(), strict=True)) | {"dknown": M}
    watched = weak_coordinates(robot, forward)
    if not watched.any():
        return staging.finish(results)
    names = [name for name in PARAMETERS if name in given]
    judge = partial(_health, tree, forward, watched, names)
    results["health"] = staging.alone(judge, given["q"], M, *(given[name] for name in names))
    return staging.finish(results, LARGEST_LOSS)


def _solved(work, forward, M, armature, tau):
    """dq, dqd and dknown if some joints are forward ones."""
    staging, nv = work.staging, len(forward)
    free, prescribed = np.flatnonzero(forward), np.flatnonzero(~forward)
    solver = BranchSolver(staging, M[free[:, None], free])
    qdd = np.zeros(nv, dtype=object)
    qdd[free] = solver.solution(staging.alone(np.subtract, work.torques(armature)[free], tau[free]))
    work.accelerate_more(qdd)
    known = np.where(forward, np.diag(-1.0 * forward), M)
    changes = np.concatenate([*work.derivatives(), known], axis=1)  # of torques at constant accelerations
    unknowns = np.zeros(changes.shape, dtype=object)
    unknowns[free] = solver.solutions(changes[free])
    if prescribed.size:
        columns, shared = (changes[prescribed].T, unknowns[free].T), (M[prescribed[:, None], free],)
        unknowns[prescribed] = staging.side_by_side(_prescribed, *columns, shared=shared).T
    return dict(zip(("dq", "dqd", "dknown"), np.split(unknowns, 3, axis=1), strict=True))


def _prescribed(torques, accelerations, M):
    """A column of the torques of prescribed joints: torques at constant accelerations, and the accelerations
    of the others."""
    return torques + M @ accelerations


def _health(tree, forward, watched, names, q, M, *parameters):
    given = with_inputs(tree, **dict(zip(names, parameters, strict=True)))
    return total_loss(losses(M, forward, watched, inertia_scale(given, q)))


# --- second derivatives -------------------------------------------------------------------------------------

SECOND = ("dq_dq", "dq_dqd", "dqd_dqd", "dqdd_dq")
PAIRS = {"dq_dq": ("dq", "q"), "dq_dqd": ("dq", "qd"), "dqd_dqd": ("dqd", "qd"), "dqdd_dq": ("dknown", "q")}


def second_derivative_program(robot, problem=None, wrenches=False, parameters=()) -> Program:
    """q, qd, qdd, gravity -> SECOND, each (nv, nv, nv): entry i, j, k of dq_dqd is the derivative of d tau_i
    / d q_j by qd_k; dqdd_dq is dM/dq. Those by q are along the tangent space, as in `derivative_program`:
    dq_dq is the rate of d tau_i / d q_j in a motion with velocity k at rate 1, which is symmetric in j and k
    if velocities are rates of coordinates. Absent derivatives are zero, or follow by symmetry."""
    first = derivative_program(robot, inverse_dynamics(robot), parameters=parameters)
    first = flattened(first) if isinstance(first, LaneProgram) else first
    second = jacobian(first, ["dq", "dqd", "dknown"], ["q", "qd"])

    def function(**state):
        derived = interpret(second, **state)
        T = tangent(robot, state["q"])
        results = {}
        for name, (of, by) in PAIRS.items():
            block = derived[derivative_name(of, by)]
            results[name] = np.matmul(block, T) if by == "q" else block
        if first.limits:
            results["health"] = interpret(first, **state)["health"]
        return results

    return trace(function, first.inputs, first.limits)
