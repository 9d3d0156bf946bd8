"""The examples run, the command line answers, and says what is wrong in one line."""

import subprocess
import sys
from pathlib import Path

import pytest
from robots import PANDA, data_folder

from dynamics_node.cli import main
from dynamics_node.node.build_job import Job, Robot, do

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize(("name", "words"), [("library.py", "effective mass"), ("orderings.py", "colamd")])
def test_example(name, words):
    data_folder()  # skips without the robots
    done = subprocess.run([sys.executable, EXAMPLES / name], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    assert words in done.stdout


def panda():
    return str(data_folder() / PANDA)


def test_info(capsys):
    assert main(["info", panda(), "--at", *["0.1"] * 8]) == 0
    out = capsys.readouterr().out
    assert "9 moving bodies, nq 8, nv 8" in out and "gravity torques" in out
    (follower,) = [line for line in out.splitlines() if line.startswith("panda_rightfinger")]
    assert follower.endswith("panda_finger_joint1")  # whom it mimics


def test_graph_table_and_drawings(capsys, tmp_path):
    assert main(["graph", panda()]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()[1:]] == [
        "rnea", "crba", "aba", "colamd", "metis", "minimum_degree",
    ]  # fmt: skip
    for suffix, words in ((".svg", "<svg"), (".dot", "digraph")):
        out = tmp_path / f"net{suffix}"
        assert main(["graph", panda(), "--ordering", "aba", "--out", str(out)]) == 0
        assert words in out.read_text()


def test_compile_fills_the_cache_that_the_node_reads(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "/nowhere")  # and is set back afterwards
    assert main(["compile", panda(), "-o", str(tmp_path)]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[1].startswith("inverse dynamics ... rnea: ") and out[2].startswith("forward dynamics ... crba")
    made = set((tmp_path / "dynamics_node").iterdir())
    assert (
        len(made) == 12
    )  # two problems, with wrenches, without and for many states, a library and a note each
    for problem in ("inverse", "forward"):
        robot = do(Job(Path(panda()).read_text(), {}, problem, backend="c", services="c"))
        assert isinstance(robot, Robot)
        assert robot.inverse.engine.batches and robot.forward.engine.batches  # whole trajectories are ready
    assert set((tmp_path / "dynamics_node").iterdir()) == made


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["info", "/nowhere.urdf"], "No such file"),
        (["info", __file__], "malformed XML"),
        (["info", "PANDA", "--at", "1"], "--at needs 8 numbers, not 1: panda_joint1"),
        (["graph", "PANDA", "--out", "x.svg"], "choose it with --ordering"),
        (["graph", "PANDA", "--problem", "hybrid", "--forward-joints", "knee"], "'knee' is unknown"),
        (["info", "PANDA", "--joints", "knee"], "unknown joint 'knee'"),
    ],
)
def test_errors_are_one_line(arguments, words, capsys):
    assert main([panda() if a == "PANDA" else a for a in arguments]) == 1
    error = capsys.readouterr().err
    assert error.startswith("dynamics: ") and words in error and error.count("\n") == 1
