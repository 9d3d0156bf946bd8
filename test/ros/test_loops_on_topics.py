"""Robots with closed loops on topics: missing passive joints, outputs of all joints, singular positions. For results
and errors, see test/core/node/test_linkages_served."""

import numpy as np
import pytest
from diagnostic_msgs.msg import DiagnosticStatus
from dynamics_interfaces.srv import (
    ForwardDynamics,
    GetMassMatrix,
    GetOperationalSpaceInertia,
    HybridDynamics,
    InverseDynamics,
)
from five_bars import ALL, DRIVEN, FIVE_BAR, PASSIVE, QD, QDD, Q, closed, oracle
from rig import Rig, efforts, point, trajectory
from sensor_msgs.msg import JointState
from tolerances import EXACT, error

import dynamics_node as dn
from dynamics_demo.robots import geared_chain

LINEAR_FIRST = np.array([3, 4, 5, 0, 1, 2])


@pytest.fixture(scope="module")
def mechanism():
    return dn.parse_robot(FIVE_BAR)


@pytest.fixture(scope="module")
def bars():
    """A rig with the five-bar, on the branch of a state of all joints."""
    made = Rig(None, {"joint_state_timeout": 60.0})
    made.describe(FIVE_BAR)
    made.answered(ALL, closed(Q), [*QD, np.nan, np.nan])
    yield made
    made.close()


def in_order(solution, names):
    """Indices of joints."""
    return [list(solution.joint_names).index(name) for name in names]


def good(response):
    assert response.success, response.message
    return response


def test_torques_need_no_passive_joints(bars):
    """joint_states has only the driven joints; outputs have all joints, at a closed position."""
    message = bars.answered(DRIVEN, Q, QD)
    assert sorted(message.name) == sorted(ALL)
    oracle_robot = oracle()
    assert (
        error(efforts(message, DRIVEN), oracle_robot.torques_of(oracle_robot.closed(Q), QD, 0 * QDD)) <= EXACT
    )
    assert not efforts(message, PASSIVE).any()

    def solved():
        bars.answered(DRIVEN, Q, QD)
        return bars.solutions.get(max(bars.torques))

    solution = bars.until(solved, what="solution")
    positions = dict(zip(solution.joint_names, solution.points[0].positions, strict=True))
    assert oracle_robot.drift(positions) <= 1e-9
    _, values, level = bars.diagnostic(
        lambda s: s.message == "running", send=lambda: bars.send_state(DRIVEN, Q, QD)
    )
    assert values["loops"] == "j5" and level == DiagnosticStatus.OK
    assert 1.0 <= float(values["condition of the loops"]) < 100


def test_services_with_loops(bars, mechanism):
    own = closed(Q, mechanism.q_names)
    inverse = dn.build(mechanism, dn.inverse_dynamics(mechanism), backend="numpy")

    def request(kind, points=None):
        made = kind.Request()
        made.state.joints = JointState(name=DRIVEN, position=list(Q), velocity=list(QD))
        if points is not None:
            made.points = points
        return made

    tau = inverse(own, QD, QDD)
    points = trajectory(DRIVEN, point(0.1, qdd=QDD), point(0.2, q=Q + 0.1, qdd=QDD))
    solution = good(bars.call(InverseDynamics, "inverse_dynamics", request(InverseDynamics, points))).solution
    order = in_order(solution, DRIVEN)
    assert error(np.array(solution.points[0].effort)[order], tau) <= EXACT
    moved = closed(Q + 0.1, mechanism.q_names)
    assert error(np.array(solution.points[1].effort)[order], inverse(moved, QD, QDD)) <= EXACT
    positions = np.array(solution.points[1].positions)[in_order(solution, mechanism.q_names)]
    assert error(positions, moved) <= 1e-9
    sent_request = request(ForwardDynamics, trajectory(DRIVEN, point(0.1, effort=tau)))
    solution = good(bars.call(ForwardDynamics, "forward_dynamics", sent_request)).solution
    assert error(np.array(solution.points[0].accelerations)[order], QDD) <= 1e-9
    sent_request = request(HybridDynamics, trajectory(DRIVEN, point(0.1, qdd=QDD, effort=tau)))
    sent_request.forward_joints = ["j2"]
    solution = good(bars.call(HybridDynamics, "hybrid_dynamics", sent_request)).solution
    assert error(np.array(solution.points[0].accelerations)[order], QDD) <= 1e-9
    assert error(np.array(solution.points[0].effort)[order], tau) <= 1e-9
    response = good(bars.call(GetMassMatrix, "get_mass_matrix", request(GetMassMatrix)))
    M = np.array(response.mass_matrix.data).reshape(2, 2)
    assert list(response.mass_matrix.row_names) == DRIVEN
    assert error(M @ QDD + np.array(response.nonlinear_effects), tau) <= EXACT
    sent_request = request(GetOperationalSpaceInertia)
    sent_request.links = ["left_lower", "right_upper"]
    response = bars.call(GetOperationalSpaceInertia, "get_operational_space_inertia", sent_request)
    inertia_inverse = np.array(response.inertia_inverse.data).reshape(12, 12)
    order = np.concatenate([LINEAR_FIRST, 6 + LINEAR_FIRST])
    right = dn.build(
        mechanism, "operational_space_inertia_inverse", links=sent_request.links, backend="numpy"
    )(own)
    assert error(inertia_inverse, right[0][np.ix_(order, order)], tail=2) <= 1e-9
    assert "singular" in response.message  # a planar mechanism cannot push out of its plane


