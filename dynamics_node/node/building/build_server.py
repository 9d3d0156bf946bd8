"""A process for every job, forked from one that has imported what jobs need.

To import takes most of the time in which a small robot is built. So a process that has done it waits from the
start of the node on: the build server. It is a fork of the node, made when that has imported the library and
nothing of ROS yet; jobs, and the process that answers services, are forks of it. Nothing in this module takes
long to import.

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
from pathlib import Path
from typing import Any, NamedTuple

from dynamics_node.process import ONE_BLAS_THREAD, prefer_as_oom_victim, rename_process

BUILD = "dynamics_node.node.building.build_job"
SERVICES = "dynamics_node.node.services.service_process"
NAME = "dynamics_forks"  # of the server, in `ps -e`
LONGEST_WORD = 500  # bytes about the end of a job
_DESCRIPTORS = 3  # that come with a job: its request, the place for its answer, the socket of its end
_PR_SET_PDEATHSIG = 1  # of Linux' prctl

Work = Callable[[int, int, bool], object]


class Kind(NamedTuple):
    """Of jobs. module: its `work` does one, with the descriptors of request and answer, and `aside`; name: of
    the process; aside: it leaves the way to a node that computes torques; last: the signal that ends it when
    the server ends."""

    module: str
    name: str
    aside: bool
    last: signal.Signals


AT_ONCE, ASIDE, SERVING = b"+", b"-", b"s"
KINDS = {
    AT_ONCE: Kind(BUILD, "dynamics_build", False, signal.SIGKILL),
    ASIDE: Kind(BUILD, "dynamics_build", True, signal.SIGKILL),
    SERVING: Kind(SERVICES, "dynamics_serve", True, signal.SIGTERM),  # it takes leave of its middleware
}


class BuildServer:
    """The node's side. It is for one thread, which lives as long as the node."""

    def __init__(self, command=(sys.executable, "-m", __name__)):
        self._command = command
        self._modules: tuple[str, ...] = ()
        self._process: subprocess.Popen | _Fork | None = None
        self._socket: socket.socket | None = None

    @property
    def pid(self) -> int | None:
        """Number of the process, None while there is none."""
        return None if self._process is None or self._process.poll() is not None else self._process.pid

    def fork(self, *modules: str):
        """Start the process as a fork of this one, once this one has imported what jobs need; by `start`
        where other threads run, whose locks a fork would find closed. modules: imported beside that of
        builds. Raises OSError."""
        self._modules = modules
        for module in (BUILD, *modules):
            import_module(module)
        if not _is_single_threaded():
            self.start()
            return
        self._socket, theirs = socket.socketpair()
        parent = os.getpid()
        with theirs:
            if pid := os.fork():
                self._process = _Fork(pid)
            else:
                self._socket.close()
                _serve_in_fork(theirs.detach(), parent)

    def start(self, *modules: str):
        """Start the process, unless it runs, from scratch; modules: as of `fork`. Raises OSError."""
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

    def submit(self, request: int, answer: int, kind: bytes) -> socket.socket:
        """Begin a job of one of KINDS. request, answer: descriptors of open files.

        The socket gives the exit code of the job's process, as text, when that has ended, and nothing when
        the server has. To close it ends the job and all that it has started. Raises OSError.
        """
        try:
            return self._submit(request, answer, kind)
        except (BrokenPipeError, ConnectionResetError):  # the server ends in this moment
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

    def close(self):
        """End the process with all its jobs, if it is there. That is not waited for."""
        if self._socket is not None:
            self._socket.close()
        if self._process is not None:
            _leaving.append(self._process)
        self._process = self._socket = None
        _leaving[:] = [process for process in _leaving if process.poll() is None]


class _Fork:
    """A child of this process; poll() as of subprocess.Popen, but for the code."""

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


def _is_single_threaded():
    """Linux says so; elsewhere libraries may not bear a fork."""
    try:
        return len([*Path("/proc/self/task").iterdir()]) == 1
    except OSError:
        return False


