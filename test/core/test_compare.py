"""Measured against computed torques: a recording with Pinocchio's torques and known errors."""

import subprocess
import sys
import tracemalloc
from types import SimpleNamespace

import numpy as np
import pytest
from bags import write_bag
from commands import exit_code
from oracle import Oracle
from robots import PANDA, PANDA_JOINTS, ROBOTS, data_folder

from dynamics_node.errors import TableError
from dynamics_node.io import Comparison, check_plot, plot_comparison
from dynamics_node.io.evaluate_tables import MOST
from dynamics_node.robot import Joint

RATE = 250.0
NOISE = np.array([0.3, 0.3, 0.2, 0.2, 0.1, 0.1, 0.05])  # N m
BIAS = np.array([0.5, 0, 0, -0.4, 0, 0, 0.02])
RECORDED_NAMES = tuple(name.replace("panda", "fer") for name in PANDA_JOINTS)


@pytest.fixture(scope="module")
def motion():
    """time, q, qd, and the torques of a sum of sines up to 1 Hz, 5 s."""
    model, random = ROBOTS["panda7"].model(), np.random.default_rng(5)
    time = np.arange(0, 5, 1 / RATE)
    w, phase, size = (random.uniform(*limits, (3, 7)) for limits in ((1, 6), (0, 6), (0.1, 0.4)))
    x = w * time[:, None, None] + phase
    q = np.array([0, -0.5, 0, -2, 0, 1.8, 0.7]) + (size * np.sin(x)).sum(axis=1)
    qd, qdd = (size * w * np.cos(x)).sum(axis=1), (-size * w**2 * np.sin(x)).sum(axis=1)
    oracle = Oracle(ROBOTS["panda7"], model)
    tau = np.array([oracle.inverse(*row) for row in zip(q, qd, qdd, strict=True)])
    return time, q, qd, tau


@pytest.fixture(scope="module")
def recording(motion, tmp_path_factory):
    """A bag with joint names of another manufacturer and noisy torques."""
    time, q, qd, tau = motion
    noise = NOISE * np.random.default_rng(6).normal(size=tau.shape)
    rows = zip(q, qd, tau + noise - BIAS, strict=True)
    messages = [("/full", RECORDED_NAMES, *row) for row in rows]
    stamps = 1_700_000_000 * 10**9 + np.rint(time * 1e9).astype(int)
    path = tmp_path_factory.mktemp("recording") / "bag"
    write_bag(path, messages, stamps)
    return path, noise


def evaluate(path, *options):
    robot = [str(data_folder() / PANDA), "--joints", ",".join(PANDA_JOINTS)]
    return exit_code(["evaluate", *robot, path, "--joints-map", "fer_*=panda_*", *options])


def parse_table(text):
    """{joint: numbers of its line}"""
    lines = [line.split() for line in text.splitlines() if line.startswith("panda_joint")]
    return {name: [float(number) for number in numbers] for name, *_, a, b, c, d, e in lines
            for numbers in [(a, b, c, d, e)]}  # fmt: skip


def test_errors_match_the_known_noise(recording, motion, capsys, tmp_path):
    """RMSE of noise and bias; the accelerations are derivatives of the velocities."""
    path, noise = recording
    plot, out = tmp_path / "plot.png", tmp_path / "tau.npz"
    assert (
        evaluate(path, "--differentiate", "--compare", "--unfiltered", "--plot", plot, "--output", out) == 0
    )
    captured = capsys.readouterr()
    assert "accelerations are derivatives of the recorded velocities below 10 Hz" in captured.err
    table = parse_table(captured.out)
    _, _, _, tau = motion
    computed, measured = np.load(out)["tau"], tau + noise - BIAS
    ends = int(np.ceil(1.5 / 10 * RATE))  # states the filter cannot compute
    assert f"{2 * ends} rows are NaN" in captured.err and np.isnan(computed[[ends - 1, -ends]]).all()
    computed, measured = computed[ends:-ends], measured[ends:-ends]
    assert np.abs(computed - tau[ends:-ends]).max() < 0.1
    for k, joint in enumerate(PANDA_JOINTS):
        m, c = measured[:, k], computed[:, k]
        off = c - m
        expected = np.sqrt(np.mean(m**2)), np.sqrt(np.mean(off**2)), np.abs(off).max(), np.mean(off)
        assert np.allclose(table[joint], [*expected, np.corrcoef(m, c)[0, 1]], rtol=6e-3, atol=1e-4)
        assert abs(table[joint][1] / np.hypot(NOISE[k], BIAS[k]) - 1) < 0.06  # of 1174 samples
    assert plot.read_bytes().startswith(b"\x89PNG") and plot.stat().st_size > 20_000


def test_missing_accelerations_are_reported(recording, capsys):
    path, _ = recording
    assert evaluate(path, "--compare") == 0
    captured = capsys.readouterr()
    assert "accelerations are taken as zero" in captured.err and "--differentiate" in captured.err
    assert parse_table(captured.out)["panda_joint2"][1] > 2 * NOISE[1]  # the missing inertial torques add up


