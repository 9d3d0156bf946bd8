"""Which readings a smoother is to believe: each is judged by what all others say about it.

A reading counts if its innovation, by the covariance of what the steps before say (Bar-Shalom, Li and
Kirubarajan 2001, sec. 5.4), is one that noise has by chance once in 10^9 readings. Another one is set aside.
If the next reading is likely again, it was an outlier, and is rejected for good. If one after the other is
unlikely, then either the sensor is wrong or the robot has done what the model does not expect, as in a
collision. Encoders decide that: readings are counted after all, from the first one on, with variances of the
model that are as much larger as the readings ask for, if one such jump makes all readings since likely. The
window of the smoother makes that possible: what was decided about its steps can be decided again. Where
encoders are unlikely, and no jump makes all readings likely, those of links are what is wrong.

Before there are FIRST steps nothing can be predicted. Joints are read there as they are; readings of links
wait, and are judged by what encoders then say about these steps.
"""

from collections import Counter
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from dynamics_node.robot.sensors import Accelerometer, Gyro, Imu, Sensor
from dynamics_node.trajectory.errors import TrajectoryError
from dynamics_node.trajectory.joint_smoother import FIRST, JointSmoother

ENCODER, TORQUE = "encoder", "torque"
CHANCE = 1e-9  # that noise alone makes a reading unlikely
FAR = 7.0  # standard deviations of an encoder, from which an estimate is not what the robot does
ENCODERS_AGAIN = 3  # steps at which an encoder is unlikely, until it is believed
WITNESSES = 3  # steps at which they have read every joint, until they decide about another sensor
SOONEST = 2  # steps at which another sensor is, until encoders are asked, if they are unlikely, too
SHORTEST = 5  # steps of a window; in fewer a jump fits whatever a sensor of links reads
LARGER = 1e3  # times the variance: of a jump beside what its first reading has shown
RECOVERED = 3  # steps in a row at which a doubted sensor is likely, until it is believed
LATEST = 10  # steps, or all but one of the window, until encoders are asked in any case
MOST = {ENCODER: 1e6, TORQUE: 1e6}  # rad or m, N m or N: what no joint and no motor has
TURNING, ACCELERATING = 1e3, 1e4  # rad/s, m/s^2: what no gyro and no accelerometer reads
RATES: dict[type[Sensor], list[float]] = {
    Gyro: 3 * [TURNING],
    Accelerometer: 3 * [ACCELERATING],
    Imu: 3 * [TURNING] + 3 * [ACCELERATING],
}


class Aside(NamedTuple):
    """A reading that was set aside, values (rows,), NaN but for those of its key, with their variance; how
    unlikely: its square over the expected one."""

    step: int
    values: np.ndarray
    variance: np.ndarray | float
    unlikely: float


