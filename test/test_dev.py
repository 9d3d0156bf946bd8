"""./dev: messages about missing tools, test stages, and the setup of the environment."""

import os
import shutil
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TOOLS = ("bash", "dirname", "env", "cat", "sh")


@pytest.fixture
def bare(tmp_path):
    """run(python, *arguments): runs a copy of the script with only TOOLS and a fake python on the PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for tool in TOOLS:
        (folder / tool).symlink_to(shutil.which(tool))
    shutil.copy(ROOT / "dev", tmp_path / "dev")

    def run(python, *arguments):
        if python:
            (folder / "python3").write_text(python)
            (folder / "python3").chmod(0o755)
        environment = {"PATH": str(folder), "HOME": str(tmp_path)}
        return subprocess.run(
            [tmp_path / "dev", *arguments], env=environment, capture_output=True, text=True, timeout=30
        )

    return run


NO_VENV = '#!/bin/sh\ncase "$2" in *ensurepip*|*rclpy*) exit 1;; esac\nexit 0\n'
OLD = '#!/bin/sh\ncase "$2" in *version_info*|*rclpy*) exit 1;; esac\necho Python 3.9.2\n'
FINE = "#!/bin/sh\nexit 0\n"


@pytest.mark.parametrize(
    ("python", "words"),
    [
        ("", "python3 is missing: sudo apt install python3"),
        (OLD, "Python 3.11 or newer is needed, this is Python 3.9.2"),
        (NO_VENV, "the venv module is missing: sudo apt install python3-venv"),
        (FINE, "a C++ compiler is missing: sudo apt install g++"),
    ],
)
def test_missing_tool_is_named_in_one_line(bare, python, words):
    done = bare(python, "demo")
    assert done.returncode == 1
    assert done.stderr.startswith("dev: ") and words in done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    assert done.stdout == ""


def test_help_needs_nothing(bare):
    done = bare("", "help")
    assert done.returncode == 0 and "./dev demo" in done.stdout


def test_unknown_command_shows_the_usage(bare):
    done = bare("", "fly")
    assert done.returncode == 1 and "unknown command: fly" in done.stderr and "./dev test" in done.stderr


def test_the_package_is_found_where_a_folder_has_its_name(tmp_path):
    """As in the parent folder of a checkout, where `git clone` leaves one."""
    if "DYNAMICS_DEV" not in os.environ:
        pytest.skip("the environment is not that of ./dev")
    (tmp_path / "dynamics_node" / "test").mkdir(parents=True)
    command = [sys.executable, "-c", "import dynamics_node; print(dynamics_node.load_robot.__name__)"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.stdout == "load_robot\n", done.stderr


CHECK = """#!/bin/sh
echo "TOOL $*" >> "$CALLS"
case " $FAILING " in *" TOOL "*) echo "TOOL fails"; exit 1;; esac
[ "TOOL" != python ] || while [ -n "$ENDLESS" ]; do sleep 0.01; done
"""


@pytest.fixture
def checks(tmp_path):
    """begin(*arguments, **variables): `./dev test` with fake tools that write their calls to the file `calls`. Those in
    $FAILING exit with 1; with $ENDLESS Python does not exit."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for tool in ("ruff", "mypy", "lint-imports", "python"):
        (tools / tool).write_text(CHECK.replace("TOOL", tool))
        (tools / tool).chmod(0o755)
    shutil.copy(ROOT / "dev", tmp_path / "dev")
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / ".compiled").touch()
    (tmp_path / "calls").touch()

    def begin(*arguments, **variables):
        inside = {"DYNAMICS_DEV": str(tmp_path / ".venv"), "CALLS": str(tmp_path / "calls")}
        environment = {**os.environ, **inside, **variables, "PATH": f"{tools}:{os.environ['PATH']}"}
        return subprocess.Popen(
            [tmp_path / "dev", "test", *arguments],
            env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
            preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),  # a shell's & ignores SIGINT
        )  # fmt: skip

    return begin


