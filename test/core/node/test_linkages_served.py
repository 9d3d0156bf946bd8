"""Robots with closed loops in the node: missing passive joints, outputs of all joints, and no output at open or
singular positions. Against a five-bar of Pinocchio and geometry."""

from types import SimpleNamespace

import numpy as np
import pytest
from five_bars import ALL, DRIVEN, FIVE_BAR, PASSIVE, QD, QDD, SINGULAR, Q, closed, flat_four_bar, oracle
from plain import Served, point, settings
from tolerances import EXACT, error

import dynamics_node as dn
from dynamics_demo.robots import four_bar, geared_chain, quadruped
from dynamics_node.algorithms import health
from dynamics_node.node.building.build_job import Failure, do
from dynamics_node.node.core.diagnostics import Statistics
from dynamics_node.node.core.publisher import Publisher


class FiveBar:
    """A served five-bar, on the branch of the oracle at Q."""

    def __init__(self, **values):
        self.served = Served(FIVE_BAR, settings(**{"backend": "numpy", **values}))
        self.mechanism, self.oracle_robot = self.served.core.model, oracle()
        self.served.receive(ALL, closed(Q), [*QD, np.nan, np.nan])
        self.served.solve()

    def torque(self, qdd=(0.0, 0.0), robot=None):
        """Torques of the library at Q."""
        robot = robot or self.mechanism
        q = closed(Q, robot.q_names)
        return dn.build(robot, dn.inverse_dynamics(robot), backend="numpy")(q, QD, np.array(qdd))


def of_joints(served, values):
    """{joint: value} of values over the rates of the tree."""
    core = served.core
    return dict(zip(core.joints.names, values[core.coordinates.v_at], strict=True))


@pytest.mark.parametrize("values", [{}, {"solver": "factor_graph", "ordering": "colamd"}], ids=str)
def test_torques_need_no_passive_joints(values):
    """Every joint has a closed position and a torque, which is zero for passive joints."""
    bench = FiveBar(**values)
    served, oracle_robot = bench.served, bench.oracle_robot
    served.receive(DRIVEN, Q, QD)
    served.refer(DRIVEN, point(qdd=QDD))
    result, q = served.solve(), oracle_robot.closed(Q)
    assert sorted(served.core.joints.names) == sorted(ALL)
    assert error(served.published(result, DRIVEN), oracle_robot.torques_of(q, QD, QDD)) <= EXACT
    assert not served.published(result, PASSIVE).any()
    positions = dict(zip(served.core.joints.names, result.q[served.core.coordinates.q_at], strict=True))
    assert error(np.array([positions[n] for n in ALL]), closed(Q, ALL)) <= EXACT
    assert oracle_robot.drift(positions) <= 1e-9
    rates = of_joints(served, result.qd)
    expected = (oracle_robot.motion(q) @ QD)[[oracle_robot.at[n] for n in ALL]]
    assert error(np.array([rates[n] for n in ALL]), expected) <= 1e-9


def test_a_motion_keeps_the_branch():
    """Only the driven joints are measured, over a long motion; the elbows stay outside."""
    bench = FiveBar()
    for part in np.linspace(0, 1, 25):
        driven = Q + part * np.array([0.35, -0.4])
        bench.served.receive(DRIVEN, driven, QD)
        result = bench.served.solve()
    positions = result.q[[bench.mechanism.q_names.index(n) for n in ALL]]
    assert error(positions, closed(driven, ALL)) <= EXACT


def test_a_driven_joint_is_needed():
    served = Served(FIVE_BAR, settings(backend="numpy"))
    served.receive(["j1", *PASSIVE], [1.9, -1.0, 1.0], [0.0] * 3)
    assert str(served.no_output("never seen: j2")) == "never seen: j2"


def test_an_open_position_gives_no_output():
    """Driven bars too far apart: the reason names the loop; later torques use the old branch."""
    bench = FiveBar()
    bench.served.receive(DRIVEN, [3.1, 0.0], QD)
    assert "'j5' is open by" in str(bench.served.no_output("no closed position"))
    bench.served.receive(DRIVEN, Q, QD)
    assert error(bench.served.tau(DRIVEN), bench.torque()) <= EXACT


def test_a_singular_position_gives_no_output():
    served, names = Served(flat_four_bar(), settings(backend="numpy")), ["crank_j", "coupler_j", "rocker_j"]
    served.receive(names, [0, 0, 0], [0.5, 0, 0])
    served.no_output(SINGULAR)
    served.receive(names, [0.5, -0.5, 0.5], [0.5, 0, 0])
    assert np.isfinite(served.tau()).all() and served.tau(["crank_j"]).any()
    assert 1.0 <= served.core.coordinates.condition < 100


def test_the_reason_of_a_singular_position_is_computed_lazily(monkeypatch):
    """It takes milliseconds, and the node reports once a second only."""
    served, searches, why = Served(flat_four_bar(), settings(backend="numpy")), [], health.why_singular_loop
    monkeypatch.setattr(health, "why_singular_loop", lambda *given: searches.append(1) or why(*given))
    served.receive(["crank_j", "coupler_j", "rocker_j"], [0, 0, 0], [0.5, 0, 0])
    manager, statistics = SimpleNamespace(settings=served.core.settings, core=served.core), Statistics()
    inputs = SimpleNamespace(ros_now=lambda: served.ros, stamp=None)
    publisher = Publisher(
        manager, statistics, inputs, lambda *_: 1 / 0, lambda *_: None, lambda *_: None, lambda: served.now
    )
    for _ in range(20):
        publisher.answer()
    assert statistics.counts["no output"] == 20 and not searches
    assert SINGULAR in statistics.no_output_reason and SINGULAR in statistics.no_output_reason
    assert len(searches) == 1


