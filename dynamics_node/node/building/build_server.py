"""The build server: a process that has imported the modules of jobs and forks one process per job.

Imports take most of the build time of a small robot, so they are done once. The server is a fork of the node,
made after the import of the library and before that of ROS. Jobs, and the process of the services, are forks
of the server. This module itself imports fast.

The server and its jobs end with the node: their sockets are closed, and Linux sends a signal. The fork server
of `multiprocessing` is not suitable: it imports the user's `__main__` in every job, and its jobs outlive the
process that started them.
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
import time
import traceback
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from dynamics_node.process import ONE_BLAS_THREAD, prefer_as_oom_victim, rename_process

BUILD = "dynamics_node.node.building.build_job"
SERVICES = "dynamics_node.node.services.service_process"
NAME = "dynamics_forks"  # of the server process, in `ps -e`
STOPPED_LIMIT = 5.0  # s; a server that is stopped (SIGSTOP) for longer is replaced
LONGEST_WORD = 500  # bytes of the message about the end of a job
_DESCRIPTORS = 3  # of a job: its request, its answer and the socket for its end
_PR_SET_PDEATHSIG = 1  # of prctl on Linux

Work = Callable[[int, int, bool], object]


class Kind(NamedTuple):
    """A kind of job. module: its function `work` runs a job; name: of the process; background: low priority,
    next to a node that computes torques; last: the signal that ends it when the server ends."""

    module: str
    name: str
    background: bool
    last: signal.Signals


FOREGROUND, BACKGROUND, SERVING = b"+", b"-", b"s"
KINDS = {
    FOREGROUND: Kind(BUILD, "dynamics_build", False, signal.SIGKILL),
    BACKGROUND: Kind(BUILD, "dynamics_build", True, signal.SIGKILL),
    SERVING: Kind(SERVICES, "dynamics_serve", True, signal.SIGTERM),  # it shuts down its middleware
}


class BuildServer:
    """The node's side, for one thread, which must live as long as the node."""

    def __init__(self, command=(sys.executable, "-m", __name__)):
        self._command = command
        self._modules: tuple[str, ...] = ()
        self._process: subprocess.Popen | _Fork | None = None
        self._socket: socket.socket | None = None
        self._stopped: float | None = None  # s, since when

    @property
    def pid(self) -> int | None:
        """Process id, None without a process."""
        return None if self._process is None or self._process.poll() is not None else self._process.pid

    def fork(self, *modules: str):
        """Import the modules of jobs and start the process as a fork of this one. If other threads run, whose
        locks a fork would copy, call `start`. modules: in addition to BUILD. Raises OSError."""
        self._modules = modules
        for module in (BUILD, *modules):
            import_module(module)
        if not _is_single_threaded():
            self.start()
            return
        self._socket, theirs = socket.socketpair()
        parent = os.getpid()
        with theirs, _no_interrupt():
            if pid := os.fork():
                self._process = _Fork(pid)
            else:
                self._socket.close()
                _serve_in_fork(theirs.detach(), parent)

    def start(self, *modules: str):
        """Start the process without a fork, unless it runs; modules: as of `fork`. Raises OSError."""
        self._modules = modules or self._modules
        if self.pid is not None:
            return
        self.close()
        self._socket, theirs = socket.socketpair()
        with theirs, _no_interrupt():
            command = [*self._command, str(theirs.fileno()), str(os.getpid()), *self._modules]
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                env={**os.environ, **ONE_BLAS_THREAD, "OMP_NUM_THREADS": "1"},
                **_apart(),
            )

    def submit(self, request: int, answer: int, kind: bytes) -> socket.socket:
        """Begin a job of one of KINDS. request, answer: descriptors of open files.

        The returned socket receives the exit code of the job, as text, at its end, and nothing if the server
        ends. Closing the socket ends the job and its children. Raises OSError.
        """
        try:
            return self._submit(request, answer, kind)
        except (BrokenPipeError, ConnectionResetError):  # the server is ending
            self.close()
            return self._submit(request, answer, kind)

    def _submit(self, request, answer, kind):
        self.start()
        assert self._socket is not None
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                socket.send_fds(self._socket, [kind], [request, answer, theirs.fileno()])
            except OSError:
                ours.close()
                raise
        ours.setblocking(False)
        return ours

    def end_if_stopped(self) -> bool:
        """End the process and its jobs if calls STOPPED_LIMIT apart have seen it stopped; the next job starts
        another. Returns whether it did."""
        if (pid := self.pid) is None or not _is_stopped(pid):
            self._stopped = None
            return False
        if self._stopped is None:
            self._stopped = time.monotonic()
        elif time.monotonic() - self._stopped >= STOPPED_LIMIT:
            os.kill(pid, signal.SIGKILL)
            self._stopped = None
            self.close()
            return True
        return False

    def close(self):
        """End the process and all its jobs, if it runs, without waiting."""
        if self._socket is not None:
            self._socket.close()
        if self._process is not None:
            _leaving.append(self._process)
        self._process = self._socket = None
        _leaving[:] = [process for process in _leaving if process.poll() is None]


class _Fork:
    """A child of this process; poll() as of subprocess.Popen, without the exit code."""

    def __init__(self, pid):
        self.pid = pid
        self._has_ended = False

    def poll(self):
        """None while it runs."""
        with contextlib.suppress(ChildProcessError):
            self._has_ended = self._has_ended or os.waitpid(self.pid, os.WNOHANG)[0] != 0
            return 0 if self._has_ended else None
        return 0


SERVER = BuildServer()  # of this process
_leaving: list[subprocess.Popen | _Fork] = []


