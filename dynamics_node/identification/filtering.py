"""Sums of squares of torques and regressors through the low-pass that the accelerations went through.

A row says torque = regressor times parameters; so does any sum of rows with the same weights on both sides
(parallel filtering: Gautier, Dynamic identification of robots with power model, 1997). The weights are those
of the Butterworth filter of fourth order, forwards and backwards, by which recordings are differentiated: so
noise, friction that chatters and what accelerations lack above the cut-off go from both sides alike. Rows
then say little that their neighbours do not, so two a period of the cut-off are kept: what is left of the
torques is about white, as covariances suppose.
"""

from collections.abc import Callable
from itertools import pairwise

import numpy as np

from dynamics_node.identification.base_parameters import BaseParameters
from dynamics_node.identification.regressor_model import RegressorModel
from dynamics_node.identification.sums import FEWEST_ROWS, ROWS, STRETCHES, Sums

ORDER = 4  # of io/differentiate.py
REACH = 3.0  # periods of the cut-off to either side, where the weights end
GAP = 0.5  # periods without a row that end a piece
SLOWEST = 3.8  # rows a period: four, or what is left of them where stamps jitter
KEPT = 2  # rows a period
ENOUGH = 20  # steps of time that tell the rate
KINDS = ("q", "qd", "qdd", "tau")


