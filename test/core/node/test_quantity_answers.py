"""Replies of get_quantity without a node: quantities against Pinocchio, axes and names, floating robots, loops, and
invalid requests."""

from time import monotonic_ns

import numpy as np
import pytest
from cases import case_of
from plain import Served, serve, settings

pytest.importorskip("rclpy", reason="ROS 2: source an installation, or use ./dev")
interfaces = pytest.importorskip(
    "dynamics_interfaces.srv", reason="build dynamics_interfaces first, or use ./dev"
)

from dynamics_interfaces.msg import DynamicsState
from environments import COM, HAND, MASS, MOMENTS, load
from five_bars import ALL, DRIVEN, FIVE_BAR, QD, QDD, Q, closed, oracle
from oracle import Oracle, Quantities
from robots import PANDA_JOINTS
from sensor_msgs.msg import JointState
from tolerances import EXACT, error
from trajectory_msgs.msg import JointTrajectoryPoint

import dynamics_node as dn
from dynamics_demo.robots import differential
from dynamics_node.algorithms import QUANTITIES
from dynamics_node.node.errors import LEAVE_OUT
from dynamics_node.node.services import quantity_service
from dynamics_node.node.services.quantity_service import OF_ALL, RESULTS
from dynamics_node.node.services.services import Services

AXES = [f"{part}.{axis}" for part in ("linear", "angular") for axis in "xyz"]
FORCES = [f"{part}.{axis}" for part in ("force", "moment") for axis in "xyz"]
WRIST = "panda_joint7"
OPTIONS = {"link": {"link": HAND}, "links": {"links": [HAND]}, "joint": {"joint": WRIST}}
LINEAR_FIRST = [3, 4, 5, 0, 1, 2]
MOTIONS = {"velocity", "acceleration", "frame_jacobian_bias", "jacobian", "time_derivative"} | {
    f"{kind}_momentum{matrix}" for kind in ("spatial", "centroidal") for matrix in ("", "_matrix")
}
LOOSER = dict.fromkeys(
    ("inverse_mass_matrix", "operational_space_inertia_inverse", "operational_space_inertia"), 1e-9
)


@pytest.fixture(scope="module")
def arm():
    return serve("panda7")


def measured(served, names, q, qd=()):
    """The robot with a state that the clock of the services has just received."""
    served.now = monotonic_ns()
    served.receive(names, q, qd)
    return served


def state(names=(), q=(), qd=()):
    position, velocity = [*map(float, q)], [*map(float, qd)]
    return DynamicsState(joints=JointState(name=list(names), position=position, velocity=velocity))


def call(served, quantity, given=None, accelerations=(), **options):
    """The response."""
    kind = interfaces.GetQuantity
    fields = {"state": given or DynamicsState(), "accelerations": [*map(float, accelerations)]}
    request = kind.Request(quantity=quantity, **fields, **options)
    return Services(lambda: served.core).callback(kind)(request, kind.Response())


def results(response):
    """{name: matrix}."""
    assert response.success, response.message
    return {
        name: np.array(m.data).reshape(m.rows, m.cols)
        for name, m in zip(response.names, response.values, strict=True)
    }


def compare(response, right, quantity):
    matrices = results(response)
    assert tuple(matrices) == tuple(QUANTITIES[quantity].returns)
    for (name, matrix), array, message in zip(matrices.items(), right, response.values, strict=True):
        assert len(message.row_names) == message.rows and len(message.col_names) == message.cols
        assert error(matrix.ravel(), np.ravel(array)) <= LOOSER.get(quantity, EXACT), (quantity, name)


def assert_rejected(response, reason):
    assert not response.success and not response.values
    assert reason in response.message, response.message


# --- a fixed base -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reference", ["", "body"])
def test_quantities_match_pinocchio(arm, panda, reference):
    oracle_quantities = Quantities(panda.oracle, panda.q, panda.qd, panda.qdd, linear_first=True)
    right = oracle_quantities.all(HAND, WRIST, reference or "world_aligned")
    given = state(panda.names, panda.q, panda.qd)
    for quantity, arrays in right.items():
        own = () if quantity in OF_ALL else QUANTITIES[quantity].options
        options = {field: value for o in own for field, value in OPTIONS.get(o, {}).items()}
        options |= {"reference": reference} if "reference" in own else {}
        compare(call(arm, quantity, given, panda.qdd, **options), arrays, quantity)
    assert {*RESULTS} - {*right} == {
        "inverse_dynamics_second_derivatives", "momentum_regressor", "joint_regressor",
    }  # fmt: skip


