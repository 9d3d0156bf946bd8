"""Builds of robot descriptions in another process, see build_job.py.

A busy thread delays a 1 kHz loop by milliseconds (the interpreter lock); a process does not. Job and answer
are passed in anonymous files, in memory if the system has such, never through a shell or a path. The answer
is read after the end of the job, so a killed or stopped process does not block the node. Without ROS.
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
from dynamics_node.node.building import worker
from dynamics_node.node.building.build_job import DONE, Failure, Job, ServedRobot

TIME_LIMIT = 300.0  # s
MOST_BYTES = 256 * 2**20  # of an answer; 4096 joints take 30 MB


@dataclass
class Building:
    """A running Job in the process of a builder. background: with low priority, next to a node that computes
    torques. A process has one Building at a time."""

    job: Job
    background: bool
    started: float = field(default_factory=time.monotonic)

    def __post_init__(self):
        self._data: bytes | None = None
        self._failure: Failure | None = None
        self._connection: socket.socket | None = None  # until the end of the job
        self._worker = worker.BUILDER if self.background else worker.FIRST_BUILDER
        if self.background:
            worker.FIRST_BUILDER.end()
        try:
            self._answer = file_without_name()
            with file_without_name() as request:
                pickle.dump(self.job, request)
                request.seek(0)
                self._connection = self._worker.send([request.fileno(), self._answer.fileno()])
            self._connection.setblocking(False)
        except OSError as error:  # no memory, no descriptors, no processes
            self._failure = Failure(f"cannot start a building process: {error}", transient=True)

    def poll(self) -> ServedRobot | Failure | None:
        """The result, or None while it is being built. Never blocks or raises. Receiving and unpacking are
        separate calls, between which the caller computes torques."""
        if self._data is not None:
            result = _unpacked(self._data)
            if isinstance(result, Failure) and result.transient:  # the process has code that the cache lacks
                self._worker.end()
            return result
        if self._connection is not None:
            try:
                if self._connection.recv(1) == DONE:
                    self._connection = None
                    self._receive()
                elif (code := self._worker.exit_code) is not None:
                    memory = " (out of memory?)" * (code == -signal.SIGKILL)
                    reason = f"the building process ended with code {code}{memory}"
                    self._failure = Failure(reason, transient=True)
            except (BlockingIOError, ConnectionResetError):  # a reset precedes the end
                if time.monotonic() - self.started > TIME_LIMIT:
                    self._failure = Failure(f"building took more than {TIME_LIMIT:g} s")
            except OSError as error:
                self._failure = Failure(f"the building process is lost: {error}", transient=True)
            if self._data is not None or self._failure is not None:
                self.cancel()
        return self._failure

    def _receive(self):
        try:
            if (size := os.fstat(self._answer.fileno()).st_size) > MOST_BYTES:
                self._failure = Failure(f"the robot takes {size} bytes; the limit is {MOST_BYTES}")
            else:
                self._answer.seek(0)
                self._data = self._answer.read()
        except (OSError, MemoryError) as error:
            self._failure = Failure(f"the result of the build cannot be read: {error}", transient=True)

    def cancel(self):
        """End the process and its children, if the job is running, without waiting. The next job starts
        another process."""
        if self._connection is not None:
            self._connection = None
            self._worker.end()
        if "_answer" in self.__dict__:
            self._answer.close()


def _unpacked(data) -> ServedRobot | Failure:
    """The unpickled result, a Failure if it is not in the cache: the node never compiles."""
    try:
        with only_cached():
            return pickle.loads(data)
    except Exception as error:  # an emptied cache or lack of memory must not end the node
        return Failure(f"the result of the build cannot be loaded: {error}", transient=True)


def file_without_name():
    """An anonymous file, in memory: /tmp may be full or read only. Raises OSError."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("dynamics_node", os.MFD_CLOEXEC), "w+b")
    return tempfile.TemporaryFile()


class JobSettings(Protocol):
    """Settings of a node, with the build job of a robot description."""

    def job(self, text: str | bytes, /) -> Any: ...


FIRST_STAGE_TIMEOUT = 10.0  # s for the first stage of a description while a newer one waits


