"""Factors of a robot: constraints, dynamics, the trapezoidal rule, and sensor readings.

Torques (nv,) in the equations of motion are a sum of data, `known`, and variables, `unknown`: 'tau' of the
motors, 'external_torque' of the environment.

Positions with quaternions cannot be added, so the trapezoidal rule measures a step in the chart `difference`
around its own position, whose coordinates c change by D qd, D = dc/dq dq/dt. For joints with one coordinate D
is the identity, and the rule is the usual one. directions: those with a row, default all.

The reading of the sensor NAME is the data `reading NAME`; a bias is a variable `bias NAME` (see `bias_of`)
that the sensor adds to the true value. A sensor without a reading at a step has zero weight. For outliers use
`dataclasses.replace(factor, loss=cauchy())`.
"""

from functools import lru_cache

import numpy as np

from dynamics_node.algorithms.reduced_frames import economical_robot
from dynamics_node.algorithms.rnea import body_motions
from dynamics_node.errors import InputError
from dynamics_node.graph.sensor_factors import sensor_transform
from dynamics_node.robot import Robot
from dynamics_node.robot.sensors import Accelerometer, Gyro, Imu
from dynamics_node.robot.transforms import joint_transforms
from dynamics_node.symbolic import (
    Program,
    derivative_name,
    interpret,
    jacobian,
    trace,
    transform_origin,
    transform_rotation,
)
from dynamics_node.trajectory.factor import NEXT, TrajectoryFactor, TrajectoryVariable, vector
from dynamics_node.trajectory.passive import PassiveTorques
from dynamics_node.trajectory.systems import System


def constraints(system: System) -> list[TrajectoryFactor]:
    """phi(q) = 0, K(q) qd = 0 and K qdd + dK/dt qd = 0, which determine the dependent positions, velocities
    and accelerations; none for a tree."""
    functions = {
        "position": system.positions, "velocity": system.velocities, "acceleration": system.accelerations,
    }  # fmt: skip
    names = ("q", "qd", "qdd")
    return [
        TrajectoryFactor(
            name=f"{kind} constraint",
            residual=lambda of=function, now=names[: count + 1], **x: of(*(x[name] for name in now)),
            rows=tuple(f"{kind} {system.directions[k]}" for k in system.dependent),
            now=names[: count + 1],
            determines=tuple((names[count], k) for k in system.dependent),
        )
        for count, (kind, function) in enumerate(functions.items() if system.dependent else ())
    ]


def prior_factor(x: TrajectoryVariable, directions=None) -> TrajectoryFactor:
    """x is near the data `prior NAME` (size,), along `directions`, default all."""
    chosen = _chosen(x, directions)
    value = f"prior {x.name}"
    return TrajectoryFactor(
        name=value,
        residual=lambda **v: x.difference(v[x.name], v[value])[chosen],
        rows=tuple(x.names[k] for k in chosen),
        now=(x.name,),
        data={value: (x.size,)},
    )


# --- dynamics -----------------------------------------------------------------------------------------------


def inverse_dynamics(
    system: System, determines: str | None, known=(), unknown=(), passive: PassiveTorques | None = None
) -> TrajectoryFactor:
    """ID(q, qd, qdd) - torque = 0, with passive torques added to ID if given.

    determines: 'qdd' of the independent directions (a forward problem), or one of `unknown` (an inverse one),
    exactly; None: rows with a variance, in N m or N.
    """
    if determines == "qdd":
        determined = tuple(("qdd", k) for k in system.independent)
    elif determines is None or determines in unknown:
        determined = tuple((determines, k) for k in range(len(system.independent)) if determines)
    else:
        raise InputError(f"inverse dynamics determine 'qdd' or one of {unknown}, not {determines!r}")

    tangent = {} if passive is None else passive.data

    def residual(q, qd, qdd, **torques):
        known = {name: torques.pop(name) for name in tangent}
        overcome = () if passive is None else (passive.torque(q, qd, **known),)
        return system.inverse(q, qd, qdd, *overcome) - sum(torques.values())

    return TrajectoryFactor(
        name="dynamics",
        residual=residual,
        rows=system.torque_names,
        now=("q", "qd", "qdd", *unknown),
        data={name: (len(system.independent),) for name in known} | tangent,
        determines=determined,
        definite=determines == "qdd",
    )


# --- from one step to the next ------------------------------------------------------------------------------


def trapezoidal(x: TrajectoryVariable, directions=None) -> TrajectoryFactor:
    """Second order: x_next - x - dt/2 (xd + xd_next)."""

    def residual(dt, **v):
        step, rate = _in_chart(x, v[x.name], v[x.name + NEXT], v[x.rate + NEXT])
        return (step - 0.5 * dt * (v[x.rate] + rate))[chosen]

    chosen = _chosen(x, directions)
    return TrajectoryFactor(
        name=f"trapezoidal {x.name}",
        residual=residual,
        rows=tuple(x.names[k] for k in chosen),
        now=(x.name, x.rate),
        after=(x.name, x.rate),
        data={"dt": (1,)},
    )


def random_walk(x: TrajectoryVariable, directions=None) -> TrajectoryFactor:
    """x_next - x of an otherwise undriven variable, such as a bias; its variance grows with dt."""

    def residual(**v):
        return x.difference(v[x.name + NEXT], v[x.name])[chosen]

    chosen = _chosen(x, directions)
    rows = tuple(x.names[k] for k in chosen)
    return TrajectoryFactor(
        name=f"random walk {x.name}", residual=residual, rows=rows, now=(x.name,), after=(x.name,)
    )


