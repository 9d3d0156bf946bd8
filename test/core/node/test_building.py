"""Robots are built in a separate process with low priority, which ends with the node."""

import contextlib
import os
import pickle
import resource
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import pytest

from dynamics_demo.robots import four_bar
from dynamics_node.codegen.c import compiler as library
from dynamics_node.node.building import build_job, worker
from dynamics_node.node.building import build_process as building
from dynamics_node.node.building.build_job import Failure, Job, ServedRobot, do
from dynamics_node.node.building.build_process import Building
from dynamics_node.node.building.worker import BUILDER, BUILDERS, FIRST_BUILDER, Worker
from dynamics_node.process import NICENESS

PLAIN = Job(four_bar(), {}, "inverse", backend="numpy")
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="of Linux")


@pytest.fixture(autouse=True)
def environment(request):
    """Processes have the environment of their start."""
    changes = "fresh" in request.fixturenames or "monkeypatch" in request.fixturenames
    for started in BUILDERS if changes else ():
        started.end()
    yield
    for started in BUILDERS if changes else ():
        started.end()


def result_of(build, timeout=100.0):
    """The result of a build."""
    result, end = None, time.monotonic() + timeout
    while result is None and time.monotonic() < end:
        time.sleep(0.005)
        result = build.poll()
    return result


def wait_until(condition, timeout=100.0):
    end = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < end, "timed out"
        time.sleep(0.01)


def test_a_robot_is_built():
    robot = result_of(Building(PLAIN, background=False))
    assert isinstance(robot, ServedRobot) and robot.model.name == "four_bar" and robot.notes == ()


def test_a_process_runs_several_jobs():
    """Imports, which take long, are done once."""
    pids = set()
    for _ in range(2):
        assert isinstance(result_of(Building(PLAIN, background=True)), ServedRobot)
        pids.add(BUILDER.pid)
    assert len(pids) == 1 and FIRST_BUILDER.pid is None


def test_a_process_whose_answer_is_not_read_ends_without_a_traceback(capfd):
    """The node hangs up on a builder that has just finished a job, which is no longer wanted."""
    BUILDER.end()  # it may print elsewhere
    Building(PLAIN, background=True)
    wait_until(lambda: select.select([BUILDER.connection], [], [], 0)[0])
    BUILDER.connection.close()
    wait_until(lambda: BUILDER.exit_code is not None)
    assert (BUILDER.exit_code, *capfd.readouterr()) == (0, "", "")


def test_a_process_that_took_much_memory_is_replaced(replaced_work):
    replaced_work("build_job.MOST_MEMORY = 0; build_job.work(connection); os._exit(0)")
    for _ in range(2):
        assert isinstance(result_of(Building(PLAIN, background=True)), ServedRobot)
        wait_until(lambda: worker.BUILDER.pid is None)


# --- faults -------------------------------------------------------------------------------------------------


def test_a_killed_process_is_a_failure(slow_compiler, monkeypatch):
    """Its compilers end with it, and another process follows."""
    build = Building(COMPILED, background=False)
    compiler, pid = child_of(slow_compiler), FIRST_BUILDER.pid
    os.killpg(pid, signal.SIGKILL)
    result = result_of(build)
    assert result == Failure("the building process ended with code -9 (out of memory?)", transient=True)
    wait_until(lambda: not is_alive(compiler))
    monkeypatch.delenv("CC")
    assert isinstance(result_of(Building(PLAIN, background=False)), ServedRobot)
    assert FIRST_BUILDER.pid != pid


