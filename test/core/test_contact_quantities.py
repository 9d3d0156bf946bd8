"""Impacts and the inertia of contacts, against Pinocchio and identities; contacts as an option of quantities."""

import numpy as np
import pytest
from exports import compile_tests
from oracle import pin
from robots import closed_states, random_states, robot_of
from test_contact_dynamics import EXACT, FEET, SETS, SOLES, Dense, states
from tolerances import error

import dynamics_node as dn
from dynamics_demo.robots import quadruped
from dynamics_node.cli import main


@pytest.mark.parametrize("case", SETS)
def test_delassus_matrix(case):
    name, contacts = SETS[case]
    robot, q = states(name, 4, contacts)[:2]
    matrix, J = dn.build(robot, "delassus_matrix", contacts=contacts, backend="numpy")(q)
    dense = Dense(name, contacts)
    for k in range(len(q)):
        expected, _ = dense.rows(q[k], np.zeros(robot.nv))
        assert error(J[k], expected, tail=2) < EXACT
        M = dense.oracle.mass_matrix(q[k])
        assert error(matrix[k], expected @ np.linalg.solve(M, expected.T), tail=2) < EXACT


def test_delassus_inverse():
    robot, feet = robot_of("solo12"), [dn.Contact(foot) for foot in FEET]
    q = random_states(robot, 4)[0]
    matrix, _ = dn.evaluate(robot, "delassus_matrix", q, contacts=feet, backend="numpy")
    inverse, J = dn.evaluate(robot, "delassus_inverse", q, contacts=feet, backend="numpy")
    assert error(inverse @ matrix, np.broadcast_to(np.eye(12), inverse.shape), tail=2).max() < EXACT
    twice = [*feet, dn.Contact(FEET[0], name="again")]
    with pytest.raises(dn.InputError, match="again.*delassus_matrix"):
        dn.build(robot, "delassus_inverse", contacts=twice, backend="numpy")


@pytest.mark.parametrize("case", SETS)
def test_impacts(case):
    """Momentum changes by the impulses, active contacts move as stated, and the others feel nothing."""
    name, contacts = SETS[case]
    robot, q, qd, _, active = states(name, 4, contacts)
    random = np.random.default_rng(2)
    restitution = random.uniform(0, 1, len(contacts)) * (case != "corners of two soles")
    function = dn.build(robot, "impact_dynamics", contacts=contacts, backend="numpy")
    after, impulses = function(q, qd, active, restitution)
    dense, rows = Dense(name, contacts), dn.forward_dynamics(robot, contacts).rows
    normal = np.array([row.endswith("fz") for row in rows.names])
    for k in range(len(q)):
        J, _ = dense.rows(q[k], qd[k])
        on, M = rows.of_rows(active[k]) > 0, dense.oracle.mass_matrix(q[k])
        change = M @ (after[k] - qd[k])
        assert np.abs(change - J.T @ impulses[k]).max() < EXACT * max(1.0, np.abs(change).max())
        back = np.where(normal, rows.of_rows(restitution), 0.0)
        assert np.abs((J @ after[k] + back * (J @ qd[k]))[on]).max(initial=0.0) < EXACT
        assert not impulses[k][~on].any()
        lost = 0.5 * (qd[k] @ M @ qd[k] - after[k] @ M @ after[k])
        assert abs(lost + 0.5 * impulses[k] @ J @ (qd[k] + after[k])) < EXACT * max(1.0, abs(lost))
        assert lost > -EXACT


@pytest.mark.parametrize("name, links", [("solo12", FEET), ("talos", SOLES)])
def test_impacts_against_pinocchio(name, links):
    kind = "point" if name == "solo12" else "surface"
    robot, contacts = robot_of(name), [dn.Contact(link, kind) for link in links]
    q, qd = random_states(robot, 3)[:2]
    dense = Dense(name, contacts)
    after, _ = dn.evaluate(
        robot, "impact_dynamics", q, qd, np.ones(len(links)), contacts=contacts, backend="numpy"
    )
    model, data, order = dense.oracle.pin, dense.oracle.data, dense.oracle.order
    for k in range(3):
        J, _ = dense.rows(q[k], qd[k])
        theirs = np.zeros((len(J), model.nv))
        theirs[:, order] = J
        expected = pin.impulseDynamics(
            model, data, dense.oracle.q(q[k]), dense.oracle.v(qd[k]), theirs, 0.0, 0.0
        )
        assert error(after[k], expected[order]) < 1e-8


