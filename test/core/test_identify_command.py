"""dynamics identify, and new numbers in a description."""

import contextlib
import os
import pty
import re
import subprocess
import sys

import numpy as np
import pytest
import yaml
from commands import exit_code
from identified import TIME, Truth, damaged
from robots import ROBOTS
from state_tables import columns_of, save_columns

import dynamics_node as dn
from dynamics_node.algorithms import smooth_friction
from dynamics_node.cli import main
from dynamics_node.errors import ModelError
from dynamics_node.identification import RegressorModel, identified_text
from dynamics_node.robot.subtree import central_moments
from dynamics_node.robot.urdf_numbers import Dynamics, Inertial, with_numbers

TEXT = """<?xml version="1.0"?>
<robot name="arm"> <!-- a comment with <link name="l1"> in it -->
  <link name="base"/>
  <link name="l1"><inertial><origin xyz="0 0 1" rpy="0.3 0.2 0.1"/> <mass value = '2.0'/>
      <inertia ixx="1" ixy="0" ixz="0" iyy="1.5" iyz="0" izz="2"/></inertial></link>
  <link name="l2"><inertial><mass value="1"/><inertia iyy="1" ixx="1" izz="1" ixy="0" ixz="0" iyz="0"/>
    </inertial></link>
  <joint name="j1" type="revolute"><parent link="base"/><child link="l1"/><axis xyz="0 0 1"/>
    <dynamics damping="0" friction="0.1"/><limit lower="-1" upper="1" effort="9" velocity="9"/></joint>
  <joint name="j2" type="revolute"><parent link="l1"/><child link="l2"/><axis xyz="0 0 1"/>
    <limit lower="-1" upper="1" effort="9" velocity="9"/></joint>
</robot>
"""
NUMBER = r"-?\d[-+0-9.e]*"


def masked(text):
    """The text without numeric values of attributes."""
    return re.sub(r"([\"'])(?:%s\s*)+\1" % NUMBER, "#", text)  # noqa: UP031


def some_inertial():
    A = np.random.default_rng(0).normal(size=(3, 3))
    return Inertial(np.trace(A @ A.T) * np.eye(3) - A @ A.T, 3.0, np.array([0.1, -0.2, 0.3]))


def test_new_numbers_in_the_same_text():
    inertial = some_inertial()
    text = with_numbers(TEXT, {"l1": inertial}, {"j1": Dynamics(0.5, 0.25)})
    assert masked(text) == masked(TEXT) != text
    model = dn.parse_robot(text)
    inertia = model.frames["l1"].inertia
    assert np.allclose(central_moments(inertia), inertial.inertia, atol=1e-7) and inertia[5, 5] == 3.0
    assert np.allclose(inertia[3:, :3] @ np.ones(3), 3.0 * np.cross(inertial.com, np.ones(3)) * -1, atol=1e-7)
    assert model.damping[0] == 0.5 and model.friction[0] == 0.25


def test_missing_elements_are_added_or_raise():
    inertial = some_inertial()
    text = with_numbers(TEXT.encode(), {"l2": inertial}, {"j2": Dynamics(0.5, 0.25)})
    assert '<inertial><origin xyz="0.1 -0.2 0.3" rpy="0 0 0"/><mass value="3"/>' in text
    assert '<joint name="j2" type="revolute"><dynamics damping="0.5" friction="0.25"/>' in text
    assert np.allclose(
        central_moments(dn.parse_robot(text).frames["l2"].inertia), inertial.inertia, atol=1e-7
    )
    for wrong, message in (
        ({"base": inertial}, "'base'.*<inertial>"),
        ({"l9": inertial}, "link 'l9'"),
    ):
        with pytest.raises(ModelError, match=message):
            with_numbers(TEXT, wrong)
    with pytest.raises(ModelError, match="joint 'j9'"):
        with_numbers(TEXT, {}, {"j9": Dynamics(0, 0)})
    with pytest.raises(ModelError, match="DTD or an entity"):
        with_numbers('<!DOCTYPE r [<!ENTITY a "b">]><robot name="&a;"/>', {})
    with pytest.raises(ModelError, match="malformed XML"):
        with_numbers("<robot>", {})


@pytest.mark.parametrize("name", ["panda7", "tiago"])
def test_inertias_of_links_that_are_fixed_to_each_other(name):
    """A hand on the last link keeps its inertia, or a share if the identified body is lighter than the hand."""
    robot = ROBOTS[name]
    linear = RegressorModel(robot.model(), ("inertia",), "numpy")
    for factor in (0.9, 0.05):
        text = identified_text(robot.file.read_text(), linear, factor * linear.described)
        parsed = dn.parse_robot(text, joints=robot.joints)
        assert np.allclose(parsed.inertias, factor * linear.robot.inertias, atol=1e-6)
        assert masked(text) == masked(robot.file.read_text())


def test_links_without_mass_get_one():
    inertial = (
        '<inertial><mass value="0"/><inertia ixx="0" ixy="0" ixz="0" iyy="0" iyz="0" izz="0"/></inertial>'
    )
    text = re.sub(r'(<link name="l1">)<inertial>.*?</inertial>', rf"\1{inertial}", TEXT, flags=re.S)
    linear = RegressorModel(dn.parse_robot(text), ("inertia",), "numpy")
    p = linear.described.copy()
    p[linear.places("inertia")][:10] = [2.0, 0.1, 0, 0, 0.2, 0, 0.3, 0, 0, 0.3]
    parsed = dn.parse_robot(identified_text(text, linear, p))
    assert np.allclose(RegressorModel(parsed, ("inertia",), "numpy").described, p)


