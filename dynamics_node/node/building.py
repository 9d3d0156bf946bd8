"""Building a Model and its Solver in another process: see build_job.py for what it does.

A busy thread beside a 1 kHz loop costs milliseconds (the interpreter lock), a process does not. Job and
answer travel through files without a name, in memory where the system has such, never through a shell or a
path. The answer is read when the process has ended: one that is killed or stopped before blocks nobody.
"""

import contextlib
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field

from dynamics_node.backends.c.compiler import only_cached
from dynamics_node.node.build_job import Failure, Job, Robot

TIME_LIMIT = 300.0  # s
MOST_BYTES = 256 * 2**20  # of an answer; 4096 joints take 30 MB


@dataclass
class Building:
    """A Job under way in a process of its own. aside: it leaves the way to a node that computes torques.

    It ends with the thread that makes it: that is to be one that lives as long as the node.
    """

    job: Job
    aside: bool
    started: float = field(default_factory=time.monotonic)

    def __post_init__(self):
        _reap()
        self._data: bytes | None = None
        self._failure: Failure | None = None
        self._process: subprocess.Popen | None = None
        try:
            self._answer = _file_without_name()
            with _file_without_name() as request:
                pickle.dump(self.job, request)
                request.seek(0)
                self._process = self._start(request)
        except OSError as error:  # no memory, no descriptors, no processes
            self._failure = Failure(f"no process to build the robot in: {error}", passing=True)

    def _start(self, request):
        answer = self._answer.fileno()
        command = [sys.executable, "-m", "dynamics_node.node.build_job", str(answer), str(os.getpid())]
        command += ["aside"] * self.aside
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        return subprocess.Popen(
            command, stdin=request, pass_fds=(answer,), env=environment, **_apart(self.aside)
        )

    def poll(self) -> Robot | Failure | None:
        """The result, or None while it is being built. Receiving and unpacking take a call each: the caller
        has torques to compute in between. Nothing is waited for, and no error leaves it."""
        if self._data is not None:
            return _unpacked(self._data)
        if self._failure is None and self._process is not None:
            if self._process.poll() is not None:
                self._receive(self._process.returncode)
            elif time.monotonic() - self.started > TIME_LIMIT:
                self._failure = Failure(f"building took more than {TIME_LIMIT:g} s")
            if self._data is not None or self._failure is not None:
                self.cancel()
        return self._failure

    def _receive(self, code):
        try:
            if code:
                reason = f"the building process ended with code {code}"
                self._failure = Failure(
                    reason + " (out of memory?)" * (code == -signal.SIGKILL), passing=True
                )
            elif (size := os.fstat(self._answer.fileno()).st_size) > MOST_BYTES:
                self._failure = Failure(f"the robot takes {size} bytes; the limit is {MOST_BYTES}")
            else:
                self._answer.seek(0)
                self._data = self._answer.read()
        except (OSError, MemoryError) as error:
            self._failure = Failure(f"what was built cannot be read: {error}", passing=True)

    def cancel(self):
        """End the process with all it has started, if it is still there. That takes milliseconds, and is not
        waited for."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
            _leaving.append(self._process)
            self._process = None
        if "_answer" in self.__dict__:
            self._answer.close()


def _unpacked(data) -> Robot | Failure:
    """The node never compiles: what it cannot load from the cache is a Failure."""
    try:
        with only_cached():
            return pickle.loads(data)
    except Exception as error:  # the cache was emptied, memory is short: nothing of it may end the node
        return Failure(f"what was built cannot be loaded: {error}", passing=True)


def _file_without_name():
    """In memory: a full or read-only /tmp does not matter. Raises OSError."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("dynamics_node", os.MFD_CLOEXEC), "w+b")
    return tempfile.TemporaryFile()


def _apart(aside):
    """Ctrl-C is for the node, which ends what it has started.

    Linux groups tasks by session (sched_autogroup). In one of its own the process disturbs a busy node least,
    but there it was seen to wait for 20 s on busy cores: not where the node waits for its first robot.
    """
    alone = aside or sys.version_info < (3, 11)
    return {"start_new_session": True} if alone else {"process_group": 0}


_leaving: list[subprocess.Popen] = []


def _reap():
    """Forget the processes that have ended."""
    _leaving[:] = [process for process in _leaving if process.poll() is None]
