"""Whether torques come later than positions: a delay of all joints.

Regressors of an earlier or later time are fitted to the torques, time by time: a true delay lets all joints
fit better. What lets some fit better and others worse, as friction of another law does, is none.
"""

import numpy as np

from dynamics_node.identification.checks.fit import Fit

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
    reach = min(MOST, 0.25 * min(np.ptp(time) for time in times))
    inside = np.concatenate([(time >= time[0] + reach) & (time <= time[-1] - reach) for time in times])
    if np.count_nonzero(inside) < fit.W.shape[2]:
        return 0.0
    tau, found = fit.tau[inside], {}

    def left(late):
        """(nv,): logarithms of what is left."""
        late = round(float(late) / FINE) * FINE
        if late not in found:
            found[late] = np.log(Fit(_earlier(fit.W, times, late)[inside], tau).spread)
        return found[late]

    far = int(reach / STEP + 1e-9)
    tried = STEP * np.arange(-far, far + 1) if far else np.array([-reach, 0.0, reach])
    best, step = float(min(tried, key=lambda late: left(late).sum())), STEP if far else reach
    while step > FINE:
        step *= 0.5
        best = float(min((best, best - step, best + step), key=lambda late: left(late).sum()))
    gain = left(0.0) - left(best)
    changed = np.abs(gain) > CHANGED
    least = max(LATE, SHARE * float(np.median(np.concatenate([np.diff(time) for time in times]))))
    if abs(best) < least or abs(best) >= reach or not changed.any():
        return 0.0
    certain = len(tau) * gain.sum() > CERTAIN and 1.0 - np.exp(-2.0 * gain[changed].mean()) > WORTH
    agreed = np.sum(gain[gain > 0]) >= AGREE * np.sum(np.abs(gain))
    return best if certain and agreed else 0.0


def about_delay(late):
    """Sentences about a delay in s."""
    if not late:
        return []
    return [f"torques are {1e3 * abs(late):.0f} ms {'behind' if late > 0 else 'ahead of'} the positions"]


def _earlier(W, times, late):
    """The regressor of a time `late` before each torque."""
    found = []
    for own, time in zip(np.split(W, np.cumsum([len(time) for time in times])[:-1]), times, strict=True):
        at = np.interp(time - late, time, np.arange(len(time)))
        low = np.minimum(at.astype(int), len(time) - 2)
        share = (at - low)[:, None, None]
        found.append((1.0 - share) * own[low] + share * own[low + 1])
    return np.concatenate(found)
