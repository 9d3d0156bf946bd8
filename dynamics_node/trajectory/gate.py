"""Outlier rejection of a smoother: every reading is tested against the prediction from all others.

A reading is accepted if its normalized innovation is not exceeded by noise once in 10^9 readings (Bar-Shalom,
Li and Kirubarajan 2001, sec. 5.4). An unlikely reading is deferred. If the next reading is likely again, it
was an outlier and is rejected. If several readings in a row are unlikely, either the sensor is faulty or the
robot moved unexpectedly, as in a collision.

Encoders decide between these. The deferred readings are accepted with increased model variances if one such
jump makes all readings since then likely. This is possible because decisions within the smoother's window can
be revised. If encoders are unlikely and no jump makes all readings likely, the readings of links are
rejected.

Sensors of links with an error that lasts are suspended, see `lasting_errors`.

Before there are FIRST steps, nothing can be predicted. Joint readings are accepted there without a test;
readings of links are buffered and tested against the encoders of these steps.
"""

from collections import Counter
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from dynamics_node.errors import TrajectoryError
from dynamics_node.trajectory.joint_smoother import FIRST, JointSmoother
from dynamics_node.trajectory.lasting_errors import UNITS, LastingErrors

ENCODER, TORQUE = "encoder", "torque"
CHANCE = 1e-9  # probability that noise alone makes a reading unlikely
FAR = 7.0  # standard deviations of an encoder: a larger error contradicts the estimate
ENCODER_PATIENCE = 3  # steps with unlikely encoder readings before they are accepted
WITNESS_STEPS = 3  # steps with readings of every encoder before they decide about another sensor
LEAST_PATIENCE = (
    2  # steps with unlikely readings of another sensor before a decision, if encoders are unlikely, too
)
SHORTEST = 5  # steps of a window; in shorter ones a jump fits any reading of a link
LARGER_JUMP = 1e3  # times the variance estimated from the first reading of a jump
RECOVERED = 3  # consecutive steps with likely readings before a suspected sensor is accepted again
MOST_PATIENCE = 10  # steps, or all but one of the window, before a decision in any case
MOST = {ENCODER: 1e6, TORQUE: 1e6}  # rad or m, N m or N: implausible for any joint or motor
MOST_BY_UNIT = {"rad/s": 1e3, "m/s^2": 1e4}  # implausible for any gyro or accelerometer


class DeferredReading(NamedTuple):
    """A deferred reading: values (rows,), NaN except those of its key, with their variance; unlikely: ratio
    of its square to the threshold."""

    step: int
    values: np.ndarray
    variance: np.ndarray | float
    unlikely: float


