"""Velocities and accelerations from what was recorded, without delay.

The samples come to a regular grid with the median step of their stamps (by monotone cubics, which do not
overshoot), through a Butterworth low-pass of fourth order forwards and backwards, and a cubic spline
through the result is differentiated at the stamps. At the cut-off half of the amplitude is left, at a
fifth of it all but 6e-6. Gaps longer than half a period of the cut-off end a piece. Beside the ends of a
piece, where the filter would have to guess how it goes on, there is NaN for one and a half periods: beyond,
what it guessed is about 1 % of an acceleration.

Positions may give better velocities than recorded ones. Both have noise above what moves. Its size is
measured by third differences of recorded velocities, averaged over steps of time, and of difference quotients
of positions, which leave little of the motion. Vibration is in both; only the excess of velocities counts as
their noise. Velocities of few values are off by a step over sqrt(12), whatever their differences say. Of
white noise of positions 2 pi f / sqrt(3) times as much is in their derivative below a cut-off f.
"""

import math
from collections.abc import Iterator
from typing import Final, Literal, NamedTuple

import numpy as np

from dynamics_node.io.tables import TableError

ORDER = 4
_DECAY = 8.0  # periods of the cut-off after which what the filter remembers is below 1e-8
END = 1.5  # periods beside the end of a piece that have no derivative
_BACK = 1.0  # s: a recording that loops, not messages out of order


class Derivatives(NamedTuple):
    """columns (nv,) of the kind `source`; wraps (nv,): those that are angles which may jump by a turn;
    orders: {kind: how often it is differentiated}."""

    source: str
    columns: np.ndarray
    wraps: np.ndarray
    orders: dict[str, int]


def differentiated(chunks, wanted: Derivatives, cutoff: float) -> Iterator[dict[str, np.ndarray]]:
    """The chunks with the kinds of `wanted` added; cutoff in Hz.

    Memory: a chunk, and twice 8 periods of the cut-off. Chunks of another size give the same to about 1e-6.
    Raises TableError when there are too few samples a second, or time does not advance.
    """
    margin = _DECAY / cutoff
    held: dict[str, np.ndarray] = {}
    done = 0
    for chunk in chunks:
        held = {kind: np.concatenate([held[kind], rows]) if held else rows for kind, rows in chunk.items()}
        ready = _before(held["time"], margin)
        if ready > done:
            yield _rows(held, wanted, cutoff, done, ready)
            keep = _before(held["time"][:ready], margin)
            held, done = {kind: rows[keep:] for kind, rows in held.items()}, ready - keep
    if held and done < len(held["time"]):
        yield _rows(held, wanted, cutoff, done, len(held["time"]))


def _before(time, margin):
    """How many rows come before the last `margin` seconds; what jumps back ends them, too."""
    steps = np.nan_to_num(np.diff(time, prepend=time[:1]))
    passed = np.maximum.accumulate(np.cumsum(np.where(steps < -_BACK, margin, steps)))
    return int(np.searchsorted(passed, passed[-1] - margin))


def _rows(held, wanted, cutoff, start, stop):
    """Rows start to stop of what is held, with their derivatives."""
    values = held[wanted.source][:, wanted.columns]
    found = {kind: np.full(values.shape, np.nan) for kind in wanted.orders}
    check_rate(held["time"], cutoff)
    good = np.flatnonzero(np.isfinite(values).all(axis=1) & np.isfinite(held["time"]))
    for piece in _pieces(held["time"], good, 0.5 / cutoff):
        derivatives = _derivatives(held["time"][piece], values[piece], wanted, cutoff)
        for kind, rows in derivatives.items():
            found[kind][piece] = rows
    return {kind: rows[start:stop] for kind, rows in {**held, **found}.items()}


def _pieces(time, rows, gap):
    """Rows that belong together, in order of time."""
    if not len(rows):
        return []
    ends = np.flatnonzero(np.diff(time[rows]) < -_BACK) + 1
    pieces = []
    for part in np.split(rows, ends):
        part = part[np.argsort(time[part], kind="stable")]
        pieces += np.split(part, np.flatnonzero(np.diff(time[part]) > gap) + 1)
    return pieces


def _derivatives(time, values, wanted, cutoff):
    """{kind: (n, nv)} of one piece; nothing of one that is too short."""
    from scipy.interpolate import CubicSpline, PchipInterpolator  # 1 s that no other command should wait
    from scipy.signal import butter, sosfiltfilt

    time = time - time[0]  # of today's date a double keeps 0.2 us, too little for the spline's steps
    stamps, at = np.unique(time, return_index=True)
    span = stamps[-1]
    inside = np.minimum(time, span - time) > END / cutoff - 1e-6  # s: stamps are rounded
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
CUTOFF = 10.0  # Hz, where the rate allows it
SHARE = 0.25  # of the rate: the largest cut-off
JITTER = 1.05  # how much slower parts of a recording may be than all of it
SLOW = 2.0  # states a second of hardly any recording: 2 kHz in ms
_UNITS = {1e3: "milliseconds", 1e6: "microseconds", 1e9: "nanoseconds"}
_STEP = 0.005  # s, of usual recordings


def usual_cutoff(chunks) -> float:
    """Hz: CUTOFF, or a quarter of the states a second, rounded down to two figures. chunks: with `time` (k,).

    Where the first chunk leaves no doubt, the others are not read. Raises TableError for a time that is not
    in seconds.
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
    """Raise TableError where time does not advance, or has too few steps a second for a cut-off."""
    steps = _steps(time)
    if not len(steps) and len(time) > 1:
        raise TableError("time does not advance: there is nothing to differentiate by")
    if len(steps) and cutoff * np.median(steps) > SHARE * JITTER:
        check_seconds(rate := 1.0 / float(np.median(steps)))
        raise TableError(
            f"there are {rate:.3g} states a second, which allows a cut-off of a quarter of that: "
            f"--cutoff {_down(SHARE * rate):g}, not {cutoff:g}"
        )


def check_seconds(rate):
    """Raise TableError where hardly anybody records so slowly, which names the unit that time may have."""
    if rate < SLOW:
        per = min(_UNITS, key=lambda per: abs(math.log(per * _STEP * rate)))
        raise TableError(
            f"samples are {1.0 / rate:.3g} s apart: is time in {_UNITS[per]}? It has to be in s: divide it "
            f"by {per:.0e}. If it is, --cutoff {_down(SHARE * rate):g} is possible"
        )


def _steps(time):
    return np.diff(np.unique(time[np.isfinite(time)]))


def _down(value):
    """Two figures of a positive number, never more than it is but by rounding."""
    unit = 10.0 ** (math.floor(math.log10(value * (1 + 1e-9))) - 1)
    return round(math.floor(value / unit * (1 + 1e-9)) * unit, 12)


# --- which velocities ---------------------------------------------------------------------------------------


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
