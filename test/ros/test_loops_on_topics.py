"""Robots with closed loops on real topics: passive joints missing, every joint named, singular positions withheld."""

import time

import numpy as np
import pytest
from diagnostic_msgs.msg import DiagnosticStatus
from dynamics_interfaces.srv import (
    ForwardDynamics,
    GetMassMatrix,
    GetOperationalSpaceInertia,
    HybridDynamics,
    InverseDynamics,
    SetPayload,
)
from rig import efforts, point, trajectory
from sensor_msgs.msg import JointState
from std_srvs.srv import Trigger
from tolerances import EXACT, error

import dynamics_node as dn
from dynamics_node.demo.five_bar import FiveBarOracle
from dynamics_node.robots import five_bar, four_bar, geared_chain, quadruped
from dynamics_node.robots.planar import UPRIGHT

FIVE_BAR = five_bar(UPRIGHT)
ALL_JOINTS = ["j1", "j3", "j2", "j4"]
pytest.importorskip("pinocchio", reason="the independent oracle: pip install pin")
DRIVEN = ["j1", "j2"]
Q = np.array([1.9, 1.2])  # of the driven joints
QD, QDD = np.array([0.3, -0.4]), np.array([0.5, 0.8])
OPEN = "a loop is at a singular position, or too near: pin"


@pytest.fixture(scope="module")
def mechanism():
    return dn.parse_mechanism(FIVE_BAR)


@pytest.fixture
def loop_rig(rig):
    """loop_rig(text, parameters) -> Rig that has described the robot."""

    def make(text=FIVE_BAR, parameters=None, wait="c-"):
        r = rig(None, parameters)
        r.describe(text)
        r.until(lambda: wait in r.process.output() or "projection" in r.process.output(), 30, "a robot")
        return r

    return make


@pytest.mark.parametrize(
    "parameters", [{}, {"backend": "numpy"}, {"solver": "factor_graph", "ordering": "colamd"}]
)
def test_torques_without_passive_joints(loop_rig, parameters):
    """joint_states name the driven joints alone; outputs name every joint, and are closed."""
    r = loop_rig(parameters=parameters, wait="dynamics by")
    theirs = FiveBarOracle(FIVE_BAR)
    q = theirs.closed(Q)
    r.answered([*DRIVEN, "j3", "j4"], q[[theirs.at[n] for n in (*DRIVEN, "j3", "j4")]], [*QD, np.nan, np.nan])
    r.send_reference(DRIVEN, point(qdd=QDD))
    r.spin(0.2)
    message = r.answered(DRIVEN, Q, QD)
    assert sorted(message.name) == sorted(ALL_JOINTS)
    assert error(efforts(message, DRIVEN), theirs.torques_of(q, QD, QDD)) <= EXACT
    assert not efforts(message, ["j3", "j4"]).any()
    solution = r.until(lambda: r.solutions.get(max(r.torques)), what="solution")
    order = [list(solution.joint_names).index(n) for n in ("j1", "j3", "j2", "j4")]
    found = np.array(solution.points[0].positions)[order]
    there = np.zeros(4)
    there[[theirs.at[n] for n in ("j1", "j3", "j2", "j4")]] = found
    assert np.abs(theirs.gap(there)).max() <= 1e-9 and error(there, q) <= EXACT
    rates = np.array(solution.points[0].velocities)[order]
    assert error(rates, (theirs.motion(q) @ QD)[[theirs.at[n] for n in ("j1", "j3", "j2", "j4")]]) <= 1e-9


def test_the_branch_is_kept_over_a_motion(loop_rig):
    """Only the driven joints move, a long way; the elbows stay outside."""
    r = loop_rig()
    theirs = FiveBarOracle(FIVE_BAR)
    q = theirs.closed(Q)
    r.answered([*DRIVEN, "j3", "j4"], q[[theirs.at[n] for n in (*DRIVEN, "j3", "j4")]], [*QD, 0, 0])
    for part in np.linspace(0, 1, 25):
        driven = Q + part * np.array([0.35, -0.4])
        message = r.answered(DRIVEN, driven, QD)
    solution = r.until(lambda: r.solutions.get(max(r.torques)), what="solution")
    named = dict(zip(solution.joint_names, solution.points[0].positions, strict=True))
    expected = theirs.closed(driven)
    assert (
        error(np.array([named[n] for n in ALL_JOINTS]), expected[[theirs.at[n] for n in ALL_JOINTS]]) <= EXACT
    )
    assert len(message.effort) == 4


