"""Building a Robot and its Solver in another process: see build_job.py for what it does.

A busy thread beside a 1 kHz loop costs milliseconds (the interpreter lock), a process does not. Job and
answer travel through files without a name, in memory where the system has such, never through a shell or a
path. The answer is read when the process has ended: one that is killed or stopped before blocks nobody.
"""

import os
import pickle
import signal
import socket
import tempfile
import time
from dataclasses import dataclass, field

from dynamics_node.codegen.c.compiler import only_cached
from dynamics_node.node.building.build_job import Failure, Job, ServedRobot
from dynamics_node.node.building.build_server import LONGEST_WORD, SERVER

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
        self._data: bytes | None = None
        self._failure: Failure | None = None
        self._end: socket.socket | None = None
        try:
            self._answer = _file_without_name()
            with _file_without_name() as request:
                pickle.dump((dict(os.environ), self.job), request)
                request.seek(0)
                self._end = SERVER.submit(request.fileno(), self._answer.fileno(), self.aside)
        except OSError as error:  # no memory, no descriptors, no processes
            self._failure = Failure(f"no process to build the robot in: {error}", passing=True)

    def poll(self) -> ServedRobot | Failure | None:
        """The result, or None while it is being built. Receiving and unpacking take a call each: the caller
        has torques to compute in between. Nothing is waited for, and no error leaves it."""
        if self._data is not None:
            return _unpacked(self._data)
        if self._failure is None and self._end is not None:
            try:
                self._receive(self._end.recv(LONGEST_WORD).decode())
            except BlockingIOError:
                if time.monotonic() - self.started > TIME_LIMIT:
                    self._failure = Failure(f"building took more than {TIME_LIMIT:g} s")
            except OSError as error:
                self._failure = Failure(f"the building process is lost: {error}", passing=True)
            if self._data is not None or self._failure is not None:
                self.cancel()
        return self._failure

    def _receive(self, end):
        """end: the exit code, or why there was no process; nothing when the server has ended."""
        try:
            if end != "0":
                self._failure = Failure(_reason(end), passing=True)
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
        if self._end is not None:
            self._end.close()
            self._end = None
        if "_answer" in self.__dict__:
            self._answer.close()


def _reason(end):
    if not end:
        return "the process that starts building processes has ended (out of memory?)"
    try:
        code = int(end)
    except ValueError:
        return f"no process to build the robot in: {end}"
    return f"the building process ended with code {code}" + " (out of memory?)" * (code == -signal.SIGKILL)


def _unpacked(data) -> ServedRobot | Failure:
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
