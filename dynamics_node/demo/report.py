"""What the demo's monitor shows: a live table, a plot, a verdict."""

import contextlib
import time

import numpy as np
from rich.console import Console
from rich.live import Live
from rich.table import Table

from dynamics_node.demo.panda import JOINTS


@contextlib.contextmanager
def live_table(monitor):
    """A function that refreshes the table; without a terminal it prints one line a second."""
    console = Console()
    if not console.is_terminal:
        yield _line_a_second(monitor)
        return
    with Live(_table(monitor), console=console, auto_refresh=False) as live:
        yield lambda: live.update(_table(monitor), refresh=True)


def _line_a_second(monitor):
    shown = time.monotonic()

    def refresh():
        nonlocal shown
        if time.monotonic() < shown + 1.0 or not monitor.times:
            return
        shown = time.monotonic()
        torques = " ".join(f"{x:7.2f}" for x in monitor.published[-1])
        print(
            f"{monitor.rate():4.0f} Hz  torques [N m] {torques}  error {monitor.errors[-1]:.0e}", flush=True
        )

    return refresh


def _table(monitor):
    table = Table(title="Panda: torques on /dynamics_node/joint_torques", caption=_caption(monitor))
    for column in ("joint", "published [N m]", "Pinocchio [N m]", "difference"):
        table.add_column(column, justify="left" if column == "joint" else "right")
    if not monitor.times:
        table.add_row("waiting for the first torque ...", "", "", "")
        return table
    for name, tau, expected in zip(JOINTS, monitor.published[-1], monitor.computed[-1], strict=True):
        table.add_row(name, f"{tau:9.4f}", f"{expected:9.4f}", f"{tau - expected:9.1e}")
    return table


def _caption(monitor):
    if not monitor.times:
        return ""
    latency = np.percentile(monitor.latencies[-1000:], 50)
    return (
        f"{monitor.rate():.0f} Hz, {len(monitor.times)} checked, "
        f"worst relative error {max(monitor.errors):.1e}, stamp to reception {latency:.0f} us (median)"
    )


def save_plot(monitor, path):
    """Published and computed torques over time, and their difference."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    t = np.array(monitor.times) - monitor.times[0]
    published, computed = np.array(monitor.published), np.array(monitor.computed)
    figure, (above, below) = pyplot.subplots(
        2, 1, figsize=(10, 6.5), sharex=True, height_ratios=(3, 1), layout="constrained"
    )
    for k, name in enumerate(JOINTS):
        (line,) = above.plot(t, published[:, k], label=name)
        above.plot(t[::25], computed[::25, k], "o", markersize=2.5, color=line.get_color(), alpha=0.6)
    above.set_ylabel("torque [N m]")
    above.set_title("Panda, inverse dynamics over ROS 2 topics: lines published, dots Pinocchio")
    above.legend(ncols=4, fontsize=8)
    below.semilogy(t, np.maximum(np.abs(published - computed).max(axis=1), 1e-17), linewidth=0.6)
    below.set_ylabel("largest\ndifference [N m]")
    below.set_xlabel("time [s]")
    for axes in (above, below):
        axes.grid(alpha=0.3)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def verdict_lines(monitor, reason, plot):
    """The last lines of the demo."""
    if monitor.times:
        latency = np.percentile(monitor.latencies, (50, 99))
        yield (
            f"{len(monitor.times)} torques checked against Pinocchio at {monitor.rate():.0f} Hz: "
            f"worst relative error {max(monitor.errors):.1e}; stamp to reception "
            f"{latency[0]:.0f} us median, {latency[1]:.0f} us p99"
        )
        if plot:
            yield f"plot: {plot}"
    yield f"FAILED: {reason}" if reason else "PASSED"
