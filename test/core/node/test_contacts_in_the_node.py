"""Contacts in the node, with plain values: a Solo12 on its feet. Against Pinocchio."""

from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("pinocchio", reason="the oracle: pip install pin")

from cases import case_of
from environments import COM, MASS, MOMENTS, load
from oracle import Oracle
from plain import DEFAULTS, MS, Served, robot_settings, serve, settings
from robots import ROBOTS
from served_dog import EXACT, LEGS, NONE, POSE, RATES, TWIST, Dog
from standing import FEET, standing
from tolerances import error

from dynamics_node.node.building.build_job import Failure, do
from dynamics_node.node.core.consistency import check_against
from dynamics_node.node.core.contact_loads import ContactLoads, ContactMap
from dynamics_node.node.core.diagnostics import Statistics
from dynamics_node.node.errors import BadMessage
from dynamics_node.node.state.active_contacts import ActiveContacts
from dynamics_node.node.state.reference import read_base_acceleration
from dynamics_node.robot.contacts import Contact
from dynamics_node.symbolic import rpy_rotation


@pytest.fixture
def dog(tmp_path):
    return Dog(tmp_path)


@pytest.mark.parametrize("backend", ["auto", "numpy"])
@pytest.mark.parametrize("feet", [FEET, FEET[1:], FEET[::3], FEET[:1], ()], ids=len)
def test_torques_forces_and_residual(tmp_path, backend, feet):
    dog = Dog(tmp_path, backend=backend)
    dog.core.active.update(feet, [True] * len(feet), 0)
    assert dog.core.active.active == feet and dog.agrees(feet)


def test_the_reference_of_the_base(dog):
    """Its acceleration acts for reference_timeout."""
    rise = np.array([0.3, -0.2, 0.1, 0.5, -0.4, 0.6])
    dog.core.base_acceleration = read_base_acceleration(dog.case.model, rise, "base_link", 0)
    qdd = np.concatenate([rise, np.zeros(12)])
    tau, forces = standing(dog.case.oracle, dog.q, dog.qd, qdd)
    result = dog.served.wait(500).solve()
    assert error(result.tau[6:], tau[6:]) < EXACT and np.array_equal(result.qdd[:6], rise)
    assert np.abs(result.loads.forces - np.concatenate([*forces.values()])).max() < 1e-7
    dog.served.wait(1)
    assert dog.agrees()


@pytest.mark.parametrize(
    "values, link, reason",
    [
        ([0.0] * 6, "FL_FOOT", "frame_id 'FL_FOOT' is not the floating link 'base_link'"),
        ([0.0] * 5 + [np.nan], "", "not finite"),
        ([0.0] * 5 + [1e150], "", "above"),
    ],
    ids=["frame", "NaN", "huge"],
)
def test_a_bad_acceleration_of_the_base_is_dropped(dog, values, link, reason):
    with pytest.raises(BadMessage, match=reason):
        read_base_acceleration(dog.case.model, values, link, 0)


def test_a_payload_acts_at_the_contacts(dog):
    oracle = Oracle(dog.case.robot, dog.case.model)
    link = dog.case.model.base_link
    before = dog.served.solve().loads.forces.sum()
    dog.core.set_payload(link, MASS, COM, MOMENTS)
    load(oracle, link)
    assert dog.agrees(oracle=oracle) and abs(dog.served.solve().loads.forces.sum() - before) > 5.0


