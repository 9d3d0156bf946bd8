"""The executable `dynamics`. Slow imports happen after signal handlers and thread limits are set."""

import contextlib
import signal
import sys
import threading

from dynamics_node.process import one_blas_thread

INTERRUPTED, TERMINATED = (128 + number for number in (signal.SIGINT, signal.SIGTERM))  # shell convention


def main(arguments=None):
    """Exit code of the command: see `commands.run`; INTERRUPTED after Ctrl-C, TERMINATED after SIGTERM.
    Partially written files are then removed."""
    one_blas_thread()
    try:
        with _ended_by_sigterm():
            from dynamics_node.cli.commands import run

            return run(arguments)
    except KeyboardInterrupt:
        return INTERRUPTED


@contextlib.contextmanager
def _ended_by_sigterm():
    """Raise SystemExit on SIGTERM, so that context managers exit as after an error. Main thread only."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(TERMINATED))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
