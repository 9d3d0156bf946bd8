"""Sums of squares of torques and regressors, filtered by the same low-pass as the accelerations.

The equation torque = regressor times parameters remains valid for any weighted sum of rows (parallel
filtering: Gautier, Dynamic identification of robots with power model, 1997). The weights are those of the
zero-phase fourth-order Butterworth filter that differentiates recordings. Noise, friction chatter and the
missing high-frequency accelerations are therefore removed from both sides alike. Neighboring rows are then
nearly redundant. Two rows per period of the cut-off are kept, so that residuals are about white, as the
covariances assume.
"""

from collections.abc import Callable
from itertools import pairwise

import numpy as np

from dynamics_node.errors import InputError
from dynamics_node.io.tables import BACK

ORDER = 4  # as in io/differentiate.py
REACH = 3.0  # periods of the cut-off: half-length of the impulse response
GAP = 0.5  # periods without a row: a longer gap ends a piece
SLOWEST = 3.8  # rows per period: four, less the jitter of time stamps
KEPT = 2  # rows per period
ENOUGH = 20  # time steps needed to estimate the rate
ROWS = 2000  # rows per call of `columns`


class LowPass:
    """Low-pass filter of the rows of a recording, chunk by chunk. cutoff: Hz;
    columns(part): values (k, m) of consecutive rows {kind: (k, ...)}; take(rows, numbers): called with
    filtered rows (k, m) and the numbers (k,) of their central rows.

    every: recorded rows per filtered row; rows: number of recorded rows.
    """

    def __init__(self, cutoff: float, columns: Callable, take: Callable):
        self._cutoff, self._columns, self._take = cutoff, columns, take
        self.rows = self.skipped = 0
        self.every = 1
        self._weights = np.zeros(0)
        self._early: list[tuple[dict, np.ndarray]] = []  # chunks received before the rate is known
        self._end = np.nan
        self._new_piece()

    def _new_piece(self):
        self._row = 0  # in the piece
        self._waiting: list[np.ndarray] = []  # incomplete sums (m,) that later rows contribute to
        self._kept = 0  # finished rows of the piece

    def add(self, chunk, good):
        """Add rows {kind: (k, ...)} in order, with time (k,); good (k,) bool: the valid ones. Raises
        ValueError if the rate is too low."""
        if not len(good):
            return
        if not len(self._weights):
            self._early.append((chunk, good))
            chunk = {kind: np.concatenate([early[kind] for early, _ in self._early]) for kind in chunk}
            good = np.concatenate([early for _, early in self._early])
            if not self._measure(np.asarray(chunk["time"], dtype=float)):
                return
            self._early = []
        time = np.asarray(chunk["time"], dtype=float)
        good = good & np.isfinite(time)
        self.skipped += int(np.count_nonzero(~good))
        steps = np.diff(time, prepend=self._end)
        broken = ~good | ~(np.abs(steps) <= GAP / self._cutoff) | (steps < -BACK)
        for start, stop in pairwise([0, *(np.flatnonzero(broken[1:]) + 1), len(time)]):
            if broken[start]:
                self._new_piece()
            for first in range(start + int(not good[start]), stop, ROWS):
                last = min(first + ROWS, stop)
                self._add(self._columns({kind: rows[first:last] for kind, rows in chunk.items()}), first)
        self.rows += len(time)
        self._end = time[-1] if good[-1] else np.nan

    def _measure(self, time):
        """Compute the weights from the rate; returns whether there are enough time stamps."""
        steps = np.diff(time[np.isfinite(time)])
        if np.count_nonzero(steps > 0) < ENOUGH:
            return False
        rate = 1.0 / np.median(steps[steps > 0])
        if rate < SLOWEST * self._cutoff:
            raise InputError(
                f"the cut-off {self._cutoff:g} Hz is too high for {rate:.3g} states a second: use at most a "
                f"quarter of the rate, {0.25 * rate:.2g} Hz"
            )
        self._weights = weights(self._cutoff / rate)
        self.every = max(1, round(rate / (KEPT * self._cutoff)))
        return True

    def _add(self, columns, first):
        """Add consecutive rows (k, m) of one piece; first: index of the first one in the chunk."""
        from scipy.sparse import csr_array

        if not len(columns):
            return
        done, size, count = self._kept, len(self._weights), len(columns)
        rows_kept = np.arange(done, (self._row + count - 1) // self.every + 1)
        at = (rows_kept * self.every - self._row)[:, None] + np.arange(size)
        place, column = np.nonzero((at >= 0) & (at < count))
        K = csr_array((self._weights[column], (place, at[place, column])), shape=(len(rows_kept), count))
        filtered = K @ columns
        for k, waiting in enumerate(self._waiting):
            filtered[k] += waiting
        whole = int(np.count_nonzero(at[:, -1] < count))
        if whole:
            self._take(filtered[:whole], self.rows + first + at[:whole, size // 2])
        self._kept, self._row, self._waiting = done + whole, self._row + count, list(filtered[whole:])


def weights(cutoff):
    """Impulse response (2 n + 1,) of the zero-phase filter; cutoff: periods per row."""
    from scipy.signal import butter, sosfilt

    sections = butter(ORDER, cutoff, fs=1.0, output="sos")
    reach = round(REACH / cutoff)
    impulse = np.zeros(16 * reach + 1)
    impulse[0] = 1.0
    response = sosfilt(sections, impulse)
    both = np.correlate(response, response[: 8 * reach], "full")[8 * reach - 1 :][: reach + 1]
    return np.concatenate([both[:0:-1], both])
