"""Plots with matplotlib: measured and computed torques, curves over time, also as SVG for pages."""

from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np

from dynamics_node.errors import InputError, TableError
from dynamics_node.io.evaluate_tables import Comparison
from dynamics_node.io.tables import require
from dynamics_node.optional import install_command
from dynamics_node.output_files import replacing
from dynamics_node.robot.safe_files import file_trouble

PLOTS = (".png", ".svg", ".pdf")
_COLUMNS = 3
_WIDTH, _LEFT, _BELOW, _ABOVE = 1080, 62, 18, 6  # pixels of an SVG and its margins
_GAP = 5.0  # median steps: curves of an SVG do not bridge longer gaps
_SVG: Any = {"svg.fonttype": "none", "svg.hashsalt": "dynamics_node"}  # text as text, reproducible ids
_NO_METADATA = dict.fromkeys(("Creator", "Date", "Format", "Type"))


def check_plot(path):
    """Raise TableError if a plot cannot be written to the path: unknown suffix, missing folder, or no
    matplotlib."""
    if Path(path).suffix not in PLOTS:
        raise TableError(f"{path}: plots are written to {', '.join(PLOTS)}")
    if not Path(path).parent.is_dir():
        raise TableError(f"cannot write {path}: there is no folder {Path(path).parent}")
    require("matplotlib")


def plot_curves(path, time, curves, title: str):
    """Plot one panel per kind and unit over time in s. curves: (name, kind, unit, values (count,), band
    (count,) or None) each, band: half-width of the shaded area. Raises TableError, ValueError without
    curves."""
    check_plot(path)
    from matplotlib.figure import Figure

    panels: dict[str, list] = {}
    for curve in curves:
        panels.setdefault(f"{curve[1]} [{curve[2]}]", []).append(curve)
    if not panels:
        raise InputError("there are no curves to plot")
    figure = Figure(figsize=(9.0, 1.0 + 2.4 * len(panels)), layout="constrained")
    axes = figure.subplots(len(panels), 1, squeeze=False, sharex=True).ravel()
    listed: list[str] = []
    for panel, (label, members) in zip(axes, panels.items(), strict=True):
        for name, _, _, values, band in members:
            (line,) = panel.plot(time, values, linewidth=1.0, label=_plain(name))
            if band is not None:
                panel.fill_between(
                    time, values - band, values + band, color=line.get_color(), alpha=0.2, linewidth=0
                )
        panel.set_ylabel(label, fontsize=9)
        panel.tick_params(labelsize=8)
        if (names := [name for name, *_ in members]) != listed:  # panels below have the same colors
            panel.legend(fontsize=7, ncols=2, loc="upper left", bbox_to_anchor=(1.0, 1.0))
            listed = names
    figure.supxlabel("time [s]", fontsize=9)
    figure.suptitle(title, fontsize=10, parse_math=False)
    _save(figure, path)


def _plain(name):
    """A name that a legend neither parses as a formula nor hides because of a leading underscore."""
    return " " + name.replace("$", r"\$")


def plot_comparison(path, comparison: Comparison, title: str, timed=True):
    """Plot one panel per coordinate, over time in s (timed) or rows. Raises TableError, or ValueError if no
    state is comparable."""
    check_plot(path)
    from matplotlib.figure import Figure

    differences = comparison.differences()
    (time, measured, computed), every = comparison.samples()
    lines = -(-len(differences) // _COLUMNS)
    figure = Figure(figsize=(4.6 * _COLUMNS, 1.0 + 2.3 * lines), layout="constrained")
    panels = figure.subplots(lines, _COLUMNS, squeeze=False, sharex=True).ravel()
    x = time - np.nanmin(time) if timed else time
    for k, (panel, difference) in enumerate(zip(panels, differences, strict=False)):
        panel.plot(x, measured[:, k], color="#999999", linewidth=0.8, label="measured")
        panel.plot(x, computed[:, k], color="#c0392b", linewidth=0.8, label="computed")
        panel.set_title(
            f"{difference.name}: RMSE {difference.rmse:.3g} {difference.unit}", fontsize=9, parse_math=False
        )
        panel.set_ylabel(f"torque [{difference.unit}]", fontsize=8)
        panel.tick_params(labelsize=8, labelbottom=k + _COLUMNS >= len(differences))
    for panel in panels[len(differences) :]:
        panel.set_visible(False)
    panels[0].legend(fontsize=8)
    figure.supxlabel("time [s]" if timed else "row", fontsize=9)
    thinned = f", one in {every} plotted" if every > 1 else ""
    figure.suptitle(f"{title}: {comparison.count} states{thinned}", fontsize=10, parse_math=False)
    _save(figure, path)


def panel(x, curves, label: str, height=150) -> str:
    """An <svg> of curves (CSS color, values (n,)) over x (n,), first below last, NaN omitted; label: of the
    vertical axis. Without matplotlib, a sentence with the reason."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return f"Drawings need matplotlib: {install_command('matplotlib')}."
    figure = Figure(figsize=(_WIDTH / 96, height / 96))
    across, upward = 1 - (_LEFT + 10) / _WIDTH, 1 - (_BELOW + _ABOVE) / height
    axes = figure.add_axes((_LEFT / _WIDTH, _BELOW / height, across, upward))
    for color, values in curves:
        axes.plot(*_broken(np.asarray(x, dtype=float), values), color=color, linewidth=0.8)
    axes.set_ylabel(label, fontsize=8, parse_math=False)
    axes.tick_params(labelsize=8, color="#999")
    axes.grid(color="#e4e4e4", linewidth=0.6)
    axes.margins(x=0)
    axes.spines[:].set_visible(False)
    return svg(figure)


def svg(figure) -> str:
    """A figure of matplotlib as an <svg> whose text is text; the same figure gives the same characters."""
    from matplotlib import rc_context

    text = StringIO()
    with rc_context(_SVG):
        figure.savefig(text, format="svg", metadata=_NO_METADATA)
    return text.getvalue()[text.getvalue().index("<svg") :]


def _broken(x, values):
    """x and values with NaN inserted at backward steps, gaps and NaN."""
    good = np.isfinite(x) & np.isfinite(values)
    steps = np.diff(x[good])
    usual = np.median(np.abs(steps)) if len(steps) else 0.0
    apart = (steps < 0) | (steps > _GAP * usual) | (np.diff(np.flatnonzero(good)) > 1)
    places = np.flatnonzero(apart) + 1
    return np.insert(x[good], places, np.nan), np.insert(values[good], places, np.nan)


def _save(figure, path):
    try:
        with replacing(path) as unfinished:
            figure.savefig(unfinished, format=Path(path).suffix[1:] or None)
    except OSError as error:
        raise TableError(f"cannot write {file_trouble(error)}") from None