def test_a_stopped_process_is_replaced(slow_compiler, monkeypatch):
    """By SIGSTOP; one that continues is not. Its job is a failure that is tried again."""
    build = Building(COMPILED, background=False)
    child_of(slow_compiler)
    pid = FIRST_BUILDER.pid
    monkeypatch.setattr(worker, "STOPPED_LIMIT", 1e9)
    os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: worker._is_stopped(pid))
    assert not FIRST_BUILDER.end_if_stopped() and not FIRST_BUILDER.end_if_stopped()
    os.kill(pid, signal.SIGCONT)
    wait_until(lambda: not worker._is_stopped(pid))
    monkeypatch.setattr(worker, "STOPPED_LIMIT", 0.0)
    assert not FIRST_BUILDER.end_if_stopped() and FIRST_BUILDER.pid == pid
    os.kill(pid, signal.SIGSTOP)
    wait_until(FIRST_BUILDER.end_if_stopped)
    failure = result_of(build)
    assert failure.transient and "code -9" in failure.reason
    assert isinstance(result_of(Building(PLAIN, background=False)), ServedRobot)


@pytest.mark.parametrize("start", ["BUILDER.start()", "worker.fork([BUILDER], [worker.BUILD])"])
def test_an_interrupted_process_prints_nothing_and_goes_on(start):
    """Also while it imports. The node handles SIGINT."""
    code = (
        "import os, signal\n"
        "from dynamics_node.process import one_blas_thread\n"
        "one_blas_thread()\n"
        "from dynamics_node.node.building import worker\n"
        "from dynamics_node.node.building.worker import BUILDER\n"
        f"{start}\n"
        "pid = BUILDER.pid\n"
        "os.kill(pid, signal.SIGINT)\n"
        "from test_building import PLAIN, Building, ServedRobot, result_of\n"
        "for _ in range(2):\n"
        "    assert isinstance(result_of(Building(PLAIN, True)), ServedRobot)\n"
        "    os.kill(pid, signal.SIGINT)\n"
        "assert BUILDER.pid == pid\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=100
    )
    assert (process.returncode, process.stdout, process.stderr) == (0, "", "")


@pytest.fixture
def replaced_work(monkeypatch):
    """replaced_work(script): background processes run this Python script, with the names `connection`, or
    `answer` of a first job and `done`, which ends the job."""

    def apply(script):
        source = (
            "import os, pickle, signal, socket, sys, time\n"
            "from dynamics_node.node.building import build_job, worker\n"
            "def work(connection):\n"
            f"    script = {script!r}\n"
            "    if 'connection' not in script:\n"
            "        answer = socket.recv_fds(connection, 1, 2)[1][1]\n"
            "    done = lambda: connection.send(build_job.DONE)\n"
            "    exec(script, globals() | locals())\n"
            "    time.sleep(1000)\n"
        )
        folder = tmp_folder / f"replaced_{len([*tmp_folder.iterdir()])}.py"
        folder.write_text(source)
        monkeypatch.setattr(worker, "BUILDER", Worker(folder.stem, "dynamics_build", background=True))

    tmp_folder = Path(tempfile.mkdtemp())
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_folder), *sys.path]))
    yield apply
    worker.BUILDER.end()
    shutil.rmtree(tmp_folder)


def test_a_process_that_cannot_start_is_a_failure(replaced_work):
    replaced_work("connection.close(); raise SystemExit(1)")
    result = result_of(Building(PLAIN, background=True))
    assert result.transient and "code 1" in result.reason


HALF = "import os, pickle, time; os.write(answer, pickle.dumps(b'x' * 10**6)[:500_000])\n"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_job_killed_or_stopped_while_it_answers_is_a_failure(replaced_work, monkeypatch, number):
    """The node does not wait for the rest; a stopped job ends at its time limit."""
    replaced_work(HALF + "time.sleep(1000)")
    build = Building(PLAIN, background=True)
    wait_until(lambda: os.fstat(build._answer.fileno()).st_size == 500_000)
    pid = worker.BUILDER.pid
    if number == signal.SIGSTOP:
        monkeypatch.setattr(building, "TIME_LIMIT", 3.0)
    os.kill(pid, number)
    result = result_of(build)
    assert isinstance(result, Failure) and result.transient == (number == signal.SIGKILL)
    assert "code -9" in result.reason or "more than 3 s" in result.reason
    wait_until(lambda: not is_alive(pid))