def test_a_driven_joint_is_needed(loop_rig):
    r = loop_rig()
    assert r.silent_for(0.6, lambda: r.send_state(["j1", "j3", "j4"], [1.9, -1.0, 1.0], [0.0] * 3))
    message, values, level = r.diagnostic(
        lambda s: "never seen" in s.message, send=lambda: r.send_state(["j1"], [1.9], [0])
    )
    assert "never seen: j2" in message and level == DiagnosticStatus.WARN
    assert values["loops"] == "j5"


def test_a_position_that_cannot_be_closed_is_withheld(loop_rig):
    """The driven bars too far apart: silence with the loop by name, then torques again from the old branch."""
    r = loop_rig()
    r.answered(DRIVEN, Q, QD)
    far = [3.1, 0.0]
    assert r.silent_for(0.6, lambda: r.send_state(DRIVEN, far, QD))
    message, _, _ = r.diagnostic(
        lambda s: "no closed position" in s.message, send=lambda: r.send_state(DRIVEN, far, QD)
    )
    assert "'j5' stay open by" in message
    assert np.isfinite(r.answered(DRIVEN, Q, QD).effort).all()


def test_singular_positions_are_flagged_and_withheld(loop_rig):
    """A parallelogram that is stretched out: its coupler may go either way."""
    text = four_bar().replace('xyz="0.7 0 0"', 'xyz="0.9 0 0"').replace('xyz="0.3 0 0"', 'xyz="0.1 0 0"')
    text = text.replace('xyz="0.6 0 0"', 'xyz="0.1 0 0"').replace('xyz="0.8 0 0"', 'xyz="0.9 0 0"')
    r = loop_rig(text)
    names = ["crank_j", "coupler_j", "rocker_j"]
    flat = lambda: r.send_state(names, [0, 0, 0], [0.5, 0, 0])  # noqa: E731
    assert r.silent_for(0.6, flat)
    message, values, _ = r.diagnostic(lambda s: "singular" in s.message, send=flat)
    assert OPEN in message
    for kind, name in ((InverseDynamics, "inverse_dynamics"), (GetMassMatrix, "get_mass_matrix")):
        flat()
        response = r.call(kind, name)
        assert not response.success and OPEN in response.message
    bent = r.answered(names, [0.5, -0.5, 0.5], [0.5, 0, 0])
    assert np.isfinite(bent.effort).all() and efforts(bent, ["crank_j"]).any()
    _, values, level = r.diagnostic(
        lambda s: s.message == "running", send=lambda: r.send_state(names, [0.5, -0.5, 0.5], [0.5, 0, 0])
    )
    assert 1.0 <= float(values["condition of the loops"]) < 100 and level == DiagnosticStatus.OK


def test_services(loop_rig, mechanism):
    r = loop_rig()
    theirs = FiveBarOracle(FIVE_BAR)
    q = theirs.closed(Q)
    own = q[[theirs.at[n] for n in mechanism.q_names]]
    r.answered([*DRIVEN, "j3", "j4"], q[[theirs.at[n] for n in (*DRIVEN, "j3", "j4")]], [*QD, 0, 0])
    inverse, forward = (dn.build(mechanism, p(mechanism)) for p in (dn.inverse_dynamics, dn.forward_dynamics))

    def request(kind, points=None):
        made = kind.Request()
        made.state.joints = JointState(name=DRIVEN, position=list(Q), velocity=list(QD))
        if points is not None:
            made.points = points
        return made

    tau = inverse(own, QD, QDD)
    points = trajectory(DRIVEN, point(0.1, qdd=QDD), point(0.2, q=Q + 0.1, qdd=QDD))
    response = r.call(InverseDynamics, "inverse_dynamics", request(InverseDynamics, points))
    assert response.success, response.message
    order = [list(response.solution.joint_names).index(n) for n in DRIVEN]
    assert error(np.array(response.solution.points[0].effort)[order], tau) <= EXACT
    moved = theirs.closed(Q + 0.1)[[theirs.at[n] for n in mechanism.q_names]]
    assert error(np.array(response.solution.points[1].effort)[order], inverse(moved, QD, QDD)) <= EXACT
    assert (
        error(
            np.array(response.solution.points[1].positions)[
                [list(response.solution.joint_names).index(n) for n in mechanism.q_names]
            ],
            moved,
        )
        <= 1e-9
    )
    response = r.call(
        ForwardDynamics,
        "forward_dynamics",
        request(ForwardDynamics, trajectory(DRIVEN, point(0.1, effort=tau))),
    )
    assert error(np.array(response.solution.points[0].accelerations)[order], QDD) <= 1e-9
    made = request(HybridDynamics, trajectory(DRIVEN, point(0.1, qdd=QDD, effort=tau)))
    made.forward_joints = ["j2"]
    response = r.call(HybridDynamics, "hybrid_dynamics", made)
    assert response.success, response.message
    assert error(np.array(response.solution.points[0].accelerations)[order], QDD) <= 1e-9
    assert error(np.array(response.solution.points[0].effort)[order], tau) <= 1e-9
    response = r.call(GetMassMatrix, "get_mass_matrix", request(GetMassMatrix))
    M = np.array(response.mass_matrix.data).reshape(2, 2)
    assert list(response.mass_matrix.row_names) == DRIVEN
    assert error(M @ QDD + np.array(response.bias), tau) <= EXACT
    made = request(GetOperationalSpaceInertia)
    made.links = ["left_lower", "right_upper"]
    response = r.call(GetOperationalSpaceInertia, "get_operational_space_inertia", made)
    found = np.array(response.inertia_inverse.data).reshape(12, 12)
    linear_first = [3, 4, 5, 0, 1, 2, 9, 10, 11, 6, 7, 8]
    right = dn.build_quantity(mechanism, "operational_space_inertia", links=made.links)(own)[0]
    assert error(found, right[np.ix_(linear_first, linear_first)], tail=2) <= 1e-9
    assert "singular" in response.message  # a planar mechanism cannot push out of its plane


