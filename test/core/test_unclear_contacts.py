"""Contacts that are redundant, nearly so, or nearly singular, against extended precision."""

import numpy as np
import pytest
from extended import Extended, singular_values
from robots import random_states, robot_of
from tolerances import error

import dynamics_node as dn
from dynamics_node.algorithms.contact_dynamics import row_units
from dynamics_node.graph.contact_least_squares import RANK

EXACT = 1e-9
FEET = ("FL_FOOT", "FR_FOOT", "HL_FOOT", "HR_FOOT")
SOLES = ("left_sole_link", "right_sole_link")
STATES = 3


def pair(distance):
    """Two points of a toe, and another toe: a line between the two cannot turn, and whether the rest can depends on their
    distance."""
    near = tuple(distance * np.array([0.6, 0.48, 0.64]))
    return [dn.Contact("FL_FOOT"), dn.Contact("FL_FOOT", name="near", xyz=near), dn.Contact("HR_FOOT")]


SETS = {
    **{f"{d:g} m apart": ("solo12", pair(d)) for d in (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-7, 1e-8, 1e-9)},
    "three toes": ("solo12", [dn.Contact(foot) for foot in FEET[:3]]),
    "two soles": ("talos", [dn.Contact(sole, "surface") for sole in SOLES]),
    "two toes on a thigh": (
        "solo12",
        [
            dn.Contact("FL_FOOT", other="HR_UPPER_LEG"),
            dn.Contact("FR_FOOT", other="HR_UPPER_LEG", xyz=(0.01, 0, 0)),
        ],
    ),
}


def backend_of(case):
    """One set is compiled, which takes half a second to two."""
    return "c" if case == "two toes on a thigh" else "numpy"


def states(name):
    """Random ones; in the last two, legs of Solo12 are nearly or quite straight."""
    robot = robot_of(name)
    q, qd, tau = random_states(robot, STATES, seed=7)[:3]
    if name == "solo12":
        q[-2, 9::3], q[-1, 9::3] = 10.0 ** -np.arange(1, 8, 2.0), 0.0
    return robot, q, qd, tau


@pytest.mark.parametrize("case", SETS)
def test_accelerations_in_every_set(case):
    """By the Program where it is healthy, by singular values elsewhere; both where both have a result."""
    name, contacts = SETS[case]
    robot, q, qd, tau = states(name)
    forward = dn.build(robot, dn.forward_dynamics(robot, contacts), backend=backend_of(case))
    rows = len(forward.problem.rows.names)
    extended = Extended(robot, contacts, row_units(contacts))
    ones, still = np.ones((STATES, len(contacts))), np.zeros(rows)
    by_values = forward.runner.second.run_checked(STATES, [q, qd, tau, ones, still, robot.gravity])[0][0]
    for k in range(STATES):
        expected, _, sizes = extended.forward(q[k], qd[k], tau[k], np.ones(rows), still, RANK)
        if np.abs(np.log10(np.maximum(sizes, 1e-30).astype(float) / RANK)).min() < 0.02:
            continue  # at the border: either is right
        qdd, forces = forward(q[k], qd[k], tau[k], ones[k])
        assert error(qdd, expected.astype(float)) < EXACT
        assert error(by_values[k], expected.astype(float)) < EXACT
        assert np.isfinite(forces).all()


def test_the_oracle_finds_small_singular_values():
    random = np.random.default_rng(1)
    Q, R = (np.linalg.qr(random.normal(size=(n, n)))[0] for n in (6, 9))
    sizes = 10.0 ** -np.arange(0, 12, 2.0)
    U, found, V = singular_values((Q * sizes) @ R[:6])
    np.testing.assert_allclose(np.sort(found)[::-1].astype(float), sizes, rtol=1e-4)
    assert np.abs((U * found) @ V.T - (Q * sizes) @ R[:6]).max() < 1e-15


def test_forces_of_accelerations_that_contradict_each_other():
    """Redundant directions of the right-hand side have no effect, however large they are."""
    robot = robot_of("talos")
    corners = [
        dn.Contact(SOLES[0], name=f"{x} {y}", xyz=(x, y, 0)) for x in (-0.1, 0.1) for y in (-0.06, 0.06)
    ]
    forward = dn.build(robot, dn.forward_dynamics(robot, corners))
    q, qd, tau = random_states(robot, 4, seed=3)[:3]
    wanted = np.random.default_rng(2).uniform(-5, 5, (4, 12))
    state = [q, qd, tau, np.ones((4, 4)), wanted]
    first = forward.runner.first.run_checked(4, [*state, robot.gravity])[0]
    second = forward.runner.second.run_checked(4, [*state, robot.gravity])[0]
    for by_program, by_values in zip(first, second, strict=True):
        assert error(by_program, by_values).max() < EXACT


