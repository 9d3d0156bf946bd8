"""dynamics excitation: files, output and errors."""

import re

import numpy as np
import pytest
import yaml
from cart_pole import CART
from commands import exit_code
from two_links import ARM

import dynamics_node as dn
from dynamics_demo.robots import five_bar
from dynamics_node.cli import excitation, main

QUICK = ["--period", "5", "--harmonics", "2", "--restarts", "1"]


@pytest.fixture
def arm(tmp_path):
    path = tmp_path / "arm.urdf"
    path.write_text(ARM)
    return str(path)


def test_from_a_description_to_a_trajectory(arm, tmp_path, capsys):
    pytest.importorskip("matplotlib", reason="plots: pip install matplotlib")
    limits, out = tmp_path / "limits.yaml", tmp_path / "out"
    limits.write_text("joint_limits: {joint2: {max_velocity: 1.5}}")
    options = ["--acceleration", "4", "--rate", "50", "--factor", "0.8", "--limits", str(limits)]
    box = ["--box", "lower,-,0.9,-,-,-0.5,-,0.1,0,0"]
    assert main(["excitation", arm, "-o", str(out), *QUICK, *options, *box]) == 0
    captured = capsys.readouterr()
    message = yaml.safe_load((out / "trajectory.yaml").read_text())
    assert message["joint_names"] == ["joint1", "joint2"] and len(message["points"]) == 251
    kinds = ("positions", "velocities", "accelerations")
    q, qd, qdd = (np.array([point[kind] for point in message["points"]]) for kind in kinds)
    assert np.abs(qd[:, 1]).max() <= 0.8 * 1.5 and np.abs(qdd).max() <= 0.8 * 4 and np.ptp(q) > 0.5
    model = dn.load_robot(arm)
    R, p = dn.evaluate(model, "frame_pose", q, link="lower", backend="numpy")
    point = p + R @ [0.1, 0, 0]
    assert point[:, 0].max() <= 0.9 and point[:, 2].min() >= -0.5
    assert (out / "trajectory.png").read_bytes().startswith(b"\x89PNG")
    assert "joint2: no position limits, assuming a range of 6.283 rad" in captured.out
    search = r"12 base parameters: (\S+); the best of \d+ random motions has (\S+)"
    after, before = re.search(search, captured.out).groups()
    assert float(after) <= float(before)
    assert "of the 80 % available" in captured.out and "x of lower in its box:" in captured.out
    assert len(re.findall(r"^  (?:best |worst) +\S+  \w", captured.out, re.M)) == 10
    start = re.search(r"start and end, at rest: joint1 (\S+), joint2 (\S+)", captured.out).groups()
    assert np.allclose([float(value) for value in start], q[0], atol=1e-4)


def test_without_matplotlib(arm, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(excitation, "find_spec", lambda name: None)
    assert main(["excitation", arm, "-o", str(tmp_path / "out"), *QUICK, "--time-limit", "0"]) == 0
    assert "no plot: " in capsys.readouterr().err
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["trajectory.yaml"]


def test_invalid_input_ends_with_an_error(arm, tmp_path, capsys):
    loops, cart = tmp_path / "loops.urdf", tmp_path / "cart.urdf"
    loops.write_text(five_bar())
    cart.write_text(CART)
    limits = tmp_path / "limits.yaml"
    limits.write_text("{}")
    for urdf, arguments, message, code in (
        (loops, [], "closed loops", 1),
        (arm, ["--floating-base"], "floating base", 1),
        (arm, ["--box", "lower,0,1"], "--box lower needs 6 numbers", 2),
        (arm, ["--box", "lower,0,1,0,1,0,z"], "'z' is not a number", 2),
        (arm, ["--box", "hand,0,1,0,1,0,1"], "--box: unknown link 'hand'; the robot has: base", 2),
        (arm, ["--limits", str(limits)], "no mapping joint_limits", 3),
        (arm, ["--limits", str(tmp_path / "none.yaml")], "no such file", 3),
        (arm, ["--rate", "0"], "not a positive number", 2),
        (arm, ["--rate", "1e9"], "10000000000 points: at most 100000 are written, use a lower --rate", 2),
        (arm, ["--restarts", "0"], "restarts must be at least 1", 2),
        (arm, ["--q0", "0"], "q0 needs 2 numbers", 2),
        (cart, ["--box", "cart,5,6,-,-,-,-", *QUICK], "x of cart comes to", 1),
    ):
        assert exit_code(["excitation", urdf, "-o", tmp_path / "out", *arguments]) == code
        assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
