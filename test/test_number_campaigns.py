"""Short campaigns of random robots, failures of long ones, and their command line."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pinocchio", reason="the oracle: pip install pin")

from flags import quickly_compiled

from campaigns import random_robots as numbers
from campaigns import trees

__all__ = ["quickly_compiled"]

ROOT = Path(__file__).parents[1]
KINDS = [kind for kind in numbers.KINDS if (ROOT / "campaigns" / f"{kind}.py").is_file()]


@pytest.mark.parametrize("kind", KINDS)
def test_short_campaign_has_no_failures(kind, tmp_path, capsys):
    """The campaign runs in child processes, as from the command line."""
    count = {"open_loops": 1, "damaged_files": 60}.get(kind, 3)
    options = ["--minutes", "3", "--count", str(count), "--seed", "5", "--kinds", kind]
    assert numbers.main([*options, "--folder", str(tmp_path)]) == 0
    text = capsys.readouterr().out
    assert "seed 5" in text and f"{kind} {count}:" in text
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("seed", "kind", "number"),
    [
        (2, "mechanisms", 256),  # shaky: the constraints allow an infinitesimal motion
        (3623974225, "trees", 334),  # a singular matrix with several small pivots
        (3623974225, "trees", 660),  # factor graph: the planned pivots vanish at right angles
        (1283883887, "trees", 211),  # singular everywhere up to rounding
        (1283883887, "mechanisms", 709),  # a mass matrix that is singular to the last digit
        (2347744040, "mechanisms", 1691),  # shaky: off by 1e-11 after moving a joint by 1e-4
        (2347744040, "trees", 3171),  # nearly singular: the rank of the graph detects it
        (2442298060, "mechanisms", 2373),  # near a dead center: the dependent joint is 52 times as fast
        (641496315, "mechanisms", 85),  # accelerations are a small remainder of torques of 1e8 N m
    ],
)
def test_failures_of_long_campaigns_stay_fixed(seed, kind, number):
    result = numbers.tried(seed, kind, number)
    assert result.word in ("ok", "refused"), result.verdict


def test_command_line_runs():
    """The file numbers.py does not shadow the standard module of that name."""
    options = ["--minutes", "0.5", "--count", "1", "--kinds", "trees", "--seed", "1"]
    command = [sys.executable, "campaigns/numbers.py", *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "trees 1: " in done.stdout


def test_failure_is_written_with_its_command(tmp_path, monkeypatch, capsys):
    result = numbers.Result("trees", 7, "a tree", "<robot/>", "SILENT ERROR: off by one")
    monkeypatch.setattr(numbers, "_results", lambda *_: iter([result]))
    assert numbers.main(["--seed", "3", "--folder", str(tmp_path)]) == 1
    (folder,) = tmp_path.iterdir()
    assert (folder / "trees-7.urdf").read_text() == "<robot/>"
    assert "--seed 3 --kinds trees --first 7 --count 1" in (folder / "trees-7.txt").read_text()
    assert str(folder) in capsys.readouterr().out.replace("\n", "")


def test_drawing_is_reproducible():
    trees = numbers.importlib.import_module("campaigns.trees")
    first, second = (trees.draw(np.random.default_rng([4, 0, 9])) for _ in range(2))
    assert first.text == second.text and first.seed == second.seed


def test_crash_becomes_a_verdict(monkeypatch):
    monkeypatch.setattr(trees, "check", lambda case: 1 / 0)
    assert numbers.tried(1, "trees", 0).word == "CRASH"
