"""Joint state and external torques of a robot from noisy readings, as they come: a fixed-lag smoother.

Steps have one period. Between them accelerations and external torques walk at random; rates and positions
follow by the trapezoidal rule, whose error is that of white jerk (Bar-Shalom, Li and Kirubarajan 2001, sec.
6.2.3, for such densities). At every step the equations of motion hold as well as the torques of the motors
are known, and sensors read what they read; one that says nothing at a step has no weight there.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dynamics_node.loops import Mechanism
from dynamics_node.model import Model
from dynamics_node.sensors import Accelerometer, Gyro, Imu, Sensor, SensorError
from dynamics_node.trajectory.constraints import (
    acceleration_constraint,
    position_constraint,
    velocity_constraint,
)
from dynamics_node.trajectory.dynamics import inverse_dynamics
from dynamics_node.trajectory.fixed_lag import FixedLag
from dynamics_node.trajectory.graph import Prior, TrajectoryGraph, prior, weights_of
from dynamics_node.trajectory.integrators import equality, random_walk, trapezoidal
from dynamics_node.trajectory.readings import accelerometer, encoder, gyro, imu
from dynamics_node.trajectory.systems import System, robot_system

FIRST = 3  # steps that tell rates; before there are so many, Gauss-Newton finds none from IMUs alone
TOLERANCE = 10.0  # of a change, rad/s^2 and N m being the largest: the next iteration would change 1e-4 of it
UNTOLD = 1.0  # s: what is known no better than after so long without a reading is not told by any
READ = {Imu: imu, Gyro: gyro, Accelerometer: accelerometer}
SLACK = 0.01  # of an encoder's noise: no step is known better, or rounding would tell accelerations
WALKS = ("random walk qdd", "random walk push")


@dataclass(frozen=True)
class SmootherOptions:
    """Noise of one robot in SI units: encoder_std, rad or m, torque_std, N m or N: of all joints or of each
    independent one; jerk_density: of white jerk, rad^2/s^5 or m^2/s^5; push_density: of the random walk of
    external torques, (N m)^2/s or N^2/s. period, s; window: steps, two or more. start_velocity,
    start_acceleration, start_push: standard deviations of what is zero at the start, as far as one knows."""

    period: float = 0.002
    window: int = 10
    encoder_std: float | tuple[float, ...] = 1e-4
    torque_std: float | tuple[float, ...] = 0.2
    jerk_density: float = 1e4
    push_density: float = 1e3
    start_velocity: float = 1.0
    start_acceleration: float = 100.0
    start_push: float = 100.0

    def variances(self, system: System) -> dict[str, np.ndarray | float]:
        """{factor: variance of its rows} of the factors between steps."""
        T, S = self.period, self.jerk_density
        least = np.min(np.square(SLACK * np.asarray(self.encoder_std)))
        return {
            "trapezoidal q": max(S * T**5 / 120, least),
            "trapezoidal qd": S * T**3 / 12,
            WALKS[0]: S * T,
            WALKS[1]: self.push_density * T,
        }

    def untold(self) -> dict[str, float]:
        """{variable: the variance that it gathers in UNTOLD without readings}."""
        T, S = UNTOLD, self.jerk_density
        return {"q": S * T**5 / 20, "qd": S * T**3 / 3, "qdd": S * T, "push": self.push_density * T}


class JointEstimate(NamedTuple):
    """Of one step, over the joints `names`: values (n,) and covariances (n, n) of position, velocity,
    acceleration and external torque; q (nq,) and qd of all directions; chi_square: of the step's readings,
    of which there are `readings`; worst: the sensor that agrees least; unobservable: 'quantity joint'."""

    names: tuple[str, ...]
    position: np.ndarray
    velocity: np.ndarray
    acceleration: np.ndarray
    external_torque: np.ndarray
    covariances: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
    q: np.ndarray
    qd: np.ndarray
    chi_square: float
    readings: int
    worst: str
    unobservable: tuple[str, ...]


VARIABLES = ("q", "qd", "qdd", "push")
QUANTITIES = ("position", "velocity", "acceleration", "external_torque")


class Smoothed:
    """What is compiled of a robot with its sensors: made once, for any noise. Pickled it is made and compiled
    anew, its code taken from the cache."""

    def __init__(self, robot: Model | Mechanism, sensors: Iterable[Sensor] = (), backend="auto"):
        """Raises SensorError for sensors that are no Imu, Gyro or Accelerometer or are exact, ValueError for
        a robot with a joint of several coordinates, by name."""
        self.robot, self.sensors, self.backend = robot, tuple(sensors), backend
        self.system = system = robot_system(robot)
        _refuse_several(system)
        self.scalars = tuple(system.scalars)
        self.names = tuple(system.directions[k] for k in self.scalars)
        push = system.torque("push")
        own = [(sensor, _reading(robot, sensor)) for sensor in self.sensors]
        kinds = (position_constraint, velocity_constraint, acceleration_constraint)
        factors = [
            *(kind(system) for kind in kinds if system.dependent),
            trapezoidal(system.q, system.independent),
            trapezoidal(system.qd, system.independent),
            equality(system.qdd, system.independent, name="random walk"),
            random_walk(push),
            encoder(system),
            inverse_dynamics(system, None, known=("tau",), unknown=("push",)),
            *(factor for _, factor in own),
        ]
        self.graph = TrajectoryGraph((system.q, system.qd, system.qdd, push), tuple(factors))
        self.deviations = {factor.name: _deviations(sensor, factor) for sensor, factor in own}
        self.read = ("encoder", "dynamics", *self.deviations)

    @property
    def independent(self) -> tuple[str, ...]:
        """Names of the joints with a coordinate of their own."""
        return self.system.torque_names

    def __reduce__(self):
        return _compiled, (self.robot, self.sensors, self.backend)

    def compile(self):
        """Compile what a smoother runs, and what tells its covariance. Raises CompileError."""
        smoother = JointSmoother(self, SmootherOptions(window=2), self.system.q.neutral)
        smoother.lag.extend()
        smoother.lag.covariance()


def known_start(graph: TrajectoryGraph, options: SmootherOptions, start) -> Prior:
    """Of the first step: q near start (nq,), to one radian, everything else near zero."""
    spread = (1.0, options.start_velocity, options.start_acceleration, options.start_push)
    return prior(graph, {"q": start}, {name: std**2 for name, std in zip(VARIABLES, spread, strict=True)})


def _compiled(robot, sensors, backend):
    made = Smoothed(robot, sensors, backend)
    made.compile()
    return made


class JointSmoother:
    """smoother.step() makes a step more, smoother.read(...) tells what was read at one, smoother.solve()
    finds the most likely window, smoother.estimate(...) tells what is known of a step of it.

    start (nq,): the position at the first step, as known as one radian. newest: number of the last step, -1
    before the first.
    """

    def __init__(self, smoothed: Smoothed, options: SmootherOptions, start):
        self.smoothed, self.options, self.newest = smoothed, options, -1
        graph, system = smoothed.graph, smoothed.system
        known = known_start(graph, options, start)
        self.lag = FixedLag(graph, options.window, known, smoothed.backend, tolerance=TOLERANCE)
        shapes = graph.row
        self._blank = {weights_of(f.name): np.zeros(shapes[weights_of(f.name)]) for f in graph.weighted}
        for name, variance in options.variances(system).items():
            self._blank[weights_of(name)] = self._blank[weights_of(name)] + 1.0 / variance
        self._blank["dt"] = np.array([options.period])
        count = len(smoothed.scalars)
        self._weights = {
            "encoder": 1.0 / np.square(_each(options.encoder_std, count)),
            "dynamics": 1.0 / np.square(_each(options.torque_std, len(smoothed.independent))),
        } | {name: 1.0 / np.square(std) for name, std in smoothed.deviations.items()}
        self._untold = options.untold()

    @property
    def oldest(self) -> int:
        """Number of the oldest step of the window."""
        return self.newest - len(self.lag) + 1 if self.newest >= 0 else 0

    def step(self):
        """One step more, at which nothing has been read yet."""
        self.lag.extend(**self._blank)
        self.newest += 1

    def read(self, number, sensor, values, share=1.0):
        """What a sensor read at a step of the window: 'encoder' (all joints with a position,), 'dynamics':
        torques of the motors (independent joints,), or the name of a sensor (its rows,); NaN where it says
        nothing. Several readings at one step count as their mean, `share` of a reading each."""
        row = number - self.oldest
        steps, weights = self.lag.steps, weights_of(sensor)
        at = "tau" if sensor == "dynamics" else f"reading {sensor}"
        values = np.asarray(values, dtype=float)
        told = np.isfinite(values)
        own = np.where(told, share * self._weights[sensor], 0.0)
        before = steps[weights][row]
        total = before + own
        mean = before * steps[at][row] + own * np.where(told, values, 0.0)
        steps[at][row] = np.where(total > 0, mean / np.where(total > 0, total, 1.0), 0.0)
        steps[weights][row] = total

    def solve(self):
        """Find the most likely window, from the third step on. Raises TrajectoryError."""
        if len(self.lag) >= FIRST:
            self.lag.solve()

    def at(self, number):
        """q (nq,) and qd of all directions at a step of the window."""
        row, steps = number - self.oldest, self.lag.steps
        return steps["q"][row].copy(), steps["qd"][row].copy()

    def estimate(self, number) -> JointEstimate:
        """Of a step of the window, after `solve`."""
        row, smoothed = number - self.oldest, self.smoothed
        system, graph = smoothed.system, smoothed.graph
        steps, P = self.lag.steps, self.lag.covariance()[row]
        own = list(system.independent)
        q = steps["q"][row].copy()
        values = [q[[system.scalars[k] for k in own]]]
        values += [steps["qd"][row][own], steps["qdd"][row][own], steps["push"][row].copy()]
        columns = [graph.columns["push"].start + np.arange(len(own))]
        columns = [graph.columns[name].start + np.array(own) for name in VARIABLES[:3]] + columns
        blocks = tuple(P[np.ix_(at, at)] for at in columns)
        chi_square, readings, worst = self._agreement(row)
        position, velocity, acceleration, push = values
        return JointEstimate(
            smoothed.independent, position, velocity, acceleration, push, blocks, q, steps["qd"][row].copy(),
            chi_square, readings, worst, self._unobservable(blocks),
        )  # fmt: skip

    def _agreement(self, row):
        """Sum of squares over the variances of the readings of a step, their number, and the worst sensor."""
        names = [factor.name for factor in self.smoothed.graph.weighted]
        squares = dict(zip(names, self.lag.found["squares"][row], strict=True))
        counts = {name: int((self.lag.steps[weights_of(name)][row] > 0).sum()) for name in self.smoothed.read}
        per_row = {name: squares[name] / count for name, count in counts.items() if count}
        worst = max(per_row, key=lambda name: per_row[name]) if per_row else ""
        return float(sum(squares[name] for name in self.smoothed.read)), sum(counts.values()), worst

    def _unobservable(self, blocks):
        found = []
        for name, quantity, block in zip(VARIABLES, QUANTITIES, blocks, strict=True):
            weak = np.flatnonzero(~(np.diag(block) < self._untold[name]))
            found += [f"{quantity} {self.smoothed.independent[k]}" for k in weak]
        return tuple(found)


def _reading(robot, sensor):
    """The factor of a sensor."""
    if type(sensor) not in READ or sensor.value is not None:
        raise SensorError(
            f"sensor {sensor.name!r}: a smoother reads imu, gyro and accelerometer, not {sensor.kind}; "
            "torques are those of the joints"
        )
    return READ[type(sensor)](robot, sensor)


def _deviations(sensor, factor):
    """Standard deviations (rows,) of a sensor."""
    if sensor.std is None:
        raise SensorError(f"sensor {sensor.name!r}: give its std; a smoother takes rows as independent")
    found = np.broadcast_to(np.asarray(sensor.std, dtype=float), (len(factor.rows),))
    if not (found > 0).all():
        raise SensorError(f"sensor {sensor.name!r}: its std must be positive; none is exact")
    return found


def _refuse_several(system):
    for k in range(len(system.directions)):
        if k not in system.scalars:
            raise ValueError(
                f"{system.name}: {system.directions[k]} belongs to a joint of several coordinates, which no "
                "encoder reads; leave the joint out, or hold it"
            )


def _each(value, count):
    """One number for all, or one of each. Raises ValueError."""
    found = np.atleast_1d(np.asarray(value, dtype=float))
    if len(found) not in (1, count):
        raise ValueError(f"{len(found)} numbers for {count} joints: give one for all or one of each")
    return np.broadcast_to(found, (count,))