@pytest.mark.parametrize(
    "script, reason",
    [
        (HALF + "done()", "the result of the build cannot be loaded: pickle data was truncated"),
        ("done()", "the result of the build cannot be loaded: Ran out of input"),
        ("os.write(answer, b'garbage'); done()", "the result of the build cannot be loaded"),
        ("os.ftruncate(answer, 2**40); done()", "the robot takes 1099511627776 bytes; the limit is"),
        ("os._exit(3)", "the building process ended with code 3"),
        ("raise MemoryError", "the building process ended with code 1"),
    ],
    ids=["half", "nothing", "garbage", "endless", "code 3", "error"],
)
def test_an_invalid_answer_is_a_failure(replaced_work, script, reason):
    replaced_work(script)
    result = result_of(Building(PLAIN, background=True))
    assert isinstance(result, Failure) and result.reason.startswith(reason)


@pytest.mark.parametrize("what", ["process", "files"])
def test_a_failed_start_of_a_process_is_a_failure(monkeypatch, what):
    def failing(*arguments, **options):
        raise OSError(11, "Resource temporarily unavailable")

    if what == "process":
        monkeypatch.setattr(worker, "BUILDER", Worker(worker.BUILD, "dynamics_build", background=True))
        monkeypatch.setattr(worker.subprocess, "Popen", failing)
    else:
        monkeypatch.setattr(building, "file_without_name", failing)
    build = Building(PLAIN, background=True)
    result = build.poll()
    assert result.transient and result.reason.startswith("cannot start a building process: ")
    build.cancel()


@LINUX
def test_builds_need_no_temporary_folder(monkeypatch, tmp_path):
    """/tmp may be full or read-only."""
    monkeypatch.setattr(building.tempfile, "TemporaryFile", None)
    for name in ("TMPDIR", "TEMP", "TMP"):
        monkeypatch.setenv(name, str(tmp_path / "nowhere"))
    result = result_of(Building(PLAIN, background=False))
    assert isinstance(result, ServedRobot)


def test_a_cache_emptied_before_loading_is_a_transient_failure(fresh, monkeypatch):
    """The node does not compile; the next build does."""
    job = Job(four_bar(), {}, "inverse", backend="c")
    build = Building(job, background=False)
    wait_until(lambda: build._data or build.poll(), 100)
    shutil.rmtree(fresh)
    monkeypatch.setattr(library, "compiled", lambda *arguments: pytest.fail("the node compiles"))
    result = result_of(build)
    assert isinstance(result, Failure) and result.transient
    assert result.reason.startswith("the result of the build cannot be loaded: only cached code is used here")
    robot = result_of(Building(job, background=False))
    assert isinstance(robot, ServedRobot) and robot.solver.choice.backend == "c"


def test_a_cache_replaced_by_a_file_is_a_transient_failure(fresh):
    build = Building(Job(four_bar(), {}, "inverse", backend="c"), background=False)
    wait_until(lambda: build._data or build.poll(), 100)
    shutil.rmtree(fresh)
    fresh.write_text("no folder")
    result = result_of(build)
    assert result.transient and "no place for compiled code" in result.reason


# --- limits and ends ----------------------------------------------------------------------------------------

SLOW = """#!/bin/sh
[ "$1" = --version ] && { echo v1; exit; }
sleep 1000 &
echo $! > "$MARK.$$"
mv "$MARK.$$" "$MARK" # atomic: several compilers run in parallel
sleep 1000
"""


@pytest.fixture
def slow_compiler(fresh, monkeypatch, tmp_path):
    """A compiler that starts another process and does not end; the file with its process id."""
    path, mark = tmp_path / "cc", tmp_path / "mark"
    path.write_text(SLOW)
    path.chmod(0o755)
    monkeypatch.setenv("CC", str(path))
    monkeypatch.setenv("MARK", str(mark))
    return mark


