"""Robots are built in a process of its own, which yields to a node that computes torques, and ends with it."""

import contextlib
import os
import pickle
import resource
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from dynamics_demo.robots import four_bar
from dynamics_node.codegen.c import compiler as library
from dynamics_node.node.building import build_job, build_server
from dynamics_node.node.building import build_process as building
from dynamics_node.node.building.build_job import NICENESS, Failure, Job, ServedRobot, do
from dynamics_node.node.building.build_process import Building
from dynamics_node.node.building.build_server import BuildServer

PLAIN = Job(four_bar(), {}, "inverse", backend="numpy")
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="of Linux")


def result_of(at_work, timeout=100.0):
    """What was built."""
    result, end = None, time.monotonic() + timeout
    while result is None and time.monotonic() < end:
        time.sleep(0.005)
        result = at_work.poll()
    return result


def forks():
    """Numbers of the processes that the server has forked."""
    return [
        *map(
            int, Path(f"/proc/{building.SERVER.pid}/task/{building.SERVER.pid}/children").read_text().split()
        )
    ]


def fork():
    """The number of the one that there is, or will be."""
    until(forks)
    return forks()[0]


def until(condition, timeout=100.0):
    end = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < end, "timed out"
        time.sleep(0.01)


def test_a_robot_is_built():
    robot = result_of(Building(PLAIN, aside=False))
    assert isinstance(robot, ServedRobot) and robot.model.name == "four_bar" and robot.notes == ()


def test_the_server_is_there_before_a_job_and_serves_the_next():
    """What takes long, its imports, is done once; an environment is that of the job."""
    building.SERVER.start()
    server = building.SERVER.pid
    assert server and forks() == []
    for _ in range(2):
        assert isinstance(result_of(Building(PLAIN, aside=False)), ServedRobot)
    assert building.SERVER.pid == server


# --- faults -------------------------------------------------------------------------------------------------


def test_a_process_that_is_killed_is_a_failure(slow_compiler):
    at_work = Building(COMPILED, aside=False)
    os.kill(fork(), signal.SIGKILL)
    result = result_of(at_work)
    assert result == Failure("the building process ended with code -9 (out of memory?)", passing=True)


def test_after_the_end_of_the_server_there_is_another(slow_compiler, monkeypatch):
    """Its jobs end with it, and may be tried again."""
    at_work = Building(COMPILED, aside=False)
    pids = fork(), started_by(slow_compiler), building.SERVER.pid
    os.kill(building.SERVER.pid, signal.SIGKILL)
    result = result_of(at_work)
    assert result.passing and result.reason.startswith("the process that starts building processes has ended")
    until(lambda: not any(map(is_alive, pids)))
    monkeypatch.delenv("CC")
    assert (
        isinstance(result_of(Building(PLAIN, aside=False)), ServedRobot) and building.SERVER.pid not in pids
    )


def test_a_server_that_cannot_start_is_a_failure(monkeypatch):
    monkeypatch.setattr(building, "SERVER", BuildServer([sys.executable, "-c", "raise SystemExit(1)"]))
    result = result_of(Building(PLAIN, aside=False))
    assert result.passing and "building process" in result.reason


@pytest.fixture
def instead(monkeypatch):
    """instead(script): jobs are this script of Python, which knows `answer`, the descriptor."""

    def apply(script):
        code = (
            "import os, signal, time\nfrom dynamics_node.node.building import build_server\n"
            f"def work(request, answer, aside): exec({script!r}, globals() | locals())\n"
            "build_server.main(lambda: work)"
        )
        monkeypatch.setattr(building, "SERVER", BuildServer([sys.executable, "-c", code]))

    yield apply
    building.SERVER.close()


