"""The scheme that all commands of `dynamics` share: options, exit codes, help, JSON."""

import argparse
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from robots import PANDA, data_folder

import dynamics_node as dn
from dynamics_node.cli import main
from dynamics_node.cli.commands import EXIT_CODES, joined_numbers, make_parser

REST = "0,-0.5,0,-2,0,1.5,0.8,0"


def commands():
    (action,) = (own for own in make_parser()._actions if isinstance(own, argparse._SubParsersAction))
    return action.choices


def panda():
    return str(data_folder() / PANDA)


def usage_error(arguments, capsys):
    """The last line on stderr of a usage error."""
    with pytest.raises(SystemExit) as raised:
        main(arguments)
    assert raised.value.code == 2
    return capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize("name", commands())
def test_every_command_has_the_shared_options(name):
    parser = commands()[name]
    flags = {flag: action for action in parser._actions for flag in action.option_strings}
    assert {
        "--json",
        "-q",
        "--quiet",
        "-v",
        "--verbose",
        "--joints",
        "--loops",
        "--floating-base",
    } <= flags.keys()
    assert not {"--out", "--input"} & flags.keys()
    assert ("-o" in flags) == ("--output" in flags) == (name not in ("info", "sensors"))
    assert not [flag for flag, action in flags.items() if action.nargs in ("+", "*")]  # none takes the URDF
    assert f"dynamics {name} " in parser.epilog and parser.description.endswith(".")
    assert all(action.help for action in parser._actions)


def test_help_lists_every_command_and_exit_code(capsys):
    with pytest.raises(SystemExit, match="0"):
        main(["--help"])
    out = capsys.readouterr().out
    assert all(f"\n  {name} " in out for name in commands())
    assert all(f"\n  {code:3}  " in out for code in EXIT_CODES)


def test_version(capsys):
    with pytest.raises(SystemExit, match="0"):
        main(["--version"])
    assert capsys.readouterr().out == f"dynamics_node {dn.__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "joined"),
    [
        (["--start", "-0.5,1", "x"], ["--start=-0.5,1", "x"]),
        (["--start", "0.5,-1"], ["--start", "0.5,-1"]),
        (["--at", "-1e-3"], ["--at=-1e-3"]),
        (["-o", "-1"], ["-o", "-1"]),
        (["--quiet", "-v"], ["--quiet", "-v"]),
        (["--at", "-1", "-2"], ["--at=-1", "-2"]),
    ],
)
def test_a_list_may_begin_with_a_minus_sign(arguments, joined):
    assert joined_numbers(arguments) == joined


def test_lists_take_commas_and_repetition(capsys):
    data = []
    for joints in (
        ["--joints", "panda_joint1,panda_joint2"],
        ["--joints", "panda_joint1", "--joints", "panda_joint2"],
    ):
        assert main(["info", *joints, panda(), "--json"]) == 0
        data.append(json.loads(capsys.readouterr().out))
    assert data[0] == data[1] and data[0]["v_names"] == ["panda_joint1", "panda_joint2"]


def test_json_of_a_robot(capsys):
    assert main(["info", panda(), "--at", REST, "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    robot = dn.load_robot(panda())
    q = np.array(list(map(float, REST.split(","))))
    assert data["nq"] == robot.nq and len(data["bodies"]) == robot.nbodies
    assert np.allclose(data["gravity_torque"], dn.evaluate(robot, "gravity_torque", q), atol=1e-12)
    assert np.allclose(data["mass_matrix"], dn.evaluate(robot, "mass_matrix", q), atol=1e-12)


def test_json_of_a_comparison(tmp_path, capsys):
    """The torques of `evaluate`, compared with themselves."""
    states = {
        kind: np.random.default_rng(k).uniform(-1, 1, (20, 8)) for k, kind in enumerate(("q", "qd", "qdd"))
    }
    np.savez(tmp_path / "states.npz", **states)
    command = ["evaluate", panda(), str(tmp_path / "states.npz"), "-o", str(tmp_path / "tau.npz"), "--json"]
    assert main(command) == 0
    assert json.loads(capsys.readouterr().out)["written"] == [str(tmp_path / "tau.npz")]
    np.savez(tmp_path / "states.npz", **states, tau=np.load(tmp_path / "tau.npz")["tau"])
    assert main(["evaluate", panda(), str(tmp_path / "states.npz"), "--compare", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["states"] == 20 and len(data["joints"]) == 8
    assert max(joint["rmse"] for joint in data["joints"]) < 1e-9


def test_quiet_prints_results_alone(tmp_path, capsys):
    command = ["graph", panda(), "--ordering", "aba", "-o", str(tmp_path / "net.svg"), "--quiet"]
    assert main(command) == 0
    out, err = capsys.readouterr()
    assert "aba" in out and "written" not in out and err == "" and (tmp_path / "net.svg").exists()


def test_verbose_prints_times_and_a_traceback(tmp_path, capsys):
    assert main(["info", panda(), "-v"]) == 0
    assert "dynamics: read: " in capsys.readouterr().err
    assert main(["info", str(tmp_path / "none.urdf"), "-v"]) == 3
    err = capsys.readouterr().err
    assert "Traceback" in err and err.splitlines()[-1].startswith("dynamics: ")


@pytest.mark.parametrize(
    ("command", "output", "words"),
    [
        (["graph", "PANDA", "--ordering", "aba"], "net.png", ".svg, .dot"),
        (["doctor", "PANDA"], "report.pdf", ".html"),
        (["evaluate", "PANDA", "states.npz"], "tau.txt", ".npz, .csv, .parquet"),
        (["simulate", "PANDA"], "motion.txt", ".npz, .csv, .parquet"),
        (["simulate", "PANDA"], "no/such/folder/motion.npz", "no/such/folder"),
        (["explain", "PANDA"], __file__, "not a folder"),
        (["compile", "PANDA"], __file__, "not a folder"),
    ],
)
def test_outputs_are_checked_before_the_robot_is_read(command, output, words, capsys):
    words_of_command = ["/nowhere.urdf" if word == "PANDA" else word for word in command]
    assert words in usage_error([*words_of_command, "-o", output], capsys)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--at", "1,x"], "list of numbers"),
        (["--joints", "a,,b"], "empty name"),
        (["--joints"], "expected one argument"),
    ],
)
def test_values_of_options(arguments, words, capsys):
    assert words in usage_error(["info", "/nowhere.urdf", *arguments], capsys)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["info", "PANDA", "--joints", "elbow"], "--joints: unknown joint 'elbow'; known: panda_joint1"),
        (["doctor", "PANDA", "--joints", "elbow", "--json"], "--joints: unknown joint 'elbow'"),
        (["simulate", "PANDA", "--torque", "1,2"], "--torque needs 8 numbers, not 2: panda_joint1, "),
        (["simulate", "PANDA", "--velocity", "1"], "--velocity needs 8 numbers, not 1: panda_joint1, "),
        (["explain", "PANDA", "--ordering", "F1,A1"], "--ordering: the ordering leaves out A2"),
        (["explain", "PANDA", "--ordering", "elbow1"], "--ordering: the ordering names unknown elbow1"),
        (["compile", "PANDA", "--tip-links", "elbow"], "--tip-links: unknown link elbow"),
    ],
)
def test_a_value_that_does_not_fit_the_robot_is_wrong_usage(arguments, words, capsys):
    assert main([panda() if word == "PANDA" else word for word in arguments]) == 2
    assert words in capsys.readouterr().err.splitlines()[-1]


