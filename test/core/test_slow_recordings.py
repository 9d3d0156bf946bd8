"""Recordings with a low sampling rate, and times in other units than seconds."""

import numpy as np
import pytest
from identified import Truth
from robots import ROBOTS

from dynamics_node.cli import main
from dynamics_node.errors import TableError
from dynamics_node.io import USUAL_CUTOFF, open_table
from dynamics_node.robot import inverse_dynamics


@pytest.fixture(scope="module")
def arm():
    return Truth(ROBOTS["ur5"].model(), backend="c")


def write(path, arm, rate, unit=1.0, kinds=("q", "tau"), seconds=60.0, jitter=0.0):
    """Positions and efforts of slow motions."""
    time = np.arange(0.0, seconds, 1.0 / rate)
    time += jitter / rate * np.random.default_rng(0).uniform(-0.5, 0.5, len(time))
    recording = arm.recording(1, time=time)
    np.savez(path, **{kind: recording[kind] for kind in kinds}, time=unit * time)
    return str(path)


def opened(path, arm, cutoff=USUAL_CUTOFF):
    return open_table(path, arm.robot, inverse_dynamics(arm.robot), measured=True, cutoff=cutoff)


@pytest.mark.parametrize(
    "rate, cutoff", [(20.0, 5.0), (33.0, 8.2), (39.9, 9.9), (40.0, 10.0), (41.0, 10.0), (500.0, 10.0)]
)
def test_default_cutoff_follows_the_rate(arm, tmp_path, rate, cutoff):
    table = opened(write(tmp_path / "run.npz", arm, rate), arm)
    assert table.cutoff == pytest.approx(cutoff, rel=1e-12)
    (note,) = table.notes
    assert f"below {cutoff:g} Hz" in note and ("a quarter of the sampling rate" in note) == (cutoff < 10.0)
    accelerations = np.concatenate([chunk["qdd"] for chunk in table.chunks()])
    assert np.isfinite(accelerations).all(axis=1).mean() > 0.9


def test_jittering_stamps_are_accepted(arm, tmp_path):
    """Parts of a recording may have a slightly lower rate than the whole."""
    path = write(tmp_path / "run.npz", arm, 20.0, seconds=120.0, jitter=0.3)
    table = open_table(path, arm.robot, inverse_dynamics(arm.robot), 100, measured=True, cutoff=USUAL_CUTOFF)
    assert sum(len(chunk["qdd"]) for chunk in table.chunks()) == 2400


def test_commands_accept_slow_recordings(arm, tmp_path, capsys):
    """identify, evaluate and payload need no option; an impossible cutoff is an error."""
    run, urdf = write(tmp_path / "run.npz", arm, 25.0), str(ROBOTS["ur5"].file)
    commands = (
        ["identify", urdf, run, "-o", str(tmp_path / "out")],
        ["evaluate", urdf, run, "--differentiate", "--compare"],
        ["payload", urdf, run, "--link", "wrist_3_link"],
    )
    for command in commands:
        assert main(command) == 0, command
        assert "below 6.2 Hz, a quarter of the sampling rate" in capsys.readouterr().err
        assert main([*command, "--cutoff", "9"]) == 3
        assert "25 states a second" in (message := capsys.readouterr().err) and "--cutoff 6.2" in message


def test_recordings_of_different_rates_share_a_cutoff(arm, tmp_path, capsys):
    """All recordings use the filter of the slowest one."""
    runs = [write(tmp_path / f"{rate}.npz", arm, rate) for rate in (25.0, 100.0)]
    assert main(["identify", str(ROBOTS["ur5"].file), *runs, "-o", str(tmp_path / "out")]) == 0
    assert "least squares below 6.2 Hz" in capsys.readouterr().out


@pytest.mark.parametrize("unit, name", [(1e3, "milliseconds"), (1e6, "microseconds"), (1e9, "nanoseconds")])
@pytest.mark.parametrize("kinds", [("q", "tau"), ("q", "qd", "tau")])
def test_time_in_another_unit_is_named(arm, tmp_path, unit, name, kinds):
    path = write(tmp_path / "run.npz", arm, 250.0, unit, kinds, seconds=4.0)
    for cutoff in (USUAL_CUTOFF, 10.0):
        with pytest.raises(TableError, match=f"run.npz.*{name}"):
            list(opened(path, arm, cutoff).chunks())