def test_an_impact_without_a_result_names_its_contacts():
    """Points 1 mm apart are neither redundant nor regular; a wheel that leans is named alone."""
    robot = robot_of("solo12")
    near = [
        dn.Contact("FL_FOOT"),
        dn.Contact("FL_FOOT", name="near", xyz=(0.001, 0, 0)),
        dn.Contact("HR_FOOT"),
    ]
    landing = dn.build(robot, "impact_dynamics", contacts=near, backend="numpy")
    q, qd = random_states(robot, 1, seed=7)[:2]
    with pytest.raises(dn.SolutionError, match="FL_FOOT, near, HR_FOOT, nearly redundant"):
        landing(q[0], qd[0], [1, 1, 1])
    wheel = dn.Contact("FL_FOOT", "wheel", axis=(0, 0, 1), radius=0.1)
    with pytest.raises(dn.SolutionError, match="wheel 'FL_FOOT' leans"):
        dn.build(robot, "impact_dynamics", contacts=wheel, backend="numpy")(robot.neutral(), qd[0], [1])


def test_an_elastic_impact_keeps_the_energy():
    """Of a mass that falls straight on its foot: it comes back with the velocity of its fall."""
    robot, contacts = robot_of("solo12"), [dn.Contact("base_link")]
    q, qd = robot.neutral(), np.zeros(robot.nv)
    qd[5] = -2.0
    J = dn.evaluate(robot, "delassus_matrix", q, contacts=contacts, backend="numpy").jacobian
    energy = dn.evaluate(robot, "kinetic_energy", q, qd, backend="numpy")
    for e in (1.0, 0.3, 0.0):
        after, _ = dn.evaluate(
            robot, "impact_dynamics", q, qd, [1.0], [e], contacts=contacts, backend="numpy"
        )
        assert np.allclose(J @ after, [0, 0, 2.0 * e], atol=1e-12)
        kept = dn.evaluate(robot, "kinetic_energy", q, after, backend="numpy")
        assert kept <= energy * (1 + 1e-12) and (e < 1.0 or kept == pytest.approx(energy, rel=1e-12))


def test_impacts_of_a_robot_with_loops():
    robot = robot_of("rod")
    contacts = [dn.Contact(robot.bodies[4].name, xyz=(0.1, 0.02, 0.03))]
    q, qd, _ = closed_states(robot, 3, reach=0.1)
    after, impulses = dn.evaluate(robot, "impact_dynamics", q, qd, [1.0], contacts=contacts, backend="numpy")
    J = dn.evaluate(robot, "delassus_matrix", q, contacts=contacts, backend="numpy").jacobian
    M = dn.evaluate(robot, "mass_matrix", q, backend="numpy")
    assert np.abs(np.einsum("kij,kj->ki", J, after)).max() < EXACT
    change = np.einsum("kij,kj->ki", M, after - qd)
    assert error(np.einsum("kji,kj->ki", J, impulses), change).max() < EXACT


def test_contacts_are_an_option():
    """Of quantities by name, the same as of a Problem."""
    robot, feet = robot_of("solo12"), [dn.Contact(foot) for foot in FEET]
    q, qd, tau = random_states(robot, 3)[:3]
    active = np.array([1.0, 0.0, 1.0, 1.0])
    by_problem = dn.build(robot, dn.forward_dynamics(robot, feet), backend="numpy")
    expected = by_problem(q, qd, tau, active)
    state = {"contacts": feet, "backend": "numpy"}
    for result in (
        dn.build(robot, "forward_dynamics", **state)(q, qd, tau, active),
        dn.evaluate(robot, "forward_dynamics", q, qd, tau, active, **state),
    ):
        assert type(result) is type(expected)
        assert all(np.array_equal(a, b) for a, b in zip(result, expected, strict=True))
    derived = dn.evaluate(robot, "forward_dynamics_derivatives", q, qd, tau, active, **state)
    assert np.array_equal(derived.dforces_dtau, by_problem.derivatives()(q, qd, tau, active).dforces_dtau)
    one = dn.evaluate(
        robot, "forward_dynamics", q, qd, tau, [1.0], contacts=dn.Contact(FEET[0]), backend="numpy"
    )
    assert one.contact_forces.shape == (3, 3)
    with pytest.raises(TypeError, match="mass_matrix.*contacts"):
        dn.build(robot, "mass_matrix", contacts=feet)
    with pytest.raises(TypeError, match="impact_dynamics.*contacts"):
        dn.build(robot, "impact_dynamics")
    with pytest.raises(dn.ContactError, match="nowhere"):
        dn.build(robot, "impact_dynamics", contacts=[dn.Contact("nowhere")])


def test_a_contact_that_nothing_moves():
    """On the axis of the only joint before it."""
    text = """<robot name="r"><link name="a"/><link name="b"><inertial><mass value="1"/><inertia ixx="1" iyy="1"
    izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link><joint name="j" type="continuous"><parent link="a"/>
    <child link="b"/><axis xyz="0 0 1"/></joint></robot>"""
    robot = dn.parse_robot(text)
    forward = dn.build(robot, "forward_dynamics", contacts=dn.Contact("b"), backend="numpy")
    qdd, forces = forward([0.1], [0.2], [3.0], [1.0])
    assert qdd == pytest.approx([3.0]) and not forces.any()


