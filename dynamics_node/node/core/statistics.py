"""Counters and times of the last second, for /diagnostics."""

from collections import Counter, deque

import numpy as np

from dynamics_node.node.core.no_output import NO_DESCRIPTION, NoOutput


class Statistics:
    """solve times (s) since the last report, and counts since the start."""

    _silence: NoOutput | None

    def __init__(self):
        self.counts: Counter[str] = Counter()
        self._solve_times: deque[float] = deque(maxlen=20_000)
        self.note(NO_DESCRIPTION)
        self.last_drop = self.last_error = ""
        self.clamped: tuple[str, ...] = ()
        self.observing(None)

    def solved(self, seconds, clamped):
        self.counts["solved"] += 1
        self._solve_times.append(seconds)
        self.clamped = clamped
        self._silence = None

    def silent(self, silence: NoOutput):
        self.counts["silent"] += 1
        self.note(silence)

    def note(self, silence: NoOutput):
        """Why nothing is published, without a state that was not answered."""
        self._silence, self.remedy = _kept(silence), silence.remedy

    @property
    def silent_because(self) -> str:
        """Why nothing was published last, "" where something was."""
        return "" if self._silence is None else str(self._silence)

    def observing(self, silence: NoOutput | None):
        """Why nothing is said of what pushes on the robot."""
        self._unobserved = None if silence is None else _kept(silence)
        self.unobserved_remedy = "" if silence is None else silence.remedy

    @property
    def unobserved(self) -> str:
        """Why nothing was said of what pushes on the robot last, "" where something was."""
        return "" if self._unobserved is None else str(self._unobserved)

    def dropped(self, topic, reason):
        self.counts["dropped"] += 1
        self.last_drop = f"{topic}: {reason}"

    def failed(self, error):
        self.counts["errors"] += 1
        self.last_error = error

    def take_percentiles(self):
        """p50, p99 in us of the solve times since the last call; None without any."""
        if not self._solve_times:
            return None
        p50, p99 = np.percentile(self._solve_times, (50, 99)) * 1e6
        self._solve_times.clear()
        return p50, p99


def _kept(silence):
    """Without the frames in which it was raised, and what they hold."""
    for error in (silence, *silence.args):
        if isinstance(error, Exception):
            error.__traceback__ = None
    return silence