def test_a_payload_on_a_loop(loop_rig, mechanism):
    r = loop_rig()
    r.until(lambda: "projection (c)" in r.process.output() or "c-rnea (c)" in r.process.output(), 60)
    request = SetPayload.Request(link="left_lower")
    request.inertia.m, request.inertia.com.x = 2.0, 0.4
    theirs = FiveBarOracle(FIVE_BAR)
    q = theirs.closed(Q)
    r.answered([*DRIVEN, "j3", "j4"], q[[theirs.at[n] for n in (*DRIVEN, "j3", "j4")]], [*QD, 0, 0])
    response = r.call(SetPayload, "set_payload", request)
    assert response.success, response.message
    loaded = dn.with_payload(mechanism, "left_lower", 2.0, (0.4, 0, 0), np.zeros((3, 3)))
    expected = dn.build(loaded, dn.inverse_dynamics(loaded))(
        q[[theirs.at[n] for n in mechanism.q_names]], QD, np.zeros(2)
    )
    assert error(efforts(r.answered(DRIVEN, Q, QD), DRIVEN), expected) <= EXACT


def test_friction_at_passive_joints_costs_the_driven_ones(loop_rig, mechanism):
    """tau += G^T tau_q."""
    parameters = {
        "compensate.friction": True,
        "friction.joints": ["j3"], "friction.viscous": [2.0], "friction.coulomb": [0.0],
    }  # fmt: skip
    r = loop_rig(parameters=parameters)
    theirs = FiveBarOracle(FIVE_BAR)
    q = theirs.closed(Q)
    r.answered([*DRIVEN, "j3", "j4"], q[[theirs.at[n] for n in (*DRIVEN, "j3", "j4")]], [*QD, 0, 0])
    G = theirs.motion(q)[theirs.at["j3"]]
    bare = dn.build(mechanism, dn.inverse_dynamics(mechanism))(
        q[[theirs.at[n] for n in mechanism.q_names]], QD, np.zeros(2)
    )
    assert error(efforts(r.answered(DRIVEN, Q, QD), DRIVEN), bare + G * 2.0 * (G @ QD)) <= 1e-9


def test_loops_from_a_file(loop_rig, tmp_path):
    ends = (
        '<link name="end2"/><link name="end4"/>'
        '<joint name="e2" type="fixed"><parent link="left_lower"/><child link="end2"/><origin xyz="0.5 0 0"/></joint>'
        '<joint name="e4" type="fixed"><parent link="right_lower"/><child link="end4"/><origin xyz="0.5 0 0"/></joint>'
    )
    text = FIVE_BAR.split("<loop")[0] + ends + "</robot>"
    (tmp_path / "loops.yaml").write_text("closed_loop: [[end2, end4]]\ntype: [3d]\n")
    r = loop_rig(text, {"loops_file": str(tmp_path / "loops.yaml")})
    theirs = FiveBarOracle(FIVE_BAR)
    q = theirs.closed(Q)
    message = r.answered([*DRIVEN, "j3", "j4"], q[[theirs.at[n] for n in (*DRIVEN, "j3", "j4")]], [*QD, 0, 0])
    assert error(efforts(message, DRIVEN), theirs.torques_of(q, QD, np.zeros(2))) <= EXACT
    assert not r.set_parameters(loops_file=str(tmp_path / "none.yaml"))[0], "nobody else names files"
    (tmp_path / "loops.yaml").unlink()  # it is read where robots are built
    r.call(Trigger, "reload")
    found = r.diagnostic(lambda s: "loops.yaml" in s.message, 15, lambda: r.send_state(DRIVEN, Q, QD))
    assert found[2] == DiagnosticStatus.WARN
    assert error(efforts(r.answered(DRIVEN, Q, QD), DRIVEN), theirs.torques_of(q, QD, np.zeros(2))) <= EXACT