def test_a_trajectory_keeps_its_branch(bars):
    """Only the state has passive joints: each point is closed from the previous one."""
    path = [Q + part * np.array([0.35, -0.4]) for part in np.linspace(0, 1, 12)]
    request = InverseDynamics.Request(
        points=trajectory(DRIVEN, *(point(0.1 * (k + 1), q=at) for k, at in enumerate(path)))
    )
    request.state.joints = JointState(name=ALL, position=list(closed(Q)))
    solution = good(bars.call(InverseDynamics, "inverse_dynamics", request)).solution
    order = in_order(solution, ALL)
    for solved, at in zip(solution.points, path, strict=True):
        assert error(np.array(solved.positions)[order], closed(at)) <= EXACT


def test_driven_joints_have_the_torques(rig):
    """Rotors have the torques; forward dynamics reads those of rotors."""
    q, qd, qdd = [0.3, -0.5], [0.2, 0.4], np.array([0.5, -0.6])
    r = rig(None, {"driven.joints": ["m1", "m2"], "command_joints": ["m1", "m2"]})
    r.describe(geared_chain(2))
    message = r.answered(["j1", "j2"], q, qd)
    motors = efforts(message, ["m1", "m2"])
    assert motors.any() and not efforts(message, ["j1", "j2"]).any()
    r.until(lambda: r.commands and error(np.array(r.commands[-1]), motors) <= EXACT, what="commands")
    joints = JointState(name=["j1", "j2"], position=q, velocity=qd)
    request = InverseDynamics.Request(points=trajectory(["j1", "j2"], point(0.1, qdd=qdd)))
    request.state.joints = joints
    solution = good(r.call(InverseDynamics, "inverse_dynamics", request)).solution
    tau = np.array(solution.points[0].effort)[in_order(solution, ["m1", "m2"])]
    request = ForwardDynamics.Request(points=trajectory(["m1", "m2"], point(0.1, effort=tau)))
    request.state.joints = joints
    solution = good(r.call(ForwardDynamics, "forward_dynamics", request)).solution
    accelerations = np.array(solution.points[0].accelerations)[in_order(solution, ["j1", "j2"])]
    assert error(accelerations, qdd) <= 1e-9
    request.points = trajectory(["m1"], point(0.1, effort=[0.0]))
    assert "effort of m2" in r.call(ForwardDynamics, "forward_dynamics", request).message
    assert not r.set_parameters(driven__joints=["wheel"])[0]
    assert r.set_parameters(driven__joints=["m2"])[0]  # the first joint has no motor
    r.diagnostic(
        lambda s: any(v.key.startswith("unrealized torque") and float(v.value) > 0.1 for v in s.values),
        send=lambda: r.send_state(["j1", "j2"], q, qd),
    )
    request = HybridDynamics.Request(
        forward_joints=["j1"], points=trajectory(["j1"], point(0.1, effort=[0.0]))
    )
    request.state.joints = joints
    assert "does not support driven.joints" in r.call(HybridDynamics, "hybrid_dynamics", request).message
