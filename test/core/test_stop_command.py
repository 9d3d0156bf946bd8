"""dynamics stop: what it prints and writes is the result of stopping_trajectory."""

import json

import numpy as np
import pytest
from cart_pole import CART

import dynamics_node as dn
from dynamics_node.cli import main

STATE = ["--q", "0,0.3", "--qd", "0.4,-1"]


@pytest.fixture
def robot(tmp_path):
    path = tmp_path / "cart.urdf"
    path.write_text(CART)
    return str(path)


def data_of(arguments, capsys):
    assert main([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_the_result_is_that_of_the_library(robot, tmp_path, capsys):
    out = tmp_path / "stop.yaml"
    payload = ["--payload", "pole,0.2", "--links", "pole,cart"]
    data = data_of(["stop", robot, *STATE, *payload, "-o", str(out)], capsys)
    loaded = dn.with_payload(dn.load_robot(robot), "pole", 0.2, [0, 0, 0])
    stop = dn.stopping_trajectory(loaded, [0, 0.3], [0.4, -1], links=["pole", "cart"])
    assert np.isclose(data["time"], stop.time)
    assert (data["limit"]["joint"], data["limit"]["quantity"]) == (stop.limit.joint, stop.limit.quantity)
    assert {row["name"]: row["distance"] for row in data["joints"]} == pytest.approx(stop.distance)
    assert data["links"]["pole"]["path"] == pytest.approx(stop.links["pole"].path)
    assert main(["check", robot, str(out), "--payload", "pole,0.2"]) == 0


def test_limits_and_the_printed_lines(robot, tmp_path, capsys):
    limits = tmp_path / "limits.yaml"
    limits.write_text("joint_limits: {slide: {max_acceleration: 0.5}, hinge: {max_jerk: 1000}}")
    assert main(["stop", robot, *STATE, "--limits", str(limits)]) == 0
    text = capsys.readouterr().out
    assert "acceleration of slide" in text and "prevents a shorter stop" in text and "distance" in text


@pytest.mark.parametrize(
    ("arguments", "code", "match"),
    [
        (["--qd", "1"], 2, "--qd needs 2 numbers"),
        (["--qd", "1,1", "--qdd", "1"], 2, "--qdd needs 2 numbers"),
        (["--qd", "1,1", "--q", "0"], 2, "--q needs 2 numbers"),
        (["--qd", "1,1", "--links", "nose"], 2, "nose"),
        (["--qd", "1,1", "--longest", "1000"], 3, "longest"),
        (["--qd", "50,0"], 1, "slide"),
    ],
)
def test_errors(robot, arguments, code, match, capsys):
    assert main(["stop", robot, *arguments]) == code
    assert match in capsys.readouterr().err
