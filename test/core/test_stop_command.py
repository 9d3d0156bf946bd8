"""dynamics stop and stopping-table: what they print and write is the result of the library."""

import json

import numpy as np
import pytest
import yaml
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


PLAN = {
    "joint_names": ["slide"],
    "points": [
        {"time_from_start": time, "positions": [q], "velocities": [v]}
        for time, q, v in ((0.0, -0.2, 0.0), (0.5, 0.0, 0.6), (1.0, 0.2, 0.0))
    ],
}


@pytest.fixture
def plan(tmp_path):
    path = tmp_path / "plan.yaml"
    path.write_text(yaml.safe_dump(PLAN))
    return str(path)


def test_a_stop_on_a_path(robot, plan, tmp_path, capsys):
    pytest.importorskip("toppra", reason="stops on a path: pip install toppra")
    out = tmp_path / "stop.yaml"
    arguments = ["--trajectory", plan, "--time", "0.5", "--q", "0,0.3", "--payload", "pole,0.2"]
    data = data_of(["stop", robot, *arguments, "--links", "cart", "-o", str(out)], capsys)
    loaded = dn.with_payload(dn.load_robot(robot), "pole", 0.2, [0, 0, 0])
    stop = dn.stop_on_path(loaded, PLAN, 0.5, q0=[0, 0.3], links=["cart"])
    assert np.isclose(data["time"], stop.time) and stop.time < 0.5
    assert data["limit"]["joint"] == stop.limit.joint
    assert data["links"]["cart"]["path"] == pytest.approx(stop.links["cart"].path)
    assert yaml.safe_load(out.read_text())["joint_names"] == ["slide"]
    assert main(["check", robot, str(out), "--payload", "pole,0.2", "--q0", "0,0.3"]) == 0


def test_a_stopping_table(robot, plan, tmp_path, capsys):
    options = ["--payload", "pole,0.2", "--qd", "0.2,0.3", "--positions", "20", "--seed", "3"]
    assert main(["stopping-table", robot, *options]) == 0
    out = capsys.readouterr()
    table = dn.stopping_table(
        dn.load_robot(robot), qd=[0.2, 0.3], positions=20, seed=3, payloads=[("pole", 0.2, [0, 0, 0])]
    )
    assert out.out.strip() == table.yaml().strip() and ("do not count" in out.err) == bool(table.excluded)
    written = tmp_path / "table.yaml"
    data = data_of(["stopping-table", robot, *options, "-o", str(written)], capsys)
    assert written.read_text() == table.yaml()
    assert [row["deceleration"] for row in data["joints"]] == [row.deceleration for row in table.rows]
    data = data_of(
        ["stopping-table", robot, "--trajectory", plan, "--qd", "0.2,0.3", "--positions", "5"], capsys
    )
    assert data["stops"] == 5 * 8 and all(-0.2 <= row["position"][0] <= 0.2 for row in data["joints"])


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        (["--qd", "1"], "--qd needs 2 numbers"),
        (["--payload", "nose,1"], "nose"),
        (["--payload", "pole"], "mass"),
    ],
)
def test_errors_of_the_table(robot, arguments, match, capsys):
    assert main(["stopping-table", robot, *arguments]) == 2
    assert match in capsys.readouterr().err


@pytest.mark.parametrize("text", ["-3", "0", "two"])
def test_the_number_of_positions(robot, plan, text, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["stopping-table", robot, "--trajectory", plan, "--positions", text])
    assert "--positions" in (said := capsys.readouterr().err) and "from 1 on" in said


@pytest.mark.parametrize(
    ("arguments", "code", "match"),
    [
        (["--qd", "1"], 2, "--qd needs 2 numbers"),
        (["--qd", "1,1", "--qdd", "1"], 2, "--qdd needs 2 numbers"),
        (["--qd", "1,1", "--q", "0"], 2, "--q needs 2 numbers"),
        (["--qd", "1,1", "--links", "nose"], 2, "nose"),
        (["--qd", "1,1", "--longest", "1000"], 3, "longest"),
        (["--qd", "50,0"], 1, "slide"),
        (["--qd", "1,1", "--time", "1"], 2, "--time belongs to --trajectory"),
        (["--trajectory", "no.yaml"], 2, "--trajectory needs --time"),
        (["--trajectory", "no.yaml", "--time", "1", "--qdd", "1,1"], 2, "--qdd belongs to --qd"),
        (["--trajectory", "no.yaml", "--time", "1"], 3, "no.yaml"),
    ],
)
def test_errors(robot, arguments, code, match, capsys):
    assert main(["stop", robot, *arguments]) == code
    assert match in capsys.readouterr().err
