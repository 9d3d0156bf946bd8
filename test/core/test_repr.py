"""`repr` of what users meet has at most twelve short lines."""

import numpy as np
import pytest
from robots import robot_of

import dynamics_node as dn
from dynamics_demo.robots import geared_chain
from dynamics_node.display import WIDE
from dynamics_node.estimation.payload_fit import PayloadFit

NAMES = ("talos", "five_bar")


@pytest.fixture(scope="module", params=NAMES)
def robot(request):
    return robot_of(request.param)


def require_short(thing):
    lines = repr(thing).splitlines()
    assert len(lines) <= 12 and max(map(len, lines)) <= WIDE + 20, repr(thing)
    return lines


def test_robot(robot):
    lines = require_short(robot)
    assert robot.name in lines[0] and f"nv {robot.nv}" in lines[0]
    assert any("loops" in line and robot.constraints[0].name in line for line in lines) == robot.constrained
    assert robot._repr_html_().count("<tr>") == robot.nbodies + 1
    for part in (*robot.bodies, *robot.clusters, *robot.frames.values()):
        require_short(part)


def test_functions_and_results(robot):
    q, rest = dn.close_loops(robot, robot_position(robot)), np.zeros(robot.nv)
    for name, state in (
        ("inverse_dynamics", (q, rest, rest)),
        ("center_of_mass", (q,)),
        ("energy_regressor", (q, rest)),
    ):
        function = dn.build(robot, name, backend="numpy")
        assert name in require_short(function)[0]
        require_short(function(*state))
    require_short(function.spec.choice)
    require_short(dn.forward_dynamics(robot))


def test_joints_of_a_floating_robot():
    robot = robot_of("talos")
    line = next(line for line in require_short(robot) if line.split()[0] == "joints")
    assert line.split("joints")[1].strip().startswith(f"floating base, {robot.joint_names[0]}, ")


def test_derivatives_name_their_results():
    robot = robot_of("five_bar")
    derivatives = dn.build(robot, "inverse_dynamics", backend="numpy").derivatives()
    line = next(line for line in require_short(derivatives) if "returns" in line)
    assert line.split()[1::3] == ["dtau_dq", "dtau_dqd", "dtau_dqdd"]


def test_loop_solver():
    lines = require_short(dn.build_loop_solver(robot_of("five_bar"), backend="numpy"))
    assert lines[0] == "LoopSolver of 'five_bar'" and any("j1" in line for line in lines)


def test_observer_and_filter(arm):
    observer = dn.build_observer(arm, dn.ObserverOptions(velocity_std=1e-3, torque_std=0.1), backend="numpy")
    rates = dn.JointFilter(arm, position_std=1e-5, jerk_density=1e4, backend="numpy")
    for thing, name in (observer, "MomentumObserver of"), (rates, "JointFilter: 1 joint"):
        assert require_short(thing)[0].startswith(name) and "no " in repr(thing)
    observer.step(0.25, [0.1], [0.0], [0.0])
    rates.step(0.25, [0.1])
    for thing in observer, rates:
        assert any(line.split() == ["time", "0.25", "s"] for line in require_short(thing))


def test_programs_and_parameters(arm):
    linear = dn.RegressorModel(arm, ("inertia", "viscous"), "numpy")
    base = dn.base_parameters(linear)
    assert f"BaseParameters: {base.count} of {len(linear.names)}" in require_short(base)[0]
    program = dn.build(arm, "mass_matrix", backend="c").program
    assert require_short(program)[0].startswith("Program: ")
    assert (
        repr(dn.QUANTITIES["frame_jacobian"])
        == "Quantity(reads: q, returns: jacobian, options: link reference)"
    )
    assert "returns: dtau_dq dtau_dqd dtau_dqdd" in repr(dn.QUANTITIES["inverse_dynamics_derivatives"])
    assert max(len(repr(row)) for row in dn.QUANTITIES.values()) <= WIDE + 20


@pytest.fixture(scope="module")
def arm():
    return dn.parse_robot(geared_chain(1))


def test_trajectory(arm):
    motion = dn.simulate(arm, [1.0], steps=3, backend="numpy")
    assert "4 states, 0 to 0.003 s" in require_short(motion)[0]
    assert "0 states" in require_short(motion.first(0))[0]


def test_identified(arm):
    t = np.linspace(0.0, 10.0, 501)[:, None]
    state = np.sin(t), np.cos(t), -np.sin(t)
    linear = dn.RegressorModel(arm, ("inertia", "viscous"), "numpy")
    assert f"{len(linear.names)} parameters" in require_short(linear)[0]
    tau = linear.matrix(*state) @ linear.described + 0.1 * np.cos(t)
    recording = dict(zip(("q", "qd", "qdd", "tau"), (*state, tau), strict=True))
    fit = dn.identify(arm, [lambda: iter([recording])], linear.terms, backend="numpy")
    assert "better" in require_short(fit)[0]
    table = fit._repr_html_()
    assert table.count("<tr>") == 2
    assert all(f"<th>rms {name}</th>" in table for name in ("described", "identified", "unseen"))
    assert f"<td>j1</td><td>N m</td><td>{fit.rmse_nominal[0]:.4g}</td>" in table


def test_excitation_trajectory(arm):
    motion = dn.design_excitation(
        arm, 5.0, 2, terms=("inertia",), restarts=1, time_limit=0.1, backend="numpy"
    )
    assert "5 s" in require_short(motion)[0]


def test_payload_and_tool():
    fitted = PayloadFit(np.zeros(10), np.eye(10), np.ones(7), 3.0, np.ones(7))
    payload = dn.Payload("hand", np.ones(10), np.eye(10), ("mass",) * 40, fitted, 100, ("odd",) * 40)
    assert "hand" in require_short(payload)[0]
    for size in (10, 6):  # with mass and center of mass; the bias alone
        tool = dn.Tool(
            "wrist", {}, np.ones(6), 1.5, np.ones(3), np.eye(size), 3.0, np.zeros((8, 6)), np.nan, 38, 2
        )
        lines = require_short(tool)
        assert "wrist" in lines[0] and any("mass_std" in line for line in lines) == (size == 10)


def robot_position(robot):
    return np.full(robot.nq, 0.1) if robot.constrained else robot.neutral()


def test_html_is_escaped():
    """Names come from the network."""
    robot = dn.parse_robot(
        '<robot name="&lt;script&gt;"><link name="a"/><link name="&lt;b&gt;"><inertial><mass value="1"/>'
        '<inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link>'
        '<joint name="&lt;j&gt;" type="continuous"><parent link="a"/><child link="&lt;b&gt;"/></joint></robot>'
    )
    table = robot._repr_html_()
    assert "<script>" not in table and "<b>" not in table and "&lt;j&gt;" in table
