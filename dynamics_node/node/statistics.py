"""Counters and times of the last second, for /diagnostics."""

from collections import Counter, deque

import numpy as np


class Statistics:
    """solve times (s) since the last report, and counts since the start."""

    def __init__(self):
        self.counts: Counter[str] = Counter()
        self._solve_times: deque[float] = deque(maxlen=20_000)
        self.silent_because = "no robot description yet"
        self.last_drop = ""
        self.clamped: tuple[str, ...] = ()

    def solved(self, seconds, clamped):
        self.counts["solved"] += 1
        self._solve_times.append(seconds)
        self.clamped = clamped
        self.silent_because = ""

    def silent(self, reason):
        self.counts["silent"] += 1
        self.silent_because = reason

    def dropped(self, topic, reason):
        self.counts["dropped"] += 1
        self.last_drop = f"{topic}: {reason}"

    def take_percentiles(self):
        """p50, p99 in us of the solve times since the last call; None without any."""
        if not self._solve_times:
            return None
        p50, p99 = np.percentile(self._solve_times, (50, 99)) * 1e6
        self._solve_times.clear()
        return p50, p99