def test_wrenches_on_links(tmp_path):
    """The sum over all contacts of J^T w is what the motion needs; a point off the origin of its link, on a slope."""
    text = f"""
contacts:
  - {{link: [{", ".join(FEET[:2])}], xyz: [0.01, -0.02, 0.03], normal: [0.1, 0.2, 1]}}
  - {{link: HL_FOOT, kind: surface, rpy: [0.2, -0.1, 0.3], half_lengths: [0.02, 0.01], xyz: [0.01, 0.02, 0]}}
  - {{link: HR_LOWER_LEG, kind: wheel, axis: [0, 1, 0.1], radius: 0.05, roller: 0.785, xyz: [0, 0, -0.1]}}
  - {{link: FR_LOWER_LEG, other: HL_UPPER_LEG, xyz: [0.01, 0.02, -0.1]}}
"""
    dog = Dog(tmp_path, text, problem="forward")
    dog.served.receive(dog.case.names, LEGS, RATES, np.linspace(-1, 2, 12))
    result, oracle, q = dog.served.solve(), dog.case.oracle, dog.q
    needed = oracle.inverse(q, dog.qd, result.qdd)
    given = np.concatenate([np.zeros(6), np.linspace(-1, 2, 12)])
    for wrench in dog.core.contacts.wrenches(q, result.loads.forces):
        R, place = oracle.pose(q, wrench.link)
        moment, force = (R @ part for part in np.split(wrench.on_link, 2))
        given += oracle.jacobian(q, wrench.link).T @ np.concatenate([moment, force])
        if wrench.link == "FR_LOWER_LEG":  # the opposite one on the other link
            moment = moment + np.cross(place - oracle.pose(q, "HL_UPPER_LEG")[1], force)
            given -= oracle.jacobian(q, "HL_UPPER_LEG").T @ np.concatenate([moment, force])
    assert error(given, needed) < EXACT
    foot, _, sole, wheel, leg = dog.core.contacts.wrenches(q, result.loads.forces)
    assert np.array_equal(foot.components, [0, 0, 0, *result.loads.forces[:3]])
    assert np.abs(wheel.on_link).max() > 1.0 and np.abs(leg.on_link).max() > 1.0 and not wheel.components[4]
    assert error(sole.on_link[3:], rpy_rotation((0.2, -0.1, 0.3)) @ sole.components[3:]) < EXACT


def test_stale_gravity_torques_use_the_active_contacts(dog):
    dog.core.active.update(FEET[1:], [True] * 3, 0)
    dog.served.use(on_stale="gravity")
    tau, _ = dog.expected(FEET[1:], qd=np.zeros(18))
    assert error(dog.core.gravity_torques().tau[6:], tau[6:]) < EXACT
    dog.served.use(on_stale="zero")
    result = dog.core.gravity_torques()
    assert not result.tau.any() and result.loads is None


def test_forward_dynamics_with_contacts(tmp_path):
    """Accelerations of the torques of inverse dynamics: feet and base stay at rest."""
    still = Dog(tmp_path)
    still.served.receive(still.case.names, LEGS, 0 * RATES)
    still.core.state.base = still.core.state.read_base(POSE, 0 * TWIST, 0, 0)
    standing_still = still.served.solve()
    dog = Dog(tmp_path, problem="forward")
    dog.served.receive(dog.case.names, LEGS, 0 * RATES, standing_still.tau[6:])
    dog.core.state.base = dog.core.state.read_base(POSE, 0 * TWIST, 0, 0)
    result = dog.served.solve()
    assert np.abs(result.qdd).max() < 1e-7 and not result.loads.residual.any()
    forces = result.loads.forces.reshape(-1, 3)
    assert forces[:, 2].sum() == pytest.approx(dog.case.model.mass * 9.81)


# --- which contacts are active ------------------------------------------------------------------------------


def test_the_newest_of_parameter_and_message_wins(dog):
    dog.served.use(active_contacts=list(FEET[:3]))
    assert dog.agrees(FEET[:3])
    dog.core.active.update(FEET[::-1], [True, True, False, False], 5)
    assert dog.core.active.active == FEET[2:]
    dog.served.use(wrench_timeout=0.3)
    assert dog.core.active.active == FEET[2:], "another parameter changes nothing"
    dog.served.use(active_contacts=[])
    assert dog.agrees()


