"""Evaluate chunks of states by a Function, and compare measured with computed torques, in constant memory."""

from typing import NamedTuple

import numpy as np

from dynamics_node.algorithms import close_loops
from dynamics_node.errors import InputError
from dynamics_node.io.tables import Table, read_by

# --- tables -------------------------------------------------------------------------------------------------


class Summary(NamedTuple):
    """rows: total number; bad: rows with a NaN result; first_bad: index of the first of them, or None."""

    rows: int
    bad: int
    first_bad: int | None


def _ignore(*values):
    """Default callback."""


def evaluate(solver, table: Table, write=_ignore, progress=_ignore, compare=_ignore) -> Summary:
    """Call write(result, time) for every chunk of a table, with a solver of inverse or forward dynamics.
    progress: called with the number of finished rows; compare(measured, result, time): for a table opened
    with `measured`.

    States that are nonfinite or have no solution give NaN. Loops are closed starting from the dependent
    joints of the table; those of a bag are already closed. Memory: some arrays of a chunk.
    """
    rows = bad = 0
    first = None
    for chunk in table.chunks():
        chunk["q"] = close_loops(solver.robot, chunk["q"], errors="nan")
        zero = np.zeros((len(chunk["q"]), solver.robot.nv))
        arrays = [chunk.get(kind, zero) for kind in read_by(solver.problem)]
        result = solver(*arrays, errors="nan")
        bad_rows = np.flatnonzero(np.isnan(result).any(axis=1))
        if len(bad_rows) and first is None:
            first = rows + int(bad_rows[0])
        write(result, chunk.get("time"))
        compare(chunk.get("tau"), result, chunk.get("time"))
        rows, bad = rows + len(result), bad + len(bad_rows)
        progress(len(result))
    return Summary(rows, bad, first)


# --- measured and computed ----------------------------------------------------------------------------------


class Difference(NamedTuple):
    """Computed minus measured torque of one coordinate, N m or N (unit).

    measured: root mean square of the measured torque; rmse, largest, bias: root mean square, largest absolute
    value and mean of the difference; correlation: of both, NaN if one of them is constant.
    """

    name: str
    unit: str
    measured: float
    rmse: float
    largest: float
    bias: float
    correlation: float


class Comparison:
    """Accumulates chunks by `add`, for `evaluate`; differences() returns the statistics.

    count: number of states that are finite on both sides; samples(): some of them, for a plot.
    """

    def __init__(self, robot):
        self._names = robot.v_names
        self._units = robot.torque_units
        self._origin = np.zeros(robot.nv)
        self._sums = np.zeros((6, robot.nv))
        self._largest = np.zeros(robot.nv)
        self._samples = Thinned()
        self.rows = self.count = 0

    def add(self, measured, computed, time):
        """Torques (k, nv) and the time (k,) or None."""
        time = np.arange(self.rows, self.rows + len(measured)) if time is None else time
        self._samples.add(np.hstack([time[:, None], measured, computed]))
        self.rows += len(measured)
        good = np.isfinite(measured).all(axis=1) & np.isfinite(computed).all(axis=1)
        if good.any():
            if not self.count:
                self._origin = measured[good][0]
            self.count += int(good.sum())
            self._sum(measured[good], computed[good])

    def _sum(self, measured, computed):
        """Sums of powers about the first state, so that a small spread about a large mean keeps its
        digits."""
        off = computed - measured
        m, c = measured - self._origin, computed - self._origin
        self._sums += [x.sum(axis=0) for x in (off, off * off, m, m * m, c, c * c)]
        self._largest = np.maximum(self._largest, np.abs(off).max(axis=0))

    def differences(self) -> tuple[Difference, ...]:
        """Differences of all coordinates. Raises ValueError if no state is comparable."""
        if not self.count:
            raise InputError("no state has both measured and computed torques that are finite")
        off, off2, m, m2, c, c2 = self._sums / self.count
        spread_m, spread_c, spread = m2 - m * m, c2 - c * c, off2 - off * off
        measured = np.sqrt(m2 + 2 * m * self._origin + self._origin**2)
        both = np.sqrt(np.maximum(spread_m, 0) * np.maximum(spread_c, 0))
        still = both <= 1e-12 * (measured**2 + spread)
        correlation = np.where(still, np.nan, (spread_m + spread_c - spread) / np.where(still, 1, 2 * both))
        columns = (measured, np.sqrt(off2), self._largest, off, np.clip(correlation, -1, 1))
        rows = zip(self._names, self._units, *(column.tolist() for column in columns), strict=True)
        return tuple(Difference(*row) for row in rows)

    def samples(self):
        """(time (k,), measured (k, nv), computed (k, nv)), and the number of states per sample."""
        rows = self._samples.rows(1 + 2 * len(self._names))
        measured, computed = np.split(rows[:, 1:], 2, axis=1)
        return (rows[:, 0], measured, computed), self._samples.every


# --- some rows ----------------------------------------------------------------------------------------------


MOST = 4000


class Thinned:
    """Every n-th row; n doubles if there are more than `most`, so that at least half of that is kept. every:
    n."""

    def __init__(self, most=MOST):
        self._rows: list[np.ndarray] = []
        self._most, self._seen, self.every = most, 0, 1

    def add(self, rows):
        """rows (k, width)"""
        self._rows += [row.copy() for row in rows[-self._seen % self.every :: self.every]]
        self._seen += len(rows)
        while len(self._rows) > self._most:
            self._merge()

    def _merge(self):
        self._rows, self.every = self._rows[::2], 2 * self.every

    def append(self, other: "Thinned", shift):
        """Add the rows of another one plus a shift (width,): as many of both."""
        while self.every < other.every:
            self._merge()
        self._rows += [row + shift for row in other._rows[:: self.every // other.every]]
        while len(self._rows) > self._most:
            self._merge()

    def rows(self, width):
        """(kept, width)"""
        return np.array(self._rows).reshape(-1, width)