def test_quantities_without_a_function_in_pinocchio(arm, panda):
    """Against differences of derivatives, and identities of regressors."""
    given, q, qd, qdd = state(panda.names, panda.q, panda.qd), panda.q, panda.qd, panda.qdd
    matrices = results(call(arm, "inverse_dynamics_second_derivatives", given, qdd))
    first = dn.build(panda.model, "inverse_dynamics_derivatives", backend="numpy")
    step = 1e-6 * np.eye(7)
    ahead, behind = (np.array(first(q + s * step, qd, qdd)) for s in (1, -1))
    by_q = np.moveaxis((ahead - behind) / 2e-6, 1, -1)
    assert error(matrices["dq_dq"].reshape(7, 7, 7), by_q[0], tail=3) <= 1e-6
    assert error(matrices["dqdd_dq"].reshape(7, 7, 7), by_q[2], tail=3) <= 1e-6
    matrices = results(call(arm, "momentum_regressor", given))
    p = np.concatenate([panda.oracle.pin.inertias[k + 1].toDynamicParameters() for k in range(7)])
    right = Quantities(panda.oracle, q, qd, qdd, linear_first=True).dynamics()
    momentum, rate = right["generalized_momentum"]
    assert error(matrices["momentum"] @ p, momentum) <= EXACT and error(matrices["rate"] @ p, rate) <= EXACT
    matrices = results(call(arm, "joint_regressor", given, qdd))
    for name, values in (("rotor", qdd), ("viscous", qd), ("offset", np.ones(7)), ("spring", q)):
        assert np.array_equal(matrices[name], np.diag(values))


def test_rows_and_columns_have_names(arm, panda):
    given = state(panda.names, panda.q, panda.qd)
    bodies = [body.name for body in panda.model.bodies]
    parameters = ("m", "mx", "my", "mz", "Ixx", "Ixy", "Iyy", "Ixz", "Iyz", "Izz")
    columns = [f"{body}.{parameter}" for body in bodies for parameter in parameters]
    motion, names = [f"{HAND}.{axis}" for axis in AXES], list(panda.names)
    pairs = [f"{a}, {b}" for a in names for b in names]
    for quantity, options, expected in (
        ("frame_jacobian", {"link": HAND}, [(motion, names)]),
        ("frame_jacobian_bias", {"link": HAND}, [(motion, ["frame_jacobian_bias"])]),
        ("joint_torque_regressor", {}, [(names, columns)]),
        ("energy_regressor", {}, [(columns, ["kinetic"]), (columns, ["potential"])]),
        ("reaction_wrenches", {}, [(bodies, FORCES)]),
        ("sensor_wrench", {"joint": WRIST}, [(FORCES, ["wrench"])]),
        ("kinetic_energy", {}, [(["kinetic_energy"], ["kinetic_energy"])]),
        ("spatial_momentum_matrix", {}, [(AXES, names)]),
        ("inverse_dynamics_second_derivatives", {}, [(names, pairs)] * 4),
        ("center_of_mass", {}, [(list("xyz"), ["position"]), (list("xyz"), names)]),
    ):
        values = call(arm, quantity, given, **options).values
        assert [(list(m.row_names), list(m.col_names)) for m in values] == expected, quantity


def test_the_header_matches_the_state(panda):
    """The stamp is that of the request, or of the newest measured joint for an empty state."""
    served = measured(serve("panda7", joint_state_timeout=60.0), panda.names, panda.q, panda.qd)
    response = call(served, "nonlinear_effects")
    assert error(results(response)["nonlinear_effects"][:, 0], panda.torque()) <= EXACT
    stamp = response.header.stamp
    assert stamp.sec * 10**9 + stamp.nanosec == served.stamp and response.header.frame_id == "panda_link0"
    given = state(panda.names, panda.q)
    given.joints.header.stamp.sec = 12
    response = call(served, "nonlinear_effects", given)
    assert error(results(response)["nonlinear_effects"][:, 0], panda.torque(qd=0 * panda.qd)) <= EXACT
    assert (response.header.stamp.sec, response.header.stamp.nanosec) == (12, 0)
    without_state = call(served, "frame_kinematics", None, panda.qdd, link=HAND)
    assert_rejected(without_state, "0 names in state.joints but 7 entries")


