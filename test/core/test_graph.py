"""The factor graph: every ordering gives the same answer; pivots, plans and drawings."""

from functools import cache

import numpy as np
import pytest
from robots import ROBOTS, random_states
from tolerances import EXACT, OUT_OF_GTSAM, error, solved
from urdf_text import INERTIAL, joint, link, robot

import dynamics_node as dn
from dynamics_node.functions import ChoiceError, resolve
from dynamics_node.graph import (
    ORDERINGS,
    IllPosedError,
    build_graph,
    custom_ordering,
    eliminate,
    generic_graph,
    plan_elimination,
    plan_ordering,
    to_dot,
    to_svg,
)
from dynamics_node.graph.by_numpy import refined
from dynamics_node.robot.inertial_parameters import with_payload

SMALL = ("panda7", "panda", "ur5", "so101", "double_pendulum", "panda_floating")
LARGE = ("solo12", "baxter", "allegro_hand", "simple_humanoid", "talos")


def problems(model):
    every_second = [joint.name for joint in model.independent_joints[::2]]
    return {
        "inverse": dn.inverse_dynamics(model),
        "forward": dn.forward_dynamics(model),
        "hybrid": dn.hybrid_dynamics(model, every_second),
    }


def solve(model, problem, states, **choice):
    """qdd, tau of a solver given only what the problem knows."""
    q, qd, qdd, tau, f_ext = states
    solver = dn.build(model, problem, **{"solver": "factor_graph", "backend": "numpy"} | choice)
    if problem.kind == "inverse":
        return qdd, solver(q, qd, qdd, f_ext)
    if problem.kind == "forward":
        return solver(q, qd, tau, f_ext), tau
    return solver(q, qd, qdd, tau, f_ext)


@cache
def consistent_states(model, count):
    q, qd, qdd, f_ext = random_states(model, count, seed=21)
    return q, qd, qdd, dn.build(model, dn.inverse_dynamics(model), backend="numpy")(q, qd, qdd, f_ext), f_ext


@pytest.mark.parametrize("kind", ["inverse", "forward", "hybrid"])
@pytest.mark.parametrize("name", SMALL + LARGE)
@pytest.mark.parametrize("ordering", [*ORDERINGS, "best"])
def test_every_ordering_gives_the_same_answer(name, kind, ordering):
    model = ROBOTS[name].model()
    states = consistent_states(model, 50 if name in SMALL else 10)
    qdd, tau = solve(model, problems(model)[kind], states, ordering=ordering)
    tolerance = solved(dn.evaluate(model, "mass_matrix", states[0]))
    assert np.all(error(qdd, states[2]) <= tolerance)
    if kind == "inverse":
        assert error(tau, states[3]).max() <= EXACT
    inverse = dn.build(model, dn.inverse_dynamics(model), backend="numpy")
    assert error(inverse(states[0], states[1], qdd, states[4]), tau).max() <= EXACT


@pytest.mark.parametrize("kind", ["inverse", "forward", "hybrid"])
@pytest.mark.parametrize("name", ["panda7", "baxter", "simple_humanoid"])
@pytest.mark.parametrize("ordering", ["aba", "crba", "colamd", "metis", "minimum_degree"])
def test_gtsam_agrees(name, kind, ordering):
    pytest.importorskip("gtsam", reason="pip install 'gtsam>=4.3'")
    model = ROBOTS[name].model()
    states = consistent_states(model, 2)
    qdd, tau = solve(model, problems(model)[kind], states, ordering=ordering, backend="gtsam")
    assert error(qdd, states[2]).max() <= OUT_OF_GTSAM
    assert error(tau, states[3]).max() <= OUT_OF_GTSAM


def three_link_arm():
    """Generic geometry: nothing vanishes by accident."""
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
    """tau from F; F from A and the child's F; A from the parent's A: nothing else."""
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
        (["tau1"], "leaves out"),
        (["tau1", "nonsense"], "unknown nonsense"),
        (["tau1", "tau1", "tau2", "tau3", "F1", "F2", "F3", "A1", "A2", "A3"], "tau1 twice"),
    ],
)
def test_bad_custom_orderings_are_refused(names, words):
    model = three_link_arm()
    with pytest.raises(ValueError, match=words):
        dn.build(model, dn.inverse_dynamics(model), solver="factor_graph", ordering=names)


def test_singular_pivot_is_refused_by_name():
    """Two massless coaxial links: the middle one's acceleration is free, whatever the ordering."""
    shift = '<origin xyz="0 0 0.3"/>'
    tip = link("tip", INERTIAL.replace('xyz="0 0 0.1"', 'xyz="0 0 0"'))
    text = robot(
        link("base"), '<link name="a"/>', tip,
        joint("j1", "base", "a").replace(shift, ""), joint("j2", "a", "tip").replace(shift, ""),
    )  # fmt: skip
    model = dn.parse_robot(text)
    for ordering in ORDERINGS:
        with pytest.raises(IllPosedError, match=r"under-determined: .* open are A1, qdd1, qdd2"):
            plan_ordering(model, dn.forward_dynamics(model), ordering)
        with pytest.raises(dn.ModelError, match="'j1', 'j2' can move without"):
            dn.build(model, dn.forward_dynamics(model), solver="factor_graph", ordering=ordering)
    inverse = dn.build(model, dn.inverse_dynamics(model), solver="factor_graph", ordering="rnea")
    assert np.isfinite(inverse([0.1, 0.2], [1, 1], [1, 1])).all()


