"""Joints that --joints leaves out follow the recording, in every command that reads recordings."""

import numpy as np
import pytest
import yaml
from bags import write_bag
from identified import Truth
from robots import ROBOTS
from state_tables import columns_of, save_columns

import dynamics_node as dn
from dynamics_node.cli import main
from dynamics_node.identification import RegressorModel

URDF = str(ROBOTS["ur5"].file)
ONE, WRIST = "shoulder_pan_joint", "wrist_3_joint"


@pytest.fixture(scope="module")
def arm():
    return Truth(ROBOTS["ur5"].model())


@pytest.fixture(scope="module")
def recording(arm):
    return arm.recording(1)


def write(path, recording, efforts=None):
    """A .csv with the efforts of some joints only."""
    arrays = {kind: recording[kind] for kind in ("time", "q", "qd", "qdd", "tau")}
    columns = columns_of(arrays, ROBOTS["ur5"].model().v_names)
    absent = [name for name in columns if efforts and name[:4] == "tau." and name[4:] not in efforts]
    return save_columns(path, {name: rows for name, rows in columns.items() if name not in absent})


def rmse(text):
    """{joint: RMSE} in the output of `evaluate --compare`."""
    rows = [line.split() for line in text.splitlines() if " N m " in line]
    return {row[0]: float(row[4]) for row in rows}


def test_one_joint_is_identified_while_all_move(arm, recording, tmp_path, capsys):
    """Only its torque is used, with the positions of all joints; the residual is its noise."""
    run = write(tmp_path / "run.csv", recording, efforts=[ONE])
    out = tmp_path / "out"
    assert main(["identify", URDF, str(run), "--joints", ONE, "-o", str(out)]) == 0
    captured = capsys.readouterr()
    assert f"torques are those of {ONE}" in captured.err and "ahead" not in captured.out
    report = yaml.safe_load((out / "report.yaml").read_text())
    assert list(report["rms"]) == [ONE] and report["warnings"] == []
    robot = dn.load_robot(out / "robot.urdf", parameters_file=out / "parameters.yaml")
    linear, unseen = RegressorModel(robot, backend="numpy"), arm.recording(9, noise=0.0)
    W = linear.matrix(unseen["q"], unseen["qd"], unseen["qdd"])
    residual = np.sqrt(np.mean((W @ linear.described - unseen["tau"]) ** 2, axis=0))
    assert residual[0] < 0.1 and residual[1] > 0.5  # the other torques are not recorded


@pytest.mark.parametrize("kind", ["csv", "bag"])
def test_one_joint_is_compared_while_all_move(arm, recording, tmp_path, capsys, kind):
    """Its residual and its written torques equal those with all joints chosen."""
    few = {key: rows[:300] for key, rows in recording.items()}
    if kind == "csv":
        run = write(tmp_path / "run.csv", few)
    else:
        rows = zip(few["q"], few["qd"], few["tau"], strict=True)
        write_bag(tmp_path / "bag", [("/s", list(arm.robot.v_names), *row) for row in rows])
        run = tmp_path / "bag"
    command = ["evaluate", URDF, str(run), "--compare", "--output"]
    assert main([*command, str(tmp_path / "all.npz")]) == 0
    every = rmse(capsys.readouterr().out)
    assert main([*command, str(tmp_path / "one.npz"), "--joints", f"{WRIST},{ONE}"]) == 0
    captured = capsys.readouterr()
    assert rmse(captured.out) == {name: every[name] for name in (ONE, WRIST)}
    assert "elbow_joint" in captured.err and "move as recorded" in captured.err
    assert np.array_equal(
        np.load(tmp_path / "one.npz")["tau"], np.load(tmp_path / "all.npz")["tau"][:, [0, 5]]
    )


def test_still_joints_are_fixed_at_their_recorded_positions(arm, tmp_path, capsys):
    """Three joints move; the others stand still, away from zero."""
    recording = arm.recording(1, moving=[0, 1, 5], time=np.arange(0.0, 3.0, 0.01))
    recording["q"] = recording["q"] + np.where(
        np.isin(np.arange(6), [2, 3, 4]), [0, 0, 0.7, -0.4, 1.1, 0], 0.0
    )
    W = arm.linear.matrix(recording["q"], recording["qd"], recording["qdd"])
    run = write(tmp_path / "run.csv", recording | {"tau": W @ arm.linear.described})
    command = ["evaluate", URDF, str(run), "--compare", "--joints", f"{ONE},shoulder_lift_joint,{WRIST}"]
    assert main(command) == 0
    captured = capsys.readouterr()
    assert "fixed at their recorded position: elbow_joint at 0.7, wrist_1_joint at -0.4" in captured.err
    assert max(rmse(captured.out).values()) < 1e-9


def test_missing_positions_end_with_an_error(arm, recording, tmp_path, capsys):
    few = {key: rows[:50] for key, rows in recording.items()}
    run, other = write(tmp_path / "run.csv", few), tmp_path / "other.csv"
    forward = ["evaluate", URDF, str(run), "--output", str(tmp_path / "out.npz"), "--problem", "forward"]
    assert main([*forward, "--joints", ONE]) == 2
    assert "shoulder_lift_joint, elbow_joint" in capsys.readouterr().err
    header, _, rows = run.read_text().partition("\n")
    other.write_text(header.replace("elbow_joint", "another_joint") + "\n" + rows)
    assert main(["identify", URDF, str(run), str(other), "--joints", ONE, "-o", str(tmp_path / "out")]) == 3
    assert "other.csv has no positions of elbow_joint, which move" in capsys.readouterr().err


def test_the_input_is_not_replaced(recording, tmp_path, capsys):
    run = write(tmp_path / "run.csv", {key: rows[:50] for key, rows in recording.items()})
    before, link = run.read_bytes(), tmp_path / "link.csv"
    link.symlink_to(run)
    for output in (run, link):
        assert main(["evaluate", URDF, str(run), "--output", str(output)]) == 2
        assert "is an input" in capsys.readouterr().err
    assert run.read_bytes() == before
