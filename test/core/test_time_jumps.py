"""Recordings in which time jumps back: two recordings in one file, never one motion."""

import numpy as np
import pytest
from bags import write_bag
from robots import ROBOTS

import dynamics_node as dn
from dynamics_node.cli import main
from dynamics_node.io import RecordingWarning, later, open_table, recordings

COUNT = 40  # rows of each recording
PERIOD = 0.01


@pytest.fixture(scope="module")
def pendulum():
    return str(ROBOTS["double_pendulum"].file)


@pytest.fixture(scope="module")
def parts():
    """Two unrelated motions at overlapping times."""
    time = PERIOD * np.arange(COUNT)
    motions = [0.3 * np.sin(np.outer(time, (3, 4))), 1.0 + 0.2 * np.cos(np.outer(time, (2, 5)))]
    return [
        {"time": time + start, "q": q, "tau": 0.1 * q} for start, q in zip((2.0, 1.6), motions, strict=True)
    ]


def together(parts):
    return {kind: np.concatenate([own[kind] for own in parts]) for kind in parts[0]}


def test_where_recordings_start():
    time = np.arange(0, 1, PERIOD)
    assert recordings(time) == [slice(0, 100)] and recordings([]) == [slice(0, 0)]
    assert recordings([*time, *time, *time]) == [slice(0, 100), slice(100, 200), slice(200, 300)]
    late = time.copy()
    late[[30, 60, 61]] -= 0.5  # messages out of order
    late[99] = np.nan
    assert len(recordings(late)) == 1 and np.count_nonzero(later(late)) == 96
    assert later([np.nan, 1.0, np.nan, 2.0, 2.0, 1.5]).tolist() == [False, True, False, True, False, False]
    two_publishers = np.repeat(time, 2)
    two_publishers[1::2] -= 0.3
    assert len(recordings(two_publishers)) == 1


@pytest.mark.parametrize("command", ["smooth", "inverse-trajectory"])
def test_each_recording_is_a_motion_of_its_own(command, pendulum, parts, tmp_path, capsys):
    paths = [tmp_path / f"{name}.npz" for name in ("both", "first", "second")]
    for path, rows in zip(paths, (together(parts), *parts), strict=True):
        np.savez(path, **rows)
        out = path.with_suffix(".out.npz")
        assert main([command, pendulum, str(path), "-o", str(out), "--backend", "numpy"]) == 0
        output = capsys.readouterr()
        assert ("both.npz: time jumps back by 0.79 s at row 40" in output.err) == (path is paths[0])
    both, *alone = (np.load(path.with_suffix(".out.npz")) for path in paths)
    for kind in both.files:
        np.testing.assert_array_equal(both[kind], np.concatenate([own[kind] for own in alone]))


def test_plot_and_page_are_of_increasing_time(pendulum, parts, tmp_path, monkeypatch):
    pytest.importorskip("viser", reason="pages that play a motion: pip install viser")
    np.savez(tmp_path / "both.npz", **together(parts))
    times = []
    monkeypatch.setattr("dynamics_node.cli.motions.plot_curves", lambda path, time, *more: times.append(time))
    monkeypatch.setattr(
        "dynamics_node.cli.motions.write_animation", lambda path, motion, *more: times.append(motion.time)
    )
    files = ["--plot", str(tmp_path / "x.png"), "--animate", str(tmp_path / "x.html")]
    assert (
        main(["inverse-trajectory", pendulum, str(tmp_path / "both.npz"), *files, "--backend", "numpy"]) == 0
    )
    for time in times:
        np.testing.assert_allclose(time, PERIOD * np.arange(2 * COUNT), atol=1e-9)
    assert len(times) == 2


@pytest.mark.parametrize("chunk", [1, 7, 39, 40, 41, 1000])
def test_tables_warn_once_at_any_size_of_chunks(chunk, pendulum, parts, tmp_path):
    robot = dn.load_robot(pendulum)
    np.savez(tmp_path / "both.npz", **together(parts), qd=np.zeros((2 * COUNT, 2)))
    table = open_table(tmp_path / "both.npz", robot, dn.inverse_dynamics(robot), chunk)
    with pytest.warns(RecordingWarning, match="row 40") as caught:
        chunks = [*table.chunks(), *table.chunks()]
    assert len(caught) == 1 and sum(len(own["q"]) for own in chunks) == 4 * COUNT


def test_every_command_says_where_time_jumps_back(pendulum, parts, tmp_path, capsys):
    both = together(parts)
    np.savez(tmp_path / "both.npz", **both, qd=np.zeros((2 * COUNT, 2)))
    stamps = np.round(1e9 * both["time"]).astype(int)
    messages = [
        ("/joint_states", ["joint1", "joint2"], q, 0 * q, u)
        for q, u in zip(both["q"], both["tau"], strict=True)
    ]
    write_bag(tmp_path / "bag", messages, stamps)
    for source, command, *more in (
        ("both.npz", "evaluate", "--compare"),
        ("both.npz", "identify", "-o", str(tmp_path / "out")),
        ("both.npz", "payload", "--link", "link2"),
        ("bag", "evaluate", "--differentiate", "--cutoff", "5", "--compare"),
        ("bag", "inverse-trajectory", "--backend", "numpy"),
    ):
        main([command, pendulum, str(tmp_path / source), *more])
        assert "time jumps back by 0.79 s at row 40" in capsys.readouterr().err, (source, command)


def test_torques_over_time_must_be_of_one_motion(pendulum, parts, tmp_path, capsys):
    np.savez(tmp_path / "both.npz", **together(parts))
    assert main(["simulate", pendulum, "--torques", str(tmp_path / "both.npz")]) == 3
    assert "both.npz: time does not increase at row 40" in capsys.readouterr().err
    np.savez(tmp_path / "curve.npz", **together(parts))
    assert main(["check", pendulum, str(tmp_path / "curve.npz")]) == 3
    assert "time_from_start of point 40" in capsys.readouterr().err