@contextlib.contextmanager
def _no_interrupt():
    """Block SIGINT, also in processes that start meanwhile, until these ignore it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _is_stopped(pid):
    """Whether a child of this process is stopped by a signal."""
    with contextlib.suppress(ChildProcessError):
        return os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOHANG | os.WNOWAIT) is not None
    return False


def _is_single_threaded():
    """Whether this process has one thread; False if unknown (not Linux), where libraries may not support
    fork."""
    try:
        return len([*Path("/proc/self/task").iterdir()]) == 1
    except OSError:
        return False


def _apart():
    """Options of Popen for another process group: Ctrl-C reaches only the node, which ends its children."""
    return {"start_new_session": True} if sys.version_info < (3, 11) else {"process_group": 0}


# --- the process ------------------------------------------------------------------------------------------


class _Job(NamedTuple):
    """A running job. end: the socket that receives its exit code."""

    kind: Kind
    end: socket.socket


class Server:
    """Forks a process for every job from a socket, until that is closed or the parent ends."""

    def __init__(self, descriptor: int, build: Work):
        """build: the function `work` of BUILD; those of other modules are imported in a fork."""
        self._build = build
        self._connection = socket.socket(fileno=descriptor)
        self._jobs: dict[int, _Job] = {}  # by the numbers of the processes
        self._reads, self._writes = os.pipe()
        for end in (self._reads, self._writes):
            os.set_blocking(end, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._writes, warn_on_full_buffer=False)

    def serve(self):
        """Serve until the other end is closed."""
        taking = True
        while taking:
            watched: list[Any] = [self._connection, self._reads, *(job.end for job in self._jobs.values())]
            ready = select.select(watched, [], [])[0]
            for pid in [pid for pid, job in self._jobs.items() if job.end in ready]:
                _kill(pid, signal.SIGKILL)  # the node has closed its socket
                self._jobs.pop(pid).end.close()
            if self._reads in ready:
                os.read(self._reads, 1024)
                self._reap()
            if self._connection in ready:
                taking = self._take()

    def _reap(self):
        """Send the exit codes of ended jobs."""
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if not pid:
                    return
                if pid in self._jobs:
                    _send(self._jobs.pop(pid).end, str(os.waitstatus_to_exitcode(status)))

    def _take(self) -> bool:
        """Begin the next job; False if the socket is closed."""
        letter, descriptors, _, _ = socket.recv_fds(self._connection, 1, _DESCRIPTORS)
        if not letter:
            return False
        kind, (request, answer, last) = KINDS[letter], descriptors
        server, end = os.getpid(), socket.socket(fileno=last)
        try:
            pid = os.fork()
        except OSError as error:
            _send(end, str(error))
        else:
            if pid == 0:
                self._do(kind, server, end, request, answer)
            self._jobs[pid] = _Job(kind, end)
        os.close(request)
        os.close(answer)
        return True

    def _do(self, kind, server, end, request, answer):
        """In the fork: run the job, and exit."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        _begin_group(kind.background)
        end_with(server)
        rename_process(kind.name)
        for own in (self._connection, end, *(job.end for job in self._jobs.values())):
            own.close()
        os.close(self._reads)
        os.close(self._writes)
        try:
            work = self._build if kind.module == BUILD else import_module(kind.module).work
            work(request, answer, kind.background)
            code = 0
        except BaseException:  # also MemoryError: the node receives the exit code
            traceback.print_exc()
            code = 1
        sys.stdout.flush()
        os._exit(code)  # without the cleanup of Python, which takes longer than a poll of the node

    def end(self, *_):
        """End with all jobs."""
        for pid, job in self._jobs.items():
            _kill(pid, job.kind.last)
        os._exit(0)


def _begin_group(background):
    """Start a session for a background job, else a process group. Linux schedules tasks by session
    (sched_autogroup). A session disturbs a busy node least, but can wait for 20 s on busy cores: too long for
    the first robot.
    """
    if background:
        os.setsid()
    else:
        os.setpgid(0, 0)


def _kill(pid, number):
    """Kill a job, which may not have its group yet, and its children."""
    for kill in (os.kill, os.killpg):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            kill(pid, number)


def _send(end, word):
    with end, contextlib.suppress(OSError):  # the node may have closed it
        end.send(word.encode()[:LONGEST_WORD])


def end_with(parent: int, end: Callable[..., object] | None = None):
    """Call `end` when the parent ends; the default ends the group of this process. Only on Linux; on other
    systems sockets and limits end it.

    The end of the parent is the end of the thread that started this process.
    """
    end = end or _end_group
    signal.signal(signal.SIGTERM, end)
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != parent:  # it ended before
        end()


def _end_group(*_):
    """Kill the group of a job, which includes the compiler."""
    os.killpg(0, signal.SIGKILL)


def main(load: Callable[[], Work]):
    """load: imports the modules of jobs and returns the function `work` of BUILD."""
    descriptor, parent = map(int, sys.argv[1:3])
    _run(descriptor, parent, load)


def _run(descriptor, parent, load):
    """Serve until the parent ends, which handles SIGINT for all."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    prefer_as_oom_victim()
    rename_process(NAME)
    end_with(parent)  # while it imports
    server = Server(descriptor, load())
    end_with(parent, server.end)
    gc.collect()
    gc.freeze()  # imported modules stay shared with the forks
    server.serve()
    server.end()


def _serve_in_fork(descriptor, parent):
    """Run the server in a fork of the node; does not return."""
    try:
        os.setpgid(0, 0)  # Ctrl-C reaches only the node
        with Path(os.devnull).open() as nothing:
            os.dup2(nothing.fileno(), 0)
        _run(descriptor, parent, lambda: import_module(BUILD).work)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(1)


def _load_build() -> Work:
    for module in sys.argv[3:]:
        import_module(module)
    return import_module(BUILD).work


if __name__ == "__main__":
    main(_load_build)
