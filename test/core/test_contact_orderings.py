"""Contacts in the factor graph: every ordering has the results of forces last, over robots and active sets."""

import os
import subprocess
import sys
from functools import cache
from itertools import product

import numpy as np
import pytest
from extended import Extended
from robots import LEGGED, closed_states, random_states, robot_of
from tolerances import OUT_OF_GTSAM, error

import dynamics_node as dn
from dynamics_node.algorithms import cost, dynamics_programs
from dynamics_node.algorithms.contact_dynamics import row_units
from dynamics_node.functions.exporting import exported_entry
from dynamics_node.graph import (
    ORDERINGS,
    build_graph,
    eliminate,
    elimination_program,
    generic_graph,
    graph_rank,
    plan_ordering,
    to_dot,
    to_svg,
)
from dynamics_node.graph.contact_factors import ContactState, forces_of_contacts
from dynamics_node.graph.contact_least_squares import RANK
from dynamics_node.symbolic import interpret

EXACT = 1e-9  # accelerations and forces, relative to the largest
FEET = ("FL_FOOT", "FR_FOOT", "HL_FOOT", "HR_FOOT")


def wheel(link, **fields):
    return dn.Contact(link, "wheel", radius=0.05, **fields)


SETS = {
    "one foot": ("solo12", [dn.Contact(FEET[0])]),
    "four feet": ("solo12", [dn.Contact(foot, normal=(1, k, 2.0)) for k, foot in enumerate(FEET)]),
    "two soles": ("talos", [dn.Contact(f"{s}_sole_link", "surface", rpy=(0.1, 0, 0.3)) for s in ("left", "right")]),
    "a pressing arm": ("panda7", [dn.Contact("panda_link7", xyz=(0.05, 0, 0.1))]),
    "hand on thigh": ("solo12", [dn.Contact("FL_FOOT", other="HR_UPPER_LEG", xyz=(0.01, 0, 0)), dn.Contact(FEET[3])]),
    "geared legs": ("quadruped", [dn.Contact(f"{leg}_shank", xyz=(0, 0, -0.2)) for leg in ("fl", "hr")]),
    "loops in legs": ("tello_humanoid", [dn.Contact("left-foot", xyz=(0, 0, -0.05))]),
    "wheels of the world and a link": (
        "solo12",
        [
            wheel("FL_FOOT"), wheel("HR_FOOT", roller=0.7), dn.Contact("FR_FOOT"),
            wheel("HL_FOOT", other="FR_UPPER_LEG", normal=(0.1, 0.2, 1.0)),
        ],
    ),
    "wheel of an arm": ("panda7", [wheel("panda_link7", axis=(1, 0, 0), xyz=(0, 0, 0.1))]),
    "wheel on loops": ("tello_humanoid", [wheel("left-foot", xyz=(0, 0, -0.05)), dn.Contact("right-foot")]),
}  # fmt: skip


@cache
def case_of(case):
    """(robot, contacts, (q, qd, tau), (active, accelerations), expected qdd and forces)"""
    name, contacts = SETS[case]
    robot, random = robot_of(name), np.random.default_rng(5)
    q, qd, tau = closed_states(robot, 8) if name in LEGGED else random_states(robot, 8)[:3]
    if any(contact.kind == "wheel" for contact in contacts):
        upright(robot, q)
    problem = dn.forward_dynamics(robot, contacts)
    active = random.integers(0, 2, (len(q), len(contacts))).astype(float)
    active[0], active[1] = 1.0, 0.0
    wanted = random.uniform(-1, 1, (len(q), len(problem.rows.names)))
    expected = dn.build(robot, problem, backend="numpy")(q, qd, tau, active, wanted)
    return robot, problem, (q, qd, tau, active, wanted), expected


def upright(robot, q):
    """Wheels that lean too much have no result."""
    if robot.floating_base:
        q[:, 3:6] *= 0.2
        q[:, 3:7] /= np.linalg.norm(q[:, 3:7], axis=1, keepdims=True)
    q[:, 7 * robot.floating_base :] *= 1.0 if robot.constrained else 0.3


def require_equal(results, expected, tolerance=EXACT):
    for one, other in zip(results, expected, strict=True):
        assert error(one, other).max() < tolerance


