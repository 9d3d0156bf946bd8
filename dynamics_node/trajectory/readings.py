"""What sensors read, as factors with a variance: of positions, rates, torques and of IMUs.

The reading of the factor NAME is the data `reading NAME`; a bias, where it is asked for, is a variable `bias
NAME` (see `bias_of`) that the sensor adds to what is true. A sensor that says nothing at a step has no
weight there; against outliers: `dataclasses.replace(factor, loss=cauchy())`.
"""

import numpy as np

from dynamics_node.algorithms.accelerations import body_motions
from dynamics_node.algorithms.reduced_frames import economical
from dynamics_node.algorithms.transforms import joint_transforms
from dynamics_node.graph.sensor_factors import sensor_transform
from dynamics_node.robot import Robot
from dynamics_node.robot.sensors import Accelerometer, Gyro, Imu
from dynamics_node.symbolic import transform_origin, transform_rotation
from dynamics_node.trajectory.factor import Factor
from dynamics_node.trajectory.systems import System
from dynamics_node.trajectory.variables import Variable, vector

ROUNDING = 1e-14  # entries of a transform beside 1 that were meant to be zero


def encoder(system: System, directions=None, name="encoder", bias=False) -> Factor:
    """Positions, rad or m, of some directions with one coordinate, of all by default. A continuous joint's
    reading is taken as it is: one that jumps by a turn is to be unwrapped before."""
    chosen = _with_one_coordinate(system, directions)
    places = [system.scalars[k] for k in chosen]
    return _reading(name, [system.directions[k] for k in chosen], ("q",), lambda q: q[places], bias)


def velocity_reading(system: System, directions=None, name="velocity", bias=False) -> Factor:
    """Rates qd of some directions, of all by default."""
    chosen = list(range(len(system.directions)) if directions is None else directions)
    return _reading(name, [system.directions[k] for k in chosen], ("qd",), lambda qd: qd[chosen], bias)


def torque(system: System, name="torque", bias=False, variable="tau") -> Factor:
    """The variable `tau` (nv,), N m or N, as sensors at the joints or motors report it."""
    return _reading(name, system.torque_names, (variable,), lambda **x: x[variable], bias)


def gyro(robot: Robot, sensor: Gyro | Imu, bias=False) -> Factor:
    """The angular velocity (3) of a link in the sensor's axes, rad/s."""
    return _of_link(robot, sensor, bias, ("q", "qd"), _turning)


def accelerometer(robot: Robot, sensor: Accelerometer | Imu, bias=False) -> Factor:
    """The proper acceleration (3) of a point of a link in the sensor's axes, m/s^2."""
    return _of_link(robot, sensor, bias, ("q", "qd", "qdd"), _proper_acceleration)


def imu(robot: Robot, sensor: Imu, bias=False) -> Factor:
    """A gyro's three rows, then an accelerometer's."""
    return _of_link(robot, sensor, bias, ("q", "qd", "qdd"), _both)


def bias_of(factor: Factor) -> Variable | None:
    """The Variable of a factor's bias, None if it has none."""
    name = _bias(factor.name)
    return vector(name, factor.rows) if name in factor.now else None


def _with_one_coordinate(system, directions):
    if directions is None:
        return list(system.scalars)
    for k in directions:
        if k not in system.scalars:
            raise ValueError(f"{system.name}: {system.directions[k]!r} has no position of its own to read")
    return list(directions)


def _reading(name, rows, now, predicted, bias):
    reading, offset = f"reading {name}", _bias(name)

    def residual(**x):
        found = predicted(**{one: x[one] for one in now}) - x[reading]
        return found + x[offset] if bias else found

    return Factor(
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
    """kind: Motion of the body, E (3, 3) and r (3,) of the sensor on it -> what it reads."""
    body = robot.tree.frame(sensor.link).body
    if body < 0:
        raise ValueError(
            f"sensor {sensor.name!r}: link {sensor.link!r} is fixed to the world and never moves"
        )
    tree = economical(robot)[0].tree  # whose operations the dynamics share
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
    """Gravity is in the acceleration of the root already."""
    return E @ (motion.a + motion.U @ r)


def _both(motion, E, r):
    return np.concatenate([_turning(motion, E, r), _proper_acceleration(motion, E, r)])


_PARTS = {
    _turning: ("angular velocity",),
    _proper_acceleration: ("acceleration",),
    _both: ("angular velocity", "acceleration"),
}
