"""Consistency of times, positions and rates, and delays of the torques.

To estimate the delay, regressors of earlier or later times are fitted to the torques. A true delay improves
the fit of all joints; a change that improves some and worsens others, such as another friction law, does not
count.
"""

import numpy as np

from dynamics_node.identification.regressor_model import RegressorModel
from dynamics_node.identification.sums import fit_of, packed_squares
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
    steps = [
        np.median(np.diff(stretch["time"]))
        for stretch in stretches
        if "time" in stretch and len(stretch["time"]) > 1
    ]
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
        for stretch in stretches:
            if "time" not in stretch or len(stretch["time"]) <= APART:
                continue
            rates = stretch["qd"][:, k]
            path = np.append(0.0, np.cumsum(0.5 * (rates[1:] + rates[:-1]) * np.diff(stretch["time"])))
            q = stretch["q"][:, joints[name].q.start]
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
LARGEST_DELAY = 0.1  # s
STEP = 0.04  # s: step of the coarse search
FINE = 0.0005  # s: resolution
WORTH = 0.2  # fraction of squared residuals: least share that a delay must explain
LIKELIHOOD_GAIN = 18.0  # least gain of the log-likelihood, for independent rows
CHANGED = 0.02  # fraction of the residual of a torque: smaller changes are ignored
AGREEMENT = 0.8  # fraction of all changes: least share of improvements


def delay(rows, times):
    """s that torques are behind the positions, or 0. rows (n, nv, r + 1): see `torque_rows`, of stretches;
    times: of each stretch."""
    from scipy.optimize import minimize_scalar  # takes 0.2 s to import

    times = [np.asarray(time) for time in times]
    step = float(np.median(np.concatenate([np.diff(time) for time in times])))
    reach = min(LARGEST_DELAY, 0.25 * min(np.ptp(time) for time in times))
    inside = [np.flatnonzero((time >= time[0] + reach) & (time <= time[-1] - reach)) for time in times]
    count = sum(map(len, inside))
    if count < rows.shape[-1] - 1:
        return 0.0
    starts = np.cumsum([0, *(len(time) for time in times[:-1])])
    used = rows.any(axis=0)
    used[:, -1] = True
    packed, torques = rows[:, used], np.nonzero(used)[1] == used.shape[1] - 1
    steps = np.diff(packed, axis=0)
    tau = packed[np.concatenate([start + at for start, at in zip(starts, inside, strict=True)])][:, torques]

    def left(seconds):
        """Logarithms (nv,) of the residuals of the regressor at an earlier time."""
        low, shares = [], []
        for start, time, at in zip(starts, times, inside, strict=True):
            place = np.interp(time[at] - seconds, time, np.arange(len(time)))
            low.append(np.minimum(place.astype(int), len(time) - 2) + start)
            shares.append(place + start - low[-1])
        earlier = steps[np.concatenate(low)]
        earlier *= np.concatenate(shares)[:, None]
        earlier += packed[np.concatenate(low)]
        earlier[:, torques] = tau
        return np.log(fit_of(packed_squares(earlier, used), count)[1])

    coarse = np.linspace(-reach, reach, 1 + 2 * max(1, round(reach / STEP)))
    near = min(coarse, key=lambda seconds: left(seconds).sum())
    bounds = np.clip((near - coarse[1] + coarse[0], near + coarse[1] - coarse[0]), -reach, reach)
    found = minimize_scalar(
        lambda seconds: left(seconds).sum(), bounds=bounds, method="bounded", options={"xatol": FINE}
    )
    gain = left(0.0) - left(found.x)
    changed = gain[np.abs(gain) > CHANGED]
    is_late = (
        max(LATE, SHARE * step) <= abs(found.x) < reach - FINE
        and count * gain.sum() > LIKELIHOOD_GAIN
        and 1.0 - np.exp(-2.0 * changed.sum() / max(1, len(changed))) > WORTH
        and np.sum(gain[gain > 0]) >= AGREEMENT * np.sum(np.abs(gain))
    )
    return float(found.x) if is_late else 0.0


def about_delay(delay):
    """Warnings about a delay in s."""
    if not delay:
        return []
    return [f"torques are {1e3 * abs(delay):.0f} ms {'behind' if delay > 0 else 'ahead of'} the positions"]
