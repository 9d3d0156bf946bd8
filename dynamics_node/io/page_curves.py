"""Curves over time as SVG."""

from html import escape
from typing import NamedTuple

import numpy as np

WIDTH, LEFT, BELOW, ABOVE = 1080, 62, 18, 6  # of the drawing, of its margins
GAP = 5.0  # usual steps: curves do not bridge more
TICKS = 4  # about so many along an axis


class Curve(NamedTuple):
    """colour: as of CSS; values (n,)."""

    colour: str
    values: np.ndarray


def panel(x, curves, label: str, height=150) -> str:
    """An <svg> of curves over x (n,), first below last, NaN left out; label: of what goes upward."""
    x = np.asarray(x, dtype=float)
    low, high = _span([curve.values for curve in curves])
    across = _axis(_span([x]), LEFT, WIDTH - 4)
    upward = _axis((low, high), height - BELOW, ABOVE)
    grid = [
        f'<path fill="none" stroke="#e4e4e4" d="M{LEFT} {upward(y):.1f}H{WIDTH - 4}"/>'
        for y in _ticks(low, high)
    ]
    marks = [
        f'<text x="{LEFT - 6}" y="{upward(y) + 4:.1f}" text-anchor="end">{y:g}</text>'
        for y in _ticks(low, high)
    ]
    marks += [
        f'<text x="{across(t):.1f}" y="{height - 4}" text-anchor="middle">{t:g}</text>'
        for t in _ticks(*_span([x]))
    ]
    turned = f'transform="translate(11 {height / 2:.0f}) rotate(-90)" text-anchor="middle"'
    marks.append(f"<text {turned}>{escape(label)}</text>")
    paths = [
        f'<path fill="none" stroke="{escape(curve.colour)}" d="{_path(x, curve.values, across, upward)}"/>'
        for curve in curves
    ]
    return f'<svg viewBox="0 0 {WIDTH} {height}" role="img">{"".join([*grid, *paths, *marks])}</svg>'


def _span(arrays):
    """Least and greatest finite value, apart."""
    values = np.concatenate([np.ravel(array) for array in arrays]) if arrays else np.zeros(0)
    values = values[np.isfinite(values)]
    if not len(values):
        return 0.0, 1.0
    low, high = float(values.min()), float(values.max())
    return (low, high) if high > low else (low - 0.5 * max(1.0, abs(low)), high + 0.5 * max(1.0, abs(high)))


def _axis(span, start, stop):
    low, high = span
    return lambda value: start + (stop - start) * (value - low) / (high - low)


def _ticks(low, high):
    """Round numbers within."""
    rough = (high - low) / TICKS
    size = 10.0 ** np.floor(np.log10(rough))
    step = size * next((s for s in (1.0, 2.0, 5.0) if s * size >= rough), 10.0)
    first, last = int(np.ceil(low / step)), int(np.floor(high / step))
    return [float(f"{k * step:.12g}") for k in range(first, last + 1)]


def _path(x, values, across, upward):
    """Lines between neighbours; a new one where x goes back or a gap or NaN lies between."""
    good = np.flatnonzero(np.isfinite(x) & np.isfinite(values))
    if not len(good):
        return ""
    steps = np.diff(x[good])
    usual = np.median(np.abs(steps)) if len(steps) else 0.0
    apart = (steps < 0) | (steps > GAP * usual) | (np.diff(good) > 1)
    begins = np.append(True, apart)
    points = zip(begins.tolist(), across(x[good]).tolist(), upward(values[good]).tolist(), strict=True)
    return "".join(f"{'M' if new else 'L'}{a:.1f} {b:.1f}" for new, a, b in points)
