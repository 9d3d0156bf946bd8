"""Signals to a process that ends."""

import signal
import subprocess
import sys

import pytest

LATE = """
import os, signal
from dynamics_node.process import Stop

class Late:
    def __del__(self, kill=os.kill, pid=os.getpid(), number={number}):
        kill(pid, number)  # when Python has taken its handlers away

late, stop = Late(), Stop()
if {finished}:
    stop.finish()
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("finished", [True, False])
def test_a_signal_at_the_very_end_changes_no_exit_code(number, finished):
    """It would, if nobody had said that all is done."""
    code = LATE.format(number=int(number), finished=finished)
    ended = subprocess.run([sys.executable, "-c", code], timeout=60)
    assert ended.returncode == (0 if finished else -number)
