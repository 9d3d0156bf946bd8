"""Building a Model and its Solver in another process.

A busy thread beside a 1 kHz loop costs milliseconds (the interpreter lock), a process does not. The
job travels through an unlinked file, never through a shell or a path; the answer through a pipe.
"""

import contextlib
import multiprocessing
import os
import pickle
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from multiprocessing.connection import Connection

from dynamics_node.backends.c import CompileError
from dynamics_node.backends.closing import Closing
from dynamics_node.loops import Mechanism, parse_robot, read_loops_file
from dynamics_node.model import Model
from dynamics_node.problem import forward_dynamics, hybrid_dynamics, inverse_dynamics
from dynamics_node.solver import Solver, build_closing, build_for_service

COMPILING = ("auto", "c")  # backends that take their time
TIME_LIMIT = 300.0  # s
NICENESS = 5  # more, and a node that is busy with numpy would wait long for its compiled solver


@dataclass(frozen=True)
class Job:
    """What to build: `choices` go to parse_robot, the rest to build. services: backend of the two solvers for
    services, which are made ready for many states; loops_file: path of a sidecar file, or ''."""

    text: str
    choices: dict
    problem: str
    forward_joints: tuple[str, ...] = ()
    solver: str = "best"
    ordering: str | tuple[str, ...] = "best"
    backend: str = "auto"
    services: str = "numpy"
    loops_file: str = ""


@dataclass(frozen=True)
class Robot:
    """A checked Model or Mechanism with the solvers that serve it: what the node computes, and two for
    services; closing: what closes the loops of a Mechanism."""

    model: Model | Mechanism
    solver: Solver
    inverse: Solver
    forward: Solver
    closing: Closing | None = None

    def with_model(self, model: Model | Mechanism) -> "Robot":
        """The same for a robot with other inertias: nothing is compiled."""
        solvers = (solver.with_model(model) for solver in (self.solver, self.inverse, self.forward))
        return Robot(model, *solvers, self.closing)


@dataclass(frozen=True)
class Failure:
    """Why a Job could not be done, in one line."""

    reason: str


def make_problem(model, kind, forward_joints=()):
    """Problem by its name in the parameters."""
    if kind == "hybrid":
        return hybrid_dynamics(model, forward_joints)
    return {"inverse": inverse_dynamics, "forward": forward_dynamics}[kind](model)


def do(job: Job) -> Robot | Failure:
    """The job itself; every error of the description or the choice becomes a Failure."""
    try:
        loops = read_loops_file(job.loops_file) if job.loops_file else None
        model = parse_robot(job.text, loops=loops, **job.choices)
        choice = {"solver": job.solver, "ordering": job.ordering, "backend": job.backend}
        problem = make_problem(model, job.problem, job.forward_joints)
        return Robot(
            model,
            build_for_service(model, problem, **choice),
            build_for_service(model, inverse_dynamics(model), backend=job.services, batches=True),
            build_for_service(model, forward_dynamics(model), backend=job.services, batches=True),
            build_closing(model, job.services) if isinstance(model, Mechanism) else None,
        )
    except (ValueError, OSError, ImportError, ArithmeticError, CompileError) as error:
        return Failure(str(error))
    except Exception as error:  # a defect of ours must not end the node either
        return Failure(f"{type(error).__name__}: {error}")


@dataclass
class Building:
    """A Job under way in a process of its own. aside: it leaves the way to a node that computes torques."""

    job: Job
    aside: bool
    started: float = field(default_factory=time.monotonic)

    def __post_init__(self):
        _reap()
        self._bytes: bytes | None = None
        self._answer, sender = multiprocessing.Pipe(duplex=False)
        with tempfile.TemporaryFile() as request, sender:
            pickle.dump(self.job, request)
            request.seek(0)
            command = [sys.executable, "-m", __name__, str(sender.fileno()), *["aside"] * self.aside]
            self._process = subprocess.Popen(
                command, stdin=request, pass_fds=(sender.fileno(),), **_apart(self.aside)
            )

    def poll(self) -> Robot | Failure | None:
        """The result, or None while it is being built. Receiving and unpacking take a call each: the caller
        has torques to compute in between."""
        if self._bytes is not None:
            return pickle.loads(self._bytes)
        if not self._answer.poll():
            if time.monotonic() - self.started < TIME_LIMIT:
                return None
            self.cancel()
            return Failure(f"building took more than {TIME_LIMIT:g} s")
        try:
            self._bytes = self._answer.recv_bytes()
        except EOFError:
            return Failure(f"the building process ended with code {self._process.wait()}")
        finally:
            self.cancel()
        return None

    def cancel(self):
        """End the process, if it is still there; its end is not waited for, that takes milliseconds."""
        self._process.kill()
        self._answer.close()
        _leaving.append(self._process)


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


def _main():
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, range(os.cpu_count() or 1))  # the node may be bound to a core that it needs
    if "aside" in sys.argv[2:]:
        os.nice(NICENESS)
    with contextlib.closing(Connection(int(sys.argv[1]), readable=False)) as answer:
        answer.send(do(pickle.load(sys.stdin.buffer)))


if __name__ == "__main__":
    # Pickle must find the classes under the name of the module, not under __main__.
    from dynamics_node.node import build_job

    build_job._main()
