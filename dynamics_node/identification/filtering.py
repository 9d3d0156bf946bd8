"""Sums of squares of torques and regressors through the low-pass that the accelerations went through.

A row says torque = regressor times parameters; so does any sum of rows with the same weights on both sides
(parallel filtering: Gautier, Dynamic identification of robots with power model, 1997). The weights are those
of the Butterworth filter of fourth order, forwards and backwards, by which recordings are differentiated: so
noise, friction that chatters and what accelerations lack above the cut-off go from both sides alike. Rows
then say little that their neighbours do not, so two a period of the cut-off are kept: what is left of the
torques is about white, as covariances suppose.
"""

from itertools import pairwise

import numpy as np

from dynamics_node.identification.base_parameters import BaseParameters
from dynamics_node.identification.linear import LinearModel
from dynamics_node.identification.sums import LEAST, ROWS, STRETCHES, Sums

ORDER = 4  # of tables.differentiate
REACH = 3.0  # periods of the cut-off to either side, where the weights end
GAP = 0.5  # periods without a row that end a piece
SLOWEST = 3.8  # rows a period: four, or what is left of them where stamps jitter
KEPT = 2  # rows a period
ENOUGH = 20  # steps of time that tell the rate
KINDS = ("q", "qd", "qdd", "tau")


class RecordedSums(Sums):
    """Sums of recordings in chunks; `begin` comes before each of them. cutoff: Hz, None: rows as they are;
    count: about how many rows there will be."""

    def __init__(self, linear: LinearModel, base: BaseParameters, cutoff: float | None = None, count=2500):
        super().__init__(linear, base, count)
        self._cutoff = cutoff
        self.begin()

    def begin(self):
        """Another recording, maybe of another rate."""
        self._weights = np.zeros(0)
        self._early: list[dict] = []  # chunks before there were enough times to know the rate
        self._end = np.nan
        self._new_piece()

    def _new_piece(self):
        self._row = 0  # of the piece
        self._waiting: list[np.ndarray] = []  # sums that later rows belong to, (nv, r + 1) each
        self._kept = 0  # how many of the piece are done

    def add_chunk(self, chunk, fit=None):
        """Rows {kind: (k, ...)} in order, with q, qd, qdd, tau, and time to filter by. fit: as of `Sums.add`.
        Raises ValueError without times, or with too few rows a second."""
        if self._cutoff is None:
            self.add(chunk["q"], chunk["qd"], chunk["qdd"], chunk["tau"], fit)
        elif "time" not in chunk:
            raise ValueError("a recording has no time by which to filter")
        elif len(chunk["time"]):
            self._filter(chunk, self._cutoff, fit)

    def _filter(self, chunk, cutoff, fit):
        if not len(self._weights):
            self._early.append(chunk)
            chunk = {kind: np.concatenate([own[kind] for own in self._early]) for kind in (*KINDS, "time")}
            if not self._measure(chunk["time"], cutoff):
                return
            self._early = []
        time = np.asarray(chunk["time"], dtype=float)
        kinds = [np.asarray(chunk[kind], dtype=float) for kind in KINDS]
        good = np.all([np.isfinite(array).all(axis=1) for array in kinds[:-1]], axis=0)
        good &= np.isfinite(time) & np.isfinite(kinds[-1]).any(axis=1)
        self.skipped += int(np.count_nonzero(~good))
        steps = np.diff(time, prepend=self._end)
        broken = ~good | ~(np.abs(steps) <= GAP / cutoff)
        for start, stop in pairwise([0, *(np.flatnonzero(broken[1:]) + 1), len(time)]):
            if broken[start]:
                self._new_piece()
            for first in range(start + int(not good[start]), stop, ROWS):
                last = min(first + ROWS, stop)
                q, qd, qdd, tau = (array[first:last] for array in kinds)
                self._add_rows(q, qd, qdd, tau, self.rows + first, fit)
        self.rows += len(time)
        self._end = time[-1] if good[-1] else np.nan

    def _measure(self, time, cutoff):
        """How many rows a period has, and what they weigh; whether there are times enough to tell."""
        steps = np.diff(time[np.isfinite(time)])
        if np.count_nonzero(steps > 0) < ENOUGH:
            return False
        rate = 1.0 / np.median(steps[steps > 0])
        if rate < SLOWEST * cutoff:
            raise ValueError(
                f"there are {rate:.3g} states a second, which allows a cut-off of a quarter of that: "
                f"{0.25 * rate:.2g} Hz, not {cutoff:g}"
            )
        self._weights = weights(cutoff / rate)
        self._every = max(1, round(rate / (KEPT * cutoff)))
        return True

    def _add_rows(self, q, qd, qdd, tau, row, fit):
        """Consecutive rows of one piece; row: number of the first in all recordings."""
        from scipy.sparse import csr_array

        if not len(q):
            return
        states = [np.ascontiguousarray(array) for array in (q, qd, qdd)]
        W = self.base.reduced(self.linear.matrix(*states))
        both = np.concatenate([W, (tau - self.linear.known(*states))[..., None]], axis=-1)
        first, size, count = self._kept, len(self._weights), len(q)
        kept = np.arange(first, (self._row + count - 1) // self._every + 1)
        at = (kept * self._every - self._row)[:, None] + np.arange(size)
        place, column = np.nonzero((at >= 0) & (at < count))
        K = csr_array((self._weights[column], (place, at[place, column])), shape=(len(kept), count))
        found = (K @ both.reshape(count, -1)).reshape(len(kept), *both.shape[1:])
        for k, waiting in enumerate(self._waiting):
            found[k] += waiting
        done = int(np.count_nonzero(at[:, -1] < count))
        middle = row + at[:done, size // 2]
        stretches = (middle // max(self._block, LEAST * self._every)) % STRETCHES
        for joint, felt in enumerate(self.felt) if done else ():
            self.accumulate(joint, found[:done, joint, np.append(felt, self.base.count)], stretches, fit)
        self._kept, self._row, self._waiting = first + done, self._row + count, list(found[done:])


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
