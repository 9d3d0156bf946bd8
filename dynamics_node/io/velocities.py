"""Whether positions tell velocities better than recorded velocities do.

Both have noise above what moves. Its size is measured by third differences of recorded velocities, averaged
over steps of time, and of difference quotients of positions, which leave little of the motion. What vibrates
is in both; only what velocities have beyond it counts as their noise. Velocities of few values are off by a
step over sqrt(12), whatever their differences say. Of white noise of positions 2 pi f / sqrt(3) times as much
is in their derivative below a cut-off f.
"""

from typing import Literal

import numpy as np

Velocities = Literal["better", "recorded", "positions"]
BETTER = 2.0  # times less noise: worth to leave what is recorded
MATTERS = 0.005  # of the root mean square of a velocity: smaller noise does no harm
FEW = 0.25  # values a row of velocities that come in steps
EVEN = 0.01  # of a step, that values in steps may be off
ENOUGH = 100  # rows that tell


def noisy_velocities(chunk, model, cutoff) -> list[tuple[str, float, bool]]:
    """(joint, step or noise in rad/s or m/s, whether it is a step) of those that positions tell better.

    chunk: {q (k, nq), qd (k, nv), time (k,)}, None of an empty table; cutoff: Hz, of the derivatives.
    """
    if chunk is None:
        return []
    good = np.isfinite(chunk["time"]) & np.isfinite(chunk["q"]).all(axis=1)
    good &= np.isfinite(chunk["qd"]).all(axis=1)
    good &= np.diff(chunk["time"], prepend=-np.inf) > 0
    if np.count_nonzero(good) < ENOUGH:
        return []
    time, q, qd = (chunk[kind][good] for kind in ("time", "q", "qd"))
    places = {joint.name: joint.q.start for joint in model.tree.independent_joints}
    found = []
    for joint in model.independent_joints:
        rates, way = qd[:, joint.v.start], q[:, places[joint.name]]
        way = np.unwrap(way) if joint.type.wraps else way
        noise, stepped = _noise(rates, way, time)
        size = np.sqrt(np.mean(rates**2))
        if noise > max(BETTER * _of_positions(way, time, cutoff), MATTERS * size):
            found.append((joint.name, float(noise * (np.sqrt(12.0) if stepped else 1.0)), stepped))
    return found


def _noise(rates, positions, time):
    """Standard deviation of a recorded velocity (k,), at least; whether it is that of steps."""
    step = _step(rates) / np.sqrt(12.0)
    ways = _rough(np.diff(positions) / np.diff(time))
    beyond = max(_rough(0.5 * (rates[1:] + rates[:-1])) - ways, 0.0)
    return max(step, np.sqrt(beyond / 2.5)), bool(step > 0.0)


def _of_positions(positions, time, cutoff):
    """Standard deviation of the derivative of positions (k,) below a cut-off, at most."""
    step = np.median(np.diff(time))
    white = np.sqrt(_rough(np.diff(positions) / np.diff(time)) / 70.0) * step
    return 2.0 * np.pi * cutoff / np.sqrt(3.0) * white


def _rough(values):
    """Mean square of third differences: of white noise 2.5 times its variance where it is averaged over two
    rows, 70 times where it is differenced before."""
    return np.mean(np.diff(values, 3) ** 2)


def _step(values):
    """Between values that come in steps; 0 of others."""
    levels = np.unique(values)
    apart = np.diff(levels)
    apart = apart[apart > 1e-9 * np.abs(levels).max(initial=0.0)]
    if not len(apart) or len(apart) + 1 > FEW * len(values):
        return 0.0
    counts = apart / apart.min()
    return float(apart.min()) if np.all(np.abs(counts - np.round(counts)) < EVEN * counts) else 0.0
