"""What the demo's monitor shows: a live table, a plot, a verdict."""

import numpy as np
from rich.table import Table

from dynamics_demo.watching import live_table


def show(monitor):
    """See `live_table`."""
    return live_table(monitor, _table, _line)


def _line(monitor):
    torques = " ".join(f"{x:7.2f}" for x in monitor.published[-1])
    return f"{monitor.rate():4.0f} Hz  torques [N m] {torques}  error {monitor.errors[-1]:.0e}"


def _table(monitor):
    table = Table(
        title=f"{monitor.robot.title}: torques on /dynamics_node/joint_torques", caption=_caption(monitor)
    )
    for column in ("joint", "published [N m]", "Pinocchio [N m]", "difference"):
        table.add_column(column, justify="left" if column == "joint" else "right")
    if not monitor.times:
        table.add_row("waiting for the first torque ...", "", "", "")
        return table
    rows = (monitor.robot.joints, monitor.published[-1], monitor.computed[-1])
    for name, tau, expected in zip(*rows, strict=True):
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
    """Published and computed torques over time, their difference, and how far a loop opens."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    t = np.array(monitor.times) - monitor.times[0]
    published, computed = np.array(monitor.published), np.array(monitor.computed)
    panels = 3 if monitor.drifts else 2
    figure, (above, *others) = pyplot.subplots(
        panels, 1, figsize=(10, 3.5 + 1.5 * panels), sharex=True, height_ratios=(3, *[1] * (panels - 1)),
        layout="constrained",
    )  # fmt: skip
    for k, name in enumerate(monitor.robot.joints):
        (line,) = above.plot(t, published[:, k], label=name)
        above.plot(t[::25], computed[::25, k], "o", markersize=2.5, color=line.get_color(), alpha=0.6)
    above.set_ylabel("torque [N m]")
    title = "inverse dynamics over ROS 2 topics: lines published, dots Pinocchio"
    above.set_title(f"{monitor.robot.title}, {title}")
    above.legend(ncols=4, fontsize=8)
    series = [(np.abs(published - computed).max(axis=1), "largest\ndifference [N m]")]
    series += [(np.array(monitor.drifts), "opening of\nthe loop [m]")] if monitor.drifts else []
    for axes, (values, label) in zip(others, series, strict=True):
        axes.semilogy(t, np.maximum(values, 1e-18), linewidth=0.6)
        axes.set_ylabel(label)
    others[-1].set_xlabel("time [s]")
    for axes in (above, *others):
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
        if monitor.drifts:
            yield f"the loop stays closed: its ends are {max(monitor.drifts):.1e} m apart at most"
        if plot:
            yield f"plot: {plot}"
    yield f"FAILED: {reason}" if reason else "PASSED"