def test_a_payload_acts_on_a_loop():
    bench = FiveBar()
    bench.served.core.set_payload("left_lower", 2.0, (0.4, 0, 0), np.zeros((3, 3)))
    loaded = dn.with_payload(bench.mechanism, "left_lower", 2.0, (0.4, 0, 0), np.zeros((3, 3)))
    assert error(bench.torque(robot=loaded), bench.torque()) > 0.01
    assert error(bench.served.tau(DRIVEN), bench.torque(robot=loaded)) <= EXACT


def test_friction_of_passive_joints_loads_the_driven_ones():
    """tau += G^T tau_q."""
    bench = FiveBar(
        compensate__friction=True, friction__joints=["j3"], friction__viscous=[2.0], friction__coulomb=[0.0]
    )
    G = bench.oracle_robot.motion(bench.oracle_robot.closed(Q))[bench.oracle_robot.at["j3"]]
    assert error(bench.served.tau(DRIVEN), bench.torque() + G * 2.0 * (G @ QD)) <= 1e-9


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
        (four_bar().replace('xyz="0.7 0 0"', 'xyz="9 0 0"'), "no closed position"),
    ],
)
def test_invalid_loops_are_rejected(wrong, reason):
    failure = do(settings(backend="numpy").job(wrong))
    assert isinstance(failure, Failure) and reason in failure.reason


def test_a_floating_robot_has_unmeasured_rotors():
    """A quadruped: rotors follow their gears without measurements; the base comes from odom."""
    served = Served(quadruped(), settings(backend="numpy", floating_base=True))
    mechanism, names = served.core.model, served.core.model.joint_names
    q, qd = np.random.default_rng(0).uniform(-0.5, 0.5, (2, len(names)))
    pose, twist = [0.1, 0.2, 0.3, 0, 0, 0, 1], [0.1, 0.2, -0.1, 0.3, 0.0, 0.2]
    served.receive(names, q, qd)
    served.core.state.base = served.core.state.read_base(pose, twist, 0, 0)
    full = mechanism.neutral()
    full[:7] = pose
    full[[joint.q.start for joint in mechanism.independent_joints if joint.kind != "floating"]] = q
    full = dn.close_loops(mechanism, full)
    solver = dn.build(mechanism, dn.inverse_dynamics(mechanism), backend="numpy")
    expected = solver(full, np.concatenate([twist, qd]), np.zeros(18))
    result = served.solve()
    assert len(served.core.joints.names) == 24
    assert error(served.published(result, names), expected[6:]) <= EXACT
    rates = of_joints(served, result.qd)
    assert rates["fl_hip_rotor_joint"] == pytest.approx(6.0 * rates["fl_hip_joint"])


# --- driven joints ------------------------------------------------------------------------------------------


@pytest.fixture
def geared():
    """Two joints, each with a motor and a gear of 6, and the torques of the joints."""
    text = geared_chain(2)
    q, qd, qdd = np.array([0.3, -0.5]), np.array([0.2, 0.4]), np.array([0.5, -0.6])
    served = Served(text, settings(backend="numpy", driven__joints=["m1", "m2"]))
    mechanism = served.core.model
    full = mechanism.neutral()
    full[[joint.q.start for joint in mechanism.independent_joints]] = q
    full = dn.close_loops(mechanism, full)
    tau = dn.build(mechanism, dn.inverse_dynamics(mechanism), backend="numpy")(full, qd, qdd)
    served.receive(["j1", "j2"], q, qd)
    served.refer(["j1", "j2"], point(qdd=qdd))
    return served, tau


def test_a_measured_rotor_is_ignored(geared):
    """The diagnostics name a rotor that contradicts its gear; torques follow the joints."""
    served, _ = geared
    before = served.tau(["m1", "m2"])
    served.receive(["j1", "j2", "m1", "m2"], [0.3, -0.5, 6 * 0.3, 7.0], [0.2, 0.4, 1.2, 2.4])
    assert error(served.tau(["m1", "m2"]), before) <= EXACT
    core = served.core
    assert core.coordinates.contradicted(core.joints.position) == ["m2"]


def test_driven_rotors_have_the_torques(geared):
    served, tau = geared
    assert error(served.tau(["m1", "m2"]), tau / 6.0) <= EXACT and not served.tau(["j1", "j2"]).any()
    assert served.core.coordinates.unrealized <= 1e-9


def test_more_driven_joints_than_needed_share_by_their_weights(geared):
    served, tau = geared
    served.use(driven__joints=["m1", "j1", "m2"], driven__weights=[1.0, 1.0, 1.0])
    expected = np.array([6.0, 1.0, 0.0]) * tau[0] / 37.0 + np.array([0.0, 0.0, tau[1] / 6.0])
    assert error(served.tau(["m1", "j1", "m2"]), expected) <= EXACT


def test_too_few_driven_joints_leave_a_torque_unrealized(geared):
    served, tau = geared
    served.use(driven__joints=["m2"], driven__weights=[1.0])
    assert error(served.tau(["m2"]), tau[1:] / 6.0) <= EXACT
    assert served.core.coordinates.unrealized == pytest.approx(abs(tau[0]))