@pytest.mark.parametrize(
    ("failing", "failed_stages"),
    [("", ""), ("ruff", "lint, format"), ("python mypy", "types, tests on topics, tests")],
)
def test_every_stage_runs_and_the_last_line_names_failed_stages(checks, tmp_path, failing, failed_stages):
    done = checks("-x", FAILING=failing)
    printed, errors = done.communicate(timeout=30)
    calls = (tmp_path / "calls").read_text().splitlines()
    stages = ["lint-imports", "mypy", "python", "python", "ruff", "ruff"]
    assert sorted(call.split()[0] for call in calls) == stages
    runs = [call for call in calls if call.startswith("python -m pytest") and call.endswith(" -x")]
    assert sorted("--ignore=test/ros" in run for run in runs) == [False, True]
    assert sorted(" test/ros test/launch" in run for run in runs) == [False, True]
    assert done.returncode == bool(failing)
    assert errors == (f"dev: failed: {failed_stages}\n" if failing else "")
    stages = {"lint": "ruff", "format": "ruff", "types": "mypy", "layers": "lint-imports"}
    stages |= {"tests on topics": "python", "tests": "python"}
    expected = [(f"--- {stage}", f"{tool} fails" * (tool in failing)) for stage, tool in stages.items()]
    assert printed.splitlines() == [line for lines in expected for line in lines if line]


def test_imports_of_tests_are_compiled_once_per_environment(checks, tmp_path):
    """Workers do not compile them again. The test run itself reports errors of this step."""
    (tmp_path / ".venv" / ".compiled").unlink()
    for _ in range(2):
        printed, errors = checks(FAILING="python").communicate(timeout=30)
        assert errors == "dev: failed: tests on topics, tests\n" and printed.count("python fails") == 2
    calls = [call for call in (tmp_path / "calls").read_text().splitlines() if call.startswith("python")]
    assert [call == "python -m pytest --collect-only" for call in calls] == [True, *[False] * 4]


@pytest.mark.parametrize(
    "end, number, code",
    [(os.killpg, signal.SIGINT, 130), (os.kill, signal.SIGTERM, 143)],
    ids=["Ctrl-C", "kill"],
)
def test_all_stages_end_with_the_script(checks, tmp_path, end, number, code):
    """communicate() returns once no process has the pipes open."""
    script = checks(ENDLESS="yes")
    while (tmp_path / "calls").read_text().count("python") < 2:
        time.sleep(0.01)
    end(script.pid, number)
    printed, errors = script.communicate(timeout=100)
    assert script.returncode == code and "failed" not in errors and "fails" not in printed
    with pytest.raises(ProcessLookupError):
        os.killpg(script.pid, 0)


def test_named_files_are_tested_without_other_stages(checks, tmp_path):
    done = checks("test/core/test_graph.py", "-q")
    done.communicate(timeout=30)
    assert (tmp_path / "calls").read_text() == "python -m pytest test/core/test_graph.py -q\n"
    assert done.returncode == 0


@pytest.mark.skipif("VIRTUAL_ENV" not in os.environ, reason="not an environment of ./dev")
def test_benchmarks_are_listed():
    done = subprocess.run([ROOT / "dev", "bench"], capture_output=True, text=True, timeout=100)
    assert "node_latency" in done.stdout and "harness" not in done.stdout


# A fake python that creates an empty environment, and whose pip exits once the file `go` exists. The fake uv writes its
# arguments and its index to `calls`.
FAKE_PYTHON = """#!/bin/sh
case "$*" in
  *sysconfig*) echo {folder}; exit;;
  "-m venv"*) echo venv >> {folder}/calls; mkdir -p {folder}/.venv/bin; cp "$0" {folder}/.venv/bin/python
    cp {folder}/tools/uv {folder}/.venv/bin/uv; exit;;
  "-m pip config get global.index-url") echo https://index.invalid/simple; exit;;
  benchmarks/*) echo "$*"; exit;;
  "-m pip"*) while [ ! -e {folder}/go ]; do sleep 0.02; done; exit;;
esac
"""
FAKE_UV = '#!/bin/sh\necho "uv $UV_DEFAULT_INDEX $*" >> {folder}/calls\n'
FAKE_CMAKE = '#!/bin/sh\necho "cmake $1" >> {folder}/calls\n'


