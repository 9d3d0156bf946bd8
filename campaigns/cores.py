"""How long a process has waited for a core: what a busy machine takes is not the node's doing."""

import time
from bisect import bisect_right
from pathlib import Path

KEPT = 20_000  # samples


class Waiting:
    """Of one process, by Linux's count (schedstat); nothing where there is none."""

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
        if len(self.times) > 2 * KEPT:
            del self.times[:KEPT], self.waited[:KEPT]

    def between(self, begin, end):
        """Seconds of waiting between two times, ns, of those for which there are samples."""
        if not self.times:
            return 0.0
        first = max(0, bisect_right(self.times, begin) - 1)
        last = min(len(self.times) - 1, bisect_right(self.times, end))
        return max(0, self.waited[last] - self.waited[first]) * 1e-9