HALF = "import os, pickle, time; os.write(answer, pickle.dumps(b'x' * 10**6)[:500_000])\n"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_one_that_is_killed_or_stopped_in_the_middle_of_its_answer(instead, monkeypatch, number):
    """Nobody waits for the rest; one that is stopped ends with its time limit, or when it is cancelled."""
    instead(HALF + "time.sleep(1000)")
    at_work = Building(PLAIN, aside=False)
    until(lambda: os.fstat(at_work._answer.fileno()).st_size == 500_000)
    pid = fork()
    if number == signal.SIGSTOP:
        monkeypatch.setattr(building, "TIME_LIMIT", 3.0)
    os.kill(pid, number)
    result = result_of(at_work)
    assert isinstance(result, Failure) and result.passing == (number == signal.SIGKILL)
    assert "code -9" in result.reason or "more than 3 s" in result.reason
    until(lambda: not is_alive(pid))


@pytest.mark.parametrize(
    "script, reason",
    [
        (HALF, "what was built cannot be loaded: pickle data was truncated"),
        ("", "what was built cannot be loaded: Ran out of input"),
        ("import os; os.write(answer, b'garbage')", "what was built cannot be loaded"),
        ("import os; os.ftruncate(answer, 2**40)", "the robot takes 1099511627776 bytes; the limit is"),
        ("os._exit(3)", "the building process ended with code 3"),
        ("raise MemoryError", "the building process ended with code 1"),
    ],
    ids=["half", "nothing", "garbage", "endless", "code 3", "error"],
)
def test_an_answer_that_is_none(instead, script, reason):
    instead(script)
    result = result_of(Building(PLAIN, aside=False))
    assert isinstance(result, Failure) and result.reason.startswith(reason)


@pytest.mark.parametrize("what", ["fork", "files"])
def test_no_process_to_be_had_is_a_failure(monkeypatch, what):
    def refused(*arguments, **options):
        raise OSError(11, "Resource temporarily unavailable")

    if what == "fork":
        monkeypatch.setattr(building, "SERVER", BuildServer())
        monkeypatch.setattr(build_server.subprocess, "Popen", refused)
    else:
        monkeypatch.setattr(building, "file_without_name", refused)
    at_work = Building(PLAIN, aside=False)
    result = at_work.poll()
    assert result.passing and result.reason.startswith("no process to build the robot in: ")
    at_work.cancel()


@LINUX
def test_no_folder_for_temporary_files_is_needed(monkeypatch, tmp_path):
    """/tmp may be full or read-only."""
    monkeypatch.setattr(building.tempfile, "TemporaryFile", None)
    for name in ("TMPDIR", "TEMP", "TMP"):
        monkeypatch.setenv(name, str(tmp_path / "nowhere"))
    result = result_of(Building(PLAIN, aside=False))
    assert isinstance(result, ServedRobot)


def test_the_cache_is_emptied_before_the_node_loads_what_was_built(fresh, monkeypatch):
    """The node does not compile; the next try does."""
    job = Job(four_bar(), {}, "inverse", backend="c")
    at_work = Building(job, aside=False)
    until(lambda: at_work._data or at_work.poll(), 100)
    shutil.rmtree(fresh)
    monkeypatch.setattr(library, "compiled", lambda *arguments: pytest.fail("the node compiles"))
    result = result_of(at_work)
    assert isinstance(result, Failure) and result.passing
    assert result.reason.startswith("what was built cannot be loaded: only cached code is used here")
    robot = result_of(Building(job, aside=False))
    assert isinstance(robot, ServedRobot) and robot.solver.choice.backend == "c"


def test_the_cache_becomes_a_file(fresh):
    at_work = Building(Job(four_bar(), {}, "inverse", backend="c"), aside=False)
    until(lambda: at_work._data or at_work.poll(), 100)
    shutil.rmtree(fresh)
    fresh.write_text("no folder")
    result = result_of(at_work)
    assert result.passing and "no place for compiled code" in result.reason


# --- limits and ends ----------------------------------------------------------------------------------------

SLOW = """#!/bin/sh
[ "$1" = --version ] && { echo v1; exit; }
sleep 1000 &
echo $! > "$MARK.$$"
mv "$MARK.$$" "$MARK" # whole at any time: several compilers run side by side
sleep 1000
"""


