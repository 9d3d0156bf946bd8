"""Integrators as Programs: one stage of a step in time, with forward dynamics in it.

Positions move on the manifold, as in `integrate`. Torques are constant within a step. Closed loops are closed
again after every displacement, by Newton steps of their dependent joints.
"""

from typing import Literal, NamedTuple, get_args

import numpy as np

from dynamics_node.algorithms.health import OPEN
from dynamics_node.algorithms.loop_closure import nearer_to_closed
from dynamics_node.algorithms.rates import rates_at, squared_residuals
from dynamics_node.algorithms.reduced_frames import economical_robot
from dynamics_node.robot import Robot
from dynamics_node.symbolic import (
    LaneProgram,
    Program,
    cross_motion,
    interpret,
    matvec,
    quaternion_rotation,
    trace,
)
from dynamics_node.symbolic.program import HEALTH

IntegratorName = Literal["semi_implicit_euler", "rk4"]
INTEGRATORS = get_args(IntegratorName)
CLOSING = 2  # Newton steps; each squares the opening, which begins with the square of the displacement
# The classical Runge-Kutta method: the fraction of a step to the next stage, the weight, whether it is the
# last stage.
RK4 = np.array([(1 / 2, 1 / 6, 0), (1 / 2, 1 / 3, 0), (1, 1 / 3, 0), (0, 1 / 6, 1)])


class Integrator(NamedTuple):
    """A step runs the Program for every row of `stages` (stages, coefficients), one after the other.

    Inputs: q, qd; hidden (k,), what a stage leaves to the next, zero at the start of a step; tau; stage
    (coefficients,); dt (); and what else forward dynamics read. Outputs: q, qd, hidden, and health. `hidden`
    and `stage` are absent where they are empty.
    """

    program: Program
    stages: np.ndarray


def integrator_of(robot: Robot, forward: Program | LaneProgram, name: IntegratorName) -> Integrator:
    """The Integrator `name` with the Program of forward dynamics."""
    reframed, _ = economical_robot(robot)
    others = {key: shape for key, shape in forward.inputs.items() if key not in ("q", "qd", "tau")}
    runge_kutta = name == "rk4"

    def function(q, qd, tau, dt, hidden=None, stage=None, **other):
        health: list = []

        def accelerations(q, qd):
            results = interpret(forward, q=q, qd=qd, tau=tau, **other)
            health.extend(results.get(HEALTH, ()))
            return results["qdd"]

        if runge_kutta:
            after = _runge_kutta_stage(reframed, accelerations, q, qd, dt, hidden, stage)
        else:
            after = _semi_implicit_euler(reframed, accelerations, q, qd, dt)
        if reframed.constrained:
            health.append(squared_residuals(reframed, after["q"]))
        return after | ({HEALTH: np.array(health)} if health else {})

    inputs = {"q": (robot.nq,), "qd": (robot.nv,)}
    if runge_kutta:
        inputs["hidden"] = (2 * (reframed.tree.nv + reframed.nv),)
    inputs["tau"] = (robot.nv,)
    stages = RK4 if runge_kutta else np.zeros((1, 0))
    if stages.size:
        inputs["stage"] = stages.shape[1:]
    limits = (*forward.limits, *([OPEN**2] if reframed.constrained else []))
    program = trace(function, {**inputs, "dt": (), **others}, limits)
    return Integrator(program, stages)


def _semi_implicit_euler(robot, accelerations, q, qd, dt):
    """The new velocity moves the position: of first order, and exact for a body in free fall."""
    turning = turning_of_axes(robot.tree, rates_of_all(robot, q, qd))[robot.independent]
    qd = qd + dt * (accelerations(q, qd) + turning)
    after = moved_straight(robot, q, dt * rates_of_all(robot, q, qd))
    return {"q": after, "qd": in_new_axes(robot, q, after, qd)}


def turning_of_axes(tree, rates):
    """(nv of the tree,): the changes of the linear velocities of floating bases along axes that stand still,
    less those along their own axes."""
    turning = np.zeros(len(rates), dtype=object)
    for joint in tree.independent_joints:
        if joint.type.is_free:
            w, v = np.split(rates[joint.v], 2)
            turning[joint.v] = np.concatenate([np.zeros(3), np.cross(w, v)])
    return turning


def moved_straight(robot, q, u):
    """q (nq,) after the displacement u (nv of the tree,): the origins of floating bases move straight."""
    after = displaced(robot, q, u)
    for joint in robot.tree.independent_joints:
        if joint.type.is_free:
            place, R = q[joint.q][:3], quaternion_rotation(q[joint.q][3:])
            after[joint.q] = np.concatenate([place + matvec(R, u[joint.v][3:]), after[joint.q][3:]])
    return after


def in_new_axes(robot, q, after, qd):
    """qd (nv,) with the linear velocities of floating bases along their axes at `after` (nq,), not at q."""
    turned = np.array(qd, dtype=object)
    for joint in robot.independent_joints:
        if joint.type.is_free:
            old, new = (quaternion_rotation(x[joint.q][3:]) for x in (q, after))
            w, v = np.split(qd[joint.v], 2)
            turned[joint.v] = np.concatenate([w, matvec(new.T, matvec(old, v))])
    return turned


def _runge_kutta_stage(robot, accelerations, q, qd, dt, hidden, stage):
    """A stage of a Runge-Kutta method on a Lie group, whose order is up to four (Munthe-Kaas 1998).

    hidden: the displacement and the change of velocity at which this stage is, and their weighted sums so
    far. Displacements (nv of the tree,) are from the start of the step.
    """
    n, nv = robot.tree.nv, robot.nv
    u, dv, u_sum, dv_sum = np.split(hidden, [n, n + nv, 2 * n + nv])
    following, weight, last = stage
    at, rate = displaced(robot, q, u), qd + dv
    u_rate, qdd = _rates_of_displacement(robot, u, rates_of_all(robot, at, rate)), accelerations(at, rate)
    u_sum, dv_sum = u_sum + weight * dt * u_rate, dv_sum + weight * dt * qdd
    left = [following * dt * u_rate, following * dt * qdd, (1.0 - last) * u_sum, (1.0 - last) * dv_sum]
    return {
        "q": displaced(robot, q, last * u_sum),
        "qd": qd + last * dv_sum,
        "hidden": np.concatenate(left),
    }


def rates_of_all(robot, q, qd):
    """Rates (nv of the tree,) of all joints."""
    return rates_at(robot, q, qd, explicit=True).qd


def displaced(robot, q, u):
    """q (nq,) after the displacement u (nv of the tree,), with closed loops."""
    after = np.array(q, dtype=object)
    for joint in robot.tree.independent_joints:
        after[joint.q] = joint.type.integrate(q[joint.q], u[joint.v])
    for _ in range(CLOSING if robot.constrained else 0):
        after = nearer_to_closed(robot, after)
    return after


def _rates_of_displacement(robot, u, rates):
    """The rate of a displacement u by the `rates` after it (both nv of the tree,): the inverse of the
    derivative of the exponential, to third order in u. They are equal except for joints with quaternions."""
    out = np.array(rates, dtype=object)
    for joint in robot.tree.independent_joints:
        if not joint.type.is_scalar:
            S = joint.type.motion(None)
            first = S.T @ cross_motion(S @ u[joint.v], S @ rates[joint.v])
            second = S.T @ cross_motion(S @ u[joint.v], S @ first)
            out[joint.v] = rates[joint.v] + 0.5 * first + second / 12.0
    return out
