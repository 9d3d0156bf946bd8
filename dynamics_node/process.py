"""Process setup before all else: threads, signals, memory. Nothing here takes long to import."""

import contextlib
import ctypes
import os
import signal
from pathlib import Path

# For OpenBLAS, MKL or BLIS, whichever NumPy and SciPy use. NumPy reads them on import.
ONE_BLAS_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS"), "1")


def one_blas_thread():
    """Limit BLAS to one thread in this process and its children, unless the environment sets another number.

    A robot's matrices are small, and threads that wait for each other take ten times the processor time on a
    busy machine. Call it in entry points, before NumPy is imported; importing the library changes nothing.
    """
    for name, count in ONE_BLAS_THREAD.items():
        os.environ.setdefault(name, count)


def prefer_as_oom_victim():
    """If memory runs out, make the kernel end this process rather than the node."""
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("500")  # of 1000


_PR_SET_NAME = 15  # of prctl in Linux


def rename_process(name: str):
    """Set the name of this process in `ps -e` and `top`, at most 15 characters; on Linux only."""
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(_PR_SET_NAME, name.encode(), 0, 0, 0)


class Stop:
    """`requested` becomes True on SIGINT and SIGTERM.

    rclpy's own handlers end the context from another thread, while a callback may be about to publish. Here
    the callback ends first.
    """

    def __init__(self):
        self.requested = False
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._request)

    def finish(self):
        """Ignore further signals at the end. Python removes these handlers when it ends; a signal would then
        end the process with the exit code of a killed one."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)

    def _request(self, number, frame):
        self.requested = True
