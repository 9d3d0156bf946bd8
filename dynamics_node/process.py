"""What a process sees to before all else: threads, signals, memory. Nothing here takes long to import."""

import contextlib
import ctypes
import os
import signal
from pathlib import Path

# Of OpenBLAS, MKL and BLIS: whichever NumPy and SciPy have. They are read when NumPy is imported.
ONE_BLAS_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS"), "1")


def one_blas_thread():
    """Let BLAS compute with one thread in this process and those that it starts, unless the environment says
    otherwise: a robot's matrices are small, and threads that wait for each other take ten times the processor
    time on a busy machine. For entry points, before NumPy is imported; importing the library changes nothing.
    """
    for name, count in ONE_BLAS_THREAD.items():
        os.environ.setdefault(name, count)


def first_to_go():
    """Where memory runs out, the kernel ends this process rather than the node."""
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("500")  # of 1000


_PR_SET_NAME = 15  # of Linux' prctl


def rename_process(name: str):
    """The name of this process in `ps -e` and `top`, at most 15 characters. On Linux alone."""
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(_PR_SET_NAME, name.encode(), 0, 0, 0)


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
