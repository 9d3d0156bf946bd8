"""The factor graph of trees and loops: ranks, nets, pivots, plans and drawings; the five-bar of paper 1."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from robots import ROBOTS, closed_states, random_states, robot_of
from tolerances import EXACT, error, solved
from urdf_text import INERTIAL, joint, link, robot

import dynamics_node as dn
from dynamics_node.algorithms import Actuation
from dynamics_node.algorithms.rates import closure_matrix
from dynamics_node.errors import ChoiceError, IllPosedError
from dynamics_node.functions import resolve
from dynamics_node.graph import (
    ORDERINGS,
    FactorGraph,
    build_graph,
    complete_sketch,
    custom_ordering,
    eliminate,
    generic_graph,
    graph_rank,
    plan_elimination,
    plan_ordering,
    robot_factors,
    to_dot,
    to_svg,
)
from dynamics_node.graph.by_numpy import elimination, refined
from dynamics_node.graph.factors import joint_acceleration, minimum_torque_factors, torque
from dynamics_node.graph.ordering import minimum_degree_order
from dynamics_node.robot.inertial_parameters import with_payload


def problems(model):
    every_second = [joint.name for joint in model.independent_joints[::2]]
    return {
        "inverse": dn.inverse_dynamics(model),
        "forward": dn.forward_dynamics(model),
        "hybrid": dn.hybrid_dynamics(model, every_second),
    }


def solve(model, problem, states, **choice):
    """qdd, tau of a solver that gets only the known inputs of the problem."""
    q, qd, qdd, tau, f_ext = states
    solver = dn.build(model, problem, **{"solver": "factor_graph", "backend": "numpy"} | choice, f_ext=True)
    if problem.kind == "inverse":
        return qdd, solver(q, qd, qdd, f_ext)
    if problem.kind == "forward":
        return solver(q, qd, tau, f_ext), tau
    return solver(q, qd, qdd, tau, f_ext)


@cache
def consistent_states(model, count):
    q, qd, qdd, f_ext = random_states(model, count, seed=21)
    return (
        q,
        qd,
        qdd,
        dn.build(model, dn.inverse_dynamics(model), backend="numpy", f_ext=True)(q, qd, qdd, f_ext),
        f_ext,
    )


def three_link_arm():
    """Generic geometry, without accidental zeros."""
    parts = [link("l0"), link("l1"), link("l2"), link("l3")]
    for k in range(1, 4):
        text = joint(f"j{k}", f"l{k - 1}", f"l{k}", extra=f'<axis xyz="0.3 {k} 0.8"/>')
        parts.append(
            text.replace('<origin xyz="0 0 0.3"/>', f'<origin xyz="0.1 0.2 0.3" rpy="{k} 0.5 0.3"/>')
        )
    return dn.parse_robot(robot(*parts))


@pytest.mark.parametrize(
    "kind, ordering, edges",
    [("inverse", "rnea", 10), ("forward", "crba", 14), ("forward", "aba", 10)],
)
def test_bayes_net_edges_of_the_three_link_arm(kind, ordering, edges):
    """Paper 1, figures 5, 7 and 8, for elimination by block LU."""
    model = three_link_arm()
    problem = problems(model)[kind]
    net = eliminate(generic_graph(model, problem), plan_ordering(model, problem, ordering)[1])
    assert len(net.edges) == edges


def test_rnea_net_is_the_recursion():
    """tau from F; F from A and the child's F; A from the parent's A; nothing else."""
    model = three_link_arm()
    problem = dn.inverse_dynamics(model)
    net = eliminate(generic_graph(model, problem), plan_ordering(model, problem, "rnea")[1])
    parents = {str(c.variable): {str(y) for y in c.R} for c in net}
    assert parents == {
        "tau3": {"F3"}, "tau2": {"F2"}, "tau1": {"F1"},
        "F1": {"F2", "A1"}, "F2": {"F3", "A2"}, "F3": {"A3"},
        "A3": {"A2"}, "A2": {"A1"}, "A1": set(),
    }  # fmt: skip


def test_custom_ordering_of_paper_table_3():
    """Hybrid 3R, CUSTOM: t1,a2,a3,F1,A1,A3,F3,A2,F2."""
    model = three_link_arm()
    problem = dn.hybrid_dynamics(model, ["j2", "j3"])
    names = ["tau1", "qdd2", "qdd3", "F1", "A1", "A3", "F3", "A2", "F2"]
    states = consistent_states(model, 20)
    qdd, tau = solve(model, problem, states, ordering=names)
    assert error(qdd, states[2]).max() <= 1e-9 and error(tau, states[3]).max() <= 1e-9


@pytest.mark.parametrize(
    "names, words",
    [
        (["tau1"], "leaves"),
        (["tau1", "nonsense"], "nonsense"),
        (["tau1", "tau1", "tau2", "tau3", "F1", "F2", "F3", "A1", "A2", "A3"], "tau1 twice"),
    ],
)
def test_invalid_custom_orderings_raise(names, words):
    model = three_link_arm()
    with pytest.raises(ValueError, match=words):
        dn.build(model, dn.inverse_dynamics(model), solver="factor_graph", ordering=names)


def test_singular_pivot_error_names_the_variables():
    """A massless link between coaxial joints: its acceleration is free in every ordering."""
    shift = '<origin xyz="0 0 0.3"/>'
    tip = link("tip", INERTIAL.replace('xyz="0 0 0.1"', 'xyz="0 0 0"'))
    text = robot(
        link("base"), '<link name="a"/>', tip,
        joint("j1", "base", "a").replace(shift, ""), joint("j2", "a", "tip").replace(shift, ""),
    )  # fmt: skip
    model = dn.parse_robot(text)
    for ordering in ORDERINGS:
        with pytest.raises(IllPosedError, match=r"under-determined.*A1, qdd1, qdd2"):
            plan_ordering(model, dn.forward_dynamics(model), ordering)
        with pytest.raises(dn.ModelError, match="'j1', 'j2'"):
            dn.build(model, dn.forward_dynamics(model), solver="factor_graph", ordering=ordering)
    inverse = dn.build(model, dn.inverse_dynamics(model), solver="factor_graph", ordering="rnea")
    assert np.isfinite(inverse([0.1, 0.2], [1, 1], [1, 1])).all()


def test_massless_middle_link_is_solved_in_every_ordering():
    """No ordering may pivot on an inertia, which can be zero."""
    text = robot(link("base"), '<link name="a"/>', link("b"), joint("j1", "base", "a"),
                 joint("j2", "a", "b", extra='<axis xyz="1 0 0"/>'))  # fmt: skip
    model = dn.parse_robot(text)
    states = consistent_states(model, 20)
    for ordering in ORDERINGS:
        qdd, _ = solve(model, dn.forward_dynamics(model), states, ordering=ordering)
        assert np.all(
            error(qdd, states[2]) <= solved(dn.evaluate(model, "mass_matrix", states[0], backend="numpy"))
        )


def test_armature_is_in_the_graph():
    model = ROBOTS["ur5"].model(armature={"elbow_joint": 0.5, "wrist_3_joint": 0.01})
    states = consistent_states(model, 10)
    for ordering in ORDERINGS:
        qdd, _ = solve(model, dn.forward_dynamics(model), states, ordering=ordering)
        assert np.all(
            error(qdd, states[2]) <= solved(dn.evaluate(model, "mass_matrix", states[0], backend="numpy"))
        )


def test_orderings_cover_every_variable_once(model):
    for problem in problems(model).values():
        graph = generic_graph(model, problem)
        for name, order in ORDERINGS.items():
            variables = order(model, problem, graph)
            assert len(variables) == len(set(variables)) == len(graph.variables), name
            assert set(variables) == set(graph.variables), name


def test_net_is_iterated_printed_and_drawn():
    from xml.etree import ElementTree

    model = three_link_arm()
    problem = dn.forward_dynamics(model)
    graph = generic_graph(model, problem)
    ordering, plan = plan_ordering(model, problem, "aba")
    net = eliminate(graph, plan)
    assert [c.variable for c in net] == list(ordering.variables)
    assert str(net).splitlines()[0] == "F3 | A3"
    assert str(ordering).startswith("aba: F3 A3 qdd3")
    assert "acceleration2(A2, A1, qdd2)" in str(graph)
    for drawing in (net, graph):
        circles = ElementTree.fromstring(to_svg(drawing)).iter("{http://www.w3.org/2000/svg}circle")
        assert sum(1 for c in circles if float(c.get("r")) > 10) == 9
        assert to_dot(drawing).count("style=filled") == 9
    assert to_dot(net).count("->") == len(net.edges)


def test_plan_checks_the_ordering():
    model = three_link_arm()
    graph = generic_graph(model, dn.inverse_dynamics(model))
    whole = custom_ordering([str(x) for x in graph.variables], graph)
    assert plan_elimination(graph, whole.variables)
    with pytest.raises(ValueError, match="leaves"):
        plan_elimination(graph, whole.variables[1:])


def test_graph_of_a_batch_equals_graphs_of_its_states():
    model = three_link_arm()
    problem = dn.forward_dynamics(model)
    q, qd, qdd, tau, f_ext = consistent_states(model, 3)
    whole = build_graph(model, problem, q, qd, qdd, tau, f_ext)
    for k in range(3):
        one = build_graph(model, problem, q[k], qd[k], qdd[k], tau[k], f_ext[k])
        for factor, single in zip(whole.factors, one.factors, strict=True):
            batch = np.broadcast_to(factor.rhs, (3, factor.rows))
            assert np.allclose(batch[k], single.rhs, atol=1e-12)


@pytest.mark.parametrize(
    "choice, words",
    [
        ({"solver": "magic"}, "'magic'; there are best"),
        (
            {"solver": "cluster", "backend": "gtsam"},
            "'cluster' does not run on backend 'gtsam', but on auto, numpy",
        ),
        ({"solver": "cluster", "ordering": "aba"}, "orderings belong to solver 'factor_graph'"),
        ({"solver": "factor_graph", "ordering": "alphabetical"}, "'alphabetical'; there are rnea"),
        ({"backend": "quantum"}, "'quantum'; there are auto, numpy"),
    ],
)
def test_invalid_choice_error_names_valid_ones(choice, words):
    with pytest.raises(ChoiceError, match=words):
        resolve(**choice)


# --- pivots that are checked at run time ----------------------------------------------------------------------


def test_vanishing_pivot_of_one_state_raises():
    """A double pendulum whose second hinge is known: the other state of the batch does not hide it."""
    model = ROBOTS["double_pendulum"].model()
    problem = dn.hybrid_dynamics(model, [model.joint_names[0]])
    plan = elimination(model, problem, "colamd").plan
    assert not plan.safe
    q, qd, qdd, tau = (np.zeros((2, 2)) for _ in range(4))
    q[:], qd[1], tau[:] = [[0.3, 0.4], [0.5, 0.6]], 1e7, 1.0
    graph = build_graph(model, problem, q, qd, qdd, tau)
    exact = eliminate(graph, plan).solve()

    def solve_badly(system):
        """Corrections of the first state stay large."""
        if system is graph:
            return exact
        return {x: value * np.array([[0.25], [0.0]]) for x, value in exact.items()}

    with pytest.raises(np.linalg.LinAlgError, match="vanishes"):
        refined(graph, solve_badly)


@pytest.mark.parametrize("ordering", [*ORDERINGS, "best"])
@pytest.mark.parametrize("parameters", [("armature",), ("inertia",), ("inertia", "armature")])
def test_parameters_of_the_factor_graph(ordering, parameters):
    model = ROBOTS["panda7"].model()
    other = with_payload(model, "panda_link7", 1.5, (0.1, 0, 0.05), 0.01 * np.eye(3))
    other = other if "inertia" in parameters else model
    for problem in problems(model).values():
        solver = elimination(model, problem, ordering, parameters)
        for one in (model, other):
            states = consistent_states(one, 10)
            names = ("q", "qd", "qdd", "tau", "f_ext")
            qdd, tau = replace(solver, robot=one)(**dict(zip(names, states, strict=True))).values()
            assert np.all(
                error(qdd, states[2]) <= solved(dn.evaluate(one, "mass_matrix", states[0], backend="numpy"))
            )
            assert error(tau, states[3]).max() <= 1e-9


@pytest.mark.parametrize("ordering", ["crba", "colamd"])
def test_gtsam_near_right_angles(ordering):
    """GTSAM loses half of its digits, 1e-9 with crba and 1e-10 with colamd; refinement restores them."""
    pytest.importorskip("gtsam", reason="pip install 'gtsam>=4.3'")
    model = ROBOTS["ur5"].model()
    problem = dn.forward_dynamics(model)
    solver = dn.build(model, problem, solver="factor_graph", ordering=ordering, backend="gtsam")
    random = np.random.default_rng(7)
    q = random.integers(-2, 3, (12, 6)) * np.pi / 2 + 1e-7 * random.normal(size=(12, 6))
    qd, tau = random.uniform(-1, 1, (2, 12, 6))
    expected = dn.build(model, problem, backend="numpy")(q, qd, tau)
    assert error(solver(q, qd, tau), expected).max() <= 1e-12


# --- loops ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["inverse", "forward", "hybrid"])
def test_five_bar_is_square_and_of_full_rank(kind):
    """Without rows out of the plane and with as many force components: 54 equations for 54 unknowns."""
    mechanism = robot_of("five_bar")
    graph = generic_graph(mechanism, problems(mechanism)[kind])
    assert graph_rank(graph)[:3] == (54, 54, 54)
    names = [str(factor) for factor in graph.factors]
    assert next(x for x in graph.variables if str(x) == "F5").dim == 2
    assert next(name for name in names if name.startswith("loop acceleration5")).count("A") == 2


def test_ordering_of_a_loop_by_names():
    mechanism = robot_of("four_bar")
    q, yd, ydd = closed_states(mechanism, 2)
    forward = dn.forward_dynamics(mechanism)
    names = ["F4", "A3", "F3", "qdd3", "A1", "F1", "F2", "A2", "qdd1", "qdd2"]
    solver = dn.build(mechanism, forward, solver="factor_graph", ordering=names)
    tau = dn.build(mechanism, dn.inverse_dynamics(mechanism))(q, yd, ydd)
    assert error(solver(q, yd, tau), ydd).max() <= 1e-9
    assert solver.description == "custom"


def test_graph_of_an_open_loop_raises():
    mechanism = robot_of("four_bar")
    q, yd, ydd = closed_states(mechanism, 3)
    solver = dn.build(mechanism, dn.inverse_dynamics(mechanism), solver="factor_graph")
    right = solver(q, yd, ydd)
    q[1] += 0.01
    with pytest.raises(dn.SolutionError, match="'pin'.*open"):
        solver(q, yd, ydd)
    torques = solver(q, yd, ydd, errors="nan")
    assert np.isnan(torques[1]).all() and np.array_equal(torques[[0, 2]], right[[0, 2]])


@pytest.mark.parametrize("kind", ["inverse_dynamics", "forward_dynamics"])
def test_loops_are_compiled_through_the_graph(kind):
    """The cheapest ordering, with and without wrenches; an open loop raises."""
    mechanism = robot_of("five_bar")
    problem = getattr(dn, kind)(mechanism)
    solver, plain = (
        dn.build(mechanism, problem, solver=s, backend="c", f_ext=True) for s in ("factor_graph", "cluster")
    )
    q, yd, u = closed_states(mechanism, 70, reach=0.05)
    f_ext = np.random.default_rng(4).uniform(-1, 1, (70, mechanism.nbodies, 6))
    for wrenches in (None, f_ext):
        right = plain(q, yd, u, wrenches)
        assert error(solver(q, yd, u, wrenches), right).max() <= 1e-9
        assert error(solver(q[0], yd[0], u[0], None if wrenches is None else wrenches[0]), right[0]) <= 1e-9
    q[1] += 0.01
    with pytest.raises(dn.SolutionError, match="'j5'.*open"):
        solver(q[1], yd[1], u[1])


@pytest.mark.parametrize("name", ["five_bar", "differential"])
def test_minimum_torque_factors_match_actuation(name):
    """More driven joints than degrees of freedom: the graph alone is under-determined. Minimum-torque factors give the
    torques of Actuation."""
    mechanism = robot_of(name)
    q, yd, ydd = closed_states(mechanism, 3)
    joints = mechanism.tree.joint_names[: mechanism.nv + 1]
    weights = dict(zip(joints, (1.0, 3.0, 0.5, 2.0, 1.5), strict=False))
    bodies = {body.joint.name: i for i, body in enumerate(mechanism.tree.bodies)}
    _, rates, accelerations = dn.spanning(mechanism, q, yd, ydd)
    graph = FactorGraph(tuple(robot_factors(mechanism, q, rates)))
    known = {torque(i): np.zeros(1) for joint, i in bodies.items() if joint not in weights}
    at = {name: v for name, v in zip(mechanism.tree.v_names, range(mechanism.tree.nv), strict=True)}
    independent = mechanism.joint_names
    known |= {joint_acceleration(bodies[j]): accelerations[:, [at[j]]] for j in independent}
    open_graph = graph.given(known)
    with pytest.raises(IllPosedError, match=r"under-determined.*tau"):
        plan_elimination(open_graph, minimum_degree_order(None, None, open_graph))
    costs = {bodies[joint]: weight for joint, weight in weights.items()}
    rows = {bodies[joint]: at[joint] for joint in weights}
    cost_factors = minimum_torque_factors(costs, rows, closure_matrix(mechanism, q))
    closed = FactorGraph((*open_graph.factors, *cost_factors))
    assert graph_rank(closed).open == ()
    values = eliminate(closed, plan_elimination(closed, minimum_degree_order(None, None, closed))).solve()
    tau = dn.build(mechanism, dn.inverse_dynamics(mechanism))(q, yd, ydd)
    driven = Actuation(mechanism, weights, list(weights.values())).from_coordinates(q, tau).torques
    torques = np.concatenate([values[torque(bodies[joint])] for joint in weights], axis=1)
    assert error(torques, driven).max() <= 1e-9


def test_contradicting_accelerations_raise():
    """All accelerations are given, and are inconsistent."""
    mechanism = robot_of("five_bar")
    q, yd, ydd = closed_states(mechanism, 3)
    _, rates, accelerations = dn.spanning(mechanism, q, yd, ydd)
    graph = FactorGraph(tuple(robot_factors(mechanism, q, rates)))
    bodies = range(mechanism.nbodies)
    passive = {torque(i): np.zeros(1) for i in bodies if i not in mechanism.independent}
    given = {joint_acceleration(i): accelerations[:, [i]] for i in bodies}
    solved = graph.given(given | passive)
    # Redundant, but consistent rows
    plan = plan_elimination(solved, minimum_degree_order(None, None, solved))
    tau = dn.build(mechanism, dn.inverse_dynamics(mechanism))(q, yd, ydd)
    values = eliminate(solved, plan).solve()
    torques = np.concatenate([values[torque(i)] for i in mechanism.independent], axis=1)
    assert error(torques, tau).max() <= EXACT
    given[joint_acceleration(1)] = given[joint_acceleration(1)] + 1.0
    wrong = graph.given(given | passive)
    with pytest.raises(IllPosedError, match="inconsistent.*54.*52.*loop acceleration5"):
        plan_elimination(wrong, minimum_degree_order(None, None, wrong))


def test_drawings_of_loops():
    mechanism = robot_of("five_bar")
    graph = generic_graph(mechanism, dn.forward_dynamics(mechanism))
    net = eliminate(graph, plan_ordering(mechanism, dn.forward_dynamics(mechanism), "aba")[1])
    assert '"F5" -- "loop acceleration5"' not in to_dot(graph) and '"F5" -- "wrench4"' in to_dot(graph)
    assert "loop acceleration5(" in to_svg(graph) and "F5" in to_dot(net)
    assert {str(c.variable) for c in net} >= {"F5", "A4", "qdd4"}
    sketch = complete_sketch(mechanism, dn.forward_dynamics(mechanism))
    loop_factors = [keys for name, keys in sketch.factors if name == "loop acceleration 5"]
    assert loop_factors == [[("A", 2), ("A", 4), ("V", 2), ("V", 4)]]
    assert sketch.nodes["F", 5].known is False and sketch.nodes["tau", 3].known is True


def test_equations_hold_at_the_solution_of_the_clusters():
    """Residuals of every factor at the accelerations and wrenches of the recursions."""
    mechanism = robot_of("universal")
    q, yd, ydd = closed_states(mechanism, 2, reach=0.05)
    problem = dn.inverse_dynamics(mechanism)
    graph = build_graph(mechanism, problem, q, yd, ydd, np.zeros_like(ydd))
    values = eliminate(graph, plan_ordering(mechanism, problem, "metis")[1]).solve()
    for factor in graph.residuals(values).factors:
        assert np.abs(factor.rhs).max(initial=0.0) <= 1e-9
