"""A plot of measured and computed torques, by matplotlib."""

from pathlib import Path

import numpy as np

from dynamics_node.tables.compare import Comparison
from dynamics_node.tables.names import TableError, require

PLOTS = (".png", ".svg", ".pdf")
_COLUMNS = 3


def check_plot(path):
    """Raises TableError when a plot cannot be written to the path: another ending, no matplotlib."""
    if Path(path).suffix not in PLOTS:
        raise TableError(f"{path}: a plot can be written to {', '.join(PLOTS)}")
    require("matplotlib")


def plot_comparison(path, comparison: Comparison, title: str, timed=True):
    """Draw a panel for every coordinate, over s (timed) or the rows. Raises TableError, ValueError when there
    is nothing to compare."""
    check_plot(path)
    from matplotlib.figure import Figure

    differences = comparison.differences()
    (time, measured, computed), every = comparison.shown()
    lines = -(-len(differences) // _COLUMNS)
    figure = Figure(figsize=(4.6 * _COLUMNS, 1.0 + 2.3 * lines), layout="constrained")
    panels = figure.subplots(lines, _COLUMNS, squeeze=False, sharex=True).ravel()
    x = time - np.nanmin(time) if timed else time
    for k, (panel, told) in enumerate(zip(panels, differences, strict=False)):
        panel.plot(x, measured[:, k], color="#999999", linewidth=0.8, label="measured")
        panel.plot(x, computed[:, k], color="#c0392b", linewidth=0.8, label="computed")
        panel.set_title(f"{told.name}: RMSE {told.rmse:.3g} {told.unit}", fontsize=9, parse_math=False)
        panel.set_ylabel(told.unit, fontsize=8)
        panel.tick_params(labelsize=8, labelbottom=k + _COLUMNS >= len(differences))
    for panel in panels[len(differences) :]:
        panel.set_visible(False)
    panels[0].legend(fontsize=8)
    figure.supxlabel("s" if timed else "row", fontsize=9)
    thinned = f", one in {every} drawn" if every > 1 else ""
    figure.suptitle(f"{title}: {comparison.count} states{thinned}", fontsize=10, parse_math=False)
    try:
        figure.savefig(path)
    except OSError as error:
        raise TableError(f"{path} cannot be written: {error}") from None
