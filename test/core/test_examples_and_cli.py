"""The examples run; commands print results, and errors in one line."""

import runpy
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import urdf_text
from robots import PANDA, data_folder
from tolerances import EXACT, error

import dynamics_node as dn
from dynamics_node.algorithms import first_closed
from dynamics_node.cli import main
from dynamics_node.node.building.build_job import Job, ServedRobot, do

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("library.py", "effective mass"),
        ("capability.py", "upward force, with 2 kg: 91 N"),
        ("orderings.py", "colamd"),
        ("loops.py", "SolutionError: 'j5'"),
        ("mppi.py", "upright since 1."),
        ("sensors.py", "most likely 'left_shank_joint torque' is wrong"),
    ],
)
def test_example(name, words, capsys, monkeypatch):
    data_folder()  # skips without the robots
    monkeypatch.setattr(sys, "argv", [name])
    monkeypatch.setenv("MPLBACKEND", "agg")
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    assert words in capsys.readouterr().out


HALF_WRITTEN = """
import sys, time
from dynamics_node.cli import commands, main
from dynamics_node.output_files import replacing

def run(arguments):
    with replacing(sys.argv[1]) as unfinished:
        unfinished.write_text("half")
        print(flush=True)
        time.sleep(1000)

commands.run = run
sys.exit(main())
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_leaves_no_partial_file(tmp_path, number):
    """No traceback and no partial file."""
    command = [sys.executable, "-c", HALF_WRITTEN, str(tmp_path / "out.csv")]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    # Background jobs of a shell ignore SIGINT
    restore_default = partial(signal.signal, number, signal.SIG_DFL)
    with subprocess.Popen(command, **pipes, preexec_fn=restore_default) as process:
        process.stdout.readline()
        assert list(tmp_path.iterdir())
        process.send_signal(number)
        _, error = process.communicate(timeout=60)
    assert (process.returncode, error) == (128 + number, "")
    assert not list(tmp_path.iterdir())


def panda():
    return str(data_folder() / PANDA)


def test_info(capsys):
    assert main(["info", panda(), "--at", ",".join(["0.1"] * 8)]) == 0
    out = capsys.readouterr().out
    assert "9 moving bodies, nq 8, nv 8" in out and "gravity torques" in out
    (follower,) = [line for line in out.splitlines() if line.startswith("panda_rightfinger")]
    assert follower.endswith("panda_finger_joint1")  # the joint it mimics


def test_explain_has_counts_of_all_orderings_and_drawings(capsys, tmp_path):
    assert main(["explain", panda(), "--ordering", "aba", "-o", str(tmp_path)]) == 0
    lines = dict(line.split(": ", 1) for line in capsys.readouterr().out.splitlines())
    names = [
        "rnea",
        "crba",
        "aba",
        "constrained_aba",
        "constrained_crba",
        "colamd",
        "metis",
        "minimum_degree",
    ]
    assert [name for name in lines if name in names] == names
    assert lines["aba"].startswith("32 edges, 818 entries, ")
    assert lines["rnea"].endswith("pivots are checked at run time")
    for name in ("factor_graph", "bayes_net"):
        assert "<svg" in (tmp_path / f"{name}.svg").read_text()
        assert (tmp_path / f"{name}.dot").read_text().startswith(("graph", "digraph"))


LEGS = """<robot name="legs"><link name="base">{body}</link>{legs}</robot>"""
BODY = "<inertial><mass value='{mass}'/><inertia ixx='{i}' iyy='{i}' izz='{i}' ixy='0' ixz='0' iyz='0'/></inertial>"
LEG = """<link name="leg{x}">{body}</link><joint name="hip{x}" type="revolute"><parent link="base"/><child link="leg{x}"/>
<origin xyz="{x} 0 0"/><axis xyz="0 1 0"/><limit lower="-1" upper="1" effort="10" velocity="5"/></joint>"""


@pytest.mark.parametrize("forces", ["shortest", "friction_cones"])
def test_compile_fills_the_cache_for_contacts(tmp_path, monkeypatch, forces):
    """The node compiles nothing more for a robot on its feet."""
    pytest.importorskip("daqp", reason="the solver: pip install daqp")
    monkeypatch.setenv("XDG_CACHE_HOME", "/nowhere")  # monkeypatch restores it
    legs = "".join(LEG.format(x=x, body=BODY.format(mass=1, i=0.01)) for x in (-1, 1))
    urdf, feet = tmp_path / "legs.urdf", tmp_path / "feet.yaml"
    urdf.write_text(LEGS.format(body=BODY.format(mass=5, i=0.1), legs=legs))
    feet.write_text("contacts: [{link: [leg-1, leg1], xyz: [0, 0, -0.3], friction: 0.7}]")
    options = ["--floating-base", "--contacts", str(feet), "--contact-forces", forces]
    assert main(["compile", str(urdf), *options, "-o", str(tmp_path / "cache")]) == 0
    compiled = set((tmp_path / "cache" / "dynamics_node").iterdir())
    given = {"contacts_file": str(feet), "contact_forces": forces, "effort_limits": "urdf"}
    job = Job(urdf.read_text(), {"floating_base": True}, "inverse", backend="c", services="c", **given)
    assert isinstance(do(job), ServedRobot)
    assert set((tmp_path / "cache" / "dynamics_node").iterdir()) == compiled


def test_contact_forces_need_contacts(capsys):
    assert main(["compile", panda(), "--contact-forces", "friction_cones"]) == 2
    assert "needs --contacts" in capsys.readouterr().err


def test_a_command_that_is_part_of_another(capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["graph", panda()])
    assert "no command 'graph': use dynamics explain" in capsys.readouterr().err


def test_compile_fills_the_cache_that_the_node_reads(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "/nowhere")  # monkeypatch restores it
    assert main(["compile", panda(), "-o", str(tmp_path)]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[1].startswith("inverse dynamics: rnea, ") and out[2].startswith("forward dynamics: crba")
    files = set((tmp_path / "dynamics_node").iterdir())
    # two problems: with wrenches, without and for many states; mass matrix and nonlinear effects;
    # on some processors what measures the width of vectors
    assert len(files) >= 8
    for problem in ("inverse", "forward"):
        robot = do(Job(Path(panda()).read_text(), {}, problem, backend="c", services="c"))
        assert isinstance(robot, ServedRobot)
        assert robot.inverse.runner.batches and robot.forward.runner.batches  # whole trajectories are ready
    assert set((tmp_path / "dynamics_node").iterdir()) == files


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["info", "/nowhere.urdf"], 3, "/nowhere.urdf: no such file or directory"),
        (["info", "/"], 3, "/: is a directory"),
        (["info", __file__], 3, f"{__file__}: robot description is malformed XML"),
        (["info", "PANDA", "--at", ",".join(["nan"] * 8)], 2, "--at: panda_joint1 is nan"),
        (["explain", "PANDA", "--problem", "hybrid"], 2, "--problem hybrid needs --forward-joints"),
        (
            ["explain", "PANDA", "--forward-joints", "panda_joint1"],
            2,
            "--forward-joints requires --problem hybrid",
        ),
        (["explain", "PANDA", "--ordering", "magic"], 2, "'magic' is none of rnea, crba, aba"),
        (["info", "PANDA", "--at", "1"], 2, "--at needs 8 numbers, not 1: panda_joint1"),
        (["explain", "PANDA", "--problem", "hybrid", "--forward-joints", "knee"], 2, "'knee' is unknown"),
    ],
)
def test_errors_are_one_line(arguments, code, words, capsys):
    assert main([panda() if a == "PANDA" else a for a in arguments]) == code
    error = capsys.readouterr().err
    assert error.startswith("dynamics: ") and words in error and error.count("\n") == 1


SENSORS = """
sensors:
  - {type: torque, joint: [panda_joint1, panda_joint2, panda_joint3, panda_joint4, panda_joint5, panda_joint6], std: 0.5}
  - {type: acceleration, joint: panda_joint7, std: 0.2, value: 0}
  - {type: imu, name: back, link: panda_hand, covariance: [
      [1, 0, 0, 0, 0, 0], [0, 1, 0, 0, 0, 0], [0, 0, 1, 0, 0, 0],
      [0, 0, 0, 1, 0, 0], [0, 0, 0, 0, 1, 0], [0, 0, 0, 0, 0, 1]]}
