"""Consistency of times, positions and rates, and delays of the torques.

To estimate the delay, regressors of earlier or later times are fitted to the torques. A true delay improves
the fit of all joints; a change that improves some and worsens others, such as another friction law, does not
count.
"""

import numpy as np

from dynamics_node.identification.checks.fit import Columns, Fit
from dynamics_node.identification.regressor_model import RegressorModel
from dynamics_node.text import listed

SLOW = 0.5  # s between samples: slower recordings have wrong time units
UNITS = {1e-3: "milliseconds", 1e-6: "microseconds", 1e-9: "nanoseconds"}
DEGREES = np.degrees(1.0)
FAR_OUTSIDE = 3.0  # times the largest position within limits
TURNS = 4 * np.pi  # bound for joints without limits
APART = 10  # rows over which positions and rates are compared
CORRELATED = 0.9  # correlation: below it, positions and rates are unrelated
CONSISTENT = 0.8, 1.25  # slopes that count as 1


def about_positions(linear: RegressorModel, rows):
    """Warnings about angles in degrees."""
    tree, far, moving = linear.robot.tree, [], 0
    for joint in tree.independent_joints:
        if joint.kind == "prismatic" or not joint.type.is_scalar:
            continue
        q = rows["q"][:, joint.q.start]
        bound = max(abs(joint.limits.lower), abs(joint.limits.upper))
        moving += np.ptp(q) > 0
        far += [joint.name] * bool(np.abs(q).max() > FAR_OUTSIDE * (bound if np.isfinite(bound) else TURNS))
    if far and 2 * len(far) >= moving:
        return [f"positions of {listed(far)} are far outside their limits: degrees?"]
    return []


def about_rates(linear: RegressorModel, stretches):
    """Warnings about rates that do not match the positions."""
    steps = [np.median(np.diff(own["time"])) for own in stretches if "time" in own and len(own["time"]) > 1]
    if not steps:
        return []
    if np.median(steps) > SLOW:
        scale = min(UNITS, key=lambda s: abs(np.log10(np.median(steps) * s / 0.005)))
        return [f"samples are {np.median(steps):.3g} s apart: are times {UNITS[scale]}?"]
    slopes = _slopes(linear, stretches)
    wrong = {
        name: slope
        for name, slope in slopes.items()
        if slope is None or not CONSISTENT[0] < slope < CONSISTENT[1]
    }
    factors = [slope for slope in wrong.values() if slope]
    if len(factors) > 1 and len(wrong) == len(slopes) and np.ptp(factors) < 0.2 * abs(np.mean(factors)):
        return [_of_all(float(np.mean(factors)))]
    if len(wrong) > 1 and not factors and len(wrong) == len(slopes):
        return ["velocities do not correlate with positions"]
    return [
        f"velocities of {name} do not correlate with its positions"
        if slope is None
        else f"positions of {name} change {slope:.3g} times as fast as its velocities"
        for name, slope in wrong.items()
    ]


def _of_all(factor):
    message = f"positions change {factor:.3g} times as fast as velocities"
    if abs(np.log(factor / DEGREES)) < 0.3:
        return f"{message}: are positions in degrees?"
    if abs(np.log(factor * DEGREES)) < 0.3:
        return f"{message}: are velocities in degrees?"
    unit = next((name for scale, name in UNITS.items() if abs(np.log(factor / scale)) < 0.5), None)
    return f"{message}: are times {unit}?" if unit else f"{message}: other units?"


def _slopes(linear, stretches):
    """{joint: ratio of position change to integrated rate, None if they are uncorrelated}."""
    tree = linear.robot.tree
    joints = {joint.name: joint for joint in tree.independent_joints if joint.type.is_scalar}
    slopes = {}
    for k, name in enumerate(linear.robot.v_names):
        if name not in joints:
            continue
        moved, integrated = [], []
        for own in stretches:
            if "time" not in own or len(own["time"]) <= APART:
                continue
            rates = own["qd"][:, k]
            path = np.append(0.0, np.cumsum(0.5 * (rates[1:] + rates[:-1]) * np.diff(own["time"])))
            q = own["q"][:, joints[name].q.start]
            q = np.unwrap(q) if joints[name].kind == "continuous" else q
            moved.append(q[APART:] - q[:-APART])
            integrated.append(path[APART:] - path[:-APART])
        if not moved:
            continue
        a, b = np.concatenate(moved), np.concatenate(integrated)
        size = np.sqrt((a @ a) * (b @ b))
        if np.abs(a).max() > 1e-3 and size > 0:
            slopes[name] = float(a @ b / (b @ b)) if abs(a @ b) > CORRELATED * size else None
    return slopes