class Gate:
    """Use gate.read(...) instead of smoother.read(...). rejected: {sensor: number of rejected readings}."""

    def __init__(self, smoother: JointSmoother, rejected: Counter[str] | None = None):
        self.smoother = smoother
        self.rejected: Counter[str] = Counter() if rejected is None else rejected
        self._suspected: dict[tuple[str, int], int] = {}  # consecutive steps with likely readings
        self._deferred: dict[
            tuple[str, int], list[DeferredReading]
        ] = {}  # by sensor and row; row 0 for sensors of links
        self._early: list[tuple[int, str, np.ndarray]] = []  # readings of links at the first steps
        self._incomplete: set[int] = set()  # steps of the window with a rejected encoder reading
        self._most = {name: np.array(limit) for name, limit in MOST.items()}
        sensors = smoother.smoothed.sensors
        self._most |= {s.name: np.array([MOST_BY_UNIT[unit] for unit in UNITS[type(s)]]) for s in sensors}
        self._lasting = LastingErrors(smoother) if sensors else None

    def read(self, step, sensor, values, variance: np.ndarray | float = 0.0):
        """See JointSmoother.read. Raises TrajectoryError."""
        values = np.array(values, dtype=float)
        absurd = np.abs(values) > self._most[sensor]
        if absurd.any():
            self.rejected[sensor] += 1
            values[absurd if _by_row(sensor) else slice(None)] = np.nan
        if not np.isfinite(values).any():
            return
        if self._lasting and self._suspended_by(self._lasting, step, sensor, values):
            self.rejected[sensor] += 1
            return
        if self.smoother.newest < FIRST and not _by_row(sensor):
            self._early.append((step, sensor, values))
            return
        if self._early and self.smoother.newest >= FIRST:
            early, self._early = self._early, []
            for at, name, numbers in early:
                if at >= self.smoother.oldest:
                    self._test(at, name, numbers)
        self._test(step, sensor, values, variance)

    def _suspended_by(self, lasting, step, sensor, values):
        """Advance the reference of lasting errors. Returns whether the sensor is suspended."""
        if lasting.advance_to(self.smoother.newest):
            self.smoother.adopt(lasting.alone)
            self._again()
        if not _by_row(sensor):
            lasting.add(step, sensor, values)
        if sensor not in lasting.suspended:
            return False
        self._reject((sensor, 0))
        self._suspected.pop((sensor, 0), None)
        return True

    def _accept(self, step, sensor, values, variance):
        self.smoother.read(step, sensor, values, variance)
        if self._lasting and _by_row(sensor):
            self._lasting.read(step, sensor, values, variance)

    def _test(self, step, sensor, values, variance=0.0):
        squares = self._squares(step, sensor, values, variance)
        if not (self._deferred or self._suspected or (squares > 1.0).any()):
            self._accept(step, sensor, values, variance)
            return
        for row, square in enumerate(squares):
            reading = values if len(squares) == 1 else _only(values, row)
            self._test_row(step, sensor, row, reading, variance, square)

    @property
    def suspected(self) -> set[str]:
        """Sensors whose last readings were rejected because they contradict the encoders."""
        return {sensor for sensor, _ in self._suspected}.union(self.lasting_errors)

    @property
    def lasting_errors(self) -> dict[str, str]:
        """{sensor of a link: its mean error, in words} of those suspended for it."""
        suspended = self._lasting.suspended if self._lasting else {}
        return {sensor: one.error for sensor, one in suspended.items()}

    def undecided(self, step) -> bool:
        """Whether a position reading of a step is deferred or rejected; then the estimate may be wrong. For a
        step without position readings: whether one of the next ones is."""
        return not self._open_steps().isdisjoint(self._next_read(step))

    def contradicted(self, step) -> int | None:
        """Index of a joint whose encoder contradicts the estimate of a step, or of the next steps with
        position readings if it has none, after `solve`; or None."""
        errors = np.max([self.smoother.encoder_errors(k) for k in self._next_read(step)], axis=0)
        worst = int(errors.argmax())
        return None if errors[worst] <= FAR else worst

    def _open_steps(self):
        """Steps with a deferred or rejected position reading."""
        deferred = [
            one for (sensor, _), readings in self._deferred.items() if sensor == ENCODER for one in readings
        ]
        return self._incomplete.union(one.step for one in deferred)

    def _next_read(self, step):
        """The step if it has position readings, else the last one before it and the first one after it."""
        smoother = self.smoother
        known = {k for k in self._open_steps() if k >= smoother.oldest} | set(smoother.steps_read(ENCODER))
        if step in known or not known:
            return {step}
        before, after = [k for k in known if k < step], [k for k in known if k > step]
        return {max(before, default=min(known)), min(after, default=max(known))}

    # --- one reading -------------------------------------------------------------------------------------

    def _squares(self, step, sensor, values, variance):
        """Squared errors relative to their thresholds: per row if rows are tested separately, else (1,)."""
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

    def _test_row(self, step, sensor, row, values, variance, square):
        if not np.isfinite(values).any():
            return
        key = sensor, row
        if not square > 1.0:
            if len(self._deferred.get(key, ())) >= LEAST_PATIENCE and sensor != ENCODER:
                self._suspected.setdefault(key, 0)  # no outlier, and still undecided
            self._reject(key)
            if self._recovered(key):
                self._accept(step, sensor, values, variance)
            else:
                self.rejected[sensor] += 1
            return
        if key in self._suspected:
            self._suspected[key] = 0
        deferred = self._deferred.setdefault(key, [])
        deferred.append(DeferredReading(step, values, variance, float(square)))
        steps = len({one.step for one in deferred})
        if steps >= self._patience(sensor) and (sensor == ENCODER or self._witnessed(key)):
            self._reconsider(key)

    def _witnessed(self, key):
        """Whether encoders have read all joints often enough since the deferred readings. Readings older than
        the window are rejected."""
        sensor, oldest = key[0], self.smoother.oldest
        recent = [one for one in self._deferred[key] if one.step >= oldest]
        if expired := len(self._deferred[key]) - len(recent):
            self.rejected[sensor] += expired
        self._deferred[key] = recent
        return (self.smoother.times_read(recent[0].step, ENCODER) >= WITNESS_STEPS).all()

    def _patience(self, sensor):
        """Number of steps with unlikely readings before a decision."""
        if sensor == ENCODER:
            return ENCODER_PATIENCE
        moved = any(name == ENCODER and deferred for (name, _), deferred in self._deferred.items())
        return (
            LEAST_PATIENCE
            if moved
            else max(LEAST_PATIENCE, min(MOST_PATIENCE, self.smoother.options.lag_steps - 1))
        )

    def _recovered(self, key):
        """Whether a sensor is accepted after another likely reading."""
        if key in self._suspected:
            self._suspected[key] += 1
            if self._suspected[key] < RECOVERED:
                return False
            del self._suspected[key]
        return True

    def _reject(self, key):
        if deferred := self._deferred.pop(key, []):
            self.rejected[key[0]] += len(deferred)
            if key[0] == ENCODER:
                self._incomplete = {step for step in self._incomplete if step >= self.smoother.oldest}
                self._incomplete.update(one.step for one in deferred)

    # --- a row of unlikely readings ----------------------------------------------------------------------

    def _reconsider(self, key):
        """Accept the deferred readings unless encoders contradict them."""
        smoother, (sensor, _), before = self.smoother, key, self.smoother.saved()
        recent = [one for one in self._deferred[key] if one.step >= smoother.oldest]
        first = min((one.step for one in recent), default=smoother.newest)
        smoother.loosen(first, max((one.unlikely for one in recent), default=1.0))
        for one in recent:
            smoother.read(one.step, sensor, one.values, one.variance)
        agrees = self._agrees(first)
        if sensor == ENCODER and not agrees:
            self._without_links(first)
        if sensor == ENCODER or agrees:
            del self._deferred[key]
            self._suspected.pop(key, None)
            if self._lasting and _by_row(sensor):
                for one in recent:
                    self._lasting.read(one.step, sensor, one.values, one.variance)
            smoother.solve()
            self._again()
        else:
            smoother.restore(before)
            self._suspected[key] = 0
            self._reject(key)

    def _agrees(self, first):
        """Whether one jump makes all readings from a step on likely; it may be larger than the first reading
        indicates."""
        try:
            self.smoother.solve()
            if not self._fits(first):
                self.smoother.loosen(first, LARGER_JUMP)
                self.smoother.solve()
        except TrajectoryError:
            return False
        return self._fits(first)

    def _fits(self, first):
        squares, readings = self.smoother.squares(first)
        return squares <= _likely(max(1, readings))

    def _without_links(self, first):
        """Reject the readings of links that contradict the encoders of the same steps."""
        for sensor in self.smoother.smoothed.sensors:
            if removed := self.smoother.unread(first, sensor.name):
                self.rejected[sensor.name] += removed
                self._suspected[sensor.name, 0] = 0

    def _again(self):
        """Test the deferred readings of other sensors against the new estimate."""
        for (sensor, row), deferred in list(self._deferred.items()):
            still = [one for one in deferred if one.step < self.smoother.oldest]
            for one in [one for one in deferred if one.step >= self.smoother.oldest]:
                squares = self._squares(one.step, sensor, one.values, one.variance)
                if squares[row if len(squares) > 1 else 0] <= 1.0:
                    self._accept(one.step, sensor, one.values, one.variance)
                else:
                    still.append(one)
            self._deferred[sensor, row] = still
        self._deferred = {key: deferred for key, deferred in self._deferred.items() if deferred}


def _by_row(sensor):
    """Whether the rows of a sensor are tested separately, so that a bad joint does not affect others."""
    return sensor in (ENCODER, TORQUE)


def _only(values, row):
    return np.where(np.arange(len(values)) == row, values, np.nan)


@lru_cache
def _likely(rows):
    """Threshold of the sum of squares of `rows` rows that noise exceeds with probability CHANCE."""
    from scipy.special import chdtri

    return float(chdtri(rows, CHANCE))
