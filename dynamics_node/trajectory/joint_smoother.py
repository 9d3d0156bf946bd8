"""Fixed-lag smoother of joint states and external torques, from noisy readings as they arrive."""

from typing import NamedTuple

import numpy as np

from dynamics_node.errors import InputError
from dynamics_node.trajectory.fixed_lag import FixedLag
from dynamics_node.trajectory.gauss_newton import covariances, run
from dynamics_node.trajectory.joint_graph import (
    VARIABLES,
    Smoothed,
    SmootherOptions,
    known_start,
    unobserved_variances,
    walk_variances,
)
from dynamics_node.trajectory.trajectory_graph import weights_of

__all__ = ["FIRST", "JointEstimate", "JointSmoother", "Smoothed", "SmootherOptions"]
FIRST = 3  # steps needed for rates; with fewer, Gauss-Newton does not converge from IMUs alone
RATES = "rates"  # key in addition to the sensors
TOLERANCE = 1.0  # of a relative change: the next iteration would change 1e-4 of it


class JointEstimate(NamedTuple):
    """Estimate of one step for the joints `names`: values (n,) and covariances (n, n) of position, velocity,
    acceleration and external torque; q (nq,) and qd of all directions; chi_square: of the step's readings,
    whose number is `readings`; worst: the least consistent sensor; unobservable: 'quantity joint'."""

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


QUANTITIES = ("position", "velocity", "acceleration", "external_torque")