@pytest.mark.parametrize("ordering", [*ORDERINGS])
@pytest.mark.parametrize("case", SETS)
def test_every_ordering_gives_the_same_result(case, ordering):
    robot, problem, arrays, expected = case_of(case)
    try:
        forward = dn.build(robot, problem, solver="factor_graph", ordering=ordering, backend="numpy")
    except dn.SingularPivotError as reason:
        assert ordering not in ("aba", "crba", "constrained_aba", "constrained_crba")
        pytest.skip(str(reason))
    require_equal(forward(*arrays), expected)


def test_results_do_not_depend_on_hashes():
    """Known variables were subtracted in the order of a set, which differs from process to process."""
    code = (
        "import dynamics_node as dn, test_contact_orderings as tests\n"
        "robot, problem, arrays, _ = tests.case_of('loops in legs')\n"
        "options = {'solver': 'factor_graph', 'ordering': 'minimum_degree', 'backend': 'numpy'}\n"
        "print([x.tobytes().hex() for x in dn.build(robot, problem, **options)(*arrays)])\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    results = {
        subprocess.check_output([sys.executable, "-c", code], env=environment | {"PYTHONHASHSEED": seed})
        for seed in ("0", "1", "2")
    }
    assert len(results) == 1


@pytest.mark.parametrize("ordering", ["aba", "constrained_aba", "constrained_crba"])
@pytest.mark.parametrize("case", [case for case in SETS if case != "wheel on loops"])
def test_programs_are_accurate_within_health_limits(case, ordering):
    """The wheel on loops is left out: orderings differ by the residuals of the loops there, not by rounding."""
    robot, problem, (q, qd, tau, active, wanted), expected = case_of(case)
    program = elimination_program(robot, problem, ordering)
    state = {"q": q, "qd": qd, "tau": tau, "active": active, "contact_accelerations": wanted}
    results = interpret(program, **state, gravity=robot.gravity)
    healthy = (results.pop("health") <= program.limits).all(axis=-1)
    assert healthy.mean() > 0.5
    require_equal([result[healthy] for result in results.values()], [e[healthy] for e in expected])


IN_GTSAM = ("four feet", "a pressing arm", "geared legs", "hand on thigh", "loops in legs", "wheel on loops")


@pytest.mark.parametrize("case", [*IN_GTSAM, "wheels of the world and a link"])
def test_gtsam_eliminates_the_same_graph(case):
    pytest.importorskip("gtsam", reason="pip install 'gtsam>=4.3'")
    robot, problem, arrays, expected = case_of(case)
    forward = dn.build(robot, problem, solver="factor_graph", ordering="constrained_aba", backend="gtsam")
    require_equal(forward(*arrays), expected, OUT_OF_GTSAM)


def test_states_without_a_result_in_gtsam():
    """A stretched arm that is held at its hand: the recursion has forces there, elimination has none."""
    pytest.importorskip("gtsam", reason="pip install 'gtsam>=4.3'")
    robot = robot_of("panda7")
    problem = dn.forward_dynamics(robot, dn.Contact("panda_link7", "surface"))
    forward = dn.build(robot, problem, solver="factor_graph", ordering="aba", backend="gtsam")
    q, qd, tau = random_states(robot, 3)[:3]
    q[1] = 0.0
    qdd, forces = forward(q, qd, tau, [1], errors="nan")
    assert np.isnan(qdd[1]).all() and np.isnan(forces[1]).all() and np.isfinite(qdd[::2]).all()
    with pytest.raises(dn.SolutionError, match="panda_link7"):
        forward(q, qd, tau, [1])


def test_wrenches_gravity_and_hybrid_problems():
    robot, contacts = robot_of("solo12"), [dn.Contact(foot) for foot in FEET[:2]]
    q, qd, tau, f_ext = random_states(robot, 5)
    joints = [joint.name for joint in robot.independent_joints]
    problem = dn.hybrid_dynamics(robot, [name for name in joints if "KFE" not in name], contacts[:1])
    gravity, active = np.array([1.0, -2.0, -9.0]), np.ones((5, 1))
    expected = dn.build(robot, problem, backend="numpy", f_ext=True)(q, qd, tau, tau, active, f_ext=f_ext, gravity=gravity)  # fmt: skip
    for ordering in ("aba", "constrained_crba"):
        choice = {"solver": "factor_graph", "ordering": ordering, "backend": "numpy"}
        hybrid = dn.build(robot, problem, f_ext=True, **choice)
        require_equal(hybrid(q, qd, tau, tau, active, f_ext=f_ext, gravity=gravity), expected)