@pytest.fixture
def slow_compiler(fresh, monkeypatch, tmp_path):
    """A compiler that starts another process and does not end; the file that tells its number."""
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


def started_by(mark):
    """The number of the process that a compiler has started."""
    until(mark.exists)
    return int(mark.read_text())


COMPILED = Job(four_bar(), {}, "inverse", backend="c")


@LINUX
@pytest.mark.parametrize("aside", [False, True])
def test_compilers_end_with_the_building(slow_compiler, aside):
    """It has a group of its own, and yields when asked to."""
    at_work = Building(COMPILED, aside)
    compiler, job, own = started_by(slow_compiler), fork(), os.getpid()
    assert len({os.getpgid(pid) for pid in (job, building.SERVER.pid, own)}) == 3, "Ctrl-C would end them"
    assert os.getpgid(compiler) == os.getpgid(job)
    assert int(Path(f"/proc/{job}/oom_score_adj").read_text()) >= 500
    if sys.version_info >= (3, 11):
        assert (os.getsid(job) != os.getsid(own)) == aside
    assert os.getpriority(os.PRIO_PROCESS, job) == os.getpriority(os.PRIO_PROCESS, own) + NICENESS * aside
    at_work.cancel()
    until(lambda: not is_alive(compiler) and not is_alive(job))


@LINUX
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_compilers_end_with_the_node(slow_compiler, number):
    """However it ends."""
    code = (
        "import time; from test_building import *\n"
        "at_work = Building(COMPILED, False); print(building.SERVER.pid, fork(), flush=True); time.sleep(1000)"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    node = subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, text=True)
    started = [*map(int, node.stdout.readline().split()), started_by(slow_compiler)]
    assert len(started) == 3 and all(map(is_alive, started))
    node.send_signal(number)
    node.wait(100)
    node.stdout.close()
    until(lambda: not any(map(is_alive, started)))


def test_the_process_is_limited():
    """In memory and time, and what it starts inherits it."""
    code = (
        "import resource; from dynamics_node.node.building.build_job import limit_resources; limit_resources()\n"
        "print(resource.getrlimit(resource.RLIMIT_AS)[0], resource.getrlimit(resource.RLIMIT_CPU)[0])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    memory, seconds = map(int, done.stdout.split())
    assert memory in (build_job.MEMORY_LIMIT, resource.getrlimit(resource.RLIMIT_AS)[1])
    assert seconds == build_job.CPU_LIMIT


def test_too_much_memory_is_a_failure(monkeypatch):
    def greedy(*arguments, **options):
        raise MemoryError

    monkeypatch.setattr(build_job, "parse_robot", greedy)
    assert do(PLAIN) == Failure("building the robot takes more than 4 GiB of memory")


def test_a_file_that_is_not_there(tmp_path):
    """By its name, without the number of the error."""
    path = tmp_path / "parameters.yaml"
    assert do(replace(PLAIN, parameters_file=str(path))).reason == f"{path}: no such file or directory"


def test_reasons_are_not_endless():
    job = Job(four_bar(), {"joints": [f"unknown_{k}" for k in range(100_000)]}, "inverse", backend="numpy")
    result = do(job)
    assert isinstance(result, Failure) and len(result.reason) == build_job.LONGEST_REASON


def test_a_robot_says_why_numpy_serves(fresh, monkeypatch):
    monkeypatch.setenv("DYNAMICS_NODE_CACHED_ONLY", "1")
    robot = do(Job(four_bar(), {}, "inverse", backend="auto", services="auto"))
    assert robot.solver.choice.backend == "numpy"
    (note,) = robot.notes
    assert note.startswith("only cached code is used here") and note.endswith("numpy serves instead")
    assert robot.with_inertias(robot.model).notes == robot.notes
    assert pickle.loads(pickle.dumps(robot)).notes == robot.notes