def test_two_links_that_cannot_move_push_with_nothing():
    """With known accelerations of the legs, what a toe and a thigh do to each other moves nothing."""
    robot = robot_of("solo12")
    contact = dn.Contact("FL_FOOT", other="HR_UPPER_LEG")
    hybrid = dn.build(robot, dn.hybrid_dynamics(robot, [robot.independent_joints[0].name], contact))
    plain = dn.build(robot, dn.hybrid_dynamics(robot, [robot.independent_joints[0].name]))
    q, qd, tau = random_states(robot, 3, seed=4)[:3]
    qdd, torques, forces = hybrid(q, qd, tau, tau, [1])
    assert np.abs(forces).max() < EXACT
    for found, expected in zip((qdd, torques), plain(q, qd, tau, tau), strict=True):
        assert error(found, expected).max() < EXACT


def test_a_state_without_a_result_names_its_contacts():
    robot = robot_of("solo12")
    forward = dn.build(robot, dn.forward_dynamics(robot, pair(0.01)))
    q, rest = robot.neutral(), np.zeros(robot.nv)
    with pytest.raises(dn.SolutionError, match="contacts active: FL_FOOT, HR_FOOT"):
        forward(q, rest, np.full(robot.nv, 1e308), [1, 0, 1])


@pytest.mark.parametrize(
    "case", ["0.1 m apart", "1e-08 m apart", "two soles", "two toes on a thigh", "a cart"]
)
def test_programs_and_singular_values_agree(case):
    """Forward, inverse and hybrid dynamics, with any accelerations of legs and contacts."""
    name, contacts = SETS.get(case, ("solo12", CART))
    robot = robot_of(name)
    q, qd, tau = random_states(robot, STATES, seed=11)[:3]
    q[:, 3:6] *= 0.2  # wheels lean a little
    q[:, 3:7] /= np.linalg.norm(q[:, 3:7], axis=1, keepdims=True)
    q[:, 7:] *= 0.1
    base = robot.independent_joints[0].name
    active = (np.arange(len(contacts)) < np.array([[1], [2], [9]])).astype(float)
    for problem in (
        dn.forward_dynamics(robot, contacts),
        dn.inverse_dynamics(robot, contacts),
        dn.hybrid_dynamics(robot, [base], contacts),
    ):
        solve = dn.build(robot, problem, backend=backend_of(case))
        known = [tau[::-1], tau] if problem.kind == "hybrid" else [tau]
        wanted = np.random.default_rng(12).uniform(-1, 1, (STATES, len(problem.rows.names)))
        arguments = [np.ascontiguousarray(a) for a in (q, qd, *known, active, wanted, robot.gravity)]
        first, _ = solve.runner.first.run_checked(STATES, arguments)
        second, _ = solve.runner.second.run_checked(STATES, arguments)
        good = np.isfinite(first[0]).all(axis=1)
        assert good.any()
        for by_program, by_values in zip(first, second, strict=True):
            size = max(np.abs(by_values[good]).max(), 1.0)
            assert np.abs(by_program - by_values)[good].max() < EXACT * size


CART = [
    dn.Contact("FL_FOOT", "wheel", radius=0.05),
    dn.Contact("HR_FOOT", "wheel", radius=0.05, roller=0.7),
    dn.Contact("FR_FOOT", "wheel", radius=0.05, other="HL_UPPER_LEG", normal=(0.1, 0.2, 1.0)),
]


def test_the_world_against_a_link():
    """A link that is fixed to the world may be the first one of a contact."""
    robot = robot_of("panda7")
    q, _, tau = random_states(robot, 1, seed=13)[:3]
    q, tau, rest = q[0], tau[0], np.zeros(7)
    _, place = dn.evaluate(robot, "frame_pose", q, link="panda_link7", backend="numpy")
    results = [
        dn.evaluate(robot, "forward_dynamics", q, rest, tau, [1], contacts=contact, backend="numpy")
        for contact in (
            dn.Contact("panda_link7"),
            dn.Contact("panda_link0", xyz=tuple(place), other="panda_link7"),
        )
    ]
    assert error(results[0].qdd, results[1].qdd) < EXACT
    R, _ = dn.evaluate(robot, "frame_pose", q, link="panda_link7", backend="numpy")
    np.testing.assert_allclose(results[0].contact_forces, -R @ results[1].contact_forces, atol=1e-8)