@pytest.fixture
def begin(tmp_path):
    """begin(*arguments, variables=None): starts `./dev arguments` with FAKE_PYTHON."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name, text in (("python3", FAKE_PYTHON), ("uv", FAKE_UV), ("cmake", FAKE_CMAKE), ("c++", FINE)):
        (tools / name).write_text(text.format(folder=tmp_path))
        (tools / name).chmod(0o755)
    files = ("dev", "setup.py", "package.xml", "pyproject.toml", "constraints-noble.txt", "dependencies.lock")
    for name in files:
        shutil.copy(ROOT / name, tmp_path / name)
    for name in ("dynamics_interfaces", "launch", "config", "benchmarks", "elsewhere"):
        (tmp_path / name).mkdir()
    (tmp_path / "benchmarks" / "latency.py").write_text("__main__")
    (tmp_path / "dynamics_interfaces" / "package.xml").touch()
    (tmp_path / "Python.h").touch()
    processes = []

    def run(*arguments, variables=None):
        environment = {"PATH": f"{tools}:/usr/bin:/bin", "HOME": str(tmp_path), **(variables or {})}
        options = dict(env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        processes.append(
            subprocess.Popen([tmp_path / "dev", *arguments], cwd=tmp_path / "elsewhere", **options)
        )
        return processes[-1]

    yield run
    (tmp_path / "go").touch()
    for process in processes:
        process.communicate(timeout=30)


def test_concurrent_runs_create_one_environment(begin, tmp_path):
    first = begin("setup", "demo")
    assert "setting up .venv" in first.stderr.readline()
    second = begin("run", "--", "true")
    assert second.stderr.readline() == "dev: another ./dev is setting up .venv: waiting for it\n"
    (tmp_path / "go").touch()
    assert (first.wait(30), second.wait(30)) == (0, 0)
    assert (tmp_path / "calls").read_text().count("venv\n") == 1 and second.stderr.read() == ""


def test_command_in_the_environment_does_not_keep_its_lock(begin, tmp_path):
    (tmp_path / "go").touch()
    for _ in range(2):  # a new environment, then an existing one
        assert begin("run", "--", "flock", "--nonblock", "../.dev/lock", "true").wait(30) == 0


def test_run_keeps_the_working_directory(begin, tmp_path):
    (tmp_path / "go").touch()
    assert begin("run", "--", "pwd").communicate(timeout=30)[0] == f"{tmp_path / 'elsewhere'}\n"


@pytest.mark.parametrize(
    ("given", "run"), [("--save", "processors.py --save"), ("latency --save", "latency.py --save")]
)
def test_save_without_a_name_is_for_the_table_of_processors(begin, tmp_path, given, run):
    (tmp_path / "go").touch()
    (tmp_path / "benchmarks" / "processors.py").touch()
    assert begin("bench", *given.split()).communicate(timeout=30)[0] == f"benchmarks/{run}\n"


def test_each_command_installs_its_group_once(begin, tmp_path):
    (tmp_path / "go").touch()
    calls = tmp_path / "calls"

    def installed(*arguments):
        """Groups that uv installs for the command, and whether it builds the interfaces."""
        calls.write_text("")
        assert begin(*arguments).wait(30) == 0
        lines = calls.read_text().splitlines()
        groups = [line.split("--group ")[1] for line in lines if "--group" in line]
        locked = "--require-hashes -c dependencies.lock --group"
        assert all(locked in line for line in lines if "--group" in line)
        return groups, "cmake --build" in lines

    assert installed("run", "--", "true") == (["ros", "demo"], True)
    assert installed("setup") == (["ros", "test"], False)
    assert installed("run", "--", "true") == ([], False)
    assert installed("bench") == (["ros", "bench"], False)
    assert installed("setup", "test") == ([], False)
    (tmp_path / "dynamics_interfaces" / "package.xml").write_text("changed")
    assert installed("setup", "demo") == (["ros", "demo"], True)


@pytest.mark.parametrize(
    ("variables", "index"),
    [
        ({}, "https://index.invalid/simple"),
        ({"PIP_INDEX_URL": "https://pip.invalid"}, "https://pip.invalid"),
        ({"PIP_INDEX_URL": "https://pip.invalid", "UV_DEFAULT_INDEX": "https://uv.invalid"}, "https://uv.invalid"),
        ({"UV_INDEX_URL": "https://uv.invalid"}, ""),  # uv reads this variable itself
    ],
)  # fmt: skip
def test_uv_installs_from_the_index_of_pip(begin, tmp_path, variables, index):
    (tmp_path / "go").touch()
    assert begin("setup", "demo", variables=variables).wait(30) == 0
    calls = [line for line in (tmp_path / "calls").read_text().splitlines() if line.startswith("uv")]
    assert calls and all(line.startswith(f"uv {index} pip install") for line in calls)
