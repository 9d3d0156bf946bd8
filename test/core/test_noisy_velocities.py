"""Derivatives of positions replace recorded velocities that are less accurate."""

import numpy as np
import pytest
from identified import Truth, torque_rmse
from robots import ROBOTS

from dynamics_node.cli import main
from dynamics_node.identification import identify
from dynamics_node.io import open_table
from dynamics_node.robot import inverse_dynamics

TIME = np.arange(0.0, 20.0, 0.004)


@pytest.fixture(scope="module")
def arm():
    return Truth(ROBOTS["ur5"].model(), 1, "c")


@pytest.fixture(scope="module")
def recording(arm):
    return arm.recording(1, time=TIME)


def stepped(rows, step):
    return step * np.round(rows / step)


def write(path, recording, **changed):
    rows = recording | changed
    np.savez(path, **{kind: rows[kind] for kind in ("q", "qd", "tau", "time")})
    return path


def opened(path, arm, velocities="better"):
    problem = inverse_dynamics(arm.robot)
    return open_table(path, arm.robot, problem, measured=True, cutoff=10.0, velocities=velocities)


def largest_rms(arm, table):
    """The largest RMS torque error on another motion, N m."""
    identified = identify(arm.robot, [table.chunks])
    return torque_rmse(arm, identified.parameters, arm.recording(2, noise=0.0)).max()


def noise(size, rows):
    return size * np.random.default_rng(0).normal(size=rows.shape)


@pytest.mark.parametrize("what", ["steps of 0.05", "noise of 0.02"])
def test_worse_velocities_are_replaced_and_named(arm, recording, tmp_path, what):
    qd = recording["qd"]
    worse = stepped(qd, 0.05) if "steps" in what else qd + noise(0.02, qd)
    path = write(tmp_path / "run.npz", recording, q=stepped(recording["q"], 1e-5), qd=worse)
    table = opened(path, arm)
    (note,) = table.notes
    assert "derivatives of the recorded positions" in note and f"elbow_joint {what}" in note
    assert "--velocities recorded" in note
    assert largest_rms(arm, table) < 0.02 < 0.2 < largest_rms(arm, opened(path, arm, "recorded"))


def test_good_velocities_are_kept(arm, recording, tmp_path):
    """Cases: fine steps, little noise, a robot that vibrates, and positions that are no better."""
    q, qd, time = recording["q"], recording["qd"], recording["time"]
    w = 2 * np.pi * 40.0
    shaken = {"q": q - 0.3 / w * np.cos(w * time)[:, None], "qd": qd + 0.3 * np.sin(w * time)[:, None]}
    for changed in (
        {}, {"qd": stepped(qd, 1e-3)}, {"qd": qd + noise(1e-3, qd)}, shaken,
        {"qd": stepped(qd, 0.05), "q": stepped(q, 1e-3)}, {"qd": 0.0 * qd},
    ):  # fmt: skip
        (note,) = opened(write(tmp_path / "run.npz", recording, **changed), arm).notes
        assert "derivatives of the recorded velocities" in note, list(changed)


def test_requested_velocities_override_complete_recordings(arm, recording, tmp_path):
    np.savez(tmp_path / "run.npz", **recording)
    for velocities, note in (
        ("better", "nothing is differentiated"),
        ("recorded", "nothing is differentiated"),
        ("positions", "velocities and accelerations are derivatives of the recorded positions"),
    ):
        assert note in opened(tmp_path / "run.npz", arm, velocities).notes[0]


def test_velocities_option(arm, recording, tmp_path, capsys):
    path = write(tmp_path / "run.npz", recording, qd=stepped(recording["qd"], 0.05))
    command = ["identify", str(ROBOTS["ur5"].file), str(path), "-o", str(tmp_path / "out")]
    for more, message in (
        ([], "positions are less noisy"),
        (["--velocities", "positions"], "derivatives of the recorded positions"),
        (["--velocities", "recorded"], "derivatives of the recorded velocities"),
    ):
        assert main([*command, *more]) == 0
        assert message in capsys.readouterr().err
