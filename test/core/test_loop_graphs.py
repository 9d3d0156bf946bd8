"""Loops in the factor graph: the five-bar of paper 1 in all problems, every ordering, ranks, least torques."""

import numpy as np
import pytest
from closed_loops import ALL, SPATIAL, mechanism_of, states
from tolerances import EXACT, error

import dynamics_node as dn
from dynamics_node.algorithms import Actuation
from dynamics_node.algorithms.rates import closure_matrix
from dynamics_node.graph import (
    ORDERINGS,
    FactorGraph,
    IllPosedError,
    build_graph,
    complete_sketch,
    eliminate,
    generic_graph,
    graph_rank,
    plan_ordering,
    robot_factors,
    to_dot,
    to_svg,
)
from dynamics_node.graph.elimination import plan_elimination
from dynamics_node.graph.factors import joint_acceleration, minimum_torque_factors, torque
from dynamics_node.graph.ordering import minimum_degree_order

ORDERS = (*ORDERINGS, "best")
BODIES = {"four_bar": 3, "five_bar": 4}


def problems(mechanism):
    found = {"inverse": dn.inverse_dynamics(mechanism), "forward": dn.forward_dynamics(mechanism)}
    if mechanism.nv > 1:
        found["hybrid"] = dn.hybrid_dynamics(mechanism, mechanism.joint_names[:1])
    return found


@pytest.mark.parametrize("kind", ["inverse", "forward", "hybrid"])
def test_the_five_bar_is_square_and_of_full_rank(kind):
    """Without the rows out of the plane, and with a force of as many components: 54 equations for 54 unknowns."""
    mechanism = mechanism_of("five_bar")
    graph = generic_graph(mechanism, problems(mechanism)[kind])
    assert graph_rank(graph)[:3] == (54, 54, 54)
    names = [str(factor) for factor in graph.factors]
    assert next(x for x in graph.variables if str(x) == "F5").dim == 2
    assert next(name for name in names if name.startswith("loop acceleration5")).count("A") == 2


@pytest.mark.parametrize("backend", ["numpy", "gtsam"])
@pytest.mark.parametrize("name", ALL)
def test_every_ordering_gives_what_the_clusters_give(name, backend):
    if backend == "gtsam":
        pytest.importorskip("gtsam")
    mechanism = mechanism_of(name)
    q, yd, ydd = states(mechanism, 3, reach=0.05)
    f_ext = np.random.default_rng(2).uniform(-2, 2, (3, mechanism.nbodies, 6))
    gravity = np.array([1.0, -2.0, -9.0])
    more = {"f_ext": f_ext, "gravity": gravity}
    tau = dn.build(mechanism, dn.inverse_dynamics(mechanism), backend="numpy")(q, yd, ydd, **more)
    everything = backend == "numpy" and name not in SPATIAL
    orders = ORDERS if everything else ("rnea", "aba", "colamd") if backend == "numpy" else ("colamd",)
    for kind, problem in problems(mechanism).items():
        for ordering in orders:
            solver = dn.build(mechanism, problem, solver="factor_graph", ordering=ordering, backend=backend)
            if kind == "hybrid":
                found = solver(q, yd, ydd, tau, **more)
                assert error(found[0], ydd).max() <= 1e-9 and error(found[1], tau).max() <= 1e-9, ordering
            else:
                known, expected = (ydd, tau) if kind == "inverse" else (tau, ydd)
                assert error(solver(q, yd, known, **more), expected).max() <= 1e-9, ordering


def test_an_ordering_by_names():
    mechanism = mechanism_of("four_bar")
    q, yd, ydd = states(mechanism, 2)
    forward = dn.forward_dynamics(mechanism)
    names = ["F4", "A3", "F3", "qdd3", "A1", "F1", "F2", "A2", "qdd1", "qdd2"]
    solver = dn.build(mechanism, forward, solver="factor_graph", ordering=names)
    tau = dn.build(mechanism, dn.inverse_dynamics(mechanism))(q, yd, ydd)
    assert error(solver(q, yd, tau), ydd).max() <= 1e-9
    assert solver.description == "custom"


def test_the_graph_of_an_open_or_singular_loop_gives_nothing():
    mechanism = mechanism_of("four_bar")
    q, yd, ydd = states(mechanism, 3)
    solver = dn.build(mechanism, dn.inverse_dynamics(mechanism), solver="factor_graph")
    right = solver(q, yd, ydd)
    q[1] += 0.01
    with pytest.raises(dn.SolutionError, match="'pin' is open by"):
        solver(q, yd, ydd)
    found = solver(q, yd, ydd, errors="nan")
    assert np.isnan(found[1]).all() and np.array_equal(found[[0, 2]], right[[0, 2]])


