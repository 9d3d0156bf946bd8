"""Worker processes of the node: builders of robots, and the process of the services.

Imports take most of the build time of a small robot. So the first workers are forks of the node, made after
the import of the library and before that of ROS, which starts threads. A worker that has ended is replaced by
a new interpreter, which imports for a second. This module itself imports fast.

Workers end with the node: their sockets are closed, and Linux sends a signal. The processes of
`multiprocessing` are not suitable: they import the user's `__main__`, and outlive the process that started
them.
"""

import contextlib
import ctypes
import gc
import os
import signal
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path

from dynamics_node.process import ONE_BLAS_THREAD, prefer_as_oom_victim, rename_process, yield_to_node

BUILD = "dynamics_node.node.building.build_job"
SERVICES = "dynamics_node.node.services.service_process"
STOPPED_LIMIT = 5.0  # s; a worker that is stopped (SIGSTOP) for longer is ended
_PR_SET_PDEATHSIG = 1  # of prctl on Linux


class Worker:
    """The node's side of a process that calls `work(socket)` of a module, for one thread, which must live as
    long as the node. connection: the other end of the socket, None before the start.

    name: of the process, in `ps -e`; background: a session of its own and low priority, next to a node that
    computes torques. Linux schedules tasks by session (sched_autogroup). A session disturbs a busy node
    least, but can wait for 20 s on busy cores: too long for the first robot.
    """

    def __init__(self, module: str, name: str, background: bool):
        self._module, self.name, self._background = module, name, background
        self._process: subprocess.Popen | _Fork | None = None
        self._stopped: float | None = None  # s, since when
        self.connection: socket.socket | None = None

    @property
    def pid(self) -> int | None:
        """Process id, None without a process."""
        return self._process.pid if self._process is not None and self.exit_code is None else None

    @property
    def exit_code(self) -> int | None:
        """Exit code of the last process, None before its end."""
        return None if self._process is None else self._process.poll()

    def fork(self):
        """Start the process as a fork of this one, which has a single thread. Raises OSError."""
        self.connection, theirs = socket.socketpair()
        parent = os.getpid()
        with theirs, _no_interrupt():
            if pid := os.fork():
                self._process = _Fork(pid)
                return
            for worker in WORKERS:
                if worker.connection is not None:
                    worker.connection.close()
            code = 1
            try:
                with Path(os.devnull).open() as nothing:
                    os.dup2(nothing.fileno(), 0)
                os.setsid() if self._background else os.setpgid(0, 0)  # Ctrl-C reaches only the node
                _run(self._module, self.name, self._background, theirs, parent)
                code = 0
            except BaseException:  # also MemoryError: the node receives the exit code
                traceback.print_exc()
            finally:
                os._exit(code)

    def start(self) -> socket.socket:
        """Start the process as a new interpreter, unless it runs. Returns the connection. Raises OSError."""
        if self.connection is not None and self.pid is not None:
            return self.connection
        self.end()
        self.connection, theirs = socket.socketpair()
        arguments = self._module, self.name, self._background, theirs.fileno(), os.getpid()
        with theirs, _no_interrupt():
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__, *map(str, arguments)],
                stdin=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                env={**os.environ, **ONE_BLAS_THREAD, "OMP_NUM_THREADS": "1"},
                **_apart(self._background),
            )
        return self.connection

    def send(self, descriptors: Iterable[int]) -> socket.socket:
        """Send descriptors of open files to the process, which is started unless it runs. Returns the
        connection. Raises OSError."""
        connection = self.start()
        try:
            socket.send_fds(connection, [b"+"], [*descriptors])
        except (BrokenPipeError, ConnectionResetError):  # it is ending
            self.end()
            connection = self.start()
            socket.send_fds(connection, [b"+"], [*descriptors])
        return connection

    def end_if_stopped(self) -> bool:
        """End the process if calls STOPPED_LIMIT apart have seen it stopped. Returns whether it did."""
        if (pid := self.pid) is None or not _is_stopped(pid):
            self._stopped = None
        elif self._stopped is None:
            self._stopped = time.monotonic()
        elif time.monotonic() - self._stopped >= STOPPED_LIMIT:
            self._stopped = None
            _kill(pid)
            return True
        return False

    def end(self):
        """Kill the process and its children, if it runs, without waiting."""
        if self.connection is not None:
            self.connection.close()
        if self._process is not None:
            if (pid := self.pid) is not None:
                _kill(pid)
            _leaving.append(self._process)
        self._process = self.connection = None
        _leaving[:] = [process for process in _leaving if process.poll() is None]


class _Fork:
    """A child of this process; poll() as of subprocess.Popen."""

    def __init__(self, pid):
        self.pid, self._code = pid, None

    def poll(self) -> int | None:
        """The exit code, None while it runs."""
        if self._code is None:
            try:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
            except ChildProcessError:
                return 0
            if pid:
                self._code = os.waitstatus_to_exitcode(status)
        return self._code


FIRST_BUILDER = Worker(BUILD, "dynamics_build", background=False)
BUILDER = Worker(BUILD, "dynamics_build", background=True)
SERVER = Worker(SERVICES, "dynamics_serve", background=True)
BUILDERS = FIRST_BUILDER, BUILDER
WORKERS = *BUILDERS, SERVER
_leaving: list[subprocess.Popen | _Fork] = []


def fork(workers: Iterable[Worker], modules: Iterable[str]):
    """Import modules and fork workers, which share them. If other threads run, whose locks a fork would copy,
    the workers start later. Raises OSError."""
    for module in modules:
        import_module(module)
    if _is_single_threaded():
        gc.collect()
        gc.freeze()  # imported modules stay shared with the forks
        for worker in workers:
            worker.fork()


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


def _apart(background):
    """Options of Popen for another process group or session: Ctrl-C reaches only the node."""
    grouped = not background and sys.version_info >= (3, 11)
    return {"process_group": 0} if grouped else {"start_new_session": True}


def _kill(pid):
    """Kill a process, which may not have its group yet, and its children."""
    for kill in (os.kill, os.killpg):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            kill(pid, signal.SIGKILL)


# --- the process ------------------------------------------------------------------------------------------


def _run(module, name, background, connection, parent):
    """Do the work of a module until its end, or that of the connection. The node handles SIGINT for all."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    rename_process(name)
    prefer_as_oom_victim()
    _end_with(parent)
    yield_to_node(background)
    work = import_module(module).work
    with contextlib.suppress(ConnectionError):  # the node has hung up with a result unread
        work(connection)


def _end_with(parent):
    """Kill this process and its group, which includes compilers, at the end of the parent and at SIGTERM,
    unless the work handles that. Only on Linux; on other systems sockets and limits end it.

    The end of the parent is the end of the thread that started this process.
    """
    signal.signal(signal.SIGTERM, _end_group)
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != parent:  # it ended before
        _end_group()


def _end_group(*_):
    os.killpg(0, signal.SIGKILL)


def main():
    """Arguments: those of Worker, the descriptor of its socket and the process id of the node."""
    module, name, background, descriptor, parent = sys.argv[1:]
    _run(module, name, background == "True", socket.socket(fileno=int(descriptor)), int(parent))


if __name__ == "__main__":
    main()
