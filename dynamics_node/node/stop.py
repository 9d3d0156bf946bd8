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

    def _ask(self, number, frame):
        self.asked = True