def test_quantities_include_payloads_and_gravity(panda):
    own, served = Oracle(panda.robot, panda.model), serve("panda7")
    served.core.set_payload(HAND, MASS, COM, MOMENTS)
    load(own)
    right = Quantities(own, panda.q, panda.qd, panda.qdd, linear_first=True)
    given = state(panda.names, panda.q, panda.qd)
    for quantity in ("coriolis_matrix", "gravity_torque"):
        compare(call(served, quantity, given), right.dynamics()[quantity], quantity)
    compare(call(served, "reaction_wrenches", given, panda.qdd), [right.wrenches()], "reaction_wrenches")
    served.use(gravity=[0.0, 0.0, 0.0])
    assert not results(call(served, "gravity_torque", given))["gravity_torque"].any()


def test_regressors_of_all_bodies_and_of_one_link(arm, panda):
    given = ("joint_torque_regressor", state(panda.names, panda.q))
    every, own = call(arm, *given), call(arm, *given, link="panda_link7")
    assert every.success and own.success, own.message
    assert list(own.values[0].col_names) == list(every.values[0].col_names[-10:])
    matrices = [np.array(a.values[0].data).reshape(7, -1) for a in (every, own)]
    assert error(matrices[1], matrices[0][:, -10:], tail=2) <= EXACT
    assert call(arm, *given, link="nowhere").message.startswith("unknown link 'nowhere'")


def test_poses_of_all_or_some_links(arm, panda):
    every = call(arm, "frame_poses", state(panda.names, panda.q))
    assert every.success, every.message
    assert list(every.values[1].row_names) == list(panda.model.frames)
    links = ["panda_hand", "panda_link3"]
    some = call(arm, "frame_poses", state(panda.names, panda.q), links=links)
    rows = [list(panda.model.frames).index(link) for link in links]
    right = dn.evaluate(panda.model, "frame_poses", panda.q, backend="numpy")
    for own, result in zip(some.values, right, strict=True):
        assert error(np.array(own.data), result[rows].ravel()) <= EXACT


def test_a_request_has_all_options():
    python_only = {"xyz", "rpy", "redundant", "forward_joints", "contacts"}
    fields = set(quantity_service.OPTIONS) | python_only
    assert all(set(row.options) <= fields for row in QUANTITIES.values())


def test_the_size_of_a_reply_is_bounded(arm, panda, monkeypatch):
    """The check precedes the computation."""
    monkeypatch.setattr(quantity_service, "MOST_NUMBERS", 342)
    monkeypatch.setattr(quantity_service, "evaluate", None)
    answer = call(arm, "inverse_dynamics_second_derivatives", state(panda.names, panda.q))
    assert_rejected(
        answer, "inverse_dynamics_second_derivatives of this robot has 343 numbers; the limit is 342"
    )


# --- floating bases, loops ----------------------------------------------------------------------------------


def test_a_floating_base_is_linear_first():
    """Rows and columns are linear first; the acceleration of the base is zero."""
    solo, dog = case_of("solo12"), serve("solo12")
    pose, twist = np.array([0.1, 0.2, 0.3, 0.5, 0.5, -0.5, 0.5]), np.array([0.3, -0.1, 0.2, 0.5, 0.4, -0.3])
    given = state(solo.names, solo.q, solo.qd)
    given.has_base = True
    p, o = given.base_pose.position, given.base_pose.orientation
    p.x, p.y, p.z, o.x, o.y, o.z, o.w = map(float, pose)
    w, v = given.base_twist.angular, given.base_twist.linear
    w.x, w.y, w.z, v.x, v.y, v.z = map(float, twist)
    q, qd = np.concatenate([pose, solo.q]), np.concatenate([twist, solo.qd])
    oracle_quantities = Quantities(
        solo.oracle, q, qd, np.concatenate([np.zeros(6), solo.qdd]), linear_first=True
    )
    dynamics = oracle_quantities.dynamics()
    several = results(call(dog, "coriolis_matrix", given))["coriolis_matrix"]  # several matrices are right
    rates = np.concatenate([qd[LINEAR_FIRST], qd[6:]])
    assert error(several @ rates, dynamics["coriolis_torque"][0]) <= EXACT
    names = ("mass_matrix", "nonlinear_effects", "gravity_torque", "coriolis_torque")
    right = {name: dynamics[name] for name in names}
    right |= oracle_quantities.whole() | oracle_quantities.regressors()
    right["reaction_wrenches"] = [oracle_quantities.wrenches()]
    for quantity, arrays in right.items():
        compare(call(dog, quantity, given, solo.qdd), arrays, quantity)
    right = oracle_quantities.of_link("FL_FOOT", "world_aligned")
    for quantity in ("frame_jacobian", "frame_kinematics", "frame_jacobian_bias"):
        compare(call(dog, quantity, given, solo.qdd, link="FL_FOOT"), right[quantity], quantity)
    rows = call(dog, "gravity_torque", given).values[0].row_names
    assert list(rows[:6]) == [f"floating_base.{axis}" for axis in AXES] and list(rows[6:]) == list(solo.names)


