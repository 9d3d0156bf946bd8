"""Whether torques come later than positions: a delay of all joints, from how the torques that fit change."""

import numpy as np

from dynamics_node.identification.checks.fit import Fit

LATE = 0.003  # s of a delay that counts
CERTAIN = 6.0  # standard deviations
WORTH = 0.03  # of squared residuals that a delay has to explain
FAR = 0.05  # s in one step at most
ROUNDS = 3


def about_delay(fit: Fit, times):
    """Sentences. fit: of stretches of rows in a row; times: of each stretch."""
    late, now = 0.0, fit
    for _ in range(ROUNDS):
        torques = np.split(now.W @ now.x, np.cumsum([len(time) for time in times])[:-1])
        falling = [-np.gradient(own, time, axis=0) for own, time in zip(torques, times, strict=True)]
        more, spread, share = now.explained_by(np.concatenate(falling)[..., None])
        if not late and (abs(more[0]) < CERTAIN * spread[0] or share < WORTH):
            return []
        late += float(np.clip(more[0], -FAR, FAR))
        now = Fit(_earlier(fit.W, times, late), fit.tau)
    if abs(late) < LATE:
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
