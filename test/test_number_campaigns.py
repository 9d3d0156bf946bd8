"""Short campaigns of numbers: what the long ones do, and what they say."""

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
def test_a_short_campaign_finds_nothing(kind, tmp_path, capsys):
    """As from the command line, in this process' children."""
    options = ["--minutes", "3", "--count", "5", "--seed", "5", "--kinds", kind, "--folder", str(tmp_path)]
    assert numbers.main(options) == 0
    text = capsys.readouterr().out
    assert "seed 5" in text and f"{kind} 5:" in text
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("seed", "kind", "number"),
    [
        (2, "mechanisms", 256),  # it shakes: its equations leave a motion to first order alone
        (
            3623974225,
            "trees",
            334,
        ),  # several small pivots, one left over from the other, of a singular matrix
        (3623974225, "trees", 660),  # factor graph: at right angles the pivots that were planned vanish
        (1283883887, "trees", 211),  # singular everywhere, but for the rounding at which `build` looks
        (1283883887, "mechanisms", 709),  # a mass matrix that is singular to the last digit
        (
            2347744040,
            "mechanisms",
            1691,
        ),  # it shakes, and misses by 1e-11 only where a joint is moved by 1e-4
        (2347744040, "trees", 3171),  # nearly singular: the graph's rank says so, in its own words
        (
            2442298060,
            "mechanisms",
            2373,
        ),  # beside a dead centre, where the dependent joint moves 52 times as fast
        (641496315, "mechanisms", 85),  # torques of 1e8 N m at home, of which accelerations are a small rest
    ],
)
def test_what_long_campaigns_have_found(seed, kind, number):
    result = numbers.tried(seed, kind, number)
    assert result.word in ("ok", "refused"), result.verdict


def test_the_command_line():
    """The file is no module `numbers` of the standard library to what it imports."""
    command = [
        sys.executable,
        "campaigns/numbers.py",
        "--minutes",
        "0.5",
        "--count",
        "1",
        "--kinds",
        "trees",
        "--seed",
        "1",
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "trees 1: " in done.stdout


def test_failures_are_written_with_what_it_takes_to_see_them_again(tmp_path, monkeypatch, capsys):
    result = numbers.Result("trees", 7, "a tree", "<robot/>", "SILENT ERROR: off by one")
    monkeypatch.setattr(numbers, "_results", lambda *_: iter([result]))
    assert numbers.main(["--seed", "3", "--folder", str(tmp_path)]) == 1
    (folder,) = tmp_path.iterdir()
    assert (folder / "trees-7.urdf").read_text() == "<robot/>"
    assert "--seed 3 --kinds trees --first 7 --count 1" in (folder / "trees-7.txt").read_text()
    assert str(folder) in capsys.readouterr().out.replace("\n", "")


def test_a_robot_is_the_same_again():
    one, two = (
        numbers.importlib.import_module("campaigns.trees").draw(np.random.default_rng([4, 0, 9]))
        for _ in range(2)
    )
    assert one.text == two.text and one.seed == two.seed


def test_a_crash_is_a_verdict(monkeypatch):
    monkeypatch.setattr(trees, "check", lambda case: 1 / 0)
    assert numbers.tried(1, "trees", 0).word == "CRASH"
