"""The service get_quantity on a node: quantities against Pinocchio, floating robots, loops, and invalid requests."""

import numpy as np
import pytest
from dynamics_interfaces.msg import DynamicsState
from dynamics_interfaces.srv import GetQuantity, SetPayload
from environments import load
from five_bars import ALL, DRIVEN, FIVE_BAR, QD, QDD, Q, closed, oracle
from oracle import Oracle, Quantities
from payloads import payload
from rig import Rig, floats, stamp_of, state
from robots import PANDA_JOINTS, ROBOTS
from tolerances import EXACT, error

import dynamics_node as dn
from dynamics_node.algorithms import QUANTITIES
from dynamics_node.node.services.quantity_service import OF_ALL, RESULTS

AXES = [f"{part}.{axis}" for part in ("linear", "angular") for axis in "xyz"]
FORCES = [f"{part}.{axis}" for part in ("force", "moment") for axis in "xyz"]
HAND, WRIST = "panda_hand", "panda_joint7"
OPTIONS = {"link": {"link": HAND}, "links": {"links": [HAND]}, "joint": {"joint": WRIST}}
LINEAR_FIRST = [3, 4, 5, 0, 1, 2]
MOTIONS = {"velocity", "acceleration", "frame_jacobian_bias", "jacobian", "time_derivative"} | {
    f"{kind}_momentum{matrix}" for kind in ("spatial", "centroidal") for matrix in ("", "_matrix")
}
LOOSER = dict.fromkeys(
    ("inverse_mass_matrix", "operational_space_inertia_inverse", "operational_space_inertia"), 1e-9
)


@pytest.fixture(scope="module")
def other():
    """A Panda whose gravity and payload change."""
    made = Rig(ROBOTS["panda7"], {"joint_state_timeout": 60.0, "backend": "numpy"}).serving()
    yield made
    made.close()


@pytest.fixture(scope="module")
def bars():
    made = Rig(None, {"joint_state_timeout": 60.0, "backend": "numpy"})
    made.describe(FIVE_BAR)
    made.answered(ALL, closed(Q), [*QD, np.nan, np.nan])
    yield made
    made.close()


def call(rig, quantity, given=None, accelerations=(), **options):
    """The response."""
    fields = {"state": given or DynamicsState(), "accelerations": floats(accelerations)}
    return rig.ask(GetQuantity, quantity=quantity, **fields, **options)


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
    p = np.concatenate([inertial(panda.oracle.pin.inertias[k + 1]) for k in range(7)])
    momentum, rate = Quantities(panda.oracle, q, qd, qdd, linear_first=True).dynamics()[
        "generalized_momentum"
    ]
    assert error(matrices["momentum"] @ p, momentum) <= EXACT and error(matrices["rate"] @ p, rate) <= EXACT
    matrices = results(call(arm, "joint_regressor", given, qdd))
    for name, values in (("rotor", qdd), ("viscous", qd), ("offset", np.ones(7)), ("spring", q)):
        assert np.array_equal(matrices[name], np.diag(values))


def inertial(inertia):
    return inertia.toDynamicParameters()


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


def test_the_header_matches_the_state(other, panda):
    """The stamp is that of the request, or of the newest measured joint for an empty state."""
    r = other
    measured = stamp_of(r.answered(panda.names, panda.q, panda.qd))
    response = call(r, "nonlinear_effects")
    assert error(results(response)["nonlinear_effects"][:, 0], panda.torque()) <= EXACT
    assert measured <= stamp_of(response) <= r.next_stamp() and response.header.frame_id == "panda_link0"
    given = state(panda.names, panda.q)
    given.joints.header.stamp.sec = 12
    response = call(r, "nonlinear_effects", given)
    assert error(results(response)["nonlinear_effects"][:, 0], panda.torque(qd=0 * panda.qd)) <= EXACT
    assert stamp_of(response) == 12 * 10**9
    assert_rejected(
        call(r, "frame_kinematics", None, panda.qdd, link=HAND), "0 names in state.joints but 7 entries"
    )
    assert r.set_parameters(gravity=[0.0, 0.0, 0.0])[0]
    assert not results(call(r, "gravity_torque"))["gravity_torque"].any()
    assert r.set_parameters(gravity=[0.0, 0.0, -9.81])[0]