def test_a_stretched_leg_is_left_to_forces_last():
    """Its joints do not move the foot along the leg: an early pivot is zero, while the whole is regular."""
    robot = robot_of("solo12")
    problem = dn.forward_dynamics(robot, [dn.Contact(foot) for foot in FEET])
    q, zero = robot.neutral(), np.zeros(robot.nv)
    q[[robot.q_names.index(f"{leg}_KFE") for leg in ("FR", "HL")]] = 0.9
    q[[robot.q_names.index(f"{leg}_HFE") for leg in ("FR", "HL", "HR")]] = 0.4, -0.3, 0.2
    tau = np.random.default_rng(0).uniform(-1, 1, robot.nv)
    program = elimination_program(robot, problem, "constrained_aba")
    state = {"q": q, "qd": zero, "tau": tau, "active": np.ones(4), "contact_accelerations": np.zeros(12)}
    health = interpret(program, **state, gravity=robot.gravity)["health"]
    assert not (health <= program.limits).all()
    forward = dn.build(robot, problem, solver="factor_graph", ordering="constrained_aba")
    expected = dn.build(robot, problem, backend="numpy")(q, zero, tau, np.ones(4))
    require_equal(forward(q, zero, tau, np.ones(4)), expected)


def test_early_forces_leave_six_by_six_to_the_base():
    """The base sees nothing of the contacts: only its own six rows."""
    robot, problem, *_ = case_of("four feet")
    ordering, plan = plan_ordering(robot, problem, "constrained_aba")
    assert [str(x) for x in ordering.variables[-4:]] == ["lambda1", "F1", "A1", "qdd1"]
    assert plan.steps[-1].parents == () and plan.steps[-1].variable.dim == 6
    of_forces = [step for step in plan.steps if step.variable.kind == "lambda"]
    assert [[str(y) for y in step.parents] for step in of_forces] == [["A1"]] * 4


def test_own_ordering_by_names():
    robot, problem, arrays, expected = case_of("one foot")
    names = [str(x) for x in plan_ordering(robot, problem, "constrained_aba")[0].variables]
    names.remove("lambda1")
    forward = dn.build(robot, problem, solver="factor_graph", ordering=[*names, "lambda1"], backend="numpy")
    require_equal(forward(*arrays), expected)


@pytest.mark.parametrize(
    "backend, ordering",
    [("c", "best"), *product(("c", "numpy", "gtsam"), ("constrained_aba", "colamd"))],
)
def test_redundant_contacts_are_named(backend, ordering):
    if backend == "gtsam":
        pytest.importorskip("gtsam", reason="pip install 'gtsam>=4.3'")
    places = [(x, y, 0.0) for x in (-0.1, 0.1) for y in (-0.06, 0.06)]
    corners = [dn.Contact("left_sole_link", name=f"corner {k}", xyz=xyz) for k, xyz in enumerate(places)]
    robot = robot_of("talos")
    problem = dn.forward_dynamics(robot, [*corners, dn.Contact("right_sole_link")])
    with pytest.raises(dn.SingularPivotError, match="'corner 0'.*'corner 3'.*solver 'best'") as error:
        dn.build(robot, problem, solver="factor_graph", backend=backend, ordering=ordering)
    assert "right_sole_link" not in str(error.value)


def test_inverse_dynamics_are_refused():
    robot = robot_of("solo12")
    problem = dn.inverse_dynamics(robot, [dn.Contact("FL_FOOT")])
    for backend in ("c", "numpy", "gtsam"):
        with pytest.raises(dn.ChoiceError, match="shortest forces"):
            dn.build(robot, problem, solver="factor_graph", backend=backend)


def test_residuals_and_drawings():
    robot, problem, (q, qd, tau, active, wanted), (qdd, forces) = case_of("hand on thigh")
    contacts = ContactState(active, wanted)
    graph = build_graph(robot, problem, q, qd, np.zeros_like(qd), tau, contacts=contacts)
    values = eliminate(graph, plan_ordering(robot, problem, "crba")[1]).solve()
    assert max(np.abs(f.rhs).max() for f in graph.residuals(values).factors) < 1e-8 * np.abs(qdd).max()
    require_equal([forces_of_contacts(robot, problem, values, q)], [forces])
    graph = generic_graph(robot, problem)
    assert graph_rank(graph).open == () and "contact1(A4, A12, lambda1)" in str(graph)
    net = eliminate(graph, plan_ordering(robot, problem, "constrained_aba")[1])
    assert "lambda1" in to_dot(net) and "contact1(" in to_svg(graph) and "λ" in to_svg(net)


