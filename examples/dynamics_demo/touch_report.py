"""What the monitor of the touched arm shows: a line a second, a plot, a verdict."""

import contextlib

import numpy as np

from dynamics_demo.panda import PANDA_JOINTS
from dynamics_demo.watching import line_a_second


@contextlib.contextmanager
def show(monitor):
    """A function that prints a line a second."""

    def line():
        estimate = " ".join(f"{x:6.2f}" for x in monitor.estimates[-1])
        touched = "touched" if monitor.contacts[-1] else ""
        return f"{monitor.times[-1]:6.1f} s  external torques [N m] {estimate}  {touched}"

    yield line_a_second(monitor, line)


def save_plot(monitor, path):
    """Estimate with its band of three sigma beside the truth, joint by joint, and when a touch was told."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    t, estimates = np.array(monitor.times), np.array(monitor.estimates)
    truths, bands = np.array(monitor.truths), 3 * np.array(monitor.sigmas)
    figure, axes = pyplot.subplots(4, 2, figsize=(11, 9), sharex=True, layout="constrained")
    *panels, last = axes.flat
    for k, (own, name) in enumerate(zip(panels, PANDA_JOINTS, strict=True)):
        low, high = estimates[:, k] - bands[:, k], estimates[:, k] + bands[:, k]
        own.fill_between(t, low, high, color="#4a7fb5", alpha=0.35, linewidth=0, label="three sigma")
        own.plot(t, estimates[:, k], color="#4a7fb5", linewidth=0.8, label="estimate of the node")
        own.plot(t, truths[:, k], color="#333", linewidth=1.0, label="what MuJoCo applied")
        own.set_title(name, fontsize=9)
        own.set_ylabel("N m")
    panels[0].legend(fontsize=8)
    last.fill_between(t, 0, np.any(truths, axis=1), color="#333", alpha=0.2, linewidth=0, label="touched")
    last.plot(t, np.array(monitor.contacts, dtype=float), color="#d9534f", label="~/contact")
    last.set_yticks([0, 1])
    last.legend(fontsize=8)
    for own in axes[-1]:
        own.set_xlabel("time [s]")
    for own in axes.flat:
        own.grid(alpha=0.3)
    figure.suptitle("A Panda in MuJoCo is pushed at link 4, its hand and link 6; nobody measures it")
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def verdict_lines(monitor, reason, plot):
    """The last lines of the demo."""
    if monitor.times:
        settled = monitor.settled()
        errors = np.abs(np.array(monitor.estimates) - np.array(monitor.truths))[settled]
        yield (
            f"{len(monitor.times)} estimates checked against what MuJoCo applied: where they have settled "
            f"{100 * monitor.within():.1f} % are within three sigma, the worst is off by "
            f"{errors.max(initial=0.0):.2f} N m"
        )
        delays = monitor.delays()
        if delays:
            yield f"{len(delays)} touches, noticed after {', '.join(f'{1e3 * d:.0f}' for d in delays)} ms"
        if plot:
            yield f"plot: {plot}"
    yield f"FAILED: {reason}" if reason else "PASSED"