@pytest.mark.parametrize(
    "wrong, reason",
    [
        (
            FIVE_BAR.replace('successor link="right_lower"', 'successor link="hand"'),
            "successor link 'hand' does not exist",
        ),
        (
            FIVE_BAR.replace('independent="true"', 'independent="false"'),
            "2 joints follow from the others, but the file marks 4",
        ),
        (
            four_bar().replace('xyz="0.7 0 0"', 'xyz="9 0 0"'),
            "no position was found in which the loop is closed",
        ),
    ],
)
def test_bad_loops_leave_the_last_robot(loop_rig, wrong, reason):
    r = loop_rig()
    before = efforts(r.answered(DRIVEN, Q, QD), DRIVEN)
    r.describe(wrong)
    message, _, level = r.diagnostic(lambda s: reason in s.message, 15, lambda: r.send_state(DRIVEN, Q, QD))
    assert level == DiagnosticStatus.WARN
    assert error(efforts(r.answered(DRIVEN, Q, QD), DRIVEN), before) <= EXACT


def test_rotors_of_a_floating_robot(loop_rig):
    """A quadruped: rotors need not be measured; they turn with their gears; the base comes from odom."""
    r = loop_rig(quadruped(), {"floating_base": True})
    mechanism = dn.parse_mechanism(quadruped(), floating_base=True)
    random = np.random.default_rng(0)
    names = mechanism.joint_names
    q, qd = random.uniform(-0.5, 0.5, (2, len(names)))
    pose, twist = [0.1, 0.2, 0.3, 0, 0, 0, 1], [0.1, 0.2, -0.1, 0.3, 0.0, 0.2]
    end = time.monotonic() + 15
    while not r.torques and time.monotonic() < end:
        r.send_odometry(pose, twist)
        r.send_state(names, q, qd)
        r.spin(0.05)
    message = r.torques[max(r.torques)]
    full = mechanism.neutral()
    full[:7] = pose
    full[[joint.q.start for joint in mechanism.independent_joints if joint.kind != "floating"]] = q
    full = dn.close_loops(mechanism, full)
    expected = dn.build(mechanism, dn.inverse_dynamics(mechanism))(
        full, np.concatenate([twist, qd]), np.zeros(18)
    )
    assert len(message.name) == 24 and error(efforts(message, names), expected[6:]) <= EXACT
    solution = r.until(lambda: r.solutions.get(max(r.torques)), what="solution")
    named = dict(zip(solution.joint_names, solution.points[0].velocities, strict=True))
    assert named["fl_hip_rotor_joint"] == pytest.approx(6.0 * named["fl_hip_joint"])
    request = GetOperationalSpaceInertia.Request(links=["fl_shank", "hr_shank"])
    r.send_odometry(pose, twist)
    r.send_state(names, q, qd)
    response = r.call(GetOperationalSpaceInertia, "get_operational_space_inertia", request)
    assert response.success, response.message
    found = np.array(response.inertia_inverse.data).reshape(12, 12)
    right = dn.build_quantity(mechanism, "operational_space_inertia", links=list(request.links))(full)[0]
    order = [3, 4, 5, 0, 1, 2, 9, 10, 11, 6, 7, 8]
    assert error(found, right[np.ix_(order, order)], tail=2) <= 1e-9


def test_changing_from_a_tree_to_loops_and_back(loop_rig, panda):
    r = loop_rig(geared_chain(2))
    mechanism = dn.parse_mechanism(geared_chain(2))
    q = np.array([0.3, -0.5])
    full = mechanism.neutral()
    full[[joint.q.start for joint in mechanism.independent_joints]] = q
    full = dn.close_loops(mechanism, full)
    expected = dn.build(mechanism, dn.inverse_dynamics(mechanism))(full, q, np.zeros(2))
    assert error(efforts(r.answered(mechanism.joint_names, q, q), mechanism.joint_names), expected) <= EXACT
    r.describe(panda.robot.file.read_text())
    r.until(lambda: "panda: " in r.process.output(), 30)
    names = [*panda.names, "panda_finger_joint1"]
    assert len(r.answered(names, [*panda.q, 0.0], [*panda.qd, 0.0]).effort) == 8
    r.describe(FIVE_BAR)
    assert len(r.answered(DRIVEN, Q, QD).effort) == 4