class LowPass:
    """Rows of recordings through the filter, chunk by chunk. cutoff: Hz; columns(part): (k, m) of consecutive
    rows {kind: (k, ...)}; take(rows, numbers): what is done with filtered rows (k, m) that are kept, and the
    numbers (k,) of the recorded rows in their middle, of all recordings. `begin` comes before each of them.

    every: how many recorded rows one of them stands for; rows: how many there were."""

    def __init__(self, cutoff: float, columns: Callable, take: Callable):
        self._cutoff, self._columns, self._take = cutoff, columns, take
        self.rows = self.skipped = 0
        self.every = 1
        self.begin()

    def begin(self):
        """Another recording, maybe of another rate."""
        self._weights = np.zeros(0)
        self._early: list[
            tuple[dict, np.ndarray]
        ] = []  # chunks before there were enough times to know the rate
        self._end = np.nan
        self._new_piece()

    def _new_piece(self):
        self._row = 0  # of the piece
        self._waiting: list[np.ndarray] = []  # sums that later rows belong to, (m,) each
        self._kept = 0  # how many of the piece are done

    def add(self, chunk, good):
        """Rows {kind: (k, ...)} in order, with time (k,); good (k,) bool: those that count. Raises ValueError
        with too few rows a second."""
        if not len(good):
            return
        if not len(self._weights):
            self._early.append((chunk, good))
            chunk = {kind: np.concatenate([own[kind] for own, _ in self._early]) for kind in chunk}
            good = np.concatenate([own for _, own in self._early])
            if not self._measure(np.asarray(chunk["time"], dtype=float)):
                return
            self._early = []
        time = np.asarray(chunk["time"], dtype=float)
        good = good & np.isfinite(time)
        self.skipped += int(np.count_nonzero(~good))
        steps = np.diff(time, prepend=self._end)
        broken = ~good | ~(np.abs(steps) <= GAP / self._cutoff)
        for start, stop in pairwise([0, *(np.flatnonzero(broken[1:]) + 1), len(time)]):
            if broken[start]:
                self._new_piece()
            for first in range(start + int(not good[start]), stop, ROWS):
                last = min(first + ROWS, stop)
                self._add(self._columns({kind: rows[first:last] for kind, rows in chunk.items()}), first)
        self.rows += len(time)
        self._end = time[-1] if good[-1] else np.nan

    def _measure(self, time):
        """How many rows a period has, and what they weigh; whether there are times enough to tell."""
        steps = np.diff(time[np.isfinite(time)])
        if np.count_nonzero(steps > 0) < ENOUGH:
            return False
        rate = 1.0 / np.median(steps[steps > 0])
        if rate < SLOWEST * self._cutoff:
            raise ValueError(
                f"there are {rate:.3g} states a second, which allows a cut-off of a quarter of that: "
                f"{0.25 * rate:.2g} Hz, not {self._cutoff:g}"
            )
        self._weights = weights(self._cutoff / rate)
        self.every = max(1, round(rate / (KEPT * self._cutoff)))
        return True

    def _add(self, columns, first):
        """Consecutive rows (k, m) of one piece; first: number of the first in the chunk."""
        from scipy.sparse import csr_array

        if not len(columns):
            return
        done, size, count = self._kept, len(self._weights), len(columns)
        kept = np.arange(done, (self._row + count - 1) // self.every + 1)
        at = (kept * self.every - self._row)[:, None] + np.arange(size)
        place, column = np.nonzero((at >= 0) & (at < count))
        K = csr_array((self._weights[column], (place, at[place, column])), shape=(len(kept), count))
        found = K @ columns
        for k, waiting in enumerate(self._waiting):
            found[k] += waiting
        whole = int(np.count_nonzero(at[:, -1] < count))
        if whole:
            self._take(found[:whole], self.rows + first + at[:whole, size // 2])
        self._kept, self._row, self._waiting = done + whole, self._row + count, list(found[whole:])


class RecordedSums(Sums):
    """Sums of recordings in chunks; `begin` comes before each of them. cutoff: Hz, None: rows as they are;
    count: about how many rows there will be."""

    def __init__(self, linear: RegressorModel, base: BaseParameters, cutoff: float | None = None, count=2500):
        super().__init__(linear, base, count)
        self._filter = None if cutoff is None else LowPass(cutoff, self._columns, self._take)
        self._fit = None

    def begin(self):
        """Another recording, maybe of another rate."""
        if self._filter is not None:
            self._filter.begin()

    def add_chunk(self, chunk, fit=None):
        """Rows {kind: (k, ...)} in order, with q, qd, qdd, tau, and time to filter by. fit: as of `Sums.add`.
        Raises ValueError without times, or with too few rows a second."""
        if self._filter is None:
            self.add(chunk["q"], chunk["qd"], chunk["qdd"], chunk["tau"], fit)
            return
        if "time" not in chunk:
            raise ValueError("a recording has no time by which to filter")
        self._fit = fit
        own = {kind: np.asarray(chunk[kind], dtype=float) for kind in (*KINDS, "time")}
        good = np.all([np.isfinite(own[kind]).all(axis=1) for kind in KINDS[:-1]], axis=0)
        self._filter.add(own, good & np.isfinite(own["tau"]).any(axis=1))
        self.rows, self.skipped = self._filter.rows, self._filter.skipped

    def _columns(self, part):
        states = [np.ascontiguousarray(part[kind]) for kind in KINDS[:-1]]
        W = self.base.reduced(self.linear.matrix(*states))
        both = np.concatenate([W, (part["tau"] - self.linear.known(*states))[..., None]], axis=-1)
        return both.reshape(len(both), -1)

    def _take(self, rows, numbers):
        rows = rows.reshape(len(rows), len(self.felt), -1)
        stretches = (
            numbers // max(self._block, FEWEST_ROWS * (self._filter.every if self._filter else 1))
        ) % STRETCHES
        for joint, felt in enumerate(self.felt):
            self.accumulate(joint, rows[:, joint, np.append(felt, self.base.count)], stretches, self._fit)


def weights(cutoff):
    """(2 n + 1,): the impulse response of the filter, forwards and backwards; cutoff: periods a row."""
    from scipy.signal import butter, sosfilt

    sections = butter(ORDER, cutoff, fs=1.0, output="sos")
    reach = round(REACH / cutoff)
    impulse = np.zeros(16 * reach + 1)
    impulse[0] = 1.0
    response = sosfilt(sections, impulse)
    both = np.correlate(response, response[: 8 * reach], "full")[8 * reach - 1 :][: reach + 1]
    return np.concatenate([both[:0:-1], both])
