"""Asking a process to stop. Nothing that takes long to import."""

import signal


class Stop:
    """`asked` becomes True on SIGINT and SIGTERM.

    rclpy's own handlers end the context from another thread, under the feet of a callback that is
    about to publish; here the callback ends first.
    """

    def __init__(self):
        self.asked = False
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._ask)

    def finish(self):
        """Take no more signals, when all is done but the end of Python itself, which takes these handlers
        away: a signal would then end the process with a code that says it was killed."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)

    def _ask(self, number, frame):
        self.asked = True