def _chosen(x, directions):
    return list(range(x.tangent)) if directions is None else list(directions)


def _in_chart(x, start, to, rates):
    """The step (tangent,) from start to `to`, and its derivative for rates (tangent,) there."""
    outputs = interpret(_chart(x), start=start, to=to)
    return outputs["step"], outputs["D"] @ rates


@lru_cache(maxsize=64)  # variables
def _chart(x: TrajectoryVariable) -> Program:
    """start, to -> step (tangent,) and D (tangent, tangent), its Jacobian by the directions."""
    shapes = {"start": (x.size,), "to": (x.size,)}
    step = trace(lambda start, to: {"step": x.difference(to, start)}, shapes)
    derived = jacobian(step, ["step"], ["to"])

    def function(start, to):
        by = interpret(derived, start=start, to=to)[derivative_name("step", "to")]
        return {"step": interpret(step, start=start, to=to)["step"], "D": by @ x.tangent_map(to)}

    return trace(function, shapes)


# --- readings -----------------------------------------------------------------------------------------------


ROUNDING = 1e-14  # entries of a transform: smaller ones are rounding errors of zero


def encoder(system: System, directions=None, name="encoder", bias=False) -> TrajectoryFactor:
    """Positions, rad or m, of some directions with one coordinate, default all. Readings of continuous joints
    must be unwrapped."""
    chosen = _with_one_coordinate(system, directions)
    places = [system.scalars[k] for k in chosen]
    return _reading(name, [system.directions[k] for k in chosen], ("q",), lambda q: q[places], bias)


def velocity_reading(system: System, directions=None, name="velocity", bias=False) -> TrajectoryFactor:
    """Rates qd of some directions, default all."""
    chosen = list(range(len(system.directions)) if directions is None else directions)
    return _reading(name, [system.directions[k] for k in chosen], ("qd",), lambda qd: qd[chosen], bias)


def torque(system: System, name="torque", bias=False, variable="tau") -> TrajectoryFactor:
    """The variable `tau` (nv,), N m or N, as measured by sensors at joints or motors."""
    return _reading(name, system.torque_names, (variable,), lambda **x: x[variable], bias)


def gyro(robot: Robot, sensor: Gyro | Imu, bias=False) -> TrajectoryFactor:
    """The angular velocity (3) of a link in the sensor's axes, rad/s."""
    return _of_link(robot, sensor, bias, ("q", "qd"), _turning)


def accelerometer(robot: Robot, sensor: Accelerometer | Imu, bias=False) -> TrajectoryFactor:
    """The proper acceleration (3) of a point of a link in the sensor's axes, m/s^2."""
    return _of_link(robot, sensor, bias, ("q", "qd", "qdd"), _proper_acceleration)


def imu(robot: Robot, sensor: Imu, bias=False) -> TrajectoryFactor:
    """A gyro's three rows, then an accelerometer's."""
    return _of_link(robot, sensor, bias, ("q", "qd", "qdd"), _both)


def bias_of(factor: TrajectoryFactor) -> TrajectoryVariable | None:
    """The TrajectoryVariable of a factor's bias, None if it has none."""
    name = _bias(factor.name)
    return vector(name, factor.rows) if name in factor.now else None


def _with_one_coordinate(system, directions):
    if directions is None:
        return list(system.scalars)
    for k in directions:
        if k not in system.scalars:
            raise InputError(
                f"{system.name}: {system.directions[k]!r} has no position that an encoder can read"
            )
    return list(directions)


def _reading(name, rows, now, predicted, bias):
    reading, offset = f"reading {name}", _bias(name)

    def residual(**x):
        residuals = predicted(**{one: x[one] for one in now}) - x[reading]
        return residuals + x[offset] if bias else residuals

    return TrajectoryFactor(
        name=name,
        residual=residual,
        rows=tuple(rows),
        now=(*now, offset) if bias else now,
        data={reading: (len(rows),)},
    )


def _bias(name):
    return f"bias {name}"


# --- sensors on links ---------------------------------------------------------------------------------------


def _of_link(robot, sensor, bias, now, kind):
    """kind: Motion of the body, E (3, 3) and r (3,) of the sensor on it -> its reading."""
    body = robot.tree.frame(sensor.link).body
    if body < 0:
        raise InputError(
            f"sensor {sensor.name!r}: link {sensor.link!r} is fixed to the world and does not move"
        )
    tree = economical_robot(robot)[0].tree  # shares its operations with the dynamics
    X = sensor_transform(tree, sensor.link, sensor.xyz, sensor.rpy)
    X = np.where(np.abs(X) < ROUNDING, 0.0, X)
    E, r = transform_rotation(X), transform_origin(X)

    def predicted(q, qd, qdd=None):
        qdd = np.zeros(tree.nv) if qdd is None else qdd
        return kind(body_motions(tree, joint_transforms(tree, q), qd, qdd)[body], E, r)

    rows = [f"{part} {axis}" for part in _PARTS[kind] for axis in "xyz"]
    return _reading(sensor.name, rows, now, predicted, bias)


def _turning(motion, E, r):
    return E @ motion.w


def _proper_acceleration(motion, E, r):
    """The acceleration of the root already includes gravity."""
    return E @ (motion.a + motion.U @ r)


def _both(motion, E, r):
    return np.concatenate([_turning(motion, E, r), _proper_acceleration(motion, E, r)])


_PARTS = {
    _turning: ("angular velocity",),
    _proper_acceleration: ("acceleration",),
    _both: ("angular velocity", "acceleration"),
}