def test_a_floating_robot_with_loops_is_linear_first():
    """Rows and columns are linear first; passive joints follow."""
    served = Served(differential(), settings(backend="numpy", floating_base=True))
    mechanism, names = served.core.model, served.core.model.joint_names
    q = np.random.default_rng(0).uniform(-0.1, 0.1, len(names))
    given = state(names, q)
    given.has_base = True
    answer = call(served, "spatial_momentum_matrix", given)
    assert answer.success, answer.message
    full = mechanism.neutral()
    full[[joint.q.start for joint in mechanism.independent_joints if joint.kind != "floating"]] = q
    full = dn.close_loops(mechanism, full)
    right = dn.build(mechanism, "spatial_momentum_matrix", backend="numpy")(full)
    matrix = np.array(answer.values[0].data).reshape(6, -1)
    assert (
        error(matrix, right[np.ix_(LINEAR_FIRST, [*LINEAR_FIRST, *range(6, mechanism.nv)])], tail=2) <= EXACT
    )
    assert list(answer.values[0].col_names[:2]) == ["floating_base.linear.x", "floating_base.linear.y"]
    assert call(served, "reaction_wrenches", given).values[0].cols == 6


def test_quantities_of_closed_loops():
    """Gravity torques against an oracle of the five-bar, all other quantities against the library."""
    bars = Served(FIVE_BAR, settings(backend="numpy", joint_state_timeout=60.0))
    measured(bars, ALL, closed(Q), [*QD, np.nan, np.nan])
    mechanism, five_bar = dn.parse_robot(FIVE_BAR), oracle()
    q = closed(Q, mechanism.q_names)
    given = state(DRIVEN, Q, QD)
    still = results(call(bars, "gravity_torque", given))["gravity_torque"][:, 0]
    assert error(still, five_bar.torques_of(five_bar.closed(Q), 0 * QD, 0 * QDD)) <= EXACT
    known = dict(zip(("q", "qd", "qdd"), (q, QD, QDD), strict=True), gravity=mechanism.gravity)
    link = "right_upper"
    for quantity in RESULTS:
        row = QUANTITIES[quantity]
        if quantity in ("sensor_wrench", "reaction_wrenches", "operational_space_inertia"):
            continue
        options = (
            {"link": link} if "link" in row.options else {"links": [link]} if "links" in row.options else {}
        )
        function = dn.build(mechanism, quantity, backend="numpy", **options)
        right = function(**{name: known[name] for name in row.reads})
        response = call(bars, quantity, given, QDD, **options)
        matrices = results(response)
        arrays = right if isinstance(right, tuple) else (right,)
        for array, (name, matrix) in zip(arrays, matrices.items(), strict=True):
            if name in MOTIONS and len(array) == 6:
                array = array[LINEAR_FIRST]
            if name == "inertia_inverse":
                array = array[np.ix_(LINEAR_FIRST, LINEAR_FIRST)]
            assert error(matrix.ravel(), np.ravel(array)) <= LOOSER.get(quantity, EXACT), (quantity, name)
    assert list(call(bars, "joint_regressor", given).values[0].col_names) == list(mechanism.tree.v_names)
    assert_rejected(call(bars, "reaction_wrenches", given), "joints bridged by 'j5'")
    assert_rejected(call(bars, "gravity_torque", state(DRIVEN, [3.1, 0.0])), "'j5'")


# --- invalid requests ---------------------------------------------------------------------------------------


