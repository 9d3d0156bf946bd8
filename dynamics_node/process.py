"""Process setup before all else: threads, signals, memory. Nothing here takes long to import."""

import contextlib
import ctypes
import os
import select
import signal
import threading
from collections.abc import Callable
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


NICENESS = 5  # with more, a busy node would wait long for its compiled solver


def yield_to_node(background=True):
    """Leave the core that the node may be bound to; in the background, take a lower priority than the
    node."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, range(os.cpu_count() or 1))
    if background:
        os.nice(NICENESS)


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

    def wake(self, wake: Callable[[], object], connection: int):
        """Call wake() from a thread when a signal arrives and when the other end of a connection is closed, a
        descriptor: during a wait in C, Python calls no signal handlers."""
        signals, written = os.pipe()
        os.set_blocking(written, False)
        signal.set_wakeup_fd(written, warn_on_full_buffer=False)
        ends = select.poll()
        ends.register(signals, select.POLLIN)
        ends.register(connection, 0)  # its end only

        def watch():
            with contextlib.suppress(Exception):  # the middleware may have ended
                while signals in dict(ends.poll()):
                    os.read(signals, 100)
                    wake()
                wake()

        threading.Thread(target=watch, daemon=True).start()

    def finish(self):
        """Ignore further signals at the end. Python removes these handlers when it ends; a signal would then
        end the process with the exit code of a killed one."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)

    def _request(self, number, frame):
        self.requested = True