def test_a_link_of_the_world_may_be_either_side():
    """The accelerations of a contact on a link that is fixed to the world are those of its other side."""
    robot = robot_of("panda7")
    q, qd, tau = random_states(robot, 4)[:3]
    one = dn.Contact("panda_link7", other="panda_link0", normal=(0, 0, 1))
    assert robot.frames["panda_link0"].body == -1
    place = dn.evaluate(robot, "frame_pose", q[0], link="panda_link7", backend="numpy").position
    other = dn.Contact("panda_link0", name="there", other="panda_link7", xyz=tuple(place))
    active = np.ones(1)
    for backend in ("numpy", "c"):
        qdd, _ = dn.build(robot, dn.forward_dynamics(robot, one), backend=backend)(
            q[0], qd[0], tau[0], active
        )
        same, _ = dn.build(robot, dn.forward_dynamics(robot, other), backend=backend)(
            q[0], qd[0], tau[0], active
        )
        assert error(same, qdd) < EXACT


# --- the recursion with forces at limbs -----------------------------------------------------------------------

LIMBS = "contact forces at limbs"


@pytest.mark.parametrize("case", ["one foot", "four feet", "two soles", "geared legs", "loops in legs"])
def test_forces_at_limbs_equal_forces_last_within_health(case):
    """Also near stretched legs, and they cost less: `build` compiles them."""
    robot, problem, (q, qd, tau, active, wanted), _ = case_of(case)
    programs = dynamics_programs(robot, problem)
    assert cost(programs[LIMBS]) < cost(programs["contact forces last"])
    assert dn.build(robot, problem, backend="numpy").description == LIMBS
    if case == "four feet":
        q, active = q.copy(), np.ones_like(active)
        q[:, robot.q_names.index("FL_KFE")] = 10.0 ** -np.linspace(0.5, 4.0, 8)
    state = {"q": q, "qd": qd, "tau": tau, "active": active, "contact_accelerations": wanted}
    (last, one), (limbs, other) = (
        (program, interpret(program, **state, gravity=robot.gravity)) for program in programs.values()
    )
    good = (one.pop("health") <= last.limits).all(axis=-1)
    healthy = (other.pop("health") <= limbs.limits).all(axis=-1)
    assert healthy.mean() > (0.3 if case == "four feet" else 0.8)
    assert case != "four feet" or not healthy.all()
    require_equal([r[good & healthy] for r in other.values()], [r[good & healthy] for r in one.values()])


@pytest.mark.parametrize("backend", ["numpy", "c"])
def test_the_recursion_leaves_stretched_legs_to_forces_last(backend):
    robot = robot_of("solo12")
    problem = dn.forward_dynamics(robot, [dn.Contact(foot) for foot in FEET])
    q, qd, tau = random_states(robot, 6)[:3]
    q[::2, robot.q_names.index("HR_KFE")] = 0.0
    forward = dn.build(robot, problem, backend=backend)
    assert forward.description == LIMBS
    last = dynamics_programs(robot, problem)["contact forces last"]
    state = {
        "q": q,
        "qd": qd,
        "tau": tau,
        "active": np.ones((6, 4)),
        "contact_accelerations": np.zeros((6, 12)),
    }
    expected = interpret(last, **state, gravity=robot.gravity)
    assert (expected.pop("health") <= last.limits).all()
    require_equal(forward(q, qd, tau, np.ones(4)), expected.values())
    require_equal(forward(q[0], qd[0], tau[0], np.ones(4)), [r[0] for r in expected.values()])


@pytest.mark.parametrize("case", ["a pressing arm", "hand on thigh"])
def test_without_limbs_forces_are_last(case):
    robot, problem, *_ = case_of(case)
    assert list(dynamics_programs(robot, problem)) == ["contact forces last"]


def test_contacts_between_limbs_are_last():
    """They couple the feet of both limbs, although each wrench ends at the base."""
    robot = robot_of("solo12")
    held = dn.Contact("FL_FOOT", name="held", other="HR_UPPER_LEG")
    problem = dn.forward_dynamics(robot, [held, dn.Contact("FL_FOOT"), dn.Contact("FR_FOOT")])
    assert list(dynamics_programs(robot, problem)) == ["contact forces last"]


SOLES = ("left_sole_link", "right_sole_link")


def places_on(sole, places):
    return [dn.Contact(sole, name=f"{sole} {k}", xyz=xyz) for k, xyz in enumerate(places)]