def is_alive(pid):
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return False


def child_of(mark):
    """The process id of the child of a compiler."""
    wait_until(mark.exists)
    return int(mark.read_text())


COMPILED = Job(four_bar(), {}, "inverse", backend="c")


@LINUX
@pytest.mark.parametrize("background", [False, True])
def test_compilers_end_with_the_building(slow_compiler, background):
    """Jobs have their own process group, and low priority in the background."""
    build = Building(COMPILED, background)
    compiler, job, own = child_of(slow_compiler), (BUILDER if background else FIRST_BUILDER).pid, os.getpid()
    assert os.getpgid(job) != os.getpgid(own), "Ctrl-C would end it"
    assert os.getpgid(compiler) == os.getpgid(job)
    assert int(Path(f"/proc/{job}/oom_score_adj").read_text()) >= 500
    if sys.version_info >= (3, 11):
        assert (os.getsid(job) != os.getsid(own)) == background
    assert (
        os.getpriority(os.PRIO_PROCESS, job) == os.getpriority(os.PRIO_PROCESS, own) + NICENESS * background
    )
    build.cancel()
    wait_until(lambda: not is_alive(compiler) and not is_alive(job))


@LINUX
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_compilers_end_with_the_node(slow_compiler, number):
    """Also if the node is killed."""
    code = (
        "import time; from test_building import *\n"
        "build = Building(COMPILED, False); print(FIRST_BUILDER.pid, flush=True); time.sleep(1000)"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    node = subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, text=True)
    started = [int(node.stdout.readline()), child_of(slow_compiler)]
    assert all(map(is_alive, started))
    node.send_signal(number)
    node.wait(100)
    node.stdout.close()
    wait_until(lambda: not any(map(is_alive, started)))


def test_the_process_is_limited():
    """Memory and CPU time are limited; children inherit the limits."""
    code = (
        "import resource; from dynamics_node.node.building.build_job import limit_resources; limit_resources()\n"
        "print(resource.getrlimit(resource.RLIMIT_AS)[0], resource.getrlimit(resource.RLIMIT_CPU)[0])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    memory, seconds = map(int, done.stdout.split())
    assert memory in (build_job.MEMORY_LIMIT, resource.getrlimit(resource.RLIMIT_AS)[1])
    assert build_job.CPU_LIMIT <= seconds < build_job.CPU_LIMIT + 60


def test_too_much_memory_is_a_failure(monkeypatch):
    def greedy(*arguments, **options):
        raise MemoryError

    monkeypatch.setattr(build_job, "parse_robot", greedy)
    assert do(PLAIN) == Failure("building the robot needs more than 4 GiB of memory")


def test_a_missing_file_is_a_failure_with_its_path(tmp_path):
    """The reason has the path, without the errno."""
    path = tmp_path / "parameters.yaml"
    assert do(replace(PLAIN, parameters_file=str(path))).reason == f"{path}: no such file or directory"


def test_reasons_are_truncated():
    job = Job(four_bar(), {"joints": [f"unknown_{k}" for k in range(100_000)]}, "inverse", backend="numpy")
    result = do(job)
    assert isinstance(result, Failure) and len(result.reason) == build_job.LONGEST_REASON


def test_a_note_explains_the_fallback_to_numpy(fresh, monkeypatch):
    monkeypatch.setenv("DYNAMICS_NODE_CACHED_ONLY", "1")
    robot = do(Job(four_bar(), {}, "inverse", backend="auto", services="auto"))
    assert robot.solver.choice.backend == "numpy"
    (note,) = robot.notes
    assert note.startswith("only cached code is used here") and note.endswith("numpy serves instead")
    assert robot.with_inertias(robot.model).notes == robot.notes
    assert pickle.loads(pickle.dumps(robot)).notes == robot.notes