def test_quantities_include_payloads(other, panda):
    own, r = Oracle(panda.robot, panda.model), other
    assert r.call(SetPayload, "set_payload", payload()).success
    load(own)
    oracle_quantities = Quantities(own, panda.q, panda.qd, panda.qdd, linear_first=True)
    given = state(panda.names, panda.q, panda.qd)
    for quantity in ("coriolis_matrix", "gravity_torque"):
        compare(call(r, quantity, given), oracle_quantities.dynamics()[quantity], quantity)
    compare(
        call(r, "reaction_wrenches", given, panda.qdd), [oracle_quantities.wrenches()], "reaction_wrenches"
    )
    assert r.call(SetPayload, "set_payload", payload(mass=0)).success


# --- floating bases, loops ----------------------------------------------------------------------------------


def test_a_floating_base_is_linear_first(dog, case):
    """Rows and columns are linear first; the acceleration of the base is zero."""
    solo = case("solo12")
    pose, twist = np.array([0.1, 0.2, 0.3, 0.5, 0.5, -0.5, 0.5]), np.array([0.3, -0.1, 0.2, 0.5, 0.4, -0.3])
    given = state(solo.names, solo.q, solo.qd)
    given.has_base = True
    p, o = given.base_pose.position, given.base_pose.orientation
    p.x, p.y, p.z, o.x, o.y, o.z, o.w = floats(pose)
    w, v = given.base_twist.angular, given.base_twist.linear
    w.x, w.y, w.z, v.x, v.y, v.z = floats(twist)
    q, qd = np.concatenate([pose, solo.q]), np.concatenate([twist, solo.qd])
    oracle_quantities = Quantities(
        solo.oracle, q, qd, np.concatenate([np.zeros(6), solo.qdd]), linear_first=True
    )
    dynamics = oracle_quantities.dynamics()
    several = results(call(dog, "coriolis_matrix", given))["coriolis_matrix"]  # several matrices are right
    assert (
        error(several @ np.concatenate([qd[[3, 4, 5, 0, 1, 2]], qd[6:]]), dynamics["coriolis_torque"][0])
        <= EXACT
    )
    right = {
        name: dynamics[name]
        for name in ("mass_matrix", "nonlinear_effects", "gravity_torque", "coriolis_torque")
    }
    right |= (
        oracle_quantities.whole()
        | oracle_quantities.regressors()
        | {"reaction_wrenches": [oracle_quantities.wrenches()]}
    )
    for quantity, arrays in right.items():
        compare(call(dog, quantity, given, solo.qdd), arrays, quantity)
    right = oracle_quantities.of_link("FL_FOOT", "world_aligned")
    for quantity in ("frame_jacobian", "frame_kinematics", "frame_jacobian_bias"):
        compare(call(dog, quantity, given, solo.qdd, link="FL_FOOT"), right[quantity], quantity)
    rows = call(dog, "gravity_torque", given).values[0].row_names
    assert list(rows[:6]) == [f"floating_base.{axis}" for axis in AXES] and list(rows[6:]) == list(solo.names)


def test_quantities_of_closed_loops(bars):
    """Gravity torques against an oracle of the five-bar, all other quantities against the library."""
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


# --- refusals -----------------------------------------------------------------------------------------------

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
    assert_rejected(
        call(arm, "nonlinear_effects", state(NAMES, [np.nan] * 7)), "position of 'panda_joint1' is nan"
    )
    assert_rejected(
        call(arm, "nonlinear_effects", state(NAMES[:6], [0] * 6)), "the state lacks joint panda_joint7"
    )
    unknown = [f"j{k}" for k in range(10_001)]
    assert_rejected(
        call(arm, "nonlinear_effects", state(unknown, [0] * 10_001)), "10001 names; the limit is 10000"
    )
