"""Time that a process has waited for a core, which is not a delay of the node."""

import time
from bisect import bisect_right
from pathlib import Path

MOST_SAMPLES = 20_000  # samples


class CoreWait:
    """Waiting time of one process from schedstat of Linux; zero on other systems."""

    def __init__(self, process):
        self._file = Path("/proc") / str(process) / "schedstat"
        self.times: list[int] = []
        self.waited: list[int] = []

    def look(self):
        """Take a sample."""
        try:
            waited = int(self._file.read_text().split()[1])
        except (OSError, IndexError):
            return
        self.times.append(time.time_ns())
        self.waited.append(waited)
        if len(self.times) > 2 * MOST_SAMPLES:
            del self.times[:MOST_SAMPLES], self.waited[:MOST_SAMPLES]

    def between(self, begin, end):
        """Seconds of waiting between two times, ns, as far as samples exist."""
        if not self.times:
            return 0.0
        first = max(0, bisect_right(self.times, begin) - 1)
        last = min(len(self.times) - 1, bisect_right(self.times, end))
        return max(0, self.waited[last] - self.waited[first]) * 1e-9
