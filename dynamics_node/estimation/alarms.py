"""How large a statistic may become before it is an alarm, for false alarms at a stated rate."""

import numpy as np

ALMOST_CERTAIN = 1e-300  # probability beyond which no level is looked for


def levels(freedom, step, windows, rate):
    """Levels (windows,) of sums of squares, one a window, that together are exceeded `rate` times a second.

    freedom: independent standard normal sequences, each averaged exponentially over the same window; step: s
    from sample to sample; windows (windows,): time constants, s. Every window has an equal part of the rate:
    at levels that are rarely exceeded windows of different length are so seldom together that the sum holds.
    """
    return np.array([_level(freedom, step, window, rate / len(windows)) for window in windows])


def _level(freedom, step, window, rate):
    from scipy.optimize import brentq  # 0.5 s, for those who observe
    from scipy.stats import chi2

    least, most = freedom + 2.0, chi2.isf(ALMOST_CERTAIN, freedom)
    excess = [np.log(_exceeded(level, freedom, step, window) / rate) for level in (least, most)]
    if excess[0] < 0:  # false alarms are asked for more often than they can be told apart
        return least
    return brentq(lambda level: np.log(_exceeded(level, freedom, step, window) / rate), least, most)


def _exceeded(level, freedom, step, window):
    """How often a second excursions above a level begin.

    The root of the statistic is the radius b of an Ornstein-Uhlenbeck process in `freedom` dimensions; what
    exceeds a high level comes in clumps, of which there are f(b) (b - (n - 1) / b) a time constant (Aldous
    1989, Probability approximations via the Poisson clumping heuristic, ch. D), fewer because it is
    looked at once a step (Siegmund 1985, Sequential analysis, ch. X).
    """
    from scipy.stats import chi, chi2

    b = np.sqrt(level)
    inward = b - (freedom - 1) / b
    steps = step / window
    clumps = chi.pdf(b, freedom) * inward / window * _seen(inward * np.sqrt(2.0 * steps))
    return min(clumps, chi2.sf(level, freedom) / step)


def _seen(x):
    """The part of clumps that is seen: nu(x) of Siegmund and Yakir (2007), The statistics of gene mapping."""
    from scipy.stats import norm

    half = 0.5 * x
    return (2.0 / x) * (norm.cdf(half) - 0.5) / (half * norm.cdf(half) + norm.pdf(half))
