"""The graph of joint states and external torques for a fixed-lag smoother.

Steps have one period. Between them, accelerations and external torques are random walks; rates and positions
follow by the trapezoidal rule, whose error is that of white jerk (Bar-Shalom, Li and Kirubarajan 2001, sec.
6.2.3, for such densities). At every step the equations of motion hold exactly and determine the external
torque; the motor torque is a noisy reading like all others. Sensors without a reading have zero weight.

The alternative, external torque as an unknown of noisy equations of motion, loses precision: with an accurate
torque, the information about accelerations would be the difference of two large numbers.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from dynamics_node.codegen import make_runner
from dynamics_node.errors import InputError, SensorError
from dynamics_node.robot import Robot
from dynamics_node.robot.sensors import Accelerometer, Gyro, Imu, Sensor
from dynamics_node.robot.wrong_calls import explains_wrong_calls
from dynamics_node.symbolic import Program, interpret, trace
from dynamics_node.trajectory.fixed_lag import FixedLag
from dynamics_node.trajectory.graphs import estimation_graph
from dynamics_node.trajectory.robot_factors import accelerometer, encoder, gyro, imu, torque
from dynamics_node.trajectory.step_elimination import determined, reading_program
from dynamics_node.trajectory.systems import robot_system
from dynamics_node.trajectory.trajectory_graph import Prior, TrajectoryGraph, prior

UNOBSERVED_TIME = 1.0  # s: a variance as after this time without readings counts as unobservable
READ = {Imu: imu, Gyro: gyro, Accelerometer: accelerometer}
LEAST_STD = 1e-4  # rad/s or m/s^2, of IMUs; with less, rounding errors make rates unobservable
SLACK = 0.01  # fraction of an encoder's noise: lower bound of the position noise, above rounding errors
VARIABLES = ("q", "qd", "qdd", "external_torque")
WALKS = ("random walk qdd", "random walk external_torque")


@explains_wrong_calls
@dataclass(frozen=True)
class SmootherOptions:
    """Noise that `smooth` and the estimator of the node assume, in SI units.

    Parameters
    ----------
    period : float
        Time between steps of the estimator, s.
    lag_steps : int
        Number of steps that the estimator solves at a time, three or more.
    encoder_std : float or tuple of float
        Standard deviation of position readings, rad or m: one for all joints, or one per joint.
    torque_std : float or tuple of float
        Standard deviation of torque readings, N m or N: one for all, or one per independent joint.
    jerk_density : float
        Spectral density of white jerk, rad^2/s^5 or m^2/s^5. Larger values allow faster changes of the
        acceleration.
    external_torque_density : float
        Spectral density of the random walk of external torques, (N m)^2/s or N^2/s.
    start_velocity : float
        Standard deviation of the start velocity about zero, rad/s or m/s.
    start_acceleration : float
        Standard deviation of the start acceleration about zero, rad/s^2 or m/s^2.
    start_external_torque : float
        Standard deviation of the external torque at the start about zero, N m or N.

    Examples
    --------
    >>> options = dn.SmootherOptions(encoder_std=1e-3, torque_std=0.5)
    >>> options.encoder_std, options.jerk_density
    (0.001, 10000.0)

    References
    ----------
    Bar-Shalom, Li and Kirubarajan, Estimation with applications to tracking and navigation, 2001: sec. 6.2.3.
    """

    period: float = 0.002
    lag_steps: int = 10
    encoder_std: float | tuple[float, ...] = 1e-4
    torque_std: float | tuple[float, ...] = 0.2
    jerk_density: float = 1e4
    external_torque_density: float = 1e3
    start_velocity: float = 1.0
    start_acceleration: float = 100.0
    start_external_torque: float = 100.0


def walk_variances(options: SmootherOptions) -> dict[str, np.ndarray | float]:
    """{factor: variance of its rows} of the factors between steps."""
    T, S = options.period, options.jerk_density
    least = np.min(np.square(SLACK * np.asarray(options.encoder_std)))
    return {
        "trapezoidal q": max(S * T**5 / 120, least),
        "trapezoidal qd": S * T**3 / 12,
        WALKS[0]: S * T,
        WALKS[1]: options.external_torque_density * T,
    }


def unobserved_variances(options: SmootherOptions) -> dict[str, float]:
    """{variable: its variance after UNOBSERVED_TIME without readings}."""
    T, S = UNOBSERVED_TIME, options.jerk_density
    return {
        "q": S * T**5 / 20,
        "qd": S * T**3 / 3,
        "qdd": S * T,
        "external_torque": options.external_torque_density * T,
    }


class Smoothed:
    """Compiled functions of a robot with its sensors, independent of the noise. Unpickling rebuilds it with
    code from the cache."""

    def __init__(self, robot: Robot, sensors: Iterable[Sensor] = (), backend="auto"):
        """Raises SensorError for sensors that are exact or no Imu, Gyro or Accelerometer, and ValueError for
        a robot with joints of several coordinates."""
        self.robot, self.sensors, self.backend = robot, tuple(sensors), backend
        self.system = system = robot_system(robot)
        _require_scalar(system)
        self.scalars = tuple(system.scalars)
        self.names = tuple(system.directions[k] for k in self.scalars)
        pairs = [(sensor, _reading(robot, sensor)) for sensor in self.sensors]
        readings = [encoder(system), torque(system), *(factor for _, factor in pairs)]
        self.graph = estimation_graph(system, readings, determines="external_torque")
        self.deviations = {factor.name: _deviations(sensor, factor) for sensor, factor in pairs}
        self.read = ("encoder", "torque", *self.deviations)
        self.predict = _predicting(self.graph, self.read, backend)

    @property
    def independent(self) -> tuple[str, ...]:
        """Names of the joints with a coordinate of their own."""
        return self.system.torque_names

    def __reduce__(self):
        return _compiled, (self.robot, self.sensors, self.backend)

    def compile(self):
        """Compile the functions of a smoother and its covariance. Raises CompileError."""
        start = known_start(self.graph, SmootherOptions(), self.system.q.neutral)
        lag = FixedLag(self.graph, 2, start, self.backend)
        lag.extend()
        lag.covariance()


def known_start(graph: TrajectoryGraph, options: SmootherOptions, start) -> Prior:
    """Prior of the first step: q near start (nq,) within one radian, everything else near zero; the motors
    support the weight of the robot."""
    spread = (1.0, options.start_velocity, options.start_acceleration)
    variances = {name: std**2 for name, std in zip(VARIABLES, spread, strict=False)}
    still = {variable.name: variable.neutral for variable in graph.variables} | {
        "q": np.asarray(start, float)
    }
    columns = graph.columns["external_torque"]
    solved = interpret(_determined_program(graph), **still)
    external_torque = [graph.determined.index(k) for k in range(columns.start, columns.stop)]
    known = prior(graph, still | {"tau": solved["offset"][external_torque]}, variances)
    by = (
        solved["slopes"][external_torque][:, [graph.order.index(k) for k in graph.free]]
        / options.start_external_torque
    )
    return replace(known, information=known.information + by.T @ by)


@lru_cache(maxsize=16)  # graphs
def _predicting(graph, names, backend):
    return make_runner(reading_program(graph, names), backend)


@lru_cache(maxsize=16)  # graphs
def _determined_program(graph: TrajectoryGraph) -> Program:
    """The variables of a step -> offset and slopes of the directions that exact factors determine."""
    shapes = {variable.name: (variable.size,) for variable in graph.variables}
    return trace(lambda **arrays: determined(graph, arrays)._asdict(), shapes)


def _compiled(robot, sensors, backend):
    made = Smoothed(robot, sensors, backend)
    made.compile()
    return made


def _reading(robot, sensor):
    """The factor of a sensor."""
    if type(sensor) not in READ or sensor.value is not None:
        raise SensorError(
            f"sensor {sensor.name!r}: a smoother supports imu, gyro and accelerometer, not {sensor.kind}; "
            "torques are read from the joints"
        )
    return READ[type(sensor)](robot, sensor)


def _deviations(sensor, factor):
    """Standard deviations (rows,) of a sensor."""
    if sensor.std is None:
        raise SensorError(
            f"sensor {sensor.name!r}: std is missing; a smoother needs one with independent rows"
        )
    std = np.broadcast_to(np.asarray(sensor.std, dtype=float), (len(factor.rows),))
    if not (std >= LEAST_STD).all():
        raise SensorError(
            f"sensor {sensor.name!r}: std {std.min():g} is less than {LEAST_STD:g}, which rounding "
            "errors exceed; give that of the sensor's data sheet"
        )
    return std


def _require_scalar(system):
    for k in range(len(system.directions)):
        if k not in system.scalars:
            raise InputError(
                f"{system.name}: {system.directions[k]} belongs to a joint of several coordinates, which "
                "encoders cannot measure; omit the joint or fix it"
            )
