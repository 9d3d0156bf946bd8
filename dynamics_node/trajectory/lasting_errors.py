"""Lasting errors of the sensors of links, relative to the encoders: a bias, a wrong mounting, a wrong frame.

An error that lasts passes the test of single readings: its steps look like a motion, and the estimate follows
them until encoders contradict it. A second smoother therefore reads encoders and motor torques alone. The
errors of a sensor relative to it have mean zero if the sensor has its standard deviation (Bar-Shalom, Li and
Kirubarajan 2001, sec. 5.4.2: the sample mean of normalized errors). Errors are sampled a correlation time of
the reference apart, each is limited to a few standard deviations, and older ones are forgotten.

A suspended sensor returns after a probation without such a mean. Each suspension doubles the next probation.
"""

from typing import NamedTuple

import numpy as np

from dynamics_node.robot.sensors import Accelerometer, Gyro, Imu, Sensor
from dynamics_node.trajectory.joint_smoother import JointSmoother, SmootherOptions

LIMIT = 6.0  # of the normalized mean; noise exceeds it once in 10^9 samples
RETURN_LIMIT = 3.0  # at the end of a probation
LARGEST = 3.0  # standard deviations: the limit of one error, since a collision has a few large ones
FEWEST = 8  # samples of a mean
MEMORY = 5.0  # s, after which an error counts 1 / e, for small errors; 2 FEWEST samples for large ones
PROBATION, LONGEST_PROBATION = 0.2, 60.0  # s
GYRO, ACCELERATION = 3 * ("rad/s",), 3 * ("m/s^2",)
UNITS: dict[type[Sensor], tuple[str, ...]] = {
    Gyro: GYRO,
    Accelerometer: ACCELERATION,
    Imu: GYRO + ACCELERATION,
}  # of the rows of a sensor, which are x y z of each


class Mean:
    """Normalized means of errors over several memories. keep (memories,): weight of an error relative to the
    next one."""

    def __init__(self, rows, keep):
        self.count, self.error = 0, np.zeros(rows)  # number of errors; mean of the last ones
        self._keep = np.asarray(keep)[:, None]
        self._weight, self._square_weight = np.zeros((2, len(keep), 1))
        self._sums, self._squares = np.zeros((2, len(keep), rows))

    def add(self, errors, std):
        """Add an error (rows,) with its standard deviations."""
        keep, limited = self._keep, np.clip(errors / std, -LARGEST, LARGEST)
        self.count += 1
        self.error += (errors - self.error) / min(self.count, FEWEST // 2)
        self._weight = keep * self._weight + 1.0
        self._square_weight = keep**2 * self._square_weight + 1.0
        self._sums = keep * self._sums + limited
        self._squares = keep * self._squares + limited**2

    @property
    def size(self) -> np.ndarray:
        """(rows,): absolute values, which are standard normal if the errors are; the largest of all memories.
        Errors that scatter more than their standard deviations count less."""
        mean = self._sums / self._weight
        scatter = np.maximum(1.0, self._squares / self._weight - mean**2)
        return np.abs(self._sums / np.sqrt(self._square_weight * scatter)).max(axis=0)


class Suspension(NamedTuple):
    """until: the step at which the probation ends; error: the largest mean error, in words."""

    until: int
    error: str


class LastingErrors:
    """alone: the smoother of encoders and torques. suspended: {sensor: Suspension}."""

    def __init__(self, smoother: JointSmoother):
        smoothed, options = smoother.smoothed, smoother.options
        self.alone = JointSmoother(smoothed, options, smoother.start)
        self.suspended: dict[str, Suspension] = {}
        self._times = dict.fromkeys((sensor.name for sensor in smoothed.sensors), 0)
        self._units = {sensor.name: UNITS[type(sensor)] for sensor in smoothed.sensors}
        self._readings: dict[str, dict[int, np.ndarray]] = {name: {} for name in self._times}
        self._spacing = _correlation_steps(options)
        self._keep = np.exp([-0.5 / FEWEST, -self._spacing * options.period / MEMORY])
        self._means = {name: self._new_mean(name) for name in self._times}
        self._judged = 0

    def add(self, step, sensor, values):
        """Add a reading of a link."""
        self._readings[sensor][step] = values

    def read(self, step, sensor, values, variance):
        """Add an accepted reading of joints."""
        if step >= self.alone.oldest:
            self.alone.read(step, sensor, values, variance)

    def advance_to(self, step) -> list[str]:
        """Advance the reference to a step. Returns the sensors that are suspended from now on. Raises
        TrajectoryError."""
        new = []
        while self.alone.newest < step:
            self.alone.step()
            if self.alone.newest - self._judged >= self._spacing:
                self._judged = self.alone.newest
                self.alone.solve()
                new += [name for name in self._readings if self._judge(name)]
        return new

    def _new_mean(self, name):
        return Mean(len(self._units[name]), self._keep)

    def _judge(self, name):
        """Add the newest reading in the middle of the window to the mean. Returns whether this suspends the
        sensor."""
        alone, readings, mean = self.alone, self._readings[name], self._means[name]
        middle = alone.newest - alone.options.lag_steps // 2
        step = max((k for k in readings if k <= middle), default=-1)
        reading = readings.get(step)
        self._readings[name] = {k: values for k, values in readings.items() if k > middle}
        if reading is None or step < alone.oldest or (known := alone.predicted(step, name)) is None:
            return False
        errors = np.where(np.isfinite(reading), reading - known[0], 0.0)
        mean.add(errors, np.sqrt(known[1].diagonal()))
        if mean.count < FEWEST:
            return False
        size = mean.size
        if name in self.suspended:
            if alone.newest >= self.suspended[name].until:
                self._end_probation(name, size)
            return False
        if size.max() <= LIMIT:
            return False
        self._times[name] += 1
        self._suspend(name, size)
        return True

    def _end_probation(self, name, size):
        if size.max() < RETURN_LIMIT:
            del self.suspended[name]
            self._means[name] = self._new_mean(name)
        else:
            self._suspend(name, size)

    def _suspend(self, name, size):
        """Suspend a sensor for a probation. size (rows,): of its mean."""
        row, mean, self._means[name] = int(size.argmax()), self._means[name], self._new_mean(name)
        error = f"{mean.error[row]:.2g} {self._units[name][row]} in {'xyz'[row % 3]}"
        seconds = min(PROBATION * 2.0 ** min(self._times[name] - 1, 10), LONGEST_PROBATION)
        until = self.alone.newest + int(np.ceil(seconds / self.alone.options.period))
        self.suspended[name] = Suspension(until, error)


def _correlation_steps(options: SmootherOptions):
    """Number of steps after which errors of accelerations from encoders alone are almost independent: twice
    the time constant of a filter of white jerk, within the window."""
    std = float(np.max(options.encoder_std))
    time = 2.0 * (std**2 * options.period / options.jerk_density) ** (1.0 / 6.0)
    return int(np.clip(np.ceil(time / options.period), 1, options.lag_steps - 2))
