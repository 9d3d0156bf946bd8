"""Velocities and accelerations of recorded positions, without delay.

Samples are resampled to a regular grid with their median time step (by monotone cubics, which do not
overshoot) and filtered by a zero-phase fourth-order Butterworth low-pass. A cubic spline through the result
is differentiated at the time stamps. The amplitude is halved at the cut-off frequency and reduced by 6e-6 at
a fifth of it. A gap longer than half a period of the cut-off ends a piece. Within one and a half periods of
the ends of a piece, where the filter extrapolates, derivatives are NaN; farther inside, the error is about 1
% of an acceleration.

Positions may yield better velocities than recorded ones. The noise of both is estimated above the motion's
bandwidth, by third differences of recorded velocities, averaged over time steps, and of difference quotients
of positions. Vibration affects both, so only the excess of velocities counts as their noise. Quantized
velocities have an error of at least a step / sqrt(12). White position noise contributes 2 pi f / sqrt(3)
times as much to the derivative below a cut-off f.
"""

import math
from collections.abc import Iterator
from typing import Final, Literal, NamedTuple

import numpy as np

from dynamics_node.errors import TableError
from dynamics_node.io.tables import later, recordings

ORDER = 4
_DECAY = 8.0  # periods of the cut-off: filter memory, down to 1e-8
END = 1.5  # periods at the ends of a piece without derivatives


class Derivatives(NamedTuple):
    """columns (nv,) of the kind `source`; wraps (nv,): angles that may jump by a turn; orders: {kind: order
    of the derivative}."""

    source: str
    columns: np.ndarray
    wraps: np.ndarray
    orders: dict[str, int]


def differentiated(chunks, wanted: Derivatives, cutoff: float) -> Iterator[dict[str, np.ndarray]]:
    """The chunks with the kinds of `wanted` added; cutoff in Hz.

    Memory: a chunk, and twice 8 periods of the cut-off. The result depends on the chunk size by about 1e-6.
    Raises TableError if the rate is too low, or time does not advance.
    """
    margin = _DECAY / cutoff
    buffer: dict[str, np.ndarray] = {}
    finished = 0
    for chunk in chunks:
        buffer = {
            kind: np.concatenate([buffer[kind], rows]) if buffer else rows for kind, rows in chunk.items()
        }
        ready = _before(buffer["time"], margin)
        if ready > finished:
            yield _rows(buffer, wanted, cutoff, finished, ready)
            dropped = _before(buffer["time"][:ready], margin)
            buffer, finished = {kind: rows[dropped:] for kind, rows in buffer.items()}, ready - dropped
    if buffer and finished < len(buffer["time"]):
        yield _rows(buffer, wanted, cutoff, finished, len(buffer["time"]))


def _before(time, margin):
    """Number of rows before the last `margin` seconds; another recording also ends them."""
    steps = np.nan_to_num(np.diff(time, prepend=time[:1]))
    steps[[part.start for part in recordings(time)[1:]]] = margin
    passed = np.maximum.accumulate(np.cumsum(steps))
    return int(np.searchsorted(passed, passed[-1] - margin))


def _rows(buffer, wanted, cutoff, start, stop):
    """Rows start to stop of the buffer, with their derivatives."""
    values = buffer[wanted.source][:, wanted.columns]
    derived = {kind: np.full(values.shape, np.nan) for kind in wanted.orders}
    check_rate(buffer["time"], cutoff)
    good = np.flatnonzero(np.isfinite(values).all(axis=1) & np.isfinite(buffer["time"]))
    for piece in _pieces(buffer["time"], good, 0.5 / cutoff):
        derivatives = _derivatives(buffer["time"][piece], values[piece], wanted, cutoff)
        for kind, rows in derivatives.items():
            derived[kind][piece] = rows
    return {kind: rows[start:stop] for kind, rows in {**buffer, **derived}.items()}


def _pieces(time, rows, gap):
    """Contiguous rows, in order of time."""
    if not len(rows):
        return []
    pieces = []
    for recording in recordings(time[rows]):
        part = rows[recording]
        part = part[np.argsort(time[part], kind="stable")]
        pieces += np.split(part, np.flatnonzero(np.diff(time[part]) > gap) + 1)
    return pieces


def _derivatives(time, values, wanted, cutoff):
    """{kind: (n, nv)} of one piece; empty if it is too short."""
    from scipy.interpolate import CubicSpline, PchipInterpolator  # takes 1 s to import
    from scipy.signal import butter, sosfiltfilt

    time = time - time[0]  # a double resolves the current date to 0.2 us, too coarse for the spline
    stamps, at = np.unique(time, return_index=True)
    span = stamps[-1]
    inside = np.minimum(time, span - time) > END / cutoff - 1e-6  # s: time stamps are rounded
    if not inside.any():
        return {}
    values = values[at]
    values[:, wanted.wraps] = np.unwrap(values[:, wanted.wraps], axis=0)
    count = 1 + round(span / np.median(np.diff(stamps)))
    grid, rate = np.linspace(0.0, span, count), (count - 1) / span
    even = PchipInterpolator(stamps, values)(grid)
    sections = butter(ORDER, cutoff, fs=rate, output="sos")
    pad = min(int(_DECAY * rate / cutoff), count - 1)
    spline = CubicSpline(grid, sosfiltfilt(sections, even, axis=0, padlen=pad))
    return {k: np.where(inside[:, None], spline(time, order), np.nan) for k, order in wanted.orders.items()}


# --- cut-offs -----------------------------------------------------------------------------------------------


