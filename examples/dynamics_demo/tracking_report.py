"""What the monitor of the tracking demo shows: a live table, a plot, a verdict."""

import numpy as np
from rich.table import Table

from dynamics_demo.panda import PANDA_JOINTS
from dynamics_demo.tracked_arm import CYCLE, PAYLOAD, THIRDS
from dynamics_demo.watching import live_table

ARM = f"Panda with {PAYLOAD.mass:g} kg in its hand"
SHADES = ("#fbe9e7", "#fff6e0", "#e8f5e9")  # of the thirds


def show(monitor):
    """See `live_table`."""
    return live_table(monitor, _table, _line)


def _line(monitor):
    """Errors of the last half second."""
    tracking = monitor.tracking
    recent = tracking.error[max(0, tracking.last - 250) : tracking.last + 1]
    errors = " ".join(f"{x:7.2f}" for x in 1e3 * np.sqrt(np.nanmean(recent**2, axis=0)))
    now = CYCLE * tracking.last
    return f"{now:5.1f} s  {THIRDS[_third(tracking)]:27} errors of the joints [mrad] {errors}"


def _third(tracking):
    return min(3 * max(tracking.last, 0) // tracking.cycles, 2)


def _table(monitor):
    """Tracking errors of all thirds that have begun, and the last torques that were compared."""
    if not monitor.seen:
        return Table(title=f"{ARM}: waiting for the first torque ...")
    tracking = monitor.tracking
    now = _third(tracking)
    title = f"{ARM}, {CYCLE * tracking.last:.1f} s: {THIRDS[now]}"
    table = Table(title=title, caption=_summary(monitor))
    table.add_column("error,\nmrad")
    for n, name in enumerate(("PD\nalone", "with\ngravity", "with full\nfeed-forward")):
        table.add_column(name, justify="right", style="bold" if n == now else "")
    for name in ("torque,\nN m", "Pinocchio,\nN m", "difference"):
        table.add_column(name, justify="right")
    rms = 1e3 * np.stack([tracking.rms(n) for n in range(3)])
    known = np.flatnonzero(np.isfinite(tracking.difference))
    last = known[-1] if known.size else 0
    torque, expected = tracking.torque[last], tracking.expected[last]
    for k, joint in enumerate(PANDA_JOINTS):
        differs = "" if np.isnan(torque[k]) else f"{torque[k] - expected[k]:.1e}"
        errors, torques = map(_number, rms[:, k]), (_number(torque[k], 4), _number(expected[k], 4))
        table.add_row(joint.removeprefix("panda_"), *errors, *torques, differs, end_section=k == 6)
    table.add_row("all", *(_number(1e3 * tracking.overall(n)) for n in range(3)))
    return table


def _number(value, digits=2):
    return "" if np.isnan(value) else f"{value:.{digits}f}"


def _summary(monitor):
    checked = int(np.isfinite(monitor.tracking.difference).sum())
    return (
        f"{checked} checked, worst relative error {monitor.tracking.worst():.1e}; {_control(monitor.control)}"
    )


def _control(values):
    """How the control loop runs, by its diagnostics."""
    if not values:
        return ""
    late, cycles = values["late"], values["cycles with feed-forward"]
    return (
        f"{values['rate [Hz]']} cycles/s, {late} of {cycles} with a late torque, {values['waits']} waits; "
        f"state to torque {values['state to torque p50 [us]']} us median, "
        f"{values['state to torque p99 [us]']} us p99"
    )


def verdict_lines(monitor, reason, plot):
    """The last lines of the demo."""
    tracking = monitor.tracking
    if tracking is not None:
        errors = (f"{1e3 * tracking.overall(n):.3g} mrad {name}" for n, name in enumerate(THIRDS))
        yield f"tracking error, root mean square of all joints: {', '.join(errors)}"
        yield f"full feed-forward is {tracking.better:.0f} times better than PD alone"
        yield f"torques against Pinocchio: {_summary(monitor)}"
        if plot:
            yield f"plot: {plot}"
    yield f"FAILED: {reason}" if reason else "PASSED"


def save_animation(monitor, path):
    """A GIF of the arm and its errors. Raises ImportError where MuJoCo cannot draw."""
    from dynamics_demo import animation

    animation.save_animation(monitor.tracking, path)


def save_plot(monitor, path):
    """Tracking errors, torques, and their difference from Pinocchio over time."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    tracking = monitor.tracking
    t, thirds = tracking.time, np.linspace(0.0, tracking.trajectory.seconds, 4)
    figure, axes = pyplot.subplots(
        3, 1, figsize=(10, 8.5), sharex=True, height_ratios=(3, 2.4, 1), layout="constrained"
    )
    errors, torques, difference = axes
    known = np.isfinite(tracking.difference)
    for k, name in enumerate(PANDA_JOINTS):
        (line,) = errors.plot(t, 1e3 * tracking.error[:, k], linewidth=1.1, label=name.removeprefix("panda_"))
        torques.plot(t[known], tracking.torque[known, k], linewidth=1.0, color=line.get_color())
        dots = slice(k * 3, None, 50)
        torques.plot(
            t[dots], tracking.expected[dots, k], "o", markersize=2.5, color=line.get_color(), alpha=0.6
        )
    top = 1.45e3 * np.nanmax(np.abs(tracking.error))
    errors.set_ylim(-top, top)
    for n, name in enumerate(THIRDS):
        middle = thirds[n : n + 2].mean()
        label = f"{name}\n{1e3 * tracking.overall(n):.2g} mrad"
        errors.text(middle, 0.95 * top, label, ha="center", va="top", fontsize=13, linespacing=1.4)
        for own in axes:
            own.axvspan(*thirds[n : n + 2], color=SHADES[n], linewidth=0, zorder=-1)
    errors.set_title(f"{ARM} follows a trajectory in MuJoCo: torques of dynamics_node over ROS 2 topics")
    errors.set_ylabel("tracking error [mrad]")
    errors.legend(ncols=7, fontsize=8, loc="lower center")
    torques.set_ylabel("torque [N m]")
    torques.set_title("published torques (lines) and Pinocchio's (dots)", fontsize=10)
    largest = np.abs(tracking.torque - tracking.expected).max(axis=1)
    difference.semilogy(t[known], np.maximum(largest[known], 1e-18), linewidth=0.6, color="#444")
    difference.set_ylabel("difference [N m]")
    difference.set_xlabel("time [s]")
    difference.set_xlim(0, tracking.trajectory.seconds)
    for own in axes:
        own.grid(alpha=0.3)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)