CORNERS = [(0.1, 0.06, 0.0), (0.1, -0.06, 0.0), (-0.1, 0.06, 0.0), (-0.1, -0.06, 0.0)]
PATCHES = {
    "corners of two soles": [contact for sole in SOLES for contact in places_on(sole, CORNERS)],
    "a sole and a heel": [
        *places_on(SOLES[0], CORNERS[:3]),
        dn.Contact(SOLES[1], "surface", half_lengths=(0.1, 0.06), rpy=(0.1, 0.2, 0.3)),
        dn.Contact(SOLES[1], name="heel", xyz=(-0.12, 0.01, 0.02), normal=(0.1, 0.2, 1.0)),
    ],
    "points on a line": places_on(SOLES[0], [(0.05 * k, 0.01 * k, 0.0) for k in range(3)]),
}


@pytest.mark.parametrize("case", PATCHES)
def test_contacts_of_one_body_against_extended_precision(case):
    """Of every set, also with accelerations that contradict each other: forces are the shortest."""
    robot, contacts = robot_of("talos"), PATCHES[case]
    problem = dn.forward_dynamics(robot, contacts)
    program, random = dynamics_programs(robot, problem)[LIMBS], np.random.default_rng(6)
    q, qd, tau = random_states(robot, 12, seed=4)[:3]
    active = random.integers(0, 2, (12, len(contacts))).astype(float)
    active[:4] = np.arange(len(contacts)) < np.array([[1], [2], [3], [len(contacts)]])
    wanted = random.uniform(-1, 1, (12, len(problem.rows.names)))
    state = {"q": q, "qd": qd, "tau": tau, "active": active, "contact_accelerations": wanted}
    results = interpret(program, **state, gravity=robot.gravity)
    healthy = (results["health"] <= program.limits).all(axis=-1)
    assert healthy.mean() > 0.8 and healthy[0]
    extended = Extended(robot, contacts, row_units(contacts))
    for k in np.flatnonzero(healthy)[:6]:
        on = problem.rows.of_rows(active[k])
        qdd, forces, _ = extended.forward(q[k], qd[k], tau[k], on, wanted[k], RANK)
        assert error(results["qdd"][k], qdd.astype(float)) < EXACT
        assert np.abs(results["contact_forces"][k] - forces.astype(float)).max() < EXACT * max(
            1.0, np.abs(forces).max()
        )


def test_nearly_redundant_contacts_of_a_body_are_last():
    """At 0.1 mm from each other, two of them are neither redundant nor regular."""
    robot, near = robot_of("talos"), (0.1, 0.0601, 0.0)
    for places, is_clear in ((CORNERS, True), ([*CORNERS, near], False)):
        programs = dynamics_programs(robot, dn.forward_dynamics(robot, places_on(SOLES[0], places)))
        assert (LIMBS in programs) == is_clear


def test_forces_at_limbs_with_parameters_and_wrenches():
    robot, contacts = robot_of("solo12"), [dn.Contact(foot) for foot in FEET]
    problem, active = dn.forward_dynamics(robot, contacts), np.ones(4)
    q, qd, tau, f_ext = random_states(robot, 5)
    heavier = dn.with_payload(robot, "base_link", 1.5, (0.1, 0, 0.05), 0.01 * np.eye(3))
    forward = dn.build(robot, problem, runtime_parameters=["inertia"], f_ext=True)
    assert forward.description == LIMBS
    expected = dn.build(heavier, problem, f_ext=True, backend="numpy")(q, qd, tau, active, f_ext=f_ext)
    require_equal(forward.with_inertias(heavier)(q, qd, tau, active, f_ext=f_ext), expected)


def test_exported_code_has_results_at_stretched_legs():
    """It has no second Program, so it is that of forces last."""
    robot = robot_of("solo12")
    forward = dn.build(robot, dn.forward_dynamics(robot, [dn.Contact(foot) for foot in FEET]), backend="c")
    assert forward.description == LIMBS
    q, zero, active = robot.neutral(), np.zeros(robot.nv), np.ones(4)
    program = exported_entry(forward).program
    state = {"q": q, "qd": zero, "tau": zero, "active": active, "contact_accelerations": np.zeros(12)}
    results = interpret(program, **state, gravity=robot.gravity)
    assert (results.pop("health") <= program.limits).all()
    require_equal(forward(q, zero, zero, active), results.values())
