"""Whether torques come later than positions: a delay of all joints.

Regressors of an earlier or later time are fitted to the torques, time by time: a true delay lets all joints
fit better. What lets some fit better and others worse, as friction of another law does, is none.
"""

import numpy as np

from dynamics_node.identification.checks.fit import Columns, Fit

LATE = 0.003  # s of a delay that counts,
SHARE = 0.4  # of the time between rows at least: friction before sliding is late, too
MOST = 0.1  # s
STEP = 0.04  # s of the first look
FINE = 0.0005  # s, how precise
WORTH = 0.2  # of squared residuals that a delay has to explain
CERTAIN = 18.0  # of the logarithm of the likelihood, by rows that were independent
CHANGED = 0.02  # of what is left of a torque: smaller changes are none
AGREE = 0.8  # of all changes have to be for the better


def delay(fit: Fit, times):
    """s that torques are behind the positions, or 0. fit: of stretches of rows in a row; times: of each
    stretch."""
    times = [np.asarray(time) for time in times]
    steps = float(np.median(np.concatenate([np.diff(time) for time in times])))
    reach, least = min(MOST, 0.25 * min(np.ptp(time) for time in times)), max(LATE, SHARE * steps)
    inside = [np.flatnonzero((time >= time[0] + reach) & (time <= time[-1] - reach)) for time in times]
    if sum(map(len, inside)) < fit.columns.parameters:
        return 0.0
    earlier, found = _Earlier(fit, times, inside), {}

    def left(late):
        """(nv,): logarithms of what is left."""
        late = round(float(late) / FINE) * FINE
        if late not in found:
            found[late] = np.log(earlier.fit(late).spread)
        return found[late]

    far = int(reach / STEP + 1e-9)
    tried = STEP * np.arange(-far, far + 1) if far else np.array([-reach, 0.0, reach])
    best, step = float(min(tried, key=lambda late: left(late).sum())), STEP if far else reach
    while step > FINE:
        if abs(best) + step <= least:  # steps that are halved lead no further than the last one
            return 0.0
        step *= 0.5
        best = float(min((best, best - step, best + step), key=lambda late: left(late).sum()))
    gain = left(0.0) - left(best)
    changed = np.abs(gain) > CHANGED
    if abs(best) < least or abs(best) >= reach or not changed.any():
        return 0.0
    rows = sum(map(len, inside))
    certain = rows * gain.sum() > CERTAIN and 1.0 - np.exp(-2.0 * gain[changed].mean()) > WORTH
    agreed = np.sum(gain[gain > 0]) >= AGREE * np.sum(np.abs(gain))
    return best if certain and agreed else 0.0


def about_delay(late):
    """Sentences about a delay in s."""
    if not late:
        return []
    return [f"torques are {1e3 * abs(late):.0f} ms {'behind' if late > 0 else 'ahead of'} the positions"]


class _Earlier:
    """Fits of torques at some rows by the regressor of an earlier time, linear between rows."""

    def __init__(self, fit: Fit, times, inside):
        """inside: numbers of the rows of each stretch that count."""
        starts = np.cumsum([0, *(len(time) for time in times[:-1])])
        self._places = list(zip(starts, times, inside, strict=True))
        self._tau = fit.tau[np.concatenate([start + own for start, _, own in self._places])]
        self._felt, self._count = fit.columns.felt, fit.columns.parameters
        self._columns = np.concatenate(fit.columns.own, axis=1)  # of all joints side by side
        self._steps = np.diff(self._columns, axis=0)
        self._edges = np.cumsum([len(felt) for felt in fit.columns.felt])[:-1]

    def fit(self, late) -> Fit:
        """Of the regressor of a time `late` before each torque."""
        rows, shares = [], []
        for start, time, own in self._places:
            at = np.interp(time[own] - late, time, np.arange(len(time)))
            row = np.minimum(at.astype(int), len(time) - 2)
            rows.append(start + row)
            shares.append(at - row)
        low, share = np.concatenate(rows), np.concatenate(shares)
        columns = self._steps[low]
        columns *= share[:, None]
        columns += self._columns[low]
        return Fit(Columns(np.split(columns, self._edges, axis=1), self._felt, self._count), self._tau)