def write(path, recording, model):
    """Positions, efforts and time as .csv; accelerations follow by differentiation."""
    arrays = {kind: recording[kind] for kind in ("time", "q", "tau")}
    return str(save_columns(path, columns_of(arrays, model.v_names)))


def test_from_files_to_a_description(tmp_path, capsys):
    arm, robot = Truth(ROBOTS["ur5"].model()), ROBOTS["ur5"]
    files = [write(tmp_path / f"{k}.csv", arm.recording(k), arm.robot) for k in (1, 2)]
    out = tmp_path / "out"
    assert main(["identify", str(robot.file), *files, "-o", str(out)]) == 0
    captured = capsys.readouterr()
    assert "judge: better than the description" in captured.out and "54 base parameters of 78" in captured.out
    assert "are derivatives of the recorded positions below 10 Hz" in captured.err
    assert "least squares below 10 Hz:" in captured.out
    identified = dn.load_robot(out / "robot.urdf")
    unseen = arm.recording(9, noise=0.0)
    tau = dn.build(identified, dn.inverse_dynamics(identified), backend="numpy")(
        unseen["q"], unseen["qd"], unseen["qdd"]
    )
    report = yaml.safe_load((out / "report.yaml").read_text())
    offsets = np.array([report["parameters"][f"{name}.offset"] for name in identified.joint_names])
    residual = (
        unseen["tau"] - tau - smooth_friction(unseen["qd"], identified.damping, identified.friction) - offsets
    )
    assert np.sqrt(np.mean(residual**2, axis=0)).max() <= 0.1
    assert len(report["base_parameters"]) == 54 and report["warnings"] == []
    assert report["states"] == 2 * (len(TIME) - 30)  # the ends have no derivatives
    assert main(["identify", str(robot.file), *files, "-o", str(out), "--unfiltered"]) == 0
    assert "least squares: " in capsys.readouterr().out


def test_evaluate_and_identify_agree_on_the_description(tmp_path, capsys):
    """Both use one filter; noise above the cut-off is in neither."""
    arm, urdf = Truth(ROBOTS["ur5"].model()), str(ROBOTS["ur5"].file)
    run = write(tmp_path / "run.csv", arm.recording(1, noise=2.0), arm.robot)
    assert main(["identify", urdf, run, "-o", str(tmp_path / "out")]) == 0
    rms = yaml.safe_load((tmp_path / "out" / "report.yaml").read_text())["rms"]
    compare = ["evaluate", urdf, run, "--differentiate", "--compare", "--plot", str(tmp_path / "a.svg")]
    rmse = {}
    for options in ([], ["--unfiltered"]):
        capsys.readouterr()
        assert main([*compare, *options]) == 0
        output = capsys.readouterr().out
        assert ("both below 10 Hz" in output) == (not options)
        rows = [line.split() for line in output.splitlines() if " N m " in line]
        rmse[bool(options)] = {row[0]: float(row[4]) for row in rows}
    assert rmse[False] == pytest.approx({name: row["described"] for name, row in rms.items()}, rel=1e-3)
    last = list(rms)[-1]  # whose torque is mostly noise
    assert rmse[True][last] ** 2 > rmse[False][last] ** 2 + 2.0


def test_invalid_input_ends_with_an_error(tmp_path, capsys):
    arm, urdf = Truth(ROBOTS["ur5"].model()), str(ROBOTS["ur5"].file)
    still = write(tmp_path / "still.csv", arm.recording(1, moving=[], time=TIME[:300]), arm.robot)
    broken = write(
        tmp_path / "broken.csv", damaged(arm.recording(1), "tau", lambda rows: rows.fill(np.nan)), arm.robot
    )
    out = ["-o", str(tmp_path / "out")]
    for arguments, message, code in (
        ([still], "combinations of parameters", 1), ([broken], "no row is usable", 1),
        ([still, "--prior-std", "0"], "not a positive number", 2), ([tmp_path / "none.csv"], "no such file", 3),
    ):  # fmt: skip
        assert exit_code(["identify", urdf, *arguments, *out]) == code
        assert message in capsys.readouterr().err
    latin = tmp_path / "latin.urdf"
    text = ROBOTS["ur5"].file.read_text().partition("?>")[2]
    latin.write_bytes(f'<?xml version="1.0" encoding="latin-1"?><!-- \u00e9 -->{text}'.encode("latin-1"))
    assert exit_code(["identify", latin, still, *out]) == 3
    assert "latin.urdf is not UTF-8" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_bars_on_a_terminal(tmp_path):
    """Bars of every stage are on stderr, and not in a pipe."""
    pytest.importorskip("rich", reason="bars: pip install rich")
    arm = Truth(ROBOTS["ur5"].model())
    np.savez(tmp_path / "run.npz", **arm.recording(1))
    words = [str(ROBOTS["ur5"].file), str(tmp_path / "run.npz"), "-o", str(tmp_path / "out")]
    command = [sys.executable, "-m", "dynamics_node.cli", "identify", *words]
    master, slave = pty.openpty()
    with (tmp_path / "output").open("w+") as output:
        process = subprocess.Popen(command, stdout=output, stderr=slave)
        os.close(slave)
        terminal = b""
        with contextlib.suppress(OSError):  # the end of a terminal
            while part := os.read(master, 65536):
                terminal += part
        os.close(master)
        assert process.wait(60) == 0
        output.seek(0)
        text = output.read()
    for stage in ("read and check", "base parameters", "sums of squares", "bodies", "judge"):
        assert stage.encode() in terminal and f"{stage} \u2501" not in text
    assert "100%" in terminal.decode(errors="replace") and "better than the description" in text