NAMES = list(PANDA_JOINTS)
FULL = state(NAMES, [0.1] * 7, [0.1] * 7)
HOSTILE = "x\n\x1b[31m" + "y" * 100_000
WRONG = {
    "unknown quantity": ("gravity_tork", {}, "unknown quantity 'gravity_tork'; similar: gravity_torque"),
    "no quantity": ("", {}, "unknown quantity ''; known: inverse_dynamics, "),
    "hostile quantity": (HOSTILE, {}, "unknown quantity 'x\\n\\x1b[31myyy"),
    "hostile link": ("frame_kinematics", {"link": HOSTILE}, "unknown link 'x\\n\\x1b[31myyy"),
    "unknown link": ("frame_kinematics", {"link": "nose"}, "unknown link 'nose'; the robot has"),
    "no link": ("frame_jacobian", {}, "frame_jacobian needs the field link"),
    "unknown joint": ("sensor_wrench", {"joint": "knee"}, "'knee'"),
    "no joint": ("sensor_wrench", {}, "sensor_wrench needs the field joint"),
    "no links": ("operational_space_inertia_inverse", {}, "no links: list them in the request"),
    "a link twice": ("operational_space_inertia_inverse", {"links": [HAND] * 2}, f"link '{HAND}' is listed twice"),
    "links": ("operational_space_inertia_inverse", {"links": [HAND] * 50_000}, "50000 links in the request; the robot has"),
    "reference": ("frame_kinematics", {"link": HAND, "reference": "sideways"}, "unknown reference 'sideways'"),
    "foreign": ("nonlinear_effects", {"link": HAND}, "nonlinear_effects has no option link; it has none"),
    "other": ("frame_pose", {"reference": "body"}, "frame_pose has no option reference; it has link"),
}  # fmt: skip


@pytest.mark.parametrize("case_name", WRONG)
def test_invalid_requests_are_rejected(arm, case_name):
    quantity, options, reason = WRONG[case_name]
    response = call(arm, quantity, FULL, **options)
    assert_rejected(response, reason)
    assert len(response.message) < 600 and response.message.isprintable()


BAD_NUMBERS = {
    "sizes": ([0.0] * 6, "7 names in state.joints but 6 entries in accelerations"),
    "NaN": ([0, 0, np.nan, 0, 0, 0, 0], "acceleration of 'panda_joint3' is nan"),
    "infinite": ([0, np.inf, 0, 0, 0, 0, 0], "acceleration of 'panda_joint2' is inf"),
    "huge": ([1e308] * 7, "acceleration of 'panda_joint1' is 1e+308, above 1e+08"),
    "a million": ([0.0] * 1_000_000, "7 names in state.joints but 1000000 entries"),
}


@pytest.mark.parametrize("case_name", BAD_NUMBERS)
def test_invalid_accelerations_are_rejected(arm, case_name):
    accelerations, reason = BAD_NUMBERS[case_name]
    assert_rejected(call(arm, "joint_torque_regressor", FULL, accelerations), reason)


def test_invalid_states_are_rejected(arm):
    unknown = [f"j{k}" for k in range(10_001)]
    for given, reason in (
        (state(NAMES, [np.nan] * 7), "position of 'panda_joint1' is nan"),
        (state(NAMES[:6], [0] * 6), "the state lacks joint panda_joint7"),
        (state(unknown, [0] * 10_001), "10001 names; the limit is 10000"),
    ):
        assert_rejected(call(arm, "nonlinear_effects", given), reason)


def test_a_reply_without_a_state_has_the_remedy(panda):
    served = serve("panda7")
    served.receive(panda.names[1:], panda.q[1:], panda.qd[1:])
    reply = call(served, "mass_matrix")
    assert (reply.success, reply.message) == (False, f"never seen: panda_joint1; {LEAVE_OUT}")


def test_a_reply_without_one_position_has_the_remedy(panda):
    served = serve("panda7")
    served.receive(panda.names[1:], panda.q[1:], panda.qd[1:])
    kind = interfaces.InverseDynamics
    request = kind.Request()
    request.points.joint_names = panda.names[1:]
    request.points.points = [JointTrajectoryPoint(positions=list(panda.q[1:]))]
    reply = Services(lambda: served.core).callback(kind)(request, kind.Response())
    assert not reply.success and f"panda_joint1 (never seen: panda_joint1; {LEAVE_OUT})" in reply.message


@pytest.mark.parametrize("name", ["forward_dynamics", "hybrid_dynamics"])
def test_quantities_of_torques_name_their_service(arm, name):
    assert_rejected(call(arm, name), f"{name} reads torques: call ~/{name}")