class Gate:
    """gate.read(...) in place of smoother.read(...). rejected: {sensor: readings that did not count}."""

    def __init__(self, smoother: JointSmoother, rejected: Counter[str] | None = None):
        self.smoother = smoother
        self.rejected: Counter[str] = Counter() if rejected is None else rejected
        self._doubted: dict[tuple[str, int], int] = {}  # steps in a row at which it is likely again
        self._aside: dict[tuple[str, int], list[Aside]] = {}  # by sensor and row, of links' sensors row 0
        self._early: list[tuple[int, str, np.ndarray]] = []  # readings of links at the first steps
        self._without: set[int] = set()  # steps of the window at which an encoder was rejected
        self._most = {name: np.array(limit) for name, limit in MOST.items()}
        self._most |= {s.name: np.array(RATES[type(s)]) for s in smoother.smoothed.sensors}

    def read(self, step, sensor, values, variance: np.ndarray | float = 0.0):
        """See JointSmoother.read. Raises TrajectoryError."""
        values = np.array(values, dtype=float)
        absurd = np.abs(values) > self._most[sensor]
        if absurd.any():
            self.rejected[sensor] += 1
            values[absurd if _by_row(sensor) else slice(None)] = np.nan
        if not np.isfinite(values).any():
            return
        if self.smoother.newest < FIRST and not _by_row(sensor):
            self._early.append((step, sensor, values))
            return
        if self._early and self.smoother.newest >= FIRST:
            early, self._early = self._early, []
            for at, name, numbers in early:
                if at >= self.smoother.oldest:
                    self._judged(at, name, numbers)
        self._judged(step, sensor, values, variance)

    def _judged(self, step, sensor, values, variance=0.0):
        squares = self._squares(step, sensor, values, variance)
        if not (self._aside or self._doubted or (squares > 1.0).any()):
            self.smoother.read(step, sensor, values, variance)
            return
        for row, square in enumerate(squares):
            own = values if len(squares) == 1 else _only(values, row)
            self._judge(step, sensor, row, own, variance, square)

    @property
    def doubted(self) -> set[str]:
        """Sensors whose last readings were rejected because encoders contradict them."""
        return {sensor for sensor, _ in self._doubted}

    def undecided(self, step) -> bool:
        """Whether a position that was read at a step may still count, or did not: the estimate may be what is
        wrong."""
        return step in self._without or any(
            one.step == step
            for (sensor, _), aside in self._aside.items()
            if sensor == ENCODER
            for one in aside
        )

    def contradicted(self, step) -> int | None:
        """The number of a joint whose encoder the estimate of a step contradicts, after `solve`."""
        errors = self.smoother.encoder_errors(step)
        worst = int(errors.argmax())
        return None if errors[worst] <= FAR else worst

    # --- one reading -------------------------------------------------------------------------------------

    def _squares(self, step, sensor, values, variance):
        """Squared errors over what is likely: of every row that is read by itself, or (1,)."""
        known = self.smoother.predicted(step, sensor)
        if known is None:
            return np.zeros(len(values))
        expected, S = known
        S = S + np.diag(np.broadcast_to(variance, len(values)))
        if _by_row(sensor):
            return np.square(values - expected) / (S.diagonal() * _likely(1))
        there = np.flatnonzero(np.isfinite(values))
        error, S = (values - expected)[there], S[np.ix_(there, there)]
        return np.array([error @ np.linalg.solve(S, error) / _likely(len(there))])

    def _judge(self, step, sensor, row, values, variance, square):
        if not np.isfinite(values).any():
            return
        key = sensor, row
        if not square > 1.0:
            if len(self._aside.get(key, ())) >= SOONEST and sensor != ENCODER:
                self._doubted.setdefault(key, 0)  # no outlier, and nothing has decided
            self._reject(key)
            if self._recovered(key):
                self.smoother.read(step, sensor, values, variance)
            else:
                self.rejected[sensor] += 1
            return
        if key in self._doubted:
            self._doubted[key] = 0
        aside = self._aside.setdefault(key, [])
        aside.append(Aside(step, values, variance, float(square)))
        steps = len({one.step for one in aside})
        if steps >= self._patience(sensor) and (sensor == ENCODER or self._witnessed(key)):
            self._reconsider(key)

    def _witnessed(self, key):
        """Whether encoders have read all joints often enough since what is set aside, of which nothing older
        than the window can count any more."""
        sensor, oldest = key[0], self.smoother.oldest
        own = [one for one in self._aside[key] if one.step >= oldest]
        if gone := len(self._aside[key]) - len(own):
            self.rejected[sensor] += gone
        self._aside[key] = own
        return (self.smoother.times_read(own[0].step, ENCODER) >= WITNESSES).all()

    def _patience(self, sensor):
        """At how many steps a sensor may be unlikely until that is decided."""
        if sensor == ENCODER:
            return ENCODERS_AGAIN
        moved = any(name == ENCODER and aside for (name, _), aside in self._aside.items())
        return SOONEST if moved else max(SOONEST, min(LATEST, self.smoother.options.window - 1))

    def _recovered(self, key):
        """Whether a sensor of which one more reading is likely is believed."""
        if key in self._doubted:
            self._doubted[key] += 1
            if self._doubted[key] < RECOVERED:
                return False
            del self._doubted[key]
        return True

    def _reject(self, key):
        if aside := self._aside.pop(key, []):
            self.rejected[key[0]] += len(aside)
            if key[0] == ENCODER:
                self._without = {step for step in self._without if step >= self.smoother.oldest}
                self._without.update(one.step for one in aside)

    # --- a row of unlikely readings ----------------------------------------------------------------------

    def _reconsider(self, key):
        """Count what was set aside, unless encoders contradict it."""
        smoother, (sensor, _), before = self.smoother, key, self.smoother.saved()
        own = [one for one in self._aside[key] if one.step >= smoother.oldest]
        first = min((one.step for one in own), default=smoother.newest)
        smoother.loosen(first, max((one.unlikely for one in own), default=1.0))
        for one in own:
            smoother.read(one.step, sensor, one.values, one.variance)
        agrees = self._agrees(first)
        if sensor == ENCODER and not agrees:
            self._without_links(first)
        if sensor == ENCODER or agrees:
            del self._aside[key]
            self._doubted.pop(key, None)
            smoother.solve()
            self._again()
        else:
            smoother.restore(before)
            self._doubted[key] = 0
            self._reject(key)

    def _agrees(self, first):
        """Whether one jump makes all that was read from a step on likely; it may be larger than one reading
        has shown."""
        try:
            self.smoother.solve()
            if not self._fits(first):
                self.smoother.loosen(first, LARGER)
                self.smoother.solve()
        except TrajectoryError:
            return False
        return self._fits(first)

    def _fits(self, first):
        squares, readings = self.smoother.squares(first)
        return squares <= _likely(max(1, readings))

    def _without_links(self, first):
        """Encoders are right, and contradict what links have read of the same steps: all of that goes."""
        for sensor in self.smoother.smoothed.sensors:
            if forgotten := self.smoother.unread(first, sensor.name):
                self.rejected[sensor.name] += forgotten
                self._doubted[sensor.name, 0] = 0

    def _again(self):
        """Judge what other sensors have read since by the estimate as it is now."""
        for (sensor, row), aside in list(self._aside.items()):
            for one in [one for one in aside if one.step >= self.smoother.oldest]:
                squares = self._squares(one.step, sensor, one.values, one.variance)
                if squares[row if len(squares) > 1 else 0] <= 1.0:
                    aside.remove(one)
                    self.smoother.read(one.step, sensor, one.values, one.variance)
        self._aside = {key: aside for key, aside in self._aside.items() if aside}


def _by_row(sensor):
    """Whether joints are judged one by one: a bad one leaves the others as they are."""
    return sensor in (ENCODER, TORQUE)


def _only(values, row):
    return np.where(np.arange(len(values)) == row, values, np.nan)


@lru_cache
def _likely(rows):
    """The sum of squares of so many rows that is exceeded with CHANCE."""
    from scipy.special import chdtri

    return float(chdtri(rows, CHANCE))
