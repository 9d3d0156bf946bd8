"""Whether times, positions and rates of a recording agree, and whether torques come later than positions.

For the delay, regressors of an earlier or later time are fitted to the torques, time by time: a true delay
lets all joints fit better. What lets some fit better and others worse, as friction of another law, is none.
"""

import numpy as np

from dynamics_node.identification.checks.fit import Columns, Fit
from dynamics_node.identification.regressor_model import RegressorModel
from dynamics_node.text import listed

SLOW = 0.5  # s between samples: nobody records so
UNITS = {1e-3: "milliseconds", 1e-6: "microseconds", 1e-9: "nanoseconds"}
DEGREES = np.degrees(1.0)
BEYOND = 3.0  # times the largest position that the description allows
TURNS = 4 * np.pi  # of joints without limits
APART = 10  # rows over which positions and rates are held against each other
ALIKE = 0.9  # correlation of both, below which they have nothing to do with each other
SAME = 0.8, 1.25  # slopes that are none


def about_positions(linear: RegressorModel, rows):
    """Sentences: angles in degrees."""
    tree, far, moving = linear.robot.tree, [], 0
    for joint in tree.independent_joints:
        if joint.kind == "prismatic" or not joint.type.is_scalar:
            continue
        q = rows["q"][:, joint.q.start]
        bound = max(abs(joint.limits.lower), abs(joint.limits.upper))
        moving += np.ptp(q) > 0
        far += [joint.name] * bool(np.abs(q).max() > BEYOND * (bound if np.isfinite(bound) else TURNS))
    if far and 2 * len(far) >= moving:
        return [f"positions of {listed(far)} are far beyond their limits: degrees?"]
    return []


def about_rates(linear: RegressorModel, stretches):
    """Sentences: rates that are not those of the positions."""
    usual = [np.median(np.diff(own["time"])) for own in stretches if "time" in own and len(own["time"]) > 1]
    if not usual:
        return []
    if np.median(usual) > SLOW:
        scale = min(UNITS, key=lambda s: abs(np.log10(np.median(usual) * s / 0.005)))
        return [f"samples are {np.median(usual):.3g} s apart: are times {UNITS[scale]}?"]
    slopes = _slopes(linear, stretches)
    odd = {name: slope for name, slope in slopes.items() if slope is None or not SAME[0] < slope < SAME[1]}
    factors = [slope for slope in odd.values() if slope]
    if len(factors) > 1 and len(odd) == len(slopes) and np.ptp(factors) < 0.2 * abs(np.mean(factors)):
        return [_of_all(float(np.mean(factors)))]
    if len(odd) > 1 and not factors and len(odd) == len(slopes):
        return ["velocities have little to do with positions"]
    return [
        f"velocities of {name} have little to do with its positions"
        if slope is None
        else f"positions of {name} change {slope:.3g} times as fast as its velocities say"
        for name, slope in odd.items()
    ]


def _of_all(factor):
    told = f"positions change {factor:.3g} times as fast as velocities say"
    if abs(np.log(factor / DEGREES)) < 0.3:
        return f"{told}: are positions in degrees?"
    if abs(np.log(factor * DEGREES)) < 0.3:
        return f"{told}: are velocities in degrees?"
    unit = next((name for scale, name in UNITS.items() if abs(np.log(factor / scale)) < 0.5), None)
    return f"{told}: are times {unit}?" if unit else f"{told}: other units?"


def _slopes(linear, stretches):
    """{joint: how much faster its positions change than its rates say, None where both are unlike}."""
    tree = linear.robot.tree
    joints = {joint.name: joint for joint in tree.independent_joints if joint.type.is_scalar}
    found = {}
    for k, name in enumerate(linear.robot.v_names):
        if name not in joints:
            continue
        moved, said = [], []
        for own in stretches:
            if "time" not in own or len(own["time"]) <= APART:
                continue
            rates = own["qd"][:, k]
            way = np.append(0.0, np.cumsum(0.5 * (rates[1:] + rates[:-1]) * np.diff(own["time"])))
            q = own["q"][:, joints[name].q.start]
            q = np.unwrap(q) if joints[name].kind == "continuous" else q
            moved.append(q[APART:] - q[:-APART])
            said.append(way[APART:] - way[:-APART])
        if not moved:
            continue
        a, b = np.concatenate(moved), np.concatenate(said)
        size = np.sqrt((a @ a) * (b @ b))
        if np.abs(a).max() > 1e-3 and size > 0:
            found[name] = float(a @ b / (b @ b)) if abs(a @ b) > ALIKE * size else None
    return found


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