@pytest.mark.parametrize(
    "names, active, stamp, reason",
    [
        (("FL_FOOT", "TAIL"), (True, True), 0, "unknown contact TAIL"),
        (("FL_FOOT", "TAIL"), (True, False), 0, "unknown contact TAIL"),
        (("FL_FOOT", "FL_FOOT"), (True, True), 0, "'FL_FOOT' is listed twice"),
        (FEET, (True,) * 3, 0, "4 names but 3 entries in active"),
        (FEET, (), 0, "4 names but 0 entries"),
        ([f"x{k}" for k in range(10_001)], [True] * 10_001, 0, "10001 names; the limit is 10000"),
        (FEET, (True,) * 4, 95 * MS, "5 ms older"),
    ],
    ids=["unknown", "unknown and inactive", "twice", "unequal", "no flags", "too many", "stale"],
)
def test_a_bad_message_keeps_the_last_set(dog, names, active, stamp, reason):
    dog.core.active.update(FEET, (True, True, False, True), 100 * MS)
    with pytest.raises(BadMessage, match=reason):
        dog.core.active.update(names, active, stamp)
    assert dog.agrees(("FL_FOOT", "FR_FOOT", "HR_FOOT"))


def test_a_restarted_clock_is_no_stale_message(dog):
    dog.core.active.update(FEET, (True,) * 4, 5_000 * MS)
    dog.core.active.update(FEET[:1], (True,), 100 * MS)
    assert dog.core.active.active == FEET[:1]


def test_a_rebuild_keeps_the_active_contacts(dog):
    dog.core.active.update(FEET[:3], (True,) * 3, 0)
    chosen = robot_settings("solo12", contacts_file=str(dog.file), tip_links=["FL_FOOT"], **NONE)
    dog.core.replace(Served(dog.served.text, chosen).core.unloaded, chosen)
    assert dog.agrees(FEET[:3])


def test_contacts_of_a_changed_file():
    feet = [Contact(foot) for foot in FEET]
    active = ActiveContacts(feet)
    active.update(FEET[:1], (True,), 0)
    more = active.on([*feet, Contact("tail")], ())
    assert more.active == (FEET[0], "tail"), "a new contact is active, as the parameter says"
    assert more.on(feet[1:], FEET[1:2]).active == FEET[1:2], "the parameter has changed"


# --- what contacts cannot give ------------------------------------------------------------------------------


def trouble(dog):
    result, statistics = dog.served.solve(), Statistics()
    statistics.solved(1e-4, (), dog.core.contacts, result.loads)
    return statistics.contact_trouble


def test_a_set_that_cannot_hold_the_robot_is_named(dog):
    dog.core.state.base = dog.core.state.read_base([0, 0, 0.24, 0, 0, 0, 1], 0 * TWIST, 0, 0)
    dog.served.receive(dog.case.names, np.tile([0, 0.8, -1.6], 4), 0 * RATES)
    assert trouble(dog) == ""
    dog.core.active.update((), (), 0)
    weight = f"{dog.case.model.mass * 9.81:.3g} N"
    words = "active contacts (none) cannot hold the robot at base_link"
    assert trouble(dog).startswith(f"{words}: {weight} and ") and trouble(dog).endswith(" N m are missing")
    dog.core.active.update(FEET[:2], (True, True), 0)
    assert "(FL_FOOT, FR_FOOT) cannot hold the robot at base_link: " in trouble(dog)


@pytest.mark.parametrize(
    "forces, words",
    [
        ([0, 0, 12, 0, 0, 0, 0, 0, 12], ""),
        ([0, 0, -5, 0, 0, 0, 0, 0, 12], "FL_FOOT pulls with 5 N"),
        ([6, 0, 12, 0, 0, 0, 0, -6.5, 12], "sole slides: 0.5 N are beyond its friction"),
        ([6, -6, 12, 0, 0, 0, 0, 0, 12], "FL_FOOT slides: 1.29 N are beyond its friction"),
        ([0, 0, 12, 0.1, 0.2, 9, 0, 0, 12], ""),
        ([0, 0, 12, 0.2, 0, 0, 0, 0, 12], "sole tips: 0.08 N m are beyond its edge along y"),
        ([0, 0, 12, 0, -0.3, 0, 0, 0, 12], "sole tips: 0.06 N m are beyond its edge along x"),
    ],
)
def test_forces_that_contacts_cannot_give_are_named(forces, words):
    sole = Contact("HL_FOOT", "surface", "sole", half_lengths=(0.02, 0.01), friction=0.5)
    functions = SimpleNamespace(contacts=(Contact("FL_FOOT", friction=0.6), sole), cones=None)
    contacts = ContactMap(case_of("solo12").model, functions)
    text = contacts.trouble(ContactLoads(np.ones(2), np.array(forces), np.zeros(6)))
    assert text == (words and f"forces at contacts that they cannot give: {words}")