@pytest.mark.parametrize("kind", ["inverse_dynamics", "forward_dynamics"])
def test_loops_are_compiled_through_the_graph(kind):
    """The cheapest ordering, with wrenches and without; an open loop is told."""
    mechanism = mechanism_of("five_bar")
    problem = getattr(dn, kind)(mechanism)
    solver, plain = (dn.build(mechanism, problem, solver=s, backend="c") for s in ("factor_graph", "cluster"))
    q, yd, u = states(mechanism, 70, reach=0.05)
    f_ext = np.random.default_rng(4).uniform(-1, 1, (70, mechanism.nbodies, 6))
    for push in (None, f_ext):
        right = plain(q, yd, u, push)
        assert error(solver(q, yd, u, push), right).max() <= 1e-9
        assert error(solver(q[0], yd[0], u[0], None if push is None else push[0]), right[0]) <= 1e-9
    q[1] += 0.01
    with pytest.raises(dn.SolutionError, match="'j5' is open by"):
        solver(q[1], yd[1], u[1])


@pytest.mark.parametrize("name", ["five_bar", "differential"])
def test_the_torque_of_least_cost(name):
    """More driven joints than the mechanism has freedom: the graph alone is under-determined, and says so; with
    the minimum-torque factors it gives what Actuation gives."""
    mechanism = mechanism_of(name)
    q, yd, ydd = states(mechanism, 3)
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
    with pytest.raises(IllPosedError, match=r"under-determined: .* open are .*tau"):
        plan_elimination(open_graph, minimum_degree_order(None, None, open_graph))
    costs = {bodies[joint]: weight for joint, weight in weights.items()}
    rows = {bodies[joint]: at[joint] for joint in weights}
    more = minimum_torque_factors(costs, rows, closure_matrix(mechanism, q))
    closed = FactorGraph((*open_graph.factors, *more))
    assert graph_rank(closed).open == ()
    values = eliminate(closed, plan_elimination(closed, minimum_degree_order(None, None, closed))).solve()
    tau = dn.build(mechanism, dn.inverse_dynamics(mechanism))(q, yd, ydd)
    driven = Actuation(mechanism, weights, list(weights.values())).from_coordinates(q, tau).torques
    found = np.concatenate([values[torque(bodies[joint])] for joint in weights], axis=1)
    assert error(found, driven).max() <= 1e-9


def test_contradictions_are_told():
    """Every acceleration given, and they do not fit together."""
    mechanism = mechanism_of("five_bar")
    q, yd, ydd = states(mechanism, 3)
    _, rates, accelerations = dn.spanning(mechanism, q, yd, ydd)
    graph = FactorGraph(tuple(robot_factors(mechanism, q, rates)))
    bodies = range(mechanism.nbodies)
    passive = {torque(i): np.zeros(1) for i in bodies if i not in mechanism.independent}
    fitting = {joint_acceleration(i): accelerations[:, [i]] for i in bodies}
    solved = graph.given(fitting | passive)
    plan = plan_elimination(solved, minimum_degree_order(None, None, solved))  # redundant rows, but true ones
    tau = dn.build(mechanism, dn.inverse_dynamics(mechanism))(q, yd, ydd)
    values = eliminate(solved, plan).solve()
    found = np.concatenate([values[torque(i)] for i in mechanism.independent], axis=1)
    assert error(found, tau).max() <= EXACT
    fitting[joint_acceleration(1)] = fitting[joint_acceleration(1)] + 1.0
    wrong = graph.given(fitting | passive)
    with pytest.raises(IllPosedError, match="inconsistent: 54 equations of rank 52 .*loop acceleration5"):
        plan_elimination(wrong, minimum_degree_order(None, None, wrong))


def test_drawings_of_loops():
    mechanism = mechanism_of("five_bar")
    graph = generic_graph(mechanism, dn.forward_dynamics(mechanism))
    net = eliminate(graph, plan_ordering(mechanism, dn.forward_dynamics(mechanism), "aba")[1])
    assert '"F5" -- "loop acceleration5"' not in to_dot(graph) and '"F5" -- "wrench4"' in to_dot(graph)
    assert "loop acceleration5(" in to_svg(graph) and "F5" in to_dot(net)
    assert {str(c.variable) for c in net} >= {"F5", "A4", "qdd4"}
    drawn = complete_sketch(mechanism, dn.forward_dynamics(mechanism))
    loop_factors = [keys for name, keys in drawn.factors if name == "loop acceleration 5"]
    assert loop_factors == [[("A", 2), ("A", 4), ("V", 2), ("V", 4)]]
    assert drawn.nodes["F", 5].known is False and drawn.nodes["tau", 3].known is True


def test_equations_hold_at_the_solution_of_the_clusters():
    """Residuals of every factor, at the accelerations and wrenches that the recursions give."""
    mechanism = mechanism_of("universal")
    q, yd, ydd = states(mechanism, 2, reach=0.05)
    problem = dn.inverse_dynamics(mechanism)
    graph = build_graph(mechanism, problem, q, yd, ydd, np.zeros_like(ydd))
    values = eliminate(graph, plan_ordering(mechanism, problem, "metis")[1]).solve()
    for factor in graph.residuals(values).factors:
        assert np.abs(factor.rhs).max(initial=0.0) <= 1e-9