def test_massless_middle_link_is_no_obstacle():
    """No ordering may pivot on an inertia: it can be zero."""
    text = robot(link("base"), '<link name="a"/>', link("b"), joint("j1", "base", "a"),
                 joint("j2", "a", "b", extra='<axis xyz="1 0 0"/>'))  # fmt: skip
    model = dn.parse_robot(text)
    states = consistent_states(model, 20)
    for ordering in ORDERINGS:
        qdd, _ = solve(model, dn.forward_dynamics(model), states, ordering=ordering)
        assert np.all(error(qdd, states[2]) <= solved(dn.evaluate(model, "mass_matrix", states[0])))


def test_armature_is_in_the_graph():
    model = ROBOTS["ur5"].model(armature={"elbow_joint": 0.5, "wrist_3_joint": 0.01})
    states = consistent_states(model, 10)
    for ordering in ORDERINGS:
        qdd, _ = solve(model, dn.forward_dynamics(model), states, ordering=ordering)
        assert np.all(error(qdd, states[2]) <= solved(dn.evaluate(model, "mass_matrix", states[0])))


def test_orderings_cover_every_variable_once(model):
    for problem in problems(model).values():
        graph = generic_graph(model, problem)
        for name, order in ORDERINGS.items():
            variables = order(model, problem, graph)
            assert len(variables) == len(set(variables)) == len(graph.variables), name
            assert set(variables) == set(graph.variables), name


def test_net_can_be_walked_printed_and_drawn():
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
    for drawn in (net, graph):
        circles = ElementTree.fromstring(to_svg(drawn)).iter("{http://www.w3.org/2000/svg}circle")
        assert sum(1 for c in circles if float(c.get("r")) > 10) == 9
        assert to_dot(drawn).count("style=filled") == 9
    assert to_dot(net).count("->") == len(net.edges)


def test_plan_checks_the_ordering():
    model = three_link_arm()
    graph = generic_graph(model, dn.inverse_dynamics(model))
    whole = custom_ordering([str(x) for x in graph.variables], graph)
    assert plan_elimination(graph, whole.variables)
    with pytest.raises(ValueError, match="leaves out"):
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
    "choice",
    [
        {"solver": "magic"},
        {"solver": "cluster", "backend": "gtsam"},
        {"solver": "cluster", "ordering": "aba"},
        {"solver": "factor_graph", "ordering": "alphabetical"},
        {"backend": "quantum"},
    ],
)
def test_impossible_choices_list_the_valid_ones(choice):
    with pytest.raises(ChoiceError, match="valid: best with"):
        resolve(**choice)


# --- pivots that are checked when they are used ---------------------------------------------------------------


def test_a_state_does_not_depend_on_the_others():
    """A double pendulum whose second hinge is known: where a pivot vanishes nothing helps, whatever lies beside."""
    model = ROBOTS["double_pendulum"].model()
    problem = dn.hybrid_dynamics(model, [model.joint_names[0]])
    solver = dn.build(model, problem, solver="factor_graph", ordering="colamd", backend="numpy")
    elimination = solver.runner.algorithm.algorithm
    assert not elimination.plan.safe
    q, qd, qdd, tau = (np.zeros((2, 2)) for _ in range(4))
    q[:], qd[1], tau[:] = [[0.3, 0.4], [0.5, 0.6]], 1e7, 1.0
    graph = build_graph(model, problem, q, qd, qdd, tau)
    exact = eliminate(graph, elimination.plan).solve()

    def stubborn(asked):
        """Corrections of the first state never become small."""
        if asked is graph:
            return exact
        return {x: value * np.array([[0.25], [0.0]]) for x, value in exact.items()}

    with pytest.raises(np.linalg.LinAlgError, match="vanishes here"):
        refined(graph, stubborn)


@pytest.mark.parametrize("ordering", [*ORDERINGS, "best"])
@pytest.mark.parametrize("parameters", [("armature",), ("inertia",), ("inertia", "armature")])
def test_parameters_of_the_factor_graph(ordering, parameters):
    model = ROBOTS["panda7"].model()
    other = with_payload(model, "panda_link7", 1.5, (0.1, 0, 0.05), 0.01 * np.eye(3))
    other = other if "inertia" in parameters else model
    for problem in problems(model).values():
        solver = dn.build(
            model,
            problem,
            solver="factor_graph",
            ordering=ordering,
            backend="numpy",
            runtime_parameters=parameters,
        )
        for one in (model, other):
            states = consistent_states(one, 10)
            names = ("q", "qd", "qdd", "tau", "f_ext")
            algorithm = solver.with_inertias(one).runner.algorithm
            qdd, tau = algorithm(**dict(zip(names, states, strict=True))).values()
            assert np.all(error(qdd, states[2]) <= solved(dn.evaluate(one, "mass_matrix", states[0])))
            assert error(tau, states[3]).max() <= 1e-9


@pytest.mark.parametrize("ordering", ["crba", "colamd"])
def test_gtsam_near_right_angles(ordering):
    """Where it loses half of its digits, 1e-9 with crba and 1e-10 with colamd, refinement brings them back."""
    pytest.importorskip("gtsam", reason="pip install 'gtsam>=4.3'")
    model = ROBOTS["ur5"].model()
    problem = dn.forward_dynamics(model)
    solver = dn.build(model, problem, solver="factor_graph", ordering=ordering, backend="gtsam")
    random = np.random.default_rng(7)
    q = random.integers(-2, 3, (12, 6)) * np.pi / 2 + 1e-7 * random.normal(size=(12, 6))
    qd, tau = random.uniform(-1, 1, (2, 12, 6))
    expected = dn.build(model, problem, backend="numpy")(q, qd, tau)
    assert error(solver(q, qd, tau), expected).max() <= 1e-12
