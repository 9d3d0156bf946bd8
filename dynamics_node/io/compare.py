"""Measured against computed torques: what remains at every joint, in memory that does not grow."""

from typing import NamedTuple

import numpy as np

from dynamics_node.io.thinned import Thinned


class Difference(NamedTuple):
    """Computed minus measured torque of one coordinate, N m or N (unit).

    measured: root mean square of what was measured; rmse, largest, bias: root mean square, largest absolute
    value and mean of the difference; correlation: of both, NaN where one of them does not change.
    """

    name: str
    unit: str
    measured: float
    rmse: float
    largest: float
    bias: float
    correlation: float


class Comparison:
    """Takes in chunks (`add`, for `evaluate`); differences() tells what they come to.

    count: states compared, those that are finite on both sides; shown(): some of them, for a plot.
    """

    def __init__(self, model):
        self._names = model.v_names
        self._units = [unit for joint in model.independent_joints for unit in joint.torque_units]
        self._origin = np.zeros(model.nv)
        self._sums = np.zeros((6, model.nv))
        self._largest = np.zeros(model.nv)
        self._shown = Thinned()
        self.rows = self.count = 0

    def add(self, measured, computed, time):
        """Torques (k, nv) and the time (k,) or None."""
        time = np.arange(self.rows, self.rows + len(measured)) if time is None else time
        self._shown.add(np.hstack([time[:, None], measured, computed]))
        self.rows += len(measured)
        good = np.isfinite(measured).all(axis=1) & np.isfinite(computed).all(axis=1)
        if good.any():
            if not self.count:
                self._origin = measured[good][0]
            self.count += int(good.sum())
            self._sum(measured[good], computed[good])

    def _sum(self, measured, computed):
        """Sums of powers about the first state: a small spread about a large mean keeps its digits."""
        off = computed - measured
        m, c = measured - self._origin, computed - self._origin
        self._sums += [x.sum(axis=0) for x in (off, off * off, m, m * m, c, c * c)]
        self._largest = np.maximum(self._largest, np.abs(off).max(axis=0))

    def differences(self) -> tuple[Difference, ...]:
        """One of every coordinate. Raises ValueError when no state could be compared."""
        if not self.count:
            raise ValueError("no state has both measured and computed torques that are finite")
        off, off2, m, m2, c, c2 = self._sums / self.count
        spread_m, spread_c, spread = m2 - m * m, c2 - c * c, off2 - off * off
        measured = np.sqrt(m2 + 2 * m * self._origin + self._origin**2)
        both = np.sqrt(np.maximum(spread_m, 0) * np.maximum(spread_c, 0))
        still = both <= 1e-12 * (measured**2 + spread)
        correlation = np.where(still, np.nan, (spread_m + spread_c - spread) / np.where(still, 1, 2 * both))
        columns = (measured, np.sqrt(off2), self._largest, off, np.clip(correlation, -1, 1))
        rows = zip(self._names, self._units, *(column.tolist() for column in columns), strict=True)
        return tuple(Difference(*row) for row in rows)

    def shown(self):
        """(time (k,), measured (k, nv), computed (k, nv)), how many states one of them stands for."""
        rows = self._shown.rows(1 + 2 * len(self._names))
        measured, computed = np.split(rows[:, 1:], 2, axis=1)
        return (rows[:, 0], measured, computed), self._shown.every