def _apart():
    """Ctrl-C is for the node, which ends what it has started."""
    return {"start_new_session": True} if sys.version_info < (3, 11) else {"process_group": 0}


# --- the process ------------------------------------------------------------------------------------------


class _Job(NamedTuple):
    """Under way. end: the socket that its end is said to."""

    kind: Kind
    end: socket.socket


class Server:
    """Forks for every job that comes through a socket, until its other end is closed or the parent ends."""

    def __init__(self, descriptor: int, build: Work):
        """build: the work of BUILD, which was imported before; that of others is imported in a fork."""
        self._build = build
        self._connection = socket.socket(fileno=descriptor)
        self._jobs: dict[int, _Job] = {}  # by the numbers of the processes
        self._reads, self._writes = os.pipe()
        for end in (self._reads, self._writes):
            os.set_blocking(end, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._writes, warn_on_full_buffer=False)

    def serve(self):
        """Return when the other end is closed."""
        taking = True
        while taking:
            watched: list[Any] = [self._connection, self._reads, *(job.end for job in self._jobs.values())]
            ready = select.select(watched, [], [])[0]
            for pid in [pid for pid, job in self._jobs.items() if job.end in ready]:
                _kill(pid, signal.SIGKILL)  # nobody waits for it any more
                self._jobs.pop(pid).end.close()
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
                if pid in self._jobs:
                    _say(self._jobs.pop(pid).end, str(os.waitstatus_to_exitcode(status)))

    def _take(self) -> bool:
        """Begin the next job; False when none will come."""
        letter, descriptors, _, _ = socket.recv_fds(self._connection, 1, _DESCRIPTORS)
        if not letter:
            return False
        kind, (request, answer, last) = KINDS[letter], descriptors
        server, end = os.getpid(), socket.socket(fileno=last)
        try:
            pid = os.fork()
        except OSError as error:
            _say(end, str(error))
        else:
            if pid == 0:
                self._do(kind, server, end, request, answer)
            self._jobs[pid] = _Job(kind, end)
        os.close(request)
        os.close(answer)
        return True

    def _do(self, kind, server, end, request, answer):
        """In the fork: do the job, and end."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        _begin_group(kind.aside)
        end_with(server)
        rename_process(kind.name)
        for own in (self._connection, end, *(job.end for job in self._jobs.values())):
            own.close()
        os.close(self._reads)
        os.close(self._writes)
        try:
            work = self._build if kind.module == BUILD else import_module(kind.module).work
            work(request, answer, kind.aside)
            code = 0
        except BaseException:  # also of memory: the node is told by the code
            traceback.print_exc()
            code = 1
        sys.stdout.flush()
        os._exit(code)  # what Python tidies up at its end takes longer than a look of the node

    def end(self, *_):
        """End with all jobs."""
        for pid, job in self._jobs.items():
            _kill(pid, job.kind.last)
        os._exit(0)


def _begin_group(aside):
    """Linux groups tasks by session (sched_autogroup). In one of its own the process disturbs a busy node
    least, but there it was seen to wait for 20 s on busy cores: not where the node waits for its first robot.
    """
    if aside:
        os.setsid()
    else:
        os.setpgid(0, 0)


def _kill(pid, number):
    """A job, which may not have its group yet, and what it has started."""
    for kill in (os.kill, os.killpg):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            kill(pid, number)


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
    """load: imports what jobs need, and gives what does a build."""
    descriptor, parent = map(int, sys.argv[1:3])
    _run(descriptor, parent, load)


def _run(descriptor, parent, load):
    """Serve as long as the parent lives."""
    prefer_as_oom_victim()
    rename_process(NAME)
    end_with(parent)  # while it imports
    server = Server(descriptor, load())
    end_with(parent, server.end)
    gc.collect()
    gc.freeze()  # what was imported stays shared with the forks
    server.serve()
    server.end()


def _serve_in_fork(descriptor, parent):
    """Be the server, in a fork of the node, which does not come back from here."""
    try:
        os.setpgid(0, 0)  # Ctrl-C is for the node
        with Path(os.devnull).open() as nothing:
            os.dup2(nothing.fileno(), 0)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
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
