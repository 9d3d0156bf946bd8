"""Velocities and accelerations from what was recorded, without delay.

The samples come to a regular grid with the median step of their stamps (by monotone cubics, which do not
overshoot), through a Butterworth low-pass of fourth order forwards and backwards, and a cubic spline
through the result is differentiated at the stamps. At the cut-off half of the amplitude is left, at a
fifth of it all but 6e-6. Gaps longer than half a period of the cut-off end a piece. Beside the ends of a
piece, where the filter would have to guess how it goes on, there is NaN for one and a half periods: beyond,
what it guessed is about 1 % of an acceleration.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from dynamics_node.io.cutoff import check_rate

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
