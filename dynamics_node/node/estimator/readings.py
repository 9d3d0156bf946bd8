"""When sensors read what: a grid of steps in time, and readings that wait for theirs. Without ROS."""

from collections import Counter, deque
from typing import NamedTuple

import numpy as np

MOST_WAITING = 10_000  # readings that are ahead of the joint states


class Grid(NamedTuple):
    """Steps of `period` ns; the first is at `origin`, ns of ROS time."""

    origin: int
    period: int

    def step(self, stamp: int) -> int:
        """The step that is nearest to a time."""
        return (stamp - self.origin + self.period // 2) // self.period

    def time(self, step: int) -> int:
        """ns of ROS time."""
        return self.origin + step * self.period


class Reading(NamedTuple):
    """values (rows,), NaN where there is none, of a sensor as JointSmoother.read names it; stamp: ns."""

    stamp: int
    sensor: str
    values: np.ndarray


class Waiting:
    """Readings that have been heard and belong to no step yet. late: readings by sensor that came into their
    steps after these had been solved; outside: those that came too late for that; rejected: those that were
    so unlikely that they did not count."""

    def __init__(self):
        self.late: Counter[str] = Counter()
        self.outside: Counter[str] = Counter()
        self.rejected: Counter[str] = Counter()
        self._readings: deque[Reading] = deque(maxlen=MOST_WAITING)

    def add(self, reading: Reading):
        self._readings.append(reading)

    def until(self, stamp: int) -> list[Reading]:
        """Those up to a time; they wait no more."""
        due = [r for r in self._readings if r.stamp <= stamp]
        self._readings = deque((r for r in self._readings if r.stamp > stamp), maxlen=MOST_WAITING)
        return due

    def forget(self):
        """What waits; counts stay."""
        self._readings.clear()