LATE = 0.003  # s: shorter delays are ignored
SHARE = 0.4  # fraction of the time between rows, at least: presliding friction also delays torques
LONGEST = 0.1  # s
STEP = 0.04  # s: step of the coarse search
FINE = 0.0005  # s: resolution
WORTH = 0.2  # fraction of squared residuals: least share that a delay must explain
LIKELIHOOD_GAIN = 18.0  # least gain of the log-likelihood, for independent rows
CHANGED = 0.02  # fraction of the residual of a torque: smaller changes are ignored
AGREEMENT = 0.8  # fraction of all changes: least share of improvements


def delay(fit: Fit, times):
    """s that torques are behind the positions, or 0. fit: of stretches of rows in a row; times: of each
    stretch."""
    times = [np.asarray(time) for time in times]
    steps = float(np.median(np.concatenate([np.diff(time) for time in times])))
    reach, least = min(LONGEST, 0.25 * min(np.ptp(time) for time in times)), max(LATE, SHARE * steps)
    inside = [np.flatnonzero((time >= time[0] + reach) & (time <= time[-1] - reach)) for time in times]
    if sum(map(len, inside)) < fit.columns.parameters:
        return 0.0
    earlier, logarithms = _Earlier(fit, times, inside), {}

    def left(delay):
        """Logarithms (nv,) of the residuals."""
        delay = round(float(delay) / FINE) * FINE
        if delay not in logarithms:
            logarithms[delay] = np.log(earlier.fit(delay).spread)
        return logarithms[delay]

    count = int(reach / STEP + 1e-9)
    tried = STEP * np.arange(-count, count + 1) if count else np.array([-reach, 0.0, reach])
    best, step = float(min(tried, key=lambda delay: left(delay).sum())), STEP if count else reach
    while step > FINE:
        if abs(best) + step <= least:  # halved steps cannot reach farther than the last one
            return 0.0
        step *= 0.5
        best = float(min((best, best - step, best + step), key=lambda delay: left(delay).sum()))
    gain = left(0.0) - left(best)
    changed = np.abs(gain) > CHANGED
    if abs(best) < least or abs(best) >= reach or not changed.any():
        return 0.0
    rows = sum(map(len, inside))
    certain = rows * gain.sum() > LIKELIHOOD_GAIN and 1.0 - np.exp(-2.0 * gain[changed].mean()) > WORTH
    agreed = np.sum(gain[gain > 0]) >= AGREEMENT * np.sum(np.abs(gain))
    return best if certain and agreed else 0.0


def about_delay(delay):
    """Warnings about a delay in s."""
    if not delay:
        return []
    return [f"torques are {1e3 * abs(delay):.0f} ms {'behind' if delay > 0 else 'ahead of'} the positions"]


class _Earlier:
    """Fits of torques at some rows to the regressor of an earlier time, interpolated between rows."""

    def __init__(self, fit: Fit, times, inside):
        """inside: indices of the rows of each stretch that are used."""
        starts = np.cumsum([0, *(len(time) for time in times[:-1])])
        self._places = list(zip(starts, times, inside, strict=True))
        self._tau = fit.tau[np.concatenate([start + own for start, _, own in self._places])]
        self._indices, self._count = fit.columns.indices, fit.columns.parameters
        self._columns = np.concatenate(fit.columns.own, axis=1)  # all joints side by side
        self._steps = np.diff(self._columns, axis=0)
        self._edges = np.cumsum([len(indices) for indices in fit.columns.indices])[:-1]

    def fit(self, delay) -> Fit:
        """Fit to the regressor at a time `delay` before each torque."""
        rows, shares = [], []
        for start, time, own in self._places:
            at = np.interp(time[own] - delay, time, np.arange(len(time)))
            row = np.minimum(at.astype(int), len(time) - 2)
            rows.append(start + row)
            shares.append(at - row)
        low, share = np.concatenate(rows), np.concatenate(shares)
        columns = self._steps[low]
        columns *= share[:, None]
        columns += self._columns[low]
        return Fit(Columns(np.split(columns, self._edges, axis=1), self._indices, self._count), self._tau)
