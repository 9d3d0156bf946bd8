"""The executable `dynamics`. What takes long to import is imported when signals and threads are seen to."""

import contextlib
import signal
import sys
import threading

from dynamics_node.process import one_blas_thread

INTERRUPTED, TERMINATED = (128 + number for number in (signal.SIGINT, signal.SIGTERM))  # as shells have it


def main(arguments=None):
    """The exit code of the command: see `commands.run`; INTERRUPTED after Ctrl-C, TERMINATED after SIGTERM.
    What the command has begun to write is removed then."""
    one_blas_thread()
    try:
        with _ended_by_sigterm():
            from dynamics_node.cli.commands import run

            return run(arguments)
    except KeyboardInterrupt:
        return INTERRUPTED


@contextlib.contextmanager
def _ended_by_sigterm():
    """SystemExit on SIGTERM, so that blocks end as after an error. Only a main thread has handlers."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(TERMINATED))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