Usual = Literal["usual"]
USUAL_CUTOFF: Final = "usual"
CUTOFF = 10.0  # Hz, if the rate allows it
SHARE = 0.25  # fraction of the rate: the largest cut-off
JITTER = 1.05  # allowed ratio of local to median time step
SLOW = 2.0  # states a second: a lower rate suggests wrong time units, such as 2 kHz in ms
_UNITS = {1e3: "milliseconds", 1e6: "microseconds", 1e9: "nanoseconds"}
_STEP = 0.005  # s: typical time step


def usual_cutoff(chunks) -> float:
    """Hz: CUTOFF, or a quarter of the sampling rate, rounded down to two digits. chunks: with `time` (k,).

    Further chunks are read only if the first one is inconclusive. Raises TableError for a time that is not in
    seconds.
    """
    steps = np.zeros(0)
    for chunk in chunks:
        steps = np.append(steps, _steps(chunk["time"]))
        if len(steps) and SHARE / np.median(steps) > 2.0 * CUTOFF:
            break
    if not len(steps):
        return CUTOFF
    check_seconds(rate := 1.0 / float(np.median(steps)))
    return min(CUTOFF, _down(SHARE * rate))


def check_rate(time, cutoff):
    """Raise TableError if time does not advance, or the rate is too low for a cut-off."""
    steps = _steps(time)
    if not len(steps) and len(time) > 1:
        raise TableError("time does not advance: differentiation is impossible")
    if len(steps) and cutoff * np.median(steps) > SHARE * JITTER:
        check_seconds(rate := 1.0 / float(np.median(steps)))
        raise TableError(
            f"--cutoff {cutoff:g} is too high for {rate:.3g} states a second: use at most a quarter of the "
            f"rate, --cutoff {_down(SHARE * rate):g}"
        )


def check_seconds(rate):
    """Raise TableError with the probable unit if the rate is implausibly low."""
    if rate < SLOW:
        per = min(_UNITS, key=lambda per: abs(math.log(per * _STEP * rate)))
        raise TableError(
            f"samples are {1.0 / rate:.3g} s apart: is time in {_UNITS[per]}? It must be in s: divide it "
            f"by {per:.0e}. If it is in s, use --cutoff {_down(SHARE * rate):g}"
        )


def _steps(time):
    time = time[np.isfinite(time)]
    return np.concatenate([np.diff(np.unique(time[part])) for part in recordings(time)])


def _down(value):
    """A positive number rounded down to two digits."""
    unit = 10.0 ** (math.floor(math.log10(value * (1 + 1e-9))) - 1)
    return round(math.floor(value / unit * (1 + 1e-9)) * unit, 12)


# --- which velocities ---------------------------------------------------------------------------------------


Velocities = Literal["better", "recorded", "positions"]
LEAST_GAIN = 2.0  # ratio of noise: above it, recorded velocities are replaced
LEAST_NOISE = 0.005  # fraction of the root mean square of a velocity: smaller noise is harmless
MOST_LEVELS = 0.25  # distinct values per row of quantized velocities
STEP_TOLERANCE = 0.01  # fraction of a step: deviation of quantized values
LEAST_ROWS = 100  # rows needed for an estimate


def noisy_velocities(chunk, robot, cutoff) -> list[tuple[str, float, bool]]:
    """(joint, step or noise in rad/s or m/s, whether it is a step) of joints whose positions yield better
    velocities.

    chunk: {q (k, nq), qd (k, nv), time (k,)}, None for an empty table; cutoff: Hz, of the derivatives.
    """
    if chunk is None:
        return []
    good = np.isfinite(chunk["time"]) & np.isfinite(chunk["q"]).all(axis=1)
    good &= np.isfinite(chunk["qd"]).all(axis=1)
    good &= later(chunk["time"])
    if np.count_nonzero(good) < LEAST_ROWS:
        return []
    time, q, qd = (chunk[kind][good] for kind in ("time", "q", "qd"))
    places = {joint.name: joint.q.start for joint in robot.tree.independent_joints}
    noisy = []
    for joint in robot.independent_joints:
        rates, path = qd[:, joint.v.start], q[:, places[joint.name]]
        path = np.unwrap(path) if joint.type.wraps else path
        noise, stepped = _noise(rates, path, time)
        size = np.sqrt(np.mean(rates**2))
        if noise > max(LEAST_GAIN * _of_positions(path, time, cutoff), LEAST_NOISE * size):
            noisy.append((joint.name, float(noise * (np.sqrt(12.0) if stepped else 1.0)), stepped))
    return noisy


def _noise(rates, positions, time):
    """Lower bound of the standard deviation of a recorded velocity (k,), and whether it is quantized."""
    step = _step(rates) / np.sqrt(12.0)
    quotients = _rough(np.diff(positions) / np.diff(time))
    excess = max(_rough(0.5 * (rates[1:] + rates[:-1])) - quotients, 0.0)
    return max(step, np.sqrt(excess / 2.5)), bool(step > 0.0)


def _of_positions(positions, time, cutoff):
    """Upper bound of the standard deviation of the derivative of positions (k,) below a cut-off."""
    step = np.median(np.diff(time))
    white = np.sqrt(_rough(np.diff(positions) / np.diff(time)) / 70.0) * step
    return 2.0 * np.pi * cutoff / np.sqrt(3.0) * white


def _rough(values):
    """Mean square of third differences: for white noise 2.5 times its variance if averaged over two rows, 70
    times if differenced before."""
    return np.mean(np.diff(values, 3) ** 2)


def _step(values):
    """Step of quantized values; 0 for others."""
    levels = np.unique(values)
    apart = np.diff(levels)
    apart = apart[apart > 1e-9 * np.abs(levels).max(initial=0.0)]
    if not len(apart) or len(apart) + 1 > MOST_LEVELS * len(values):
        return 0.0
    counts = apart / apart.min()
    return float(apart.min()) if np.all(np.abs(counts - np.round(counts)) < STEP_TOLERANCE * counts) else 0.0
