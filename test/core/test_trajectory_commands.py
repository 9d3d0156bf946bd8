"""dynamics simulate, inverse-trajectory, smooth: their output can be read again, and errors are one line."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from bags import write_bag
from robots import ROBOTS
from state_tables import columns_of, save_columns

import dynamics_node as dn
from dynamics_demo.robots import UPRIGHT, five_bar
from dynamics_node.cli import main

EXAMPLES = Path(__file__).parents[2] / "examples"
SENSORS = "sensors: [{type: gyro, link: link2, name: tip, std: 0.01}]"


@pytest.fixture
def pendulum():
    return str(ROBOTS["double_pendulum"].file)


@pytest.fixture
def linkage(tmp_path):
    path = tmp_path / "five_bar.urdf"
    path.write_text(five_bar(UPRIGHT))
    return str(path)


def columns(path):
    """{name: (rows,)} of a .csv file."""
    names = [name.strip('"') for name in path.read_text().partition("\n")[0].split(",")]
    return dict(zip(names, np.genfromtxt(path, delimiter=",", skip_header=1).T, strict=True))


def test_simulate_writes_what_evaluate_reads(pendulum, tmp_path, capsys):
    pytest.importorskip("viser", reason="pages that play a motion: pip install viser")
    out, page = tmp_path / "motion.npz", tmp_path / "motion.html"
    arguments = ["--q0", "0.3,0.3", "--torque", "0.01,0", "--duration", "0.5", "--output", str(out)]
    assert main(["simulate", pendulum, *arguments, "--animate", str(page)]) == 0
    output = capsys.readouterr().out
    assert "501 states of 0.5 s" in output and "dynamics" in output and f"written: {page}" in output
    table = np.load(out)
    assert set(table.files) == {"q", "qd", "qdd", "tau", "time"}
    expected = dn.simulate(dn.load_robot(pendulum), [0.3, 0.3], duration=0.5, torque=[0.01, 0.0])
    assert np.array_equal(table["q"], expected.q) and np.array_equal(table["time"], expected.time)
    assert main(["evaluate", pendulum, str(out), "--compare", "--friction"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines() if line.startswith("joint")]
    assert max(float(row[4]) for row in rows[1:]) <= 1e-9  # RMSE of torques
    assert "</html>" in page.read_text()


def test_inverse_trajectory_can_be_simulated(linkage, tmp_path):
    """The curve has only the driven joints; simulate reads torques from the table of inverse-trajectory."""
    pytest.importorskip("pyarrow", reason="tables: pip install pyarrow")
    time = np.linspace(0, 0.5, 501)
    curve = np.stack([-1.2 - 0.3 * np.sin(3 * time) ** 2, -1.9 + 0.2 * np.sin(2 * time) ** 2], axis=1)
    np.savez(tmp_path / "curve.npz", time=time, q=curve)
    out = tmp_path / "torques.csv"
    assert main(["inverse-trajectory", linkage, str(tmp_path / "curve.npz"), "--output", str(out)]) == 0
    table = columns(out)
    assert np.abs(table["q.j1"] - curve[:, 0]).max() <= 1e-5
    again = tmp_path / "again.csv"
    start = ",".join(str(table[f"q.{name}"][0]) for name in ("j1", "j3", "j2", "j4"))
    arguments = ["--q0", start, "--duration", "0.5", "--torques", str(out), "--output", str(again)]
    assert main(["simulate", linkage, *arguments]) == 0
    assert np.abs(columns(again)["q.j2"] - curve[:, 1]).max() <= 1e-5


def test_linkage_by_numpy_with_a_plot(linkage, tmp_path, capsys):
    pytest.importorskip("matplotlib", reason="plots: pip install matplotlib")
    out, plot, other = tmp_path / "x.npz", tmp_path / "x.png", tmp_path / "y.npz"
    arguments = ["--q0", "-1.2,0,-1.9,0", "--duration", "0.02"]
    written = ["--output", str(out), "--plot", str(plot), "--show", "j1"]
    assert main(["simulate", linkage, *arguments, *written]) == 0
    assert "position constraint" in capsys.readouterr().out and plot.stat().st_size > 1000
    assert main(["simulate", linkage, *arguments, "--output", str(other), "--backend", "numpy"]) == 0
    assert np.abs(np.load(out)["q"] - np.load(other)["q"]).max() <= 1e-9


@pytest.mark.parametrize("suffix", [".npz", ".csv"])
def test_smooth_reads_joints_and_sensors(pendulum, tmp_path, suffix, capsys):
    pytest.importorskip("pyarrow", reason="tables: pip install pyarrow")
    model = dn.load_robot(pendulum)
    truth = dn.simulate(model, [0.3, 0.3], duration=0.4, dt=2e-3, friction=False)
    q = truth.q + 1e-4 * np.random.default_rng(1).normal(size=truth.q.shape)
    options = {"link": "link2", "reference": "body", "backend": "numpy"}
    J = dn.evaluate(model, "frame_jacobian", truth.q, **options)[:, :3]
    gyro = np.einsum("kij,kj->ki", J, truth.qd)
    source, out = tmp_path / f"in{suffix}", tmp_path / "out.npz"
    time = 1.7e9 + truth.time
    time[10] = time[9]  # a repeated stamp: the second row is skipped
    if suffix == ".npz":
        np.savez(source, time=time, q=q, tau=truth.tau, tip=gyro)
    else:
        columns = columns_of({"time": time, "q": q, "tau": truth.tau}, model.v_names)
        columns |= {f"tip.w{axis}": gyro[:, k] for k, axis in enumerate("xyz")}
        save_columns(source, columns)
    (tmp_path / "sensors.yaml").write_text(SENSORS)
    arguments = [str(source), "--sensors", str(tmp_path / "sensors.yaml"), "--jerk-density", "1e6"]
    assert main(["smooth", pendulum, *arguments, "--output", str(out)]) == 0
    output = capsys.readouterr().out
    assert "200 states" in output and "  tip " in output
    table, kept = np.load(out), np.arange(201) != 10
    kinds = {"q", "qd", "external_torque"}
    assert set(table.files) >= {"time", "qdd", "tau", *kinds, *(f"{kind}_std" for kind in kinds)}
    assert np.abs(table["q"] - truth.q[kept]).max() <= 5e-4 and (table["qd_std"] > 0).all()
    alone = tmp_path / "alone.npz"
    assert main(["smooth", pendulum, *arguments, "--output", str(alone), "--lag-steps", "5"]) == 0
    assert (table["qd_std"][20:-20] < np.load(alone)["qd_std"][20:-20]).all()


def test_smooth_of_a_bag(pendulum, tmp_path, capsys):
    """JointStates with other joint names; efforts are motor torques."""
    model = dn.load_robot(pendulum)
    truth = dn.simulate(model, [0.3, 0.3], duration=0.2, dt=2e-3, friction=False)
    rows = zip(truth.q, truth.qd, truth.tau, strict=True)
    write_bag(
        tmp_path / "bag", [("/joint_states", ["a1", "a2"], *row) for row in rows], 10**9 + 1e9 * truth.time
    )
    out = tmp_path / "out.npz"
    arguments = [str(tmp_path / "bag"), "--joints-map", "a*=joint*", "--jerk-density", "1e6"]
    assert main(["smooth", pendulum, *arguments, "--output", str(out)]) == 0
    table = np.load(out)
    assert np.abs(table["q"] - truth.q).max() <= 1e-5 and table["time"][0] == 1.0
    assert main(["inverse-trajectory", pendulum, str(tmp_path / "bag"), "--joints-map", "a*=joint*"]) == 0


def test_states_before_an_error_are_written(linkage, tmp_path, capsys):
    out = tmp_path / "kept.npz"
    assert main(["simulate", linkage, "--q0", "1.9,1.2", "--output", str(out)]) == 1
    error = capsys.readouterr().err.splitlines()
    assert error[0].endswith("states before the error are written") and "singular position" in error[1]
    assert 200 < len(np.load(out)["time"]) < 400


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["simulate", "PENDULUM", "--q0", "1"], "--q0 needs 2 numbers, not 1: joint1, joint2"),
        (["simulate", "PENDULUM", "--torque", "1"], "--torque needs 2 numbers, not 1: joint1, joint2"),
        (["simulate", "PENDULUM", "--show", "knee"], "--show: unknown coordinate 'knee'; there are joint1"),
        (["simulate", "PENDULUM", "--duration", "1e9"], "--duration and --dt are 1e+12 steps: at most 1000"),
        (["simulate", "PENDULUM", "--dt", "1e-12", "--torques", "x"], "--duration and --dt are 1e+12 steps"),
        (["simulate", "PENDULUM", "--torques", "/nowhere.npz"], "/nowhere.npz: no such file"),
        (["simulate", "nowhere_bar"], "nowhere_bar: no such file"),
        (["inverse-trajectory", "PENDULUM", "/nowhere.npz"], "/nowhere.npz: no such file"),
        (["smooth", "PENDULUM", "/nowhere.csv"], "/nowhere.csv: no such file"),
    ],
)
def test_errors_are_one_line(arguments, words, capsys, pendulum, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main([pendulum if a == "PENDULUM" else a for a in arguments]) == (2 if "--" in words else 3)
    *warnings, error = capsys.readouterr().err.splitlines()
    assert error.startswith("dynamics: ") and words in error and len(warnings) <= 1
    assert all(line.startswith("dynamics: warning: 2dof_planar: ") for line in warnings)


def test_memory_that_is_not_there_is_one_line(pendulum, capsys, monkeypatch):
    def allocate(*given, **more):
        raise MemoryError("Unable to allocate 7 TiB")

    monkeypatch.setattr("dynamics_node.cli.motions.finish", allocate)
    assert main(["simulate", pendulum]) == 3
    assert capsys.readouterr().err.splitlines()[-1] == "dynamics: not enough memory: Unable to allocate 7 TiB"


def test_lag_is_at_most_the_motion(pendulum, tmp_path):
    """A lag of more steps than there are allocates no memory for them."""
    outs = [tmp_path / "a.npz", tmp_path / "b.npz"]
    for out, lag in zip(outs, ("11", "1000000000000"), strict=True):
        arguments = ["--duration", "0.01", "--lag-steps", lag, "--backend", "numpy"]
        assert main(["simulate", pendulum, *arguments, "-o", str(out)]) == 0
        assert main(["smooth", pendulum, str(out), *arguments[2:], "-o", str(out.with_suffix(".s.npz"))]) == 0
    for suffix in (".npz", ".s.npz"):
        one, other = (np.load(out.with_suffix(suffix)) for out in outs)
        assert all(np.array_equal(one[kind], other[kind]) for kind in one.files)


def test_missing_columns_are_named(pendulum, tmp_path, capsys):
    path = tmp_path / "x.npz"
    np.savez(path, q=np.zeros((5, 2)))
    assert main(["inverse-trajectory", pendulum, str(path)]) == 3
    assert "x.npz has no time; there are q" in capsys.readouterr().err
    np.savez(path, q=np.zeros((5, 3)), time=np.arange(5.0))
    assert main(["smooth", pendulum, str(path)]) == 3
    assert "q must have shape (5, 2), not (5, 3): q.joint1, q.joint2" in capsys.readouterr().err


def test_missing_readings_of_a_sensor_are_named(pendulum, tmp_path, capsys):
    path = tmp_path / "x.npz"
    np.savez(path, q=np.zeros((5, 2)), time=np.arange(5.0))
    (tmp_path / "sensors.yaml").write_text(SENSORS)
    assert main(["smooth", pendulum, str(path), "--sensors", str(tmp_path / "sensors.yaml")]) == 3
    assert "x.npz has no readings of sensor 'tip': columns tip.wx, tip.wy, tip.wz" in capsys.readouterr().err


def test_example_runs():
    command = [sys.executable, EXAMPLES / "trajectories.py"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, cwd="/tmp")
    assert done.returncode == 0, done.stderr
    assert "external torque: " in done.stdout