class JointSmoother:
    """Call step() to add a step, read(...) to add a reading, solve() to compute the most likely window, and
    estimate(...) to get the estimate of a step.

    start (nq,): the position at the first step, known to one radian. newest: number of the last step, -1
    before the first.
    """

    def __init__(self, smoothed: Smoothed, options: SmootherOptions, start):
        if options.lag_steps < FIRST:
            raise InputError(
                f"lag_steps must be at least {FIRST} steps to determine rates, not {options.lag_steps}"
            )
        self.smoothed, self.options, self.start, self.newest = smoothed, options, start, -1
        graph = smoothed.graph
        known = known_start(graph, options, start)
        self.lag = FixedLag(graph, options.lag_steps, known, smoothed.backend, tolerance=TOLERANCE)
        shapes = graph.row
        self._blank = {weights_of(f.name): np.zeros(shapes[weights_of(f.name)]) for f in graph.weighted}
        for name, variance in walk_variances(options).items():
            self._blank[weights_of(name)] = self._blank[weights_of(name)] + 1.0 / variance
        self._blank["dt"] = np.array([options.period])
        count = len(smoothed.scalars)
        self._weights = {
            "encoder": 1.0 / np.square(_each(options.encoder_std, count)),
            "torque": 1.0 / np.square(_each(options.torque_std, len(smoothed.independent))),
        } | {name: 1.0 / np.square(std) for name, std in smoothed.deviations.items()}
        self._unobserved = unobserved_variances(options)
        rows = {factor.name: len(factor.rows) for factor in graph.factors}
        ends = np.cumsum([rows[name] for name in smoothed.read]).tolist()
        self._places = {
            name: slice(end - rows[name], end) for name, end in zip(smoothed.read, ends, strict=True)
        }
        self._read = np.empty((ends[-1], 1 + len(graph.column_names)))
        self._predicted: dict[int, dict[str, tuple[np.ndarray, np.ndarray]]] = {}
        self._solved = False

    @property
    def oldest(self) -> int:
        """Number of the oldest step of the window."""
        return self.newest - len(self.lag) + 1 if self.newest >= 0 else 0

    def step(self):
        """Add a step without readings."""
        self.lag.extend(**self._blank)
        self.newest += 1
        self._solved = False

    def read(self, number, sensor, values, variance: np.ndarray | float = 0.0):
        """Add a reading at a step of the window. sensor: 'encoder' (all joints with a position,), 'torque' of
        the motors (independent joints,), or the name of a sensor (its rows,); NaN for missing values.
        variance: of the values (rows,), in addition to the sensor's. Several readings at one step are
        averaged and weighted by their count."""
        row = number - self.oldest
        steps, weights = self.lag.steps, weights_of(sensor)
        at = f"reading {sensor}"
        values = np.asarray(values, dtype=float)
        finite = np.isfinite(values)
        weight = np.where(finite, 1.0 / (1.0 / self._weights[sensor] + variance), 0.0)
        before = steps[weights][row]
        total = before + weight
        mean = before * steps[at][row] + weight * np.where(finite, values, 0.0)
        steps[at][row] = np.where(total > 0, mean / np.where(total > 0, total, 1.0), 0.0)
        steps[weights][row] = total

    def solve(self):
        """Compute the most likely window, from the third step on. Raises TrajectoryError."""
        if len(self.lag) >= FIRST:
            self.lag.solve()
            self._solved = True
        self._predicted.clear()

    def predicted(self, number, sensor) -> tuple[np.ndarray, np.ndarray] | None:
        """Predicted reading of a sensor (rows,) at a step of the window, from all readings before the last
        `step` or `solve`, with its covariance (rows, rows) including the noise of one reading. None before
        there are FIRST steps. Raises TrajectoryError."""
        if len(self.lag) < FIRST:
            return None
        return self._at(number)[sensor]

    def rates(self, number) -> tuple[np.ndarray, np.ndarray]:
        """Variances of velocity and acceleration of joints (with a position,) at a step, from the same
        readings. Raises TrajectoryError."""
        if len(self.lag) < FIRST:
            start = self.options.start_velocity, self.options.start_acceleration
            velocity, acceleration = (np.full(len(self.smoothed.scalars), std**2) for std in start)
            return velocity, acceleration
        return self._at(number)[RATES]

    def _at(self, number):
        if not self._solved:
            self.solve()
        if number not in self._predicted:
            self._predicted[number] = self._prediction(number - self.oldest)
        return self._predicted[number]

    def _prediction(self, row):
        graph, steps = self.smoothed.graph, self.lag.steps
        run(self.smoothed.predict, *(steps[variable.name][row] for variable in graph.variables), self._read)
        P = covariances(graph, {name: rows[row:] for name, rows in self.lag.outputs.items()})[0]
        variances, scalars = P.diagonal(), list(self.smoothed.scalars)
        velocity, acceleration = (variances[graph.columns[name]][scalars] for name in ("qd", "qdd"))
        readings = {RATES: (velocity, acceleration)}
        for name, place in self._places.items():
            J = self._read[place, 1:]
            readings[name] = self._read[place, 0].copy(), J @ P @ J.T + np.diag(1.0 / self._weights[name])
        return readings

    def loosen(self, number, factor):
        """Allow for a jump: multiply the variances of changes between the previous step and a step of the
        window by `factor`."""
        row = max(0, number - self.oldest - 1)
        for name in walk_variances(self.options):
            self.lag.steps[weights_of(name)][row] /= factor

    def squares(self, number) -> tuple[float, int]:
        """Normalized squared errors of all factors from step `number` on, after `solve`, and the number of
        scalar readings there."""
        row = max(0, number - self.oldest)
        read = sum(int((self.lag.steps[weights_of(name)][row:] > 0).sum()) for name in self.smoothed.read)
        return float(self.lag.outputs["squares"][row:].sum()), read

    def times_read(self, number, sensor) -> np.ndarray:
        """(rows,): number of steps of the window from `number` on with a reading of each row."""
        return (self.lag.steps[weights_of(sensor)][max(0, number - self.oldest) :] > 0).sum(axis=0)

    def steps_read(self, sensor) -> list[int]:
        """Numbers of the steps of the window with a reading of a sensor."""
        return (self.oldest + np.flatnonzero((self.lag.steps[weights_of(sensor)] > 0).any(axis=1))).tolist()

    def unread(self, number, sensor) -> int:
        """Remove the readings of a sensor from step `number` on. Returns the number of affected steps."""
        weights = self.lag.steps[weights_of(sensor)][max(0, number - self.oldest) :]
        steps = int((weights > 0).any(axis=1).sum())
        weights[:] = 0.0
        return steps

    def encoder_errors(self, number) -> np.ndarray:
        """Errors of the estimate at the position readings of a step (joints with a position,), in standard
        deviations; 0 without a reading."""
        row, steps, smoothed = number - self.oldest, self.lag.steps, self.smoothed
        q = steps["q"][row][[smoothed.system.scalars[k] for k in smoothed.scalars]]
        return np.abs(q - steps["reading encoder"][row]) * np.sqrt(steps[weights_of("encoder")][row])

    def saved(self) -> np.ndarray:
        """All numbers of the window, for `restore`."""
        return self.lag.steps.rows.copy()

    def restore(self, rows):
        """Restore a window from `saved`, without a step in between."""
        self.lag.steps.rows[:] = rows
        self._solved = False
        self._predicted.clear()

    def adopt(self, other: "JointSmoother"):
        """Replace the window and all earlier information by those of a smoother of the same steps."""
        self.lag.adopt(other.lag)
        self._solved = False
        self._predicted.clear()

    def at(self, number):
        """q (nq,), qd and qdd of all directions at a step of the window."""
        row, steps = number - self.oldest, self.lag.steps
        return steps["q"][row].copy(), steps["qd"][row].copy(), steps["qdd"][row].copy()

    def estimate(self, number) -> JointEstimate:
        """Estimate of a step of the window, after `solve`."""
        row, smoothed = number - self.oldest, self.smoothed
        system, graph = smoothed.system, smoothed.graph
        steps, P = self.lag.steps, self.lag.covariance(row)[0]
        independent = list(system.independent)
        q = steps["q"][row].copy()
        values = [q[[system.scalars[k] for k in independent]]]
        values += [
            steps["qd"][row][independent],
            steps["qdd"][row][independent],
            steps["external_torque"][row].copy(),
        ]
        columns = [graph.columns["external_torque"].start + np.arange(len(independent))]
        columns = [graph.columns[name].start + np.array(independent) for name in VARIABLES[:3]] + columns
        blocks = tuple(P[np.ix_(at, at)] for at in columns)
        chi_square, readings, worst = self._agreement(row)
        position, velocity, acceleration, external_torque = values
        return JointEstimate(
            smoothed.independent, position, velocity, acceleration, external_torque, blocks, q,
            steps["qd"][row].copy(), chi_square, readings, worst, self._unobservable(blocks),
        )  # fmt: skip

    def _agreement(self, row):
        """Normalized sum of squares of the readings of a step, their number, and the worst sensor."""
        names = [factor.name for factor in self.smoothed.graph.weighted]
        squares = dict(zip(names, self.lag.outputs["squares"][row], strict=True))
        counts = {name: int((self.lag.steps[weights_of(name)][row] > 0).sum()) for name in self.smoothed.read}
        per_row = {name: squares[name] / count for name, count in counts.items() if count}
        worst = max(per_row, key=lambda name: per_row[name]) if per_row else ""
        return float(sum(squares[name] for name in self.smoothed.read)), sum(counts.values()), worst

    def _unobservable(self, blocks):
        names = []
        for name, quantity, block in zip(VARIABLES, QUANTITIES, blocks, strict=True):
            weak = np.flatnonzero(~(np.diag(block) < self._unobserved[name]))
            names += [f"{quantity} {self.smoothed.independent[k]}" for k in weak]
        return tuple(names)


def _each(value, count):
    """A scalar or one number per joint, broadcast to (count,). Raises ValueError."""
    numbers = np.atleast_1d(np.asarray(value, dtype=float))
    if len(numbers) not in (1, count):
        raise InputError(f"{len(numbers)} numbers for {count} joints: give one for all or one per joint")
    return np.broadcast_to(numbers, (count,))
