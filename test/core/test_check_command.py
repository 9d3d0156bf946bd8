"""dynamics check: exit codes, JSON, the written trajectory, page and plot."""

import json

import numpy as np
import pytest
import yaml
from cart_pole import CART

import dynamics_node as dn
from dynamics_node.cli import main


@pytest.fixture
def robot(tmp_path):
    path = tmp_path / "cart_pole.urdf"
    path.write_text(CART)
    return str(path)


def trajectory(tmp_path, end=0.3, seconds=0.5, joint="slide"):
    still = {"velocities": [0.0], "accelerations": [0.0]}
    points = [
        {"positions": [0.0], **still, "time_from_start": {"sec": 0, "nanosec": 0}},
        {"positions": [end], **still, "time_from_start": {"sec": 0, "nanosec": round(seconds * 1e9)}},
    ]
    path = tmp_path / "trajectory.yaml"
    path.write_text(json.dumps({"joint_names": [joint], "points": points}))
    return str(path)


def data_of(arguments, capsys, code=0):
    assert main([*arguments, "--json"]) == code
    return json.loads(capsys.readouterr().out)


def test_a_feasible_trajectory(robot, tmp_path, capsys):
    path, out = trajectory(tmp_path), tmp_path / "out.yaml"
    data = data_of(["check", robot, path, "-o", str(out), "--largest-payload", "cart"], capsys)
    check = dn.check_trajectory(dn.load_robot(robot), yaml.safe_load(out.read_text()))
    assert data["feasible"] and data["slowdown"] == 1.0 and not data["at_rest"]
    assert data["worst"]["joint"] == check.worst.joint and np.isclose(data["worst"]["used"], check.worst.used)
    assert np.isclose(data["largest_payload"]["cart"], check.largest_payload("cart"))
    assert [own["name"] for own in data["joints"]] == ["slide", "hinge"]
    points = yaml.safe_load(out.read_text())["points"]
    assert np.allclose([point["effort"] for point in points], check.efforts[:, :1], atol=1e-6)
    assert main(["check", robot, path]) == 0
    assert "feasible: 2 points of 0.5 s" in capsys.readouterr().out


def test_an_infeasible_trajectory_is_slowed_down(robot, tmp_path, capsys):
    path, out = trajectory(tmp_path, seconds=0.2), tmp_path / "slow.yaml"
    data = data_of(["check", robot, path], capsys, code=1)
    assert not data["feasible"] and data["slowdown"] > 1 and data["largest_payload"] == {}
    slowed = data_of(["check", robot, path, "--slow-down", "-o", str(out)], capsys)
    assert slowed["feasible"] and np.isclose(slowed["slowed"], data["slowdown"], rtol=0.02)
    assert data_of(["check", robot, str(out)], capsys)["feasible"]
    assert main(["check", robot, path]) == 1
    assert "times slower" in capsys.readouterr().out


def test_infeasible_even_at_rest(robot, tmp_path, capsys):
    path = trajectory(tmp_path, joint="hinge", end=1.5, seconds=3.0)
    data = data_of(["check", robot, path, "--payload", "pole,3,0,0,0.4", "--slow-down"], capsys, code=1)
    assert data["at_rest"] and data["slowdown"] is None and "slowed" not in data
    assert main(["check", robot, path, "--payload", "pole,3,0,0,0.4"]) == 1
    assert "even at rest: effort of hinge" in capsys.readouterr().out
    assert data_of(["check", robot, path], capsys)["feasible"]


def test_friction_and_limits(robot, tmp_path, capsys):
    path, limits = trajectory(tmp_path, seconds=2.0), tmp_path / "joint_limits.yaml"
    limits.write_text("joint_limits:\n  slide: {max_effort: 2.0, max_acceleration: 9.0}\n")
    arguments = ["check", robot, path, "--limits", str(limits)]
    assert data_of(arguments, capsys, code=1)["worst"]["quantity"] == "effort"  # 2 N of dry friction
    data = data_of([*arguments, "--no-friction"], capsys)
    assert {own["quantity"] for own in data["margins"]} == {"position", "velocity", "acceleration", "effort"}


def test_limits_of_motors(robot, tmp_path, capsys):
    """The window is that of the option, also for time-optimal times."""
    path, limits = trajectory(tmp_path, seconds=2.0), tmp_path / "joint_limits.yaml"
    limits.write_text(
        "joint_limits:\n  slide: {min_effort: -9, max_effort_at_velocity: [[0, 20], [1.5, 0]]}\n"
        "  hinge: {max_continuous_effort: 0.7}\n"
    )
    arguments = ["check", robot, path, "--limits", str(limits), "--thermal-window", "0.5"]
    data = data_of(arguments, capsys)
    used = {(own["joint"], own["quantity"]): own for own in data["margins"]}
    hinge = next(own for own in data["joints"] if own["name"] == "hinge")
    assert used["hinge", "continuous_effort"]["value"] == pytest.approx(hinge["thermal_effort"])
    slide = used["slide", "effort"]
    assert 15 < slide["limit"] < 20 and slide["value"] / 20 < slide["used"] < 1
    assert main([*arguments, "--page", str(tmp_path / "a.html")]) == 0
    assert "continuous_effort" in capsys.readouterr().out
    limits.write_text("joint_limits:\n  slide: {max_effort_at_velocity: [[0, 20]]}\n")
    assert main(arguments) == 3
    assert f"{limits}: max_effort_at_velocity of slide" in capsys.readouterr().err