class Builds:
    """One Building at a time. NumPy serves a description first; the requested functions follow in two stages.

    A newer description waits for the first stage of the previous one, so that a robot is served at any rate
    of descriptions, and replaces its later stages. start: creates a Building from a Job and `background`;
    clock: s.
    """

    def __init__(self, start=Building, clock=time.monotonic):
        self._make, self._clock = start, clock
        self._text: str | bytes = ""  # the description in use, or the last one
        self._building: Building | None = None
        self._started = 0.0
        self._wanted: Job | None = None  # final job of the current description
        self._is_new = False  # whether its description is not served yet
        self._is_retry = False  # whether the Building is the second attempt
        self._result: ServedRobot | Failure | None = None  # of the Building, not returned yet
        self._waiting: Job | None = None  # final job of the newest description
        self._served: Job | None = None
        self._resumed: Job | None = None

    @property
    def is_building(self):
        return self._building is not None

    def describe(self, text, settings: JobSettings) -> bool:
        """Build a new description. One that is being built or served with these settings changes nothing;
        True for the latter."""
        wanted = settings.job(text)
        if self._building is None and wanted == self._served:
            return True
        if self._building is not None and wanted == self._wanted:
            self._resumed = None
            if self._waiting != wanted:  # otherwise its files are read again
                self._waiting = None
        elif self._building is not None and self._is_new:
            self._waiting = wanted
        else:
            self._begin(wanted)
        return False

    def repeat(self, settings: JobSettings):
        """Build the newest description again, with other settings or from other files."""
        newest = self._waiting or (self._building.job if self._building is not None else None)
        text = self._text if newest is None else newest.text
        if text:
            self._begin(settings.job(text))

    def renew(self, settings: JobSettings):
        """Build the newest description again, from files that may have changed.

        A running build may have read the old files, so this build follows it."""
        if self._building is None:
            self.repeat(settings)
        else:
            self._waiting = settings.job((self._waiting or self._building.job).text)

    def step(self) -> tuple[Job, ServedRobot | Failure] | None:
        """Job and result of a finished build, once. Receiving, unpacking and returning are separate calls,
        between which the node answers joint states. Transient failures are retried once."""
        if self._building is None:
            return None
        if self._result is None:
            self._result = self._building.poll()
            if self._result is None and self._waiting and self._clock() - self._started > FIRST_STAGE_TIMEOUT:
                self._begin(self._waiting)
            return None
        job, result = self._building.job, self._result
        if isinstance(result, Failure) and result.transient and not self._is_retry:
            self._start(job, retry=True)
            return None
        self._building = self._result = None
        return job, result

    def accept(self, job: Job, settings: JobSettings) -> bool:
        """Store that the robot of a job is in use, and start the next stage. False if the job only resumes
        after a rejected description, whose error remains."""
        self._text, self._served = job.text, job
        if self._waiting:
            self._begin(self._waiting)
        elif job != (wanted := settings.job(job.text)):
            topics_first = wanted.topics_first()
            self._wanted, self._is_new = wanted, False
            self._start(wanted if job == topics_first else topics_first)
        return job is not self._resumed

    def reject(self, job: Job, settings: JobSettings):
        """Store that a job has failed: build the waiting description, or resume the previous one."""
        wanted = settings.job(self._text)
        if self._waiting and self._waiting != self._served:
            self._begin(self._waiting)
        elif self._served is not None and job.text != self._text and self._served != wanted:
            self._resumed = self._wanted = wanted
            self._is_new = False
            self._start(wanted)

    def cancel(self):
        """Cancel the current build."""
        if self._building is not None:
            self._building.cancel()
        self._building = self._result = None

    def _begin(self, wanted: Job):
        """Start the stages of a job in place of all running and waiting builds."""
        self._is_new = self._served is None or wanted.text != self._text
        if self._served is None:
            self._text = wanted.text  # valid or not: other parameters may make it valid
        self._wanted, self._waiting = wanted, None
        self._start(wanted.first() if self._is_new else wanted)

    def _start(self, job, retry=False):
        self.cancel()
        self._is_retry, self._started = retry, self._clock()
        self._building = self._make(job, background=self._served is not None)