def test_torques_at_the_driven_joints(loop_rig):
    """Rotors bear the torques: a sixth of those at the joints; back in forward dynamics; more rotors than needed."""
    text = geared_chain(2)
    mechanism = dn.parse_mechanism(text)
    q, qd, qdd = np.array([0.3, -0.5]), np.array([0.2, 0.4]), np.array([0.5, -0.6])
    full = mechanism.neutral()
    full[[joint.q.start for joint in mechanism.independent_joints]] = q
    full = dn.close_loops(mechanism, full)
    tau = dn.build(mechanism, dn.inverse_dynamics(mechanism))(full, qd, qdd)
    settings = {"driven.joints": ["m1", "m2"], "command_joints": ["m1", "m2"], "reference_timeout": 60.0}
    r = loop_rig(text, settings)
    r.send_reference(["j1", "j2"], point(qdd=qdd))
    r.spin(0.2)
    message = r.answered(["j1", "j2"], q, qd)
    assert (
        error(efforts(message, ["m1", "m2"]), tau / 6.0) <= EXACT and not efforts(message, ["j1", "j2"]).any()
    )
    r.until(lambda: r.commands and error(np.array(r.commands[-1]), tau / 6.0) <= EXACT, what="commands")
    request = ForwardDynamics.Request(points=trajectory(["m1", "m2"], point(0.1, effort=tau / 6.0)))
    request.state.joints = JointState(name=["j1", "j2"], position=list(q), velocity=list(qd))
    response = r.call(ForwardDynamics, "forward_dynamics", request)
    assert response.success, response.message
    order = [list(response.solution.joint_names).index(n) for n in ("j1", "j2")]
    assert error(np.array(response.solution.points[0].accelerations)[order], qdd) <= 1e-9
    request.points = trajectory(["m1"], point(0.1, effort=[0.0]))
    assert "effort of m2" in r.call(ForwardDynamics, "forward_dynamics", request).message
    assert r.set_parameters(driven__joints=["m1", "j1", "m2"], driven__weights=[1.0, 1.0, 1.0])[0]
    both = efforts(r.answered(["j1", "j2"], q, qd), ["m1", "j1", "m2"])
    assert (
        error(both, np.array([6.0, 1.0, 0.0]) * tau[0] / 37.0 + np.array([0.0, 0.0, tau[1] / 6.0])) <= EXACT
    )
    assert r.set_parameters(driven__joints=["m2"], driven__weights=[1.0])[0]  # the first joint has no motor
    state = lambda: r.send_state(["j1", "j2"], q, qd)  # noqa: E731
    _, values, _ = r.diagnostic(lambda s: s.message == "running", send=state)
    r.diagnostic(
        lambda s: any(v.key.startswith("torque that") and float(v.value) > 0.1 for v in s.values), send=state
    )
    assert not r.set_parameters(driven__joints=["wheel"])[0]
    assert not r.set_parameters(driven__weights=[-1.0])[0]
    request = HybridDynamics.Request(
        forward_joints=["j1"], points=trajectory(["j1"], point(0.1, effort=[0.0]))
    )
    assert "do not go together" in r.call(HybridDynamics, "hybrid_dynamics", request).message


def test_a_trajectory_keeps_its_branch(loop_rig, mechanism):
    """Passive joints are given by nobody but the state: every point is closed from the one before."""
    theirs = FiveBarOracle(FIVE_BAR)
    r = loop_rig()
    q = theirs.closed(Q)
    names = [*DRIVEN, "j3", "j4"]
    way = [Q + part * np.array([0.35, -0.4]) for part in np.linspace(0, 1, 12)]
    request = InverseDynamics.Request(
        points=trajectory(DRIVEN, *(point(0.1 * (k + 1), q=at) for k, at in enumerate(way)))
    )
    request.state.joints = JointState(name=names, position=list(q[[theirs.at[n] for n in names]]))
    response = r.call(InverseDynamics, "inverse_dynamics", request)
    assert response.success, response.message
    order = [list(response.solution.joint_names).index(n) for n in names]
    for found, at in zip(response.solution.points, way, strict=True):
        assert (
            error(np.array(found.positions)[order], theirs.closed(at)[[theirs.at[n] for n in names]]) <= EXACT
        )


def test_driven_joints_are_for_loops(rig):
    r = rig(parameters={"driven.joints": ["panda_joint1"]})
    message, _, level = r.diagnostic(lambda s: "driven.joints" in s.message, 30)
    assert "for robots with closed loops" in message and level == DiagnosticStatus.WARN