@pytest.mark.parametrize("backend", ["numpy", "c"])
def test_batches_and_errors(backend):
    robot, contacts = robot_of("panda7"), [dn.Contact("panda_link7", xyz=(0, 0, 0.1))]
    q, qd = random_states(robot, 40)[:2]
    function = dn.build(robot, "impact_dynamics", contacts=contacts, backend=backend)
    q[7, 0] = np.nan
    after, impulses = function(q, qd, [1.0], errors="nan")
    assert np.isnan(after[7]).all() and np.isnan(impulses[7]).all()
    assert np.isfinite(np.delete(after, 7, axis=0)).all()
    single, _ = function(q[3], qd[3], [1.0])
    assert error(after[3], single) < EXACT
    with pytest.raises(dn.InputError, match="restitution"):
        function(q[3], qd[3], [1.0], [1.0, 2.0])


@pytest.mark.parametrize("quantity", ["forward_dynamics", "forward_dynamics_derivatives", "impact_dynamics"])
def test_exported_code(quantity, tmp_path):
    """Its test program compares with the interpreter at states with active contacts."""
    robot, contacts = robot_of("panda7"), [dn.Contact("panda_link7", xyz=(0, 0, 0.1))]
    function = dn.build(robot, quantity, contacts=contacts, backend="numpy")
    function.export(tmp_path)
    assert len(compile_tests(tmp_path, flags=["-O0"])) == len(function.result._fields)


def test_casadi_differentiates_contacts():
    casadi = pytest.importorskip("casadi", reason="pip install casadi")
    robot, contacts = robot_of("panda7"), [dn.Contact("panda_link7", xyz=(0, 0, 0.1))]
    function = dn.build(robot, "forward_dynamics", contacts=contacts, backend="numpy")
    q, qd, tau = (array[0] for array in random_states(robot, 1)[:3])
    bridge, state = function.casadi(), (q, qd, tau, np.ones(1), np.zeros(3))
    assert isinstance(bridge, casadi.Function)
    for result, expected in zip(bridge(*state), function(q, qd, tau, [1.0]), strict=True):
        assert error(np.array(result)[:, 0], expected) < EXACT
    blocks = bridge.jacobian()(*state, 0, 0)
    derivatives = function.derivatives()(q, qd, tau, [1.0])
    for k, expected in enumerate(derivatives):
        assert error(np.array(blocks[k + 2 * (k // 3)]), expected, tail=2) < EXACT


@pytest.mark.parametrize("flag", [0.5, -1.0, 2.0, 1.0001])
@pytest.mark.parametrize(
    "name", ["forward_dynamics", "inverse_dynamics", "forward_dynamics_derivatives", "impact_dynamics"]
)
def test_flags_are_zeros_and_ones(name, flag):
    """A probability of a contact is not half of a contact."""
    robot, feet = robot_of("solo12"), [dn.Contact(foot) for foot in FEET[:2]]
    function = dn.build(robot, name, contacts=feet, backend="numpy")
    state = [robot.neutral(), *np.zeros((1 if name == "impact_dynamics" else 2, robot.nv))]
    with pytest.raises(dn.InputError, match=r"active\[1\] \(FR_FOOT\)"):
        function(*state, [1, flag])
    flags = np.ones((3, 2))
    flags[1, 0] = flag
    with pytest.raises(dn.InputError, match=r"active\[0\] \(FL_FOOT\) of state 1"):
        function(*state, flags)
    lost = np.isnan(function(*state, flags, errors="nan")[0]).reshape(3, -1).any(axis=1)
    assert lost.tolist() == [False, True, False]


def test_wheels_that_lean_have_no_inertia():
    robot = robot_of("solo12")
    wheel = dn.Contact("base_link", "wheel", radius=0.1)
    q = np.stack([robot.neutral()] * 2)
    q[1, 3:7] = np.sqrt(0.5), 0.0, 0.0, np.sqrt(0.5)  # a quarter turn about x: the wheel lies flat
    for quantity, more in (("delassus_matrix", ()), ("impact_dynamics", (np.zeros(18), [1.0]))):
        results = dn.evaluate(robot, quantity, q, *more, contacts=wheel, backend="numpy", errors="nan")
        assert np.isfinite(results[0][0]).all() and np.isnan(results[0][1]).all()


def test_export_from_the_command_line(tmp_path, capsys):
    robot, contacts = tmp_path / "robot.urdf", tmp_path / "contacts.yaml"
    robot.write_text(quadruped())
    contacts.write_text("contacts: [{link: fl_shank, xyz: [0, 0, -0.2]}]")
    line = f"export {robot} --floating-base --function impact_dynamics -o {tmp_path / 'out'}"
    assert main([*line.split(), "--contacts", str(contacts)]) == 0
    assert "q, qd, active, restitution" in capsys.readouterr().out
    assert (tmp_path / "out" / "quadruped_impact_dynamics.c").exists()
    assert main(line.split()) == 2  # without contacts
    contacts.write_text("contacts: [{link: nowhere}]")
    assert main([*line.split(), "--contacts", str(contacts)]) == 3
    assert "nowhere" in capsys.readouterr().err