def test_words_left_over_show_the_usage_of_the_command(capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["info", "--joints", "a", "b", "arm.urdf"])
    err = capsys.readouterr().err
    assert err.startswith("usage: dynamics info ")
    assert err.endswith(
        "unrecognized arguments: arm.urdf; values of a list are separated by commas, as in --joints a,b\n"
    )


def test_an_unknown_option_has_no_hint_at_lists(capsys):
    assert usage_error(["info", "arm.urdf", "--nope"], capsys).endswith("unrecognized arguments: --nope")


@pytest.mark.parametrize("arguments", [["info", "arm.urdf", "--js"], ["--vers"]])
def test_options_have_no_abbreviations(arguments, capsys):
    with pytest.raises(SystemExit) as raised:
        main(arguments)
    assert raised.value.code == 2


def test_a_missing_input_is_reported_before_missing_work(capsys):
    assert main(["evaluate", panda(), "nope.csv"]) == 3
    assert capsys.readouterr().err == "dynamics: nope.csv: no such file\n"


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_missing_package_of_tables_is_reported_before_the_robot_is_read(suffix, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert "pip install pyarrow" in usage_error(["simulate", "/nowhere.urdf", "-o", f"x{suffix}"], capsys)


def test_doctor_with_json_writes_no_page_unless_requested(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    main(["doctor", panda(), "--json"])
    assert "written" not in json.loads(capsys.readouterr().out) and not list(tmp_path.iterdir())
    main(["doctor", panda(), "--json", "-o", "page.html"])
    assert json.loads(capsys.readouterr().out)["written"] == ["page.html"]
    main(["doctor", panda()])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["doctor.html", "page.html"]


@pytest.fixture
def recording(tmp_path):
    """40 states at 20 Hz, the second one without a position."""
    q = np.random.default_rng(0).uniform(-1, 1, (40, 8))
    q[1] = np.nan
    np.savez(tmp_path / "states.npz", time=0.05 * np.arange(40), q=q, qd=0 * q, qdd=0 * q)
    np.savez(tmp_path / "positions.npz", time=0.05 * np.arange(40), q=np.zeros((40, 8)))
    return tmp_path


def test_rows_without_a_result_have_reasons(recording, capsys):
    assert main(["evaluate", panda(), str(recording / "states.npz"), "-o", str(recording / "tau.npz")]) == 0
    assert capsys.readouterr().err == (
        "dynamics: 1 row is NaN (first: row 1): not finite, not of unit length, or without a solution\n"
    )


def test_derivatives_are_missing_at_the_ends(recording, capsys):
    command = ["evaluate", panda(), str(recording / "positions.npz"), "-o", str(recording / "tau.npz")]
    assert main([*command, "--differentiate", "--cutoff", "5"]) == 0
    assert capsys.readouterr().err.splitlines()[-1] == (
        "dynamics: 12 rows are NaN (first: row 0): not finite, not of unit length, without a solution, or within "
        "0.3 s of the ends and gaps of the recording, where derivatives do not exist"
    )


def test_completion_in_a_shell(tmp_path):
    """argcomplete, an extra, lists what may follow."""
    pytest.importorskip("argcomplete", reason="the extra `completion`: pip install argcomplete")
    line = "dynamics inv"
    environment = {
        "_ARGCOMPLETE": "1", "_ARGCOMPLETE_IFS": "\n", "_ARGCOMPLETE_COMP_WORDBREAKS": " =", "COMP_LINE": line,
        "COMP_POINT": str(len(line)), "COMP_TYPE": "9", "_ARGCOMPLETE_STDOUT_FILENAME": str(tmp_path / "out"),
        "PYTHONPATH": str(Path(dn.__file__).parents[1]),
    }  # fmt: skip
    subprocess.run([sys.executable, "-m", "dynamics_node.cli"], env=environment, timeout=60, check=False)
    assert (tmp_path / "out").read_text().split() == ["inverse-trajectory"]
