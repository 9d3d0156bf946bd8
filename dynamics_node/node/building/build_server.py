"""A process for every job, forked from one that has imported what jobs need.

To import takes most of the time in which a small robot is built. So a process that has done it waits from the
start of the node on: the build server. Nothing in this module takes long to import.

The server and its jobs end with the node, however that ends: their sockets end, and on Linux a signal comes.
`multiprocessing`'s fork server imports the user's `__main__` again in every job, and its jobs outlive the
process that started them; so it is not used.
"""

import contextlib
import ctypes
import gc
import os
import select
import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import Callable
from importlib import import_module
from typing import Any

from dynamics_node.process import ONE_BLAS_THREAD, first_to_go

WORK = "dynamics_node.node.building.build_job"  # the module whose `work` does a job
LONGEST_WORD = 500  # bytes about the end of a job
_ASIDE, _AT_ONCE = b"-", b"+"
_DESCRIPTORS = 3  # that come with a job: its request, the place for its answer, the socket of its end
_PR_SET_PDEATHSIG = 1  # of Linux' prctl

Work = Callable[[int, int, bool], object]


class BuildServer:
    """The node's side. It is for one thread, which lives as long as the node."""

    def __init__(self, command=(sys.executable, "-m", __name__)):
        self._command = command
        self._modules: tuple[str, ...] = ()
        self._process: subprocess.Popen | None = None
        self._socket: socket.socket | None = None

    @property
    def pid(self) -> int | None:
        """Number of the process, None while there is none."""
        return None if self._process is None or self._process.poll() is not None else self._process.pid

    def start(self, *modules: str):
        """Start the process, unless it runs; modules: what it imports beside the module of the work. Raises
        OSError."""
        self._modules = modules or self._modules
        if self.pid is not None:
            return
        self.close()
        self._socket, theirs = socket.socketpair()
        with theirs:
            command = [*self._command, str(theirs.fileno()), str(os.getpid()), *self._modules]
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                env={**os.environ, **ONE_BLAS_THREAD, "OMP_NUM_THREADS": "1"},
                **_apart(),
            )

    def submit(self, request: int, answer: int, aside: bool) -> socket.socket:
        """Begin a job. request, answer: descriptors of open files; aside: it leaves the way to a node that
        computes torques.

        The socket gives the exit code of the job's process, as text, when that has ended, and nothing when
        the server has. To close it ends the job and all that it has started. Raises OSError.
        """
        try:
            return self._submit(request, answer, aside)
        except (BrokenPipeError, ConnectionResetError):  # the server ends in this moment
            self.close()
            return self._submit(request, answer, aside)

    def _submit(self, request, answer, aside):
        self.start()
        assert self._socket is not None
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                descriptors = [request, answer, theirs.fileno()]
                socket.send_fds(self._socket, [_ASIDE if aside else _AT_ONCE], descriptors)
            except OSError:
                ours.close()
                raise
        ours.setblocking(False)
        return ours

    def close(self):
        """End the process with all its jobs, if it is there. That is not waited for."""
        if self._socket is not None:
            self._socket.close()
        if self._process is not None:
            _leaving.append(self._process)
        self._process = self._socket = None
        _leaving[:] = [process for process in _leaving if process.poll() is None]


SERVER = BuildServer()  # of this process
_leaving: list[subprocess.Popen] = []


def _apart():
    """Ctrl-C is for the node, which ends what it has started."""
    return {"start_new_session": True} if sys.version_info < (3, 11) else {"process_group": 0}


# --- the process ------------------------------------------------------------------------------------------


class Server:
    """Forks for every job that comes through a socket, until its other end is closed or the parent ends."""

    def __init__(self, descriptor: int, work: Work):
        """work: what a fork does with the descriptors of request and answer, and `aside`."""
        self._work = work
        self._connection = socket.socket(fileno=descriptor)
        self._ends: dict[int, socket.socket] = {}  # by the numbers of the processes
        self._reads, self._writes = os.pipe()
        for end in (self._reads, self._writes):
            os.set_blocking(end, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._writes, warn_on_full_buffer=False)

    def serve(self):
        """Return when the other end is closed."""
        taking = True
        while taking:
            watched: list[Any] = [self._connection, self._reads, *self._ends.values()]
            ready = select.select(watched, [], [])[0]
            for pid in [pid for pid, end in self._ends.items() if end in ready]:
                _kill(pid)  # nobody waits for it any more
                self._ends.pop(pid).close()
            if self._reads in ready:
                os.read(self._reads, 1024)
                self._reap()
            if self._connection in ready:
                taking = self._take()

    def _reap(self):
        """Say how the jobs have ended that have."""
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if not pid:
                    return
                if (end := self._ends.pop(pid, None)) is not None:
                    _say(end, str(os.waitstatus_to_exitcode(status)))

    def _take(self) -> bool:
        """Begin the next job; False when none will come."""
        how, descriptors, _, _ = socket.recv_fds(self._connection, 1, _DESCRIPTORS)
        if not how:
            return False
        request, answer, last = descriptors
        server, end = os.getpid(), socket.socket(fileno=last)
        try:
            pid = os.fork()
        except OSError as error:
            _say(end, str(error))
        else:
            if pid == 0:
                self._do(server, end, request, answer, how == _ASIDE)
            self._ends[pid] = end
        os.close(request)
        os.close(answer)
        return True

    def _do(self, server, end, request, answer, aside):
        """In the fork: do the job, and end."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        _begin_group(aside)
        end_with(server)
        for own in (self._connection, end, *self._ends.values()):
            own.close()
        os.close(self._reads)
        os.close(self._writes)
        try:
            self._work(request, answer, aside)
            code = 0
        except BaseException:  # also of memory: the node is told by the code
            traceback.print_exc()
            code = 1
        sys.stdout.flush()
        os._exit(code)  # what Python tidies up at its end takes longer than a look of the node

    def end(self, *_):
        """End with all jobs."""
        for pid in self._ends:
            _kill(pid)
        os._exit(0)


def _begin_group(aside):
    """Linux groups tasks by session (sched_autogroup). In one of its own the process disturbs a busy node
    least, but there it was seen to wait for 20 s on busy cores: not where the node waits for its first robot.
    """
    if aside:
        os.setsid()
    else:
        os.setpgid(0, 0)


def _kill(pid):
    """A job, which may not have its group yet, and what it has started."""
    for kill in (os.kill, os.killpg):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            kill(pid, signal.SIGKILL)


def _say(end, word):
    with end, contextlib.suppress(OSError):  # nobody waits for it
        end.send(word.encode()[:LONGEST_WORD])


def end_with(parent: int, end: Callable[..., object] | None = None):
    """Call `end`, by default end the group of this process, when the parent ends. Linux; elsewhere sockets
    and limits end it.

    The parent's end is that of the thread which started this process.
    """
    end = end or _end_group
    signal.signal(signal.SIGTERM, end)
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != parent:  # it ended before
        end()


def _end_group(*_):
    """The compiler and its stages are in the group of a job."""
    os.killpg(0, signal.SIGKILL)


def main(load: Callable[[], Work]):
    """load: imports what jobs need, and gives what does one."""
    first_to_go()
    descriptor, parent = map(int, sys.argv[1:3])
    end_with(parent)  # while it imports
    server = Server(descriptor, load())
    end_with(parent, server.end)
    gc.collect()
    gc.freeze()  # what was imported stays shared with the forks
    server.serve()
    server.end()


def _work_of_the_node() -> Work:
    for module in sys.argv[3:]:
        import_module(module)
    return import_module(WORK).work


if __name__ == "__main__":
    main(_work_of_the_node)