"""


def test_sensors_of_a_robot(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    file = tmp_path / "sensors.yaml"
    file.write_text(SENSORS)
    assert main(["sensors", panda(), str(file)]) == 1
    out, error = capsys.readouterr()
    assert "panda_joint1 torque" in out and "wx wy wz ax ay az" in out and "= 0" in out
    assert "covariance" in out
    assert error.startswith("dynamics: not observable: ") and "torque of joint 'panda_finger_joint1'" in error
    assert "one more sensor makes the motion observable: panda_finger_joint1 torque" in error
    file.write_text(SENSORS + "  - {type: torque, joint: panda_finger_joint1, std: 0.0, value: 0}\n")
    assert main(["sensors", panda(), str(file), "--at", ",".join(["0.1"] * 8)]) == 0
    assert "observable: " in (out := capsys.readouterr().out) and "6 redundant readings" in out
    contacts = tmp_path / "contacts.yaml"
    contacts.write_text("contacts: [{link: panda_hand}]")
    assert main(["sensors", panda(), str(file), "--contacts", str(contacts)]) == 0
    assert "3 redundant readings" in capsys.readouterr().out
    file.write_text("sensors:\n- {type: torque, joint: knee, std: 1}")
    assert main(["sensors", panda(), str(file)]) == 3
    assert "sensor 'knee torque': joint 'knee' is unknown" in capsys.readouterr().err


# --- robots with closed loops -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def linkage(tmp_path_factory):
    """A file of the five-bar that `python -m dynamics_demo.robots` prints."""
    command = [sys.executable, "-m", "dynamics_demo.robots", "five_bar"]
    path = tmp_path_factory.mktemp("linkage") / "five_bar.urdf"
    path.write_text(subprocess.run(command, capture_output=True, text=True, timeout=100, check=True).stdout)
    return str(path)


def test_info_of_loops(capsys, linkage):
    assert main(["info", linkage, "--at", "1.9,-1.2,1.2,1.2"]) == 0
    out = capsys.readouterr().out
    assert "nq 4, nv 2" in out and "independent: j1, j2" in out and "mass matrix" in out
    (loop,) = [line for line in out.splitlines() if line.startswith("j5")]
    assert loop.split() == ["j5", "revolute", "j3,", "j4"]


@pytest.mark.parametrize("problem", ["inverse", "forward"])
def test_explain_loops(linkage, tmp_path, problem):
    assert main(["explain", linkage, "--problem", problem, "-o", str(tmp_path)]) == 0
    page = (tmp_path / "index.html").read_text()
    assert "clusters: " in page and "pivots are checked at run time" in page


def test_compile_loops(capsys, linkage, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "/nowhere")
    assert main(["compile", linkage, "-o", str(tmp_path)]) == 0
    assert "a step of Newton's method" in capsys.readouterr().out
    files = set((tmp_path / "dynamics_node").iterdir())
    for problem in ("inverse", "forward"):
        robot = do(Job(Path(linkage).read_text(), {}, problem, backend="c", services="c"))
        assert isinstance(robot, ServedRobot) and robot.loop_solver is not None
    assert set((tmp_path / "dynamics_node").iterdir()) == files


def test_evaluate_loops(linkage, tmp_path):
    """Dependent joints are closed from the table's positions; a row that cannot be closed is NaN."""
    mechanism = dn.load_robot(linkage)
    start = first_closed(mechanism, np.array([1.9, 0, 1.2, 0]))
    q = np.tile(start, (5, 1)) + 0.01 * np.random.default_rng(0).normal(size=(5, 4))
    q[2, mechanism.independent] = 3.1, 0.0  # too far apart
    q[3, 1] = np.nan
    rates = np.random.default_rng(1).normal(size=(2, 5, 2))
    np.savez(tmp_path / "in.npz", q=q, qd=rates[0], qdd=rates[1])
    assert main(["evaluate", linkage, str(tmp_path / "in.npz"), "--output", str(tmp_path / "out.npz")]) == 0
    tau = np.load(tmp_path / "out.npz")["tau"]
    good = [0, 1, 4]
    expected = dn.build(mechanism, dn.inverse_dynamics(mechanism))(
        dn.close_loops(mechanism, q[good]), *rates[:, good]
    )
    assert error(tau[good], expected).max() <= EXACT and np.isnan(tau[2:4]).all()


