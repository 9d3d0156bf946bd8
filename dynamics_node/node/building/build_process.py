"""Which robot description is built, in another process: see build_job.py for what that process does.

A busy thread beside a 1 kHz loop costs milliseconds (the interpreter lock), a process does not. Job and
answer travel through files without a name, in memory where the system has such, never through a shell or a
path. The answer is read when the process has ended: one that is killed or stopped before blocks nobody.
Without ROS.
"""

import os
import pickle
import signal
import socket
import tempfile
import time
from dataclasses import dataclass, field
from typing import Any, Protocol

from dynamics_node.codegen.c.compiler import only_cached
from dynamics_node.node.building.build_job import Failure, Job, ServedRobot
from dynamics_node.node.building.build_server import ASIDE, AT_ONCE, LONGEST_WORD, SERVER

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
            self._answer = file_without_name()
            with file_without_name() as request:
                pickle.dump((dict(os.environ), self.job), request)
                request.seek(0)
                kind = ASIDE if self.aside else AT_ONCE
                self._end = SERVER.submit(request.fileno(), self._answer.fileno(), kind)
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


def file_without_name():
    """In memory: a full or read-only /tmp does not matter. Raises OSError."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("dynamics_node", os.MFD_CLOEXEC), "w+b")
    return tempfile.TemporaryFile()


class Describing(Protocol):
    """Settings of a node: they say what has to be built for a robot description."""

    def job(self, text: str | bytes, /) -> Any: ...


PATIENCE = 10.0  # s that a description which is not served yet is built while a newer one waits


class Builds:
    """One Building at a time. A description is served by numpy first; what is wanted follows in two stages.

    A newer description waits until the first stage of the one before is done, so that something is served
    however fast they come; what is built beyond that it replaces. start: makes a Building of a Job and
    `aside`; clock: s.
    """

    def __init__(self, start=Building, clock=time.monotonic):
        self._make, self._clock = start, clock
        self._text: str | bytes = ""  # the description that is served, or the last to come
        self._building: Building | None = None
        self._started = 0.0
        self._wanted: Job | None = None  # what the Building leads to
        self._is_new = False  # nothing of what it builds is served yet
        self._again = False  # it is the second try
        self._result: ServedRobot | Failure | None = None  # of the Building, not yet taken
        self._waiting: Job | None = None  # what the newest description leads to
        self._served: Job | None = None
        self._resumed: Job | None = None

    @property
    def under_way(self):
        return self._building is not None

    def describe(self, text, settings: Describing) -> bool:
        """A description has come. One that is being built, or is served as the settings want it, changes
        nothing; True for the latter."""
        wanted = settings.job(text)
        if self._building is None and wanted == self._served:
            return True
        if self._building is not None and wanted == self._wanted:
            self._resumed = None
            if self._waiting != wanted:  # else its files are to be read again
                self._waiting = None
        elif self._building is not None and self._is_new:
            self._waiting = wanted
        else:
            self._begin(wanted)
        return False

    def repeat(self, settings: Describing):
        """Build the newest description again, with other settings or from other files."""
        newest = self._waiting or (self._building.job if self._building is not None else None)
        text = self._text if newest is None else newest.text
        if text:
            self._begin(settings.job(text))

    def renew(self, settings: Describing):
        """Build the newest description again, from files that may have changed.

        What is under way may have read them before, so this follows it."""
        if self._building is None:
            self.repeat(settings)
        else:
            self._waiting = settings.job((self._waiting or self._building.job).text)

    def step(self) -> tuple[Job, ServedRobot | Failure] | None:
        """What was built, once. Receiving, unpacking and taking it are a call each: joint states are answered
        in between. What has failed by no fault of the description is tried once more."""
        if self._building is None:
            return None
        if self._result is None:
            self._result = self._building.poll()
            if self._result is None and self._waiting and self._clock() - self._started > PATIENCE:
                self._begin(self._waiting)
            return None
        job, result = self._building.job, self._result
        if isinstance(result, Failure) and result.passing and not self._again:
            self._start(job, again=True)
            return None
        self._building = self._result = None
        return job, result

    def accept(self, job: Job, settings: Describing) -> bool:
        """The robot of a job is served now: build what is wanted instead, if that is something else. False
        when the job was under way before a description that was refused, whose reason still counts."""
        self._text, self._served = job.text, job
        if self._waiting:
            self._begin(self._waiting)
        elif job != (wanted := settings.job(job.text)):
            topics_first = wanted.topics_first()
            self._wanted, self._is_new = wanted, False
            self._start(wanted if job == topics_first else topics_first)
        return job is not self._resumed

    def refuse(self, job: Job, settings: Describing):
        """A job has failed: take the description that waits, or resume what was replaced."""
        wanted = settings.job(self._text)
        if self._waiting and self._waiting != self._served:
            self._begin(self._waiting)
        elif self._served is not None and job.text != self._text and self._served != wanted:
            self._resumed = self._wanted = wanted
            self._is_new = False
            self._start(wanted)

    def cancel(self):
        """End what is under way."""
        if self._building is not None:
            self._building.cancel()
        self._building = self._result = None

    def _begin(self, wanted: Job):
        """Build towards it, in place of all that is under way or waits."""
        self._is_new = self._served is None or wanted.text != self._text
        if self._served is None:
            self._text = wanted.text  # good or not: other parameters may make it good
        self._wanted, self._waiting = wanted, None
        self._start(wanted.first() if self._is_new else wanted)

    def _start(self, job, again=False):
        self.cancel()
        self._again, self._started = again, self._clock()
        self._building = self._make(job, aside=self._served is not None)
