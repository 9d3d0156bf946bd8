"""The scheme that all commands of `dynamics` share: options, exit codes, help, JSON."""

import argparse
import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from robots import PANDA, PANDA_JOINTS, ROBOTS, data_folder

import dynamics_node as dn
from dynamics_node.cli import main
from dynamics_node.cli.commands import EXIT_CODES, joined_numbers, make_parser
from dynamics_node.cli.options import INPUTS, OUTPUTS

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
    shared = {"--json", "-q", "--quiet", "-v", "--verbose", "--joints", "--loops", "--floating-base"}
    assert shared <= flags.keys()
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
        (["--q0", "-0.5,1", "x"], ["--q0=-0.5,1", "x"]),
        (["--q0", "0.5,-1"], ["--q0", "0.5,-1"]),
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
    for joints in ("--joints panda_joint1,panda_joint2", "--joints panda_joint1 --joints panda_joint2"):
        assert main(["info", *joints.split(), panda(), "--json"]) == 0
        data.append(json.loads(capsys.readouterr().out))
    assert data[0] == data[1] and data[0]["v_names"] == ["panda_joint1", "panda_joint2"]


def test_json_of_a_robot(capsys):
    assert main(["info", panda(), "--at", REST, "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    robot = dn.load_robot(panda())
    q = np.array(list(map(float, REST.split(","))))
    assert data["nq"] == robot.nq and len(data["bodies"]) == robot.nbodies
    assert np.allclose(
        data["gravity_torque"], dn.evaluate(robot, "gravity_torque", q, backend="numpy"), atol=1e-12
    )
    assert np.allclose(data["mass_matrix"], dn.evaluate(robot, "mass_matrix", q, backend="numpy"), atol=1e-12)


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
    command = ["explain", panda(), "--ordering", "aba", "-o", str(tmp_path), "--quiet"]
    assert main(command) == 0
    out, err = capsys.readouterr()
    assert "aba" in out and "written" not in out and err == "" and (tmp_path / "bayes_net.svg").exists()


CLOSED = """
import os, sys
from dynamics_node.cli import main
code = main(sys.argv[2:])
open(sys.argv[1], "w").write(str(code))
"""


@pytest.mark.parametrize("output", ["text", "json", "errors"])
def test_a_closed_pipe_ends_printing_alone(tmp_path, output):
    """As `| head -1`: the files are written, the exit code is that of the result, nothing else is printed."""
    point = "{positions: [%s], time_from_start: {sec: %d}}"
    names, rest = ", ".join(PANDA_JOINTS), ", ".join(REST.split(",")[:7])
    (tmp_path / "t.yaml").write_text(
        f"joint_names: [{names}]\npoints: [{point % (rest, 0)}, {point % (rest, 1)}]\n"
    )
    written = [tmp_path / name for name in ("slower.yaml", "page.html")]
    outputs = ["-o", str(written[0]), "--page", str(written[1]), "--max-effort-rate", "1e9"]
    more = {"text": [], "json": ["--json"], "errors": ["-v"]}[output]
    command = [
        sys.executable,
        "-c",
        CLOSED,
        str(tmp_path / "code"),
        "check",
        panda(),
        str(tmp_path / "t.yaml"),
    ]
    reading, writing = os.pipe()
    os.close(reading)
    streams = {"stdout": writing, "stderr": writing if output == "errors" else subprocess.PIPE}
    process = subprocess.run([*command, *outputs, *more], **streams, text=True, timeout=100)
    os.close(writing)
    assert (tmp_path / "code").read_text() == "0" and all(path.exists() for path in written)
    assert process.returncode == 0 and not (process.stderr or "").count("Error")


def test_verbose_prints_times_and_a_traceback(tmp_path, capsys):
    assert main(["info", panda(), "-v"]) == 0
    assert "dynamics: read: " in capsys.readouterr().err
    assert main(["info", str(tmp_path / "none.urdf"), "-v"]) == 3
    err = capsys.readouterr().err
    assert "Traceback" in err and err.splitlines()[-1].startswith("dynamics: ")


@pytest.mark.parametrize(
    ("command", "output", "words"),
    [
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


@pytest.mark.parametrize("value", ["0", "-1", "nan", "inf", "1e400", "x", "1e-300", "1e300"])
def test_positive_numbers_have_an_ordinary_size(value, capsys):
    assert f"'{value}' is not" in usage_error(["simulate", "/nowhere.urdf", f"--dt={value}"], capsys)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["info", "PANDA", "--joints", "elbow"], "--joints: unknown joint 'elbow'; known: panda_joint1"),
        (["doctor", "PANDA", "--joints", "elbow", "--json"], "--joints: unknown joint 'elbow'"),
        (["simulate", "PANDA", "--torque", "1,2"], "--torque needs 8 numbers, not 2: panda_joint1, "),
        (["simulate", "PANDA", "--qd0", "1"], "--qd0 needs 8 numbers, not 1: panda_joint1, "),
        (["explain", "PANDA", "--ordering", "F1,A1"], "--ordering: the ordering leaves out A2"),
        (["explain", "PANDA", "--ordering", "elbow1"], "--ordering: the ordering names unknown elbow1"),
        (["compile", "PANDA", "--tip-links", "elbow"], "--tip-links: unknown link 'elbow'"),
    ],
)
def test_a_value_that_does_not_fit_the_robot_is_wrong_usage(arguments, words, capsys):
    assert main([panda() if word == "PANDA" else word for word in arguments]) == 2
    assert words in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize("command", ["explain", "export", "compile"])
def test_a_file_without_contacts_is_wrong_usage(command, tmp_path, capsys):
    (tmp_path / "none.yaml").write_text("contacts: []")
    assert main([command, panda(), "--contacts", str(tmp_path / "none.yaml")]) == 2
    assert "none.yaml has no contact" in capsys.readouterr().err


def test_words_left_over_show_the_usage_of_the_command(capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["info", "--joints", "a", "b", "arm.urdf"])
    err = capsys.readouterr().err
    assert err == (
        "dynamics info: unrecognized arguments: arm.urdf; values of a list are separated by commas, as in "
        "--joints a,b; options: dynamics info --help\n"
    )


def test_a_second_robot_is_no_value_of_a_list(capsys):
    line = usage_error(["info", "a.urdf", "b.urdf"], capsys)
    assert "unrecognized arguments: b.urdf; the command takes one robot" in line


def test_an_unknown_option_has_no_hint_at_lists(capsys):
    assert "unrecognized arguments: --nope; options" in usage_error(["info", "arm.urdf", "--nope"], capsys)


@pytest.mark.parametrize("arguments", [["info", "arm.urdf", "--js"], ["--vers"]])
def test_options_have_no_abbreviations(arguments, capsys):
    with pytest.raises(SystemExit) as raised:
        main(arguments)
    assert raised.value.code == 2


def test_a_missing_input_is_reported_before_missing_work(capsys):
    assert main(["evaluate", panda(), "nope.csv"]) == 3
    assert capsys.readouterr().err == "dynamics: nope.csv: no such file\n"


def test_a_missing_package_of_tables_is_reported_before_the_robot_is_read(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert "pip install 'pyarrow>=" in usage_error(["simulate", "/nowhere.urdf", "-o", "x.parquet"], capsys)


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


# --- outputs ------------------------------------------------------------------------------------------------

NO_FILES = {"topic", "link", "joint", "name", "trusted_folder", "cluster"}  # texts and folders


@pytest.mark.parametrize("name", commands())
def test_files_of_every_command_are_known(name):
    """Every option that takes a path is among INPUTS or OUTPUTS."""
    for action in commands()[name]._actions:
        if "_to_write" in getattr(action.type, "__qualname__", ""):
            assert action.dest in OUTPUTS
        elif action.type in (None, Path) and action.nargs != 0 and not action.choices:
            assert action.dest in {*INPUTS, *NO_FILES}


@pytest.fixture
def inputs(tmp_path, monkeypatch):
    """Inputs of every kind, with a symbolic and a hard link to each."""
    monkeypatch.chdir(tmp_path)
    robot = (ROBOTS["double_pendulum"].file).read_text()
    for path in ("robot.urdf", "robot.html", "out/robot.urdf", "exported/README.md"):
        Path(path).parent.mkdir(exist_ok=True)
        Path(path).write_text(robot)
    time = np.linspace(0, 1, 101)
    q = np.sin(np.outer(time, (2, 3)))
    np.savez("states.npz", time=time, q=q, qd=0 * q, qdd=0 * q, tau=q)
    for name, text in {"limits.yaml": "joint_limits: {}", "p.yaml": "joints: {}", "loops.yaml": ""}.items():
        Path(name).write_text(text)
    for path in list(tmp_path.iterdir()):
        if path.is_file():
            path.with_stem(f"soft_{path.stem}").symlink_to(path.name)
            path.with_stem(f"hard_{path.stem}").hardlink_to(path)


@pytest.mark.parametrize(
    "line",
    [
        "doctor robot.urdf -o x.html --repair robot.urdf", "doctor robot.urdf -o x.html --repair soft_robot.urdf",
        "doctor soft_robot.urdf -o x.html --repair robot.urdf", "doctor robot.html -o hard_robot.html",
        "evaluate robot.urdf states.npz -o states.npz", "evaluate robot.urdf states.npz -o hard_states.npz",
        "smooth robot.urdf states.npz -o soft_states.npz", "smooth robot.html states.npz --animate robot.html",
        "inverse-trajectory robot.urdf states.npz -o soft_states.npz",
        "simulate robot.urdf --torques states.npz -o hard_states.npz",
        "payload robot.urdf states.npz --link link2 -o soft_robot.urdf",
        "payload robot.urdf states.npz --tare hard_states.npz --link link2 -o states.npz",
        "check robot.urdf states.npz --limits limits.yaml -o soft_limits.yaml",
        "check robot.urdf states.npz --parameters p.yaml -o hard_p.yaml",
        "check robot.html states.npz --page soft_robot.html",
        "identify out/robot.urdf states.npz -o out", "export exported/README.md -o exported",
    ],
)  # fmt: skip
def test_no_input_is_overwritten(line, inputs, capsys):
    def contents():
        return {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}

    before = contents()
    assert main(line.split()) == (3 if line.startswith("export") else 2)
    assert "is an input: name another file" in capsys.readouterr().err
    assert contents() == before


def test_files_beside_an_input_are_written(inputs, capsys):
    assert main(["doctor", "out/robot.urdf", "-o", "out/page.html", "--repair", "out/better.urdf"]) in (0, 1)
    assert Path("out/page.html").is_file() and Path("out/better.urdf").is_file()
    assert main(["doctor", "robot.urdf", "-o", "out/page.html", "--repair", "out/robot.urdf"]) in (0, 1)


@pytest.mark.parametrize("command", ["export", "explain", "identify", "excitation"])
@pytest.mark.parametrize("existing", [False, True])
def test_full_disk_leaves_no_partial_folder(command, existing, inputs, capsys, monkeypatch):
    """The second file of a folder does not fit: the error names it, and neither a new folder nor parts stay."""
    written = []

    def fill_the_disk(original):
        def write(own, *data, **more):
            path = own if isinstance(own, Path) else data[0]
            if path.is_relative_to(Path().absolute() / "new"):
                written.append(path)
                if len(written) == 2:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return original(own, *data, **more)

        return write

    if existing:
        Path("new").mkdir()
    monkeypatch.setattr(Path, "write_text", fill_the_disk(Path.write_text))
    monkeypatch.setattr(Path, "write_bytes", fill_the_disk(Path.write_bytes))
    if command == "excitation":
        figure = pytest.importorskip("matplotlib.figure", reason="plots: pip install matplotlib").Figure
        monkeypatch.setattr(figure, "savefig", fill_the_disk(figure.savefig))
    folder = "new" if existing else "new/deep"
    recordings = ["states.npz"] if command == "identify" else []
    quick = ["--harmonics", "2", "--restarts", "1", "--time-limit", "0.1"] if command == "excitation" else []
    assert main([command, "robot.urdf", *recordings, *quick, "-o", folder]) == 3
    error = capsys.readouterr().err.splitlines()[-1]
    assert f"{folder}/{written[-1].stem}" in error and "no space left on device" in error.lower()
    assert Path("new").exists() == existing and not list(Path().rglob("*.part"))