# --- files and parameters -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, words",
    [
        ("contacts: [{link: TAIL}]", "unknown link 'TAIL'"),
        ("contacts: []", "the list has no contact"),
        ("contacts: [{link: FL_FOOT, xyz: [0, .inf, 0]}]", "xyz"),
        ("contacts: [{link: FL_FOOT, kind: surface, half_lengths: [0, 0.1]}]", "half_lengths"),
        ("contacts: [{link: FL_FOOT, friction: -0.5}]", "friction"),
        ("contacts: [{link: FL_FOOT, friction: .nan}]", "friction"),
        ("contacts: [{link: FL_FOOT, frction: 1}]", "column 37: this field"),
        ("contacts: [{link: [FL_FOOT, FL_FOOT]}]", "'FL_FOOT' occurs twice"),
        ("contacts: [{link: FL_FOOT, kind: wheel}]", "radius"),
        ("{[", "contacts"),
        ("a scalar", "contacts: a list"),
        ("\0", "contacts"),
        ("", "contacts: a list"),
    ],
)
def test_a_bad_file_is_a_failure_with_its_reason(tmp_path, text, words):
    (tmp_path / "contacts.yaml").write_text(text)
    chosen = robot_settings("solo12", contacts_file=str(tmp_path / "contacts.yaml"))
    result = do(chosen.job(ROBOTS["solo12"].file.read_text()))
    assert isinstance(result, Failure) and words in result.reason and "contact" in result.reason


def test_a_file_that_is_absent(tmp_path):
    chosen = robot_settings("solo12", contacts_file=str(tmp_path / "nothing.yaml"))
    result = do(chosen.job(ROBOTS["solo12"].file.read_text()))
    assert isinstance(result, Failure) and "nothing.yaml" in result.reason


@pytest.mark.parametrize(
    "values, reason",
    [
        ({"active_contacts": ["a"]}, "active_contacts needs contacts_file"),
        ({"active_contacts": ["a", "a"], "contacts_file": "x"}, "lists a contact twice"),
        ({"contacts_file": "x", "compensate__gravity": False}, "compensate.gravity"),
        (
            {"contacts_file": "x", "problem": "sensors", "sensors_file": "y", "active_contacts": ["a"]},
            "active_contacts has no effect",
        ),
    ],
)
def test_impossible_combinations(values, reason):
    assert "contacts_file" in DEFAULTS
    with pytest.raises(ValueError, match=reason):
        settings(**values)


def test_unknown_active_contacts_are_rejected(dog):
    chosen = robot_settings("solo12", contacts_file=str(dog.file), active_contacts=["TAIL"])
    with pytest.raises(ValueError, match="active_contacts: unknown contact TAIL.*FL_FOOT"):
        check_against(chosen, dog.core.unloaded)


def test_inverse_dynamics_of_a_fixed_robot_have_no_contacts(tmp_path):
    (tmp_path / "contacts.yaml").write_text("contacts: [{link: panda_link7}]")
    served = serve("panda7", contacts_file=str(tmp_path / "contacts.yaml"), problem="forward")
    inverse = robot_settings("panda7", contacts_file=str(tmp_path / "contacts.yaml"))
    with pytest.raises(ValueError, match="contacts_file needs floating_base"):
        check_against(inverse, served.core.unloaded)
