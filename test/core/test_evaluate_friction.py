"""dynamics evaluate with friction: motor torques and accelerations, of trees and of loops."""

import numpy as np
import pytest
from two_links import ARM

import dynamics_node as dn
from dynamics_demo.robots import five_bar
from dynamics_node.algorithms import smooth_friction
from dynamics_node.cli import main
from dynamics_node.robot.urdf_numbers import Dynamics, with_numbers

JOINTS = dn.parse_robot(ARM).v_names
PARAMETERS = (
    f"joints: {{{JOINTS[0]}: {{viscous: 0.7, coulomb: 0.2, creep: 0.3, offset: 0.4, spring: 1.5}}, "
    f"{JOINTS[1]}: {{viscous: 0.5, coulomb: 0.1}}}}"
)
FRICTION = ("--friction", "--no-friction")


def evaluate(tmp_path, urdf, states, *options):
    (tmp_path / "robot.urdf").write_text(urdf)
    np.savez(tmp_path / "states.npz", **states)
    files = [str(tmp_path / "states.npz"), "--output", str(tmp_path / "tau.npz")]
    assert main(["evaluate", str(tmp_path / "robot.urdf"), *files, *options]) == 0
    table = np.load(tmp_path / "tau.npz")
    return table["tau" if "tau" in table else "qdd"]


def test_friction_of_the_description(tmp_path):
    urdf = with_numbers(ARM, {}, {JOINTS[0]: Dynamics(0.7, 0.2), JOINTS[1]: Dynamics(0.5, 0.0)})
    q, qd, qdd = np.random.default_rng(0).uniform(-1, 1, (3, 30, 2))
    qd[3, 1] = np.nan
    states = {"q": q, "qd": qd, "qdd": qdd}
    with_friction, without_friction = (
        evaluate(tmp_path, urdf, states, *options) for options in ([], ["--no-friction"])
    )
    friction = smooth_friction(qd, np.array([0.7, 0.5]), np.array([0.2, 0.0]))
    good = np.arange(30) != 3
    assert np.abs(with_friction - without_friction - friction)[good].max() <= 1e-12
    assert np.isnan(with_friction[3]).all()


def test_friction_springs_and_offsets_of_parameters(tmp_path):
    path = tmp_path / "parameters.yaml"
    path.write_text(PARAMETERS)
    q, qd, qdd = np.random.default_rng(1).uniform(-1, 1, (3, 30, 2))
    parameters = ["--parameters", str(path)]
    torques = [
        evaluate(tmp_path, ARM, {"q": q, "qd": qd, "qdd": qdd}, *parameters, *options)
        for options in ([], ["--no-friction"])
    ]
    friction = smooth_friction(qd, np.array([0.7, 0.5]), np.array([0.2, 0.1]))
    friction[:, 0] += 0.3 * np.tanh(qd[:, 0] / 0.1) + 0.4 + 1.5 * q[:, 0]
    assert np.abs(torques[0] - torques[1] - friction).max() <= 1e-12


def test_friction_of_all_joints_acts_on_loops(tmp_path):
    """Independent torques have the power that friction takes in all joints."""
    urdf = five_bar()
    names = [joint.name for joint in dn.parse_robot(urdf).tree.independent_joints]
    urdf = with_numbers(urdf, {}, {name: Dynamics(0.3, 0.0) for name in names})
    robot = dn.parse_robot(urdf)
    q = dn.close_loops(robot, np.full((1, robot.nq), 0.1))
    yd = np.array([[0.4, -0.7]])
    states = {"q": q, "qd": yd, "qdd": np.zeros((1, 2))}
    with_friction, without_friction = (
        evaluate(tmp_path, urdf, states, *options) for options in ([], ["--no-friction"])
    )
    step = 1e-6
    ahead = q.copy()
    columns = [robot.tree.independent_joints[k].q.start for k in robot.independent]
    ahead[:, columns] += step * yd
    rates = (dn.close_loops(robot, ahead) - q) / step
    assert ((with_friction - without_friction) * yd).sum() == pytest.approx(0.3 * (rates**2).sum(), rel=1e-4)


def test_forward_dynamics_inverts_torques_with_friction(tmp_path):
    """In a loop; a row that is not finite stays NaN."""
    urdf = five_bar()
    names = [joint.name for joint in dn.parse_robot(urdf).tree.independent_joints]
    urdf = with_numbers(urdf, {}, {name: Dynamics(0.3, 0.1) for name in names})
    robot = dn.parse_robot(urdf)
    q = np.tile(dn.close_loops(robot, np.full(robot.nq, 0.1)), (4, 1))
    qd, qdd = np.random.default_rng(2).uniform(-1, 1, (2, 4, robot.nv))
    qd[2, 0] = np.nan
    tau = evaluate(tmp_path, urdf, {"q": q, "qd": qd, "qdd": qdd})
    inputs = {"q": q, "qd": qd, "tau": tau}
    accelerations = [
        evaluate(tmp_path, urdf, inputs, "--problem", "forward", options) for options in FRICTION
    ]
    good = np.arange(4) != 2
    assert np.abs(accelerations[0] - qdd)[good].max() <= 1e-9
    assert np.abs(accelerations[1] - qdd)[good].max() > 1e-2 and np.isnan(accelerations[0][2]).all()
