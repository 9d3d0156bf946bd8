"""Signals to a process during its exit."""

import signal
import subprocess
import sys

import pytest

LATE = """
import os, signal
from dynamics_node.process import Stop

class Late:
    def __del__(self, kill=os.kill, pid=os.getpid(), number={number}):
        kill(pid, number)  # after Python has removed its handlers

late, stop = Late(), Stop()
if {finished}:
    stop.finish()
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("finished", [True, False])
def test_a_signal_after_finish_does_not_change_the_exit_code(number, finished):
    """Without finish, the signal ends the process."""
    code = LATE.format(number=int(number), finished=finished)
    process = subprocess.run([sys.executable, "-c", code], timeout=60)
    assert process.returncode == (0 if finished else -number)
