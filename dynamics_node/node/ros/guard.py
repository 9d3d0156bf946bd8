"""No exception of a callback ends the node."""

import traceback
from collections.abc import Callable
from pathlib import Path
from time import monotonic

from rclpy.executors import ExternalShutdownException

from dynamics_node.text import shown

THROTTLE = 2.0  # s, between log lines of one kind


class Throttle:
    """Whether a log line of a kind is due: once in THROTTLE seconds. rclpy's own looks at the stack of every
    call, 200 us, which a flood of messages would make much of."""

    def __init__(self):
        self._last: dict[str, float] = {}

    def due(self, kind: str) -> bool:
        now = monotonic()
        if now - self._last.get(kind, -THROTTLE) < THROTTLE:
            return False
        self._last[kind] = now
        return True


class Guard:
    """Reports what goes wrong, by the name of what was being done, and lets the rest go on."""

    def __init__(self, log: Callable[[str], object]):
        self._log = log
        self._throttle = Throttle()

    def report(self, what: str, error: Exception):
        """Log an error that nobody has foreseen."""
        if not self._throttle.due(what):
            return
        frame = traceback.extract_tb(error.__traceback__)[-1:]
        place = "".join(f" (line {f.lineno} of {Path(f.filename).name})" for f in frame)
        self._log(shown(f"{what}: {type(error).__name__}: {error}") + place)

    def call(self, what: str, function, *arguments, **options):
        """What function(...) returns; None after an error, which is reported."""
        try:
            return function(*arguments, **options)
        except ExternalShutdownException:
            raise
        except Exception as error:
            self.report(what, error)
            return None