def test_tables(robot, tmp_path, capsys):
    motion = dn.simulate(dn.load_robot(robot), [0.0, 0.1], duration=0.2, dt=1e-3, torque=[3.0, 0.5])
    np.savez(tmp_path / "motion.npz", time=motion.time, q=motion.q, qd=motion.qd, qdd=motion.qdd)
    data = data_of(["check", robot, str(tmp_path / "motion.npz")], capsys)
    assert data["samples"] >= 401 and np.isclose(data["joints"][0]["peak_effort"], 3.0, rtol=0.1)


def test_page_and_plot(tmp_path, capsys):
    pytest.importorskip("matplotlib", reason="plots: pip install matplotlib")
    path = tmp_path / "evil.urdf"
    path.write_text(CART.replace('"slide"', '"&lt;b&gt;slide"'))
    points, page = trajectory(tmp_path, joint="<b>slide", seconds=0.2), tmp_path / "a.html"
    plot = tmp_path / "a.svg"
    written = ["--page", str(page), "--plot", str(plot), "--largest-payload", "cart"]
    assert data_of(["check", str(path), points, *written], capsys, code=1)["written"] == [
        str(plot),
        str(page),
    ]
    text = page.read_text()
    assert "<b>slide" not in text
    assert all(words in text for words in ("&lt;b&gt;slide", "times slower", "</html>"))
    assert plot.stat().st_size > 1000


@pytest.mark.parametrize(
    ("options", "code", "match"),
    [
        (["--q0", "0"], 2, "--q0 needs 2"),
        (["--payload", "cart"], 2, "--payload"),
        (["--payload", "tool,1"], 2, "tool"),
        (["--payload", "cart,heavy"], 2, "heavy"),
        (["--payload", "cart,-1"], 2, "cart"),
        (["--payload", "cart,1,2"], 2, "3 numbers"),
        (["--largest-payload", "cart,0,0,up"], 2, "up"),
        (["--limits", "missing.yaml"], 3, "missing.yaml"),
    ],
)  # fmt: skip
def test_wrong_options(robot, tmp_path, capsys, options, code, match):
    assert main(["check", robot, trajectory(tmp_path), *options]) == code
    assert match in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("[]", "joint_names"),
        ("joint_names: [knee]\npoints: [{positions: [0], time_from_start: 0}]", "knee"),
        ("joint_names: [slide]\npoints: [{positions: [x], time_from_start: 0}]", "point 0"),
        ("joint_names: [slide", "YAML"),
    ],
)
def test_unreadable_trajectories(robot, tmp_path, capsys, text, match):
    path = tmp_path / "wrong.yaml"
    path.write_text(text)
    assert main(["check", robot, str(path)]) == 3
    assert match in capsys.readouterr().err
    assert main(["check", robot, str(tmp_path / "missing.yaml")]) == 3
    assert "missing.yaml" in capsys.readouterr().err


def test_time_optimal(robot, tmp_path, capsys):
    pytest.importorskip("toppra", reason="time-optimal trajectories: pip install toppra")
    out = tmp_path / "fast.yaml"
    data = data_of(
        ["check", robot, trajectory(tmp_path, seconds=4.0), "--time-optimal", "-o", str(out)], capsys
    )
    assert data["feasible"] and data["slowed"] < 0.5 and data["worst"]["used"] > 0.9
    assert data_of(["check", robot, str(out)], capsys)["feasible"]


def test_a_limit_of_effort_rates(robot, tmp_path, capsys):
    path, limits = trajectory(tmp_path, seconds=2.0), tmp_path / "joint_limits.yaml"
    limits.write_text("joint_limits:\n  hinge: {max_effort_rate: 50.0}\n")
    options = ["--limits", str(limits), "--max-effort-rate", "20"]
    data = data_of(["check", robot, path, *options], capsys)
    rates = {own["joint"]: own["limit"] for own in data["margins"] if own["quantity"] == "effort_rate"}
    assert {name: abs(limit) for name, limit in rates.items()} == {"slide": 20.0, "hinge": 20.0}
    assert data_of(["check", robot, path, *options[:2]], capsys)["margins"][0]["quantity"] != "effort_rate"
    pytest.importorskip("toppra", reason="time-optimal trajectories: pip install toppra")
    data = data_of(["check", robot, path, *options, "--time-optimal"], capsys)
    assert data["feasible"] and data["slowed"] < 1