def test_loops_file(capsys, tmp_path, linkage):
    ends = (
        '<link name="end2"/><link name="end4"/>'
        '<joint name="e2" type="fixed"><parent link="left_lower"/><child link="end2"/><origin xyz="0.5 0 0"/></joint>'
        '<joint name="e4" type="fixed"><parent link="right_lower"/><child link="end4"/><origin xyz="0.5 0 0"/></joint>'
    )
    (tmp_path / "open.urdf").write_text(Path(linkage).read_text().split("<loop")[0] + ends + "</robot>")
    (tmp_path / "loops.yaml").write_text("closed_loop: [[end2, end4]]\ntype: [3d]\n")
    assert main(["info", str(tmp_path / "open.urdf"), "--loops", str(tmp_path / "loops.yaml")]) == 0
    assert "nq 4, nv 2" in capsys.readouterr().out
    assert main(["info", str(tmp_path / "open.urdf"), "--loops", str(tmp_path / "none.yaml")]) == 3
    assert "none.yaml" in capsys.readouterr().err


def test_names_cannot_move_the_cursor(tmp_path, capsys):
    """A direction mark in a name would hide the text after it. Warnings of other commands are one line each."""
    evil = "a\u202eb"
    text = urdf_text.robot(*(urdf_text.link(n) for n in ("base", evil)), urdf_text.joint("j1", "base", evil))
    path = tmp_path / "arm.urdf"
    path.write_text(text.replace("<limit", "<no_limit"), encoding="utf-8")
    assert main(["info", str(path)]) == 0
    out, err = capsys.readouterr()
    assert "a\\u202eb" in out and "warning: joint 'j1'" in out and err == ""
    assert main(["evaluate", str(path), str(tmp_path / evil), "--output", "out.npz"]) == 3
    out, err = capsys.readouterr()
    assert err.startswith("dynamics: warning: r: joint 'j1'") and err.count("\n") == 2
    assert "\u202e" not in out + err
