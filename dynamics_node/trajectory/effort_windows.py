"""Means of squared efforts over windows of time: they heat motors, and bound continuous efforts."""

import numpy as np

from dynamics_node.trajectory.slowdown import TOLERANCE

SPEEDS, HALVINGS = 200, 40  # of a motion that is slowed down


def window_means(time, values, window):
    """Means (k, n) of values (samples, n), linear between samples at times (samples,), over windows, s, and
    their ends (k,): at all samples, or one window if it is longer than the time."""
    steps = 0.5 * np.diff(time)[:, None] * (values[1:] + values[:-1])
    sums = np.concatenate([np.zeros_like(values[:1]), np.cumsum(steps, axis=0)])
    if (span := time[-1] - time[0]) <= window:
        return time[-1:], sums[-1:] / span if span > 0 else values[-1:]
    ends = time - time[0] >= window
    begin = time[ends] - window
    k = np.clip(np.searchsorted(time, begin, side="right"), 1, len(time) - 1)
    step = time[k] - time[k - 1]
    part = np.divide(begin - time[k - 1], step, out=np.zeros_like(step), where=step > 0)[:, None]
    before = step[:, None] * part * (values[k - 1] + 0.5 * part * (values[k] - values[k - 1]))
    return time[ends], (sums[ends] - sums[k - 1] - before) / window


def rms_efforts(time, tau, window):
    """Root mean squares (k, n) of torques over windows, and their ends (k,), see `window_means`."""
    ends, squares = window_means(time, tau * tau, window)
    return ends, np.sqrt(np.maximum(squares, 0.0))


def largest_continuous_speed(time, parts, window, limits, most):
    """The largest x up to `most` with which torques c + b x + a x^2, parts (3, samples, n) of times divided
    by x, keep limits (n,) of their root mean square, 0 if there is none; the joint that bounds it, None
    without; its value, and the end of its window in the time of the samples."""
    c, b, a = parts
    powers = np.stack([c * c, 2 * c * b, b * b + 2 * c * a, 2 * a * b, a * a], axis=1).reshape(len(time), -1)

    def worst(x):
        ends, means = window_means(time, powers, window * x)
        squares = np.einsum("kpn,p->kn", means.reshape(len(ends), 5, -1), x ** np.arange(5))
        used = np.sqrt(np.maximum(squares, 0.0)) / limits
        row, joint = divmod(int(used.argmax()), used.shape[1])
        return used[row, joint], joint, used[row, joint] * limits[joint], ends[row]

    speeds = most * np.arange(SPEEDS, 0, -1) / SPEEDS
    if worst(most)[0] <= 1 + TOLERANCE:
        return most, None, 0.0, 0.0
    good = next((k for k, x in enumerate(speeds) if worst(x)[0] <= 1), None)
    if good is None:
        return 0.0, *worst(speeds[-1])[1:]
    low, high = speeds[good], speeds[good - 1]
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if worst(middle)[0] <= 1 else (low, middle)
    return low, *worst(low)[1:]
