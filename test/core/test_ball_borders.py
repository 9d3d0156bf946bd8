"""Ball joints in files, in tables and on the command line."""

import csv

import numpy as np
import pytest
from bags import write_bag
from balls import ball_robot, leg, wrist
from robots import random_states
from tolerances import error

import dynamics_node as dn
from dynamics_node.cli import main
from dynamics_node.errors import TableError
from dynamics_node.io import evaluate, open_table, table_writer


@pytest.fixture
def path(tmp_path):
    """A file with a hip (ball) and a knee."""
    path = tmp_path / "leg.urdf"
    path.write_text(leg())
    return path


def test_urdf_with_a_ball_joint(path):
    model = dn.load_robot(path)
    assert [body.joint.kind for body in model.bodies] == ["ball", "revolute"]
    assert not model.warnings
    with pytest.raises(dn.ModelError, match="'spherical'.*ball|'hip'.*spherical"):
        dn.parse_robot(path.read_text().replace('type="ball"', 'type="spherical"'))


def test_info_and_explain(path, tmp_path, capsys):
    assert main(["info", str(path), "--at", "0,0,0,1,0.5"]) == 0
    output = capsys.readouterr().out
    assert "nq 5, nv 4" in output and "ball" in output and "mass matrix" in output
    assert main(["explain", str(path), "--ordering", "aba", "-o", str(tmp_path / "page")]) == 0
    assert "aba" in capsys.readouterr().out
    assert "hip.angular.x" in (tmp_path / "page" / "index.html").read_text()


@pytest.mark.parametrize("kind", ["csv", "npz"])
def test_table_is_evaluated(path, tmp_path, kind):
    model = dn.load_robot(path)
    q, qd, qdd, _ = random_states(model, 6, seed=51)
    states, out = tmp_path / f"states.{kind}", tmp_path / "out.npz"
    if kind == "npz":
        np.savez(states, q=q, qd=qd, qdd=qdd)
    else:
        pytest.importorskip("pyarrow")
        columns = {"q": model.q_names, "qd": model.v_names, "qdd": model.v_names}
        names = [f"{k}.{name}" for k, own in columns.items() for name in own]
        with states.open("w", newline="") as file:
            csv.writer(file).writerows([names, *np.hstack([q, qd, qdd]).tolist()])
    problem = dn.inverse_dynamics(model)
    solver = dn.build(model, problem)
    table = open_table(states, model, problem)
    with table_writer(out, model, "tau", table.timed) as write:
        evaluate(solver, table, write)
    assert error(np.load(out)["tau"], solver(q, qd, qdd)).max() <= 1e-12


def test_tables_without_ball_joint_data_raise(path, tmp_path):
    model = dn.load_robot(path)
    q = random_states(model, 6, seed=52)[0]
    np.savez(tmp_path / "positions.npz", q=q, time=np.linspace(0, 1, 6))
    with pytest.raises(TableError, match="velocities.*'hip'"):
        open_table(tmp_path / "positions.npz", model, dn.inverse_dynamics(model), cutoff=5.0)
    pytest.importorskip("rosbags")
    write_bag(tmp_path / "bag", [("/joint_states", ["knee"], [0.1], [0.0], [0.0])])
    with pytest.raises(TableError, match="position.*'hip'"):
        open_table(tmp_path / "bag", model, dn.inverse_dynamics(model))


def test_bag_may_omit_a_dependent_ball_joint(tmp_path):
    """The bag has one hinge of the wrist."""
    mechanism = dn.parse_robot(wrist())
    (hinge,) = mechanism.joint_names
    write_bag(tmp_path / "bag", [("/joint_states", [hinge], [-0.1], [0.2], [0.0])])
    (rows,) = open_table(tmp_path / "bag", mechanism, dn.inverse_dynamics(mechanism)).chunks()
    q = rows["q"][0]
    assert q[mechanism.q_names.index(hinge)] == -0.1
    assert error(dn.close_loops(mechanism, q), q) <= 1e-8


def test_coordinate_names_are_unique():
    model = dn.parse_robot(ball_robot(3), floating_base=True)
    assert len(set(model.q_names)) == model.nq and len(set(model.v_names)) == model.nv
