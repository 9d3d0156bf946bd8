"""How long a process has waited for a core: what a busy machine takes is not the node's doing."""

import time
from bisect import bisect_right
from pathlib import Path

KEPT = 20_000  # samples


class Waiting:
    """Of one process, by Linux's count (schedstat); nothing where there is none."""

    def __init__(self, process):
        self._file = Path("/proc") / str(process) / "schedstat"
        self._times: list[int] = []
        self._waited: list[int] = []

    def look(self):
        """Take a sample."""
        try:
            waited = int(self._file.read_text().split()[1])
        except (OSError, IndexError):
            return
        self._times.append(time.time_ns())
        self._waited.append(waited)
        if len(self._times) > 2 * KEPT:
            del self._times[:KEPT], self._waited[:KEPT]

    def between(self, begin, end):
        """Seconds of waiting between two times, ns, of those for which there are samples."""
        if not self._times:
            return 0.0
        first = max(0, bisect_right(self._times, begin) - 1)
        last = min(len(self._times) - 1, bisect_right(self._times, end))
        return max(0, self._waited[last] - self._waited[first]) * 1e-9