def test_conflicting_options_end_with_an_error(recording, capsys, tmp_path):
    path, _ = recording
    for options, words in (
        ([], "nothing to do: name an --output, or --compare"),
        (["--compare", "--problem", "forward"], "--problem inverse"),
        (["--compare", "--cutoff", "5"], "--cutoff requires --differentiate"),
        (["--unfiltered", "--output", "out.npz"], "--unfiltered requires --compare"),
        (["--compare", "--differentiate", "--cutoff", "0"], "not a positive number"),
        (["--compare", "--differentiate", "--cutoff", "nan"], "not a positive number"),
        (["--plot", tmp_path / "plot.gif"], "are written to .png, .svg, .pdf"),
        (["--plot", tmp_path / "no" / "plot.png"], "plot.png: there is no folder"),
        (["--compare", "--joints-map", "fer_*"], "THEIRS=OURS, not 'fer_*'"),
        (["--compare", "--joints-map", "a=b,a=c"], "twice"),
    ):
        assert evaluate(path, *options) == 2
        assert words in capsys.readouterr().err.splitlines()[-1]


def test_recording_without_efforts(tmp_path, capsys):
    write_bag(tmp_path / "bag", [("/j", RECORDED_NAMES, np.zeros(7), np.zeros(7), [])] * 3)
    assert evaluate(tmp_path / "bag", "--compare") == 3
    message = capsys.readouterr().err
    assert "has no efforts of panda_joint1" in message and "--joints" not in message


def test_gripper_without_efforts(tmp_path, capsys):
    """It publishes its own states, so only the arm can be compared."""
    arm, fingers = [("/j", RECORDED_NAMES, np.zeros(7), np.zeros(7), np.zeros(7))] * 3, ["fer_finger_joint1"]
    write_bag(tmp_path / "bag", [*arm, ("/j", fingers, [0.0], [0.0], [])])
    robot, options = [str(data_folder() / PANDA)], ["--joints-map", "fer_*=panda_*", "--compare"]
    assert exit_code(["evaluate", *robot, tmp_path / "bag", *options]) == 3
    message = "no efforts of panda_finger_joint1; select the joints with efforts by --joints"
    assert message in capsys.readouterr().err
    assert evaluate(tmp_path / "bag", "--compare") == 0


# --- the sums -----------------------------------------------------------------------------------------------


def robot(*kinds):
    z = np.array([0.0, 0.0, 1.0])
    joints = [Joint(f"j{k}", kind, z, slice(k, k + 1), slice(k, k + 1)) for k, kind in enumerate(kinds)]
    return SimpleNamespace(
        v_names=tuple(joint.name for joint in joints),
        nv=len(kinds),
        torque_units=tuple(unit for joint in joints for unit in joint.torque_units),
    )


def test_sums_in_chunks():
    random = np.random.default_rng(0)
    measured = 1e4 + random.normal(size=(900, 2)) * [1, 3]  # a spread that sums of squares lose
    computed = 1.1 * measured + random.normal(size=(900, 2))
    measured[4, 0], computed[700] = np.nan, np.inf
    comparison = Comparison(robot("revolute", "prismatic"))
    for part in np.array_split(np.arange(900), 7):
        comparison.add(measured[part], computed[part], None)
    good = np.setdiff1d(np.arange(900), [4, 700])
    assert comparison.count == 898
    for k, difference in enumerate(comparison.differences()):
        m, c = measured[good, k], computed[good, k]
        assert difference.unit == ("N m", "N")[k]
        assert np.allclose(
            [difference.measured, difference.rmse, difference.largest, difference.bias],
            [np.sqrt(np.mean(m**2)), np.sqrt(np.mean((c - m) ** 2)), np.abs(c - m).max(), np.mean(c - m)],
            rtol=1e-9,
        )
        assert abs(difference.correlation - np.corrcoef(m, c)[0, 1]) < 1e-4


def test_constant_and_empty_comparisons():
    comparison = Comparison(robot("revolute"))
    with pytest.raises(ValueError, match="both"):
        comparison.differences()
    comparison.add(np.ones((5, 1)), np.full((5, 1), 3.0), None)
    (difference,) = comparison.differences()
    assert (difference.rmse, difference.largest, difference.bias) == (2, 2, 2)
    assert np.isnan(difference.correlation)


def test_memory_is_bounded():
    comparison, rows = Comparison(robot("revolute")), 400_000
    tracemalloc.start()
    for start in range(0, rows, 1000):
        x = np.arange(start, start + 1000.0)
        comparison.add(x[:, None], x[:, None], x)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    (time, measured, _), every = comparison.samples()
    assert peak < 3e6 and MOST / 2 < len(time) <= MOST and every == 128
    assert np.array_equal(time, np.arange(0, rows, every)) and np.array_equal(measured[:, 0], time)


@pytest.mark.parametrize(("suffix", "start"), [(".svg", b"<?xml"), (".pdf", b"%PDF"), (".png", b"\x89PNG")])
def test_plots(tmp_path, suffix, start):
    pytest.importorskip("matplotlib")
    comparison = Comparison(robot("revolute", "prismatic", "revolute", "revolute"))
    comparison.add(np.random.default_rng(0).normal(size=(50, 4)), np.zeros((50, 4)), None)
    path = tmp_path / f"plot{suffix}"
    plot_comparison(path, comparison, "$a_b^ & <robot>", timed=False)
    assert path.read_bytes().startswith(start)
    with pytest.raises(TableError, match="cannot write"):
        plot_comparison(tmp_path / "nowhere" / f"plot{suffix}", comparison, "robot")


def test_plot_without_matplotlib():
    """The command checks this before it computes anything."""
    code = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "from dynamics_node.errors import TableError\nfrom dynamics_node.io import check_plot\n"
        "try:\n    check_plot('a.png')\nexcept TableError as error:\n    print(error)"
    )
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert "this needs matplotlib: " in process.stdout and "pip install 'matplotlib>=" in process.stdout
    with pytest.raises(TableError, match="plot"):
        check_plot("plot")
