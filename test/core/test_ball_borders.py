"""Ball joints at the borders: files, tables, the command line, the node's decisions."""

import csv

import numpy as np
import pytest
from bags import write_bag
from balls import ball_robot
from mechanisms import joint, link, robot
from robots import random_states
from test_ball_loops import wrist
from test_joint_names import served
from tolerances import EXACT, error

import dynamics_node as dn
from dynamics_node.cli import main
from dynamics_node.node.core import Silence
from dynamics_node.tables import TableError, evaluate, open_table, table_writer


@pytest.fixture
def leg(tmp_path):
    """A file with a hip (ball) and a knee."""
    path = tmp_path / "leg.urdf"
    parts = [link("hips"), link("thigh", 1, 2.0, solid=True), link("shank", 2, 1.0, solid=True)]
    parts += [
        joint("hip", "hips", "thigh", kind="ball"),
        joint("knee", "thigh", "shank", "0 0 -0.4", "0 1 0"),
    ]
    path.write_text(robot(*parts, name="leg"))
    return path


def test_a_file_says_ball(leg):
    model = dn.load_model(leg)
    assert [body.joint.kind for body in model.bodies] == ["ball", "revolute"]
    assert not model.warnings
    with pytest.raises(dn.ModelError, match="unknown type 'spherical'; known: .*ball|joint 'hip'.*spherical"):
        dn.parse_model(leg.read_text().replace('type="ball"', 'type="spherical"'))


def test_info_graph_and_explain(leg, tmp_path, capsys):
    assert main(["info", str(leg), "--at", "0", "0", "0", "1", "0.5"]) == 0
    told = capsys.readouterr().out
    assert "nq 5, nv 4" in told and "ball" in told and "mass matrix" in told
    assert main(["graph", str(leg), "--ordering", "aba"]) == 0
    assert "qdd1" in capsys.readouterr().out
    assert main(["explain", str(leg), "--out", str(tmp_path / "page")]) == 0
    assert "hip.angular.x" in (tmp_path / "page" / "index.html").read_text()


@pytest.mark.parametrize("kind", ["csv", "npz"])
def test_a_table_is_evaluated(leg, tmp_path, kind):
    model = dn.load_model(leg)
    q, qd, qdd, _ = random_states(model, 6, seed=51)
    path, out = tmp_path / f"states.{kind}", tmp_path / "out.npz"
    if kind == "npz":
        np.savez(path, q=q, qd=qd, qdd=qdd)
    else:
        pytest.importorskip("pyarrow")
        names = [
            f"{k}.{n}"
            for k, of in (("q", model.q_names), ("qd", model.v_names), ("qdd", model.v_names))
            for n in of
        ]
        with path.open("w", newline="") as file:
            csv.writer(file).writerows([names, *np.hstack([q, qd, qdd]).tolist()])
    problem = dn.inverse_dynamics(model)
    solver = dn.build(model, problem)
    table = open_table(path, model, problem)
    with table_writer(out, model, "tau", table.timed) as write:
        evaluate(solver, table, write)
    assert error(np.load(out)["tau"], solver(q, qd, qdd)).max() <= 1e-12


def test_what_no_table_can_tell(leg, tmp_path):
    model = dn.load_model(leg)
    q = random_states(model, 6, seed=52)[0]
    np.savez(tmp_path / "positions.npz", q=q, time=np.linspace(0, 1, 6))
    with pytest.raises(
        TableError, match="no velocities: those of ball joint 'hip' do not come from its pose"
    ):
        open_table(tmp_path / "positions.npz", model, dn.inverse_dynamics(model), cutoff=5.0)
    pytest.importorskip("rosbags")
    write_bag(tmp_path / "bag", [("/joint_states", ["knee"], [0.1], [0.0], [0.0])])
    with pytest.raises(TableError, match="JointStates do not carry the position of ball joint 'hip'"):
        open_table(tmp_path / "bag", model, dn.inverse_dynamics(model))


def test_the_node_says_what_it_cannot_serve(leg):
    """No topic that it listens to has the orientation of the hip."""
    core = served(leg.read_text())
    core.joints.update(("knee",), (0.3,), (0.1,), (), 1, 1)
    message = "ball joint 'hip' has several coordinates, and joint_states cannot carry them"
    for call in (lambda: core.solve(lambda: 1, 1), core.gravity_torques, lambda: core.measured_state(1)):
        with pytest.raises(Silence, match=message):
            call()


def test_the_node_serves_what_is_left_when_the_ball_joint_is_held(leg):
    core = served(leg.read_text(), joints=["knee"])
    core.joints.update(("knee",), (0.3,), (0.1,), (), 1, 1)
    model = dn.load_model(leg, joints=["knee"])
    expected = dn.build(model, dn.inverse_dynamics(model), backend="numpy")([0.3], [0.1], [0.0])
    assert error(core.solve(lambda: 1, 1).tau, expected) <= 1e-12


def test_a_ball_joint_that_follows_from_others_needs_no_topic(tmp_path):
    """Of the wrist one hinge is measured; the orientation of the hand follows, in the node and from a bag."""
    mechanism = dn.parse_mechanism(wrist())
    (own,) = mechanism.joint_names
    at = {joint.name: joint for joint in mechanism.tree.independent_joints}[own].q.start
    core = served(wrist())
    core.joints.update((own,), (-0.1,), (0.2,), (), 1, 1)
    found = core.solve(lambda: 1, 1)
    assert found.q[at] == -0.1
    assert error(dn.close_loops(mechanism, found.q), found.q) <= 1e-8
    expected = dn.build(mechanism, dn.inverse_dynamics(mechanism))(found.q, [0.2], [0.0])
    assert error(found.tau[mechanism.independent], expected) <= EXACT
    write_bag(tmp_path / "bag", [("/joint_states", [own], [-0.1], [0.2], [0.0])])
    table = open_table(tmp_path / "bag", mechanism, dn.inverse_dynamics(mechanism))
    (rows,) = table.chunks()
    assert error(rows["q"][0], found.q) <= 1e-8


def test_long_names_of_a_random_robot():
    model = dn.parse_model(ball_robot(3), floating_base=True)
    assert len(set(model.q_names)) == model.nq and len(set(model.v_names)) == model.nv
