"""Every named ordering of the factor graph: the same result by NumPy and by GTSAM. As a Program, every state has a
correct result or a health beyond its limits, also near states with a vanishing pivot.

`interpret` runs the same operations as compiled code.
"""

from functools import cache

import numpy as np
import pytest
from linkages import palletizer
from robots import BALL_LOOPS, LOOPS, ROBOTS, TEXTS, random_states, states_of
from robots import robot_of as robot_by_name
from tolerances import EXACT, OUT_OF_GTSAM, error, solved

import dynamics_node as dn
from dynamics_node.algorithms import cost, dynamics_programs, parameter_values
from dynamics_node.algorithms.first_positions import closed_samples
from dynamics_node.errors import SingularPivotError
from dynamics_node.graph import ORDERINGS, build_graph, eliminate, elimination_program, plan_elimination
from dynamics_node.graph.by_numpy import elimination, refined
from dynamics_node.graph.elimination import weakest_pivot
from dynamics_node.graph.factors import is_natural
from dynamics_node.graph.ordering import chosen_ordering, filled, generic_graph
from dynamics_node.robot.inertial_parameters import with_parameters
from dynamics_node.symbolic import interpret

ARMS = ("double_pendulum", "so101", "kinova", "panda", "panda_floating")
TREES = (*ARMS, "solo12")
LINKAGES = ("four_bar", "five_bar", "palletizer")
ACCURATE = 1e-9


@cache
def robot_of(name):
    drawn = name == "palletizer"
    return dn.parse_robot(palletizer(np.random.default_rng(1)).text) if drawn else robot_by_name(name)


def problems(robot):
    joints = [joint.name for joint in robot.independent_joints]
    return {"forward": dn.forward_dynamics(robot), "hybrid": dn.hybrid_dynamics(robot, joints[::2])}


# --- by elimination of numbers ------------------------------------------------------------------------------

EVERY = (*ORDERINGS, "best")
FEW = ("rnea", "aba", "colamd")
SEARCHED = ("panda", "panda_floating", "five_bar", "belt_leg", "differential")  # small arms: test_product.py
ELIMINATED = [
    *(("numpy", name, ordering) for name in SEARCHED for ordering in EVERY),
    *(("numpy", name, ordering) for name in ("solo12", "simple_humanoid") for ordering in ORDERINGS),
    *(("numpy", name, ordering) for name in ("baxter", "allegro_hand", "talos") for ordering in FEW),
    *(("numpy", name, ordering) for name in LOOPS if name not in SEARCHED for ordering in FEW),
    *(("numpy", name, ordering) for name in ("balls1", *BALL_LOOPS) for ordering in ORDERINGS),
    *(
        ("gtsam", name, ordering)
        for name in ("panda7", "baxter")
        for ordering in ("aba", "crba", "colamd", "metis", "minimum_degree")
    ),
    *(("gtsam", "balls1", ordering) for ordering in ORDERINGS),
    *(("gtsam", name, "colamd") for name in (*LOOPS, "simple_humanoid")),
]


@cache
def consistent(name):
    """((q, qd, qdd, tau), wrenches and another gravity, tolerance of accelerations)."""
    robot, gravity = robot_of(name), np.array([1.0, -2.0, -9.0])
    q, qd, qdd, f_ext = states_of(name, 3 if name in TEXTS else 10, seed=21)
    acts = {"f_ext": f_ext, "gravity": gravity}
    tau = dn.build(robot, dn.inverse_dynamics(robot), backend="numpy", f_ext=True)(q, qd, qdd, **acts)
    M = dn.evaluate(robot, "mass_matrix", q, backend="numpy")
    return (q, qd, qdd, tau), acts, np.maximum(ACCURATE, solved(M))


@pytest.mark.parametrize("backend, name, ordering", ELIMINATED)
def test_every_ordering_gives_the_same_result(backend, name, ordering):
    """All problems agree with the recursions."""
    if backend == "gtsam":
        pytest.importorskip("gtsam", reason="pip install 'gtsam>=4.3'")
    robot, ((q, qd, qdd, tau), acts, tolerance) = robot_of(name), consistent(name)
    exact = OUT_OF_GTSAM if backend == "gtsam" else EXACT if name in ROBOTS else ACCURATE
    for kind, problem in (problems(robot) | {"inverse": dn.inverse_dynamics(robot)}).items():
        if kind == "inverse" and name == "rssr":
            continue  # a component of a ball joint is dependent: test_ball_joints.py
        known = {"inverse": (qdd,), "forward": (tau,), "hybrid": (qdd, tau)}[kind]
        choice = {"solver": "factor_graph", "ordering": ordering, "backend": backend}
        results = dn.build(robot, problem, f_ext=True, **choice)(q, qd, *known, **acts)
        if kind != "inverse":
            wrong = error(results[0] if kind == "hybrid" else results, qdd)
            assert np.all(wrong <= np.maximum(tolerance, exact)), kind
        if kind != "forward":
            assert error(results[1] if kind == "hybrid" else results, tau).max() <= max(
                exact, tolerance.max() * (kind == "hybrid")
            ), kind


# --- as Programs --------------------------------------------------------------------------------------------


@cache
def program_of(name, kind, ordering):
    robot = robot_of(name)
    return elimination_program(robot, problems(robot)[kind], ordering)


def run(robot, program, q, qd, u):
    """The concatenated qdd and tau, and a mask of the states with good health."""
    with np.errstate(all="ignore"):
        results = interpret(program, q=q, qd=qd, qdd=u, tau=u, gravity=robot.gravity)
    healthy = np.ones(len(q), dtype=bool)
    if program.limits:
        healthy = (results.pop("health") <= program.limits).all(axis=-1)
    return np.hstack([*results.values()]), healthy


def expected(model, problem, q, qd, u):
    known = [u] * (2 if problem.kind == "hybrid" else 1)
    results = dn.build(model, problem, backend="numpy")(q, qd, *known)
    return np.hstack(results) if problem.kind == "hybrid" else results


def feasible_program(robot, name, kind, ordering):
    """The Program, or a skip with the name of the variable if the ordering is infeasible."""
    try:
        return program_of(name, kind, ordering)
    except SingularPivotError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("ordering", ORDERINGS)
@pytest.mark.parametrize("name", TREES)
def test_programs_are_accurate_within_health_limits(name, ordering):
    """At random states, few of which have bad health; hybrid problems only for arms."""
    model = robot_of(name)
    q, qd, u, _ = random_states(model, 60, seed=61)
    for kind, problem in problems(model).items():
        if kind == "hybrid" and name not in ARMS:
            continue
        program = feasible_program(model, name, kind, ordering)
        results, healthy = run(model, program, q, qd, u)
        tolerance = solved(dn.evaluate(model, "mass_matrix", q, backend="numpy"))
        wrong = error(results, expected(model, problem, q, qd, u))
        assert np.all(wrong[healthy] <= np.maximum(ACCURATE, tolerance[healthy])), (
            kind,
            wrong[healthy].max(),
        )
        assert healthy.mean() >= {"rnea": 0.9, "crba": 1.0, "aba": 1.0}.get(ordering, 0.0), kind


@pytest.mark.parametrize(
    "name, ordering", [(("so101", "panda")[k % 2], ordering) for k, ordering in enumerate(ORDERINGS)]
)
def test_compiled_solver_is_accurate_or_names_a_pivot(name, ordering):
    """Through `build`; `./dev bench orderings_of_robots` covers all of TREES."""
    model, problem = robot_of(name), dn.forward_dynamics(robot_of(name))
    solver = dn.build(model, problem, solver="factor_graph", ordering=ordering, backend="c")
    q, qd, u, _ = random_states(model, 60, seed=61)
    qdd = solver(q, qd, u, errors="nan")
    solved_states = np.isfinite(qdd).all(axis=1)
    tolerance = np.maximum(ACCURATE, solved(dn.evaluate(model, "mass_matrix", q, backend="numpy")))
    wrong = error(qdd, expected(model, problem, q, qd, u))
    assert solved_states.mean() >= 0.9 and np.all(wrong[solved_states] <= tolerance[solved_states])
    for k in np.flatnonzero(~solved_states):
        with pytest.raises(dn.SolutionError, match="pivot"):
            solver(q[k], qd[k], u[k])


def line(model, seed):
    """(function of t (count,) -> q (count, nq) along a line between random states, qd, tau)."""
    (a, *rates), (b, *_) = random_states(model, 1, seed=seed), random_states(model, 1, seed=seed + 100)

    def at(t):
        q = a + np.outer(t, b - a)
        for k in model.quaternion_places:
            q[:, k : k + 4] /= np.linalg.norm(q[:, k : k + 4], axis=1, keepdims=True)
        return q

    return at, *(np.repeat(rate, COUNT, axis=0) for rate in rates[:2])


COUNT = 56
OFFSETS = np.concatenate([sign * 10.0 ** -np.linspace(1, 14, COUNT // 2) for sign in (1, -1)])


def weakest(model, program, at, qd, u):
    """The parameter of a line at which a pivot is weakest."""
    t = np.linspace(0.0, 1.0, COUNT)
    for _ in range(10):
        with np.errstate(all="ignore"):
            health = interpret(program, q=at(t), qd=qd, qdd=u, tau=u, gravity=model.gravity)["health"][:, -1]
        worst = t[np.argmax(np.nan_to_num(health, nan=np.inf))]
        t = np.linspace(worst - (t[1] - t[0]), worst + (t[1] - t[0]), COUNT)
    return worst


@pytest.mark.parametrize("ordering", ["rnea", "colamd", "metis", "minimum_degree"])
@pytest.mark.parametrize("name", ["kinova", "solo12"])
def test_programs_are_accurate_near_vanishing_pivots(name, ordering):
    """States with good health have correct results, however near; states with bad health do lose digits."""
    model, problem = robot_of(name), dn.forward_dynamics(robot_of(name))
    program = feasible_program(model, name, "forward", ordering)
    lost = []
    for seed in range(3):
        at, qd, u = line(model, seed)
        q = at(weakest(model, program, at, qd, u) + OFFSETS)
        results, healthy = run(model, program, q, qd, u)
        wrong = error(np.nan_to_num(results, nan=1e300, posinf=1e300, neginf=-1e300),
                      expected(model, problem, q, qd, u))  # fmt: skip
        tolerance = np.maximum(ACCURATE, solved(dn.evaluate(model, "mass_matrix", q, backend="numpy")))
        assert np.all(wrong[healthy] <= tolerance[healthy]), wrong[healthy].max()
        lost.append(wrong.max())
    if ordering != "rnea":
        assert max(lost) > 1e-6, "the states must be bad ones"


@pytest.mark.parametrize("ordering", ORDERINGS)
@pytest.mark.parametrize("name", LINKAGES)
def test_programs_of_loops_are_accurate_within_health_limits(name, ordering):
    """Against the recursions over clusters, at closed positions. (Nested dissection of the palletizer never reaches
    1e-10.)"""
    mechanism, random = robot_of(name), np.random.default_rng(7)
    q = closed_samples(mechanism, 40, random)
    qd, u = random.uniform(-1, 1, (2, 40, mechanism.nv))
    for problem in (dn.inverse_dynamics(mechanism), dn.forward_dynamics(mechanism)):
        cluster = next(iter(dynamics_programs(mechanism, problem).values()))
        right, regular = run(mechanism, cluster, q, qd, u)
        program = elimination_program(mechanism, problem, ordering)
        results, healthy = run(mechanism, program, q, qd, u)
        assert healthy.mean() >= (0.9 if ordering in ("rnea", "crba", "aba") else 0.0)
        assert not (healthy & ~regular).any()
        assert error(results[healthy], right[healthy]).max(initial=0.0) <= ACCURATE


def test_unhealthy_states_of_compiled_code_are_refined():
    """States with bad health go from compiled code to NumPy, which refines them, in a batch and alone."""
    model = robot_of("xarm7")
    problem = dn.forward_dynamics(model)
    program = program_of("xarm7", "forward", "metis")
    at, qd, u = line(model, 0)
    q = at(weakest(model, program, at, qd, u) + OFFSETS)
    _, healthy = run(model, program, q, qd, u)
    assert healthy.any() and not healthy.all()
    solver = dn.build(model, problem, solver="factor_graph", ordering="metis", backend="c")
    q, qd, u, healthy = (np.concatenate([a, a]) for a in (q, qd, u, healthy))
    right = expected(model, problem, q, qd, u)
    qdd = solver(q, qd, u, errors="nan")
    solved_states = np.isfinite(qdd).all(axis=1)
    assert solved_states[healthy].all() and solved_states.sum() > healthy.sum(), (
        "refinement must solve some unhealthy states"
    )
    assert error(qdd[solved_states], right[solved_states]).max() <= ACCURATE
    k = np.flatnonzero(solved_states & ~healthy)[0]
    assert error(solver(q[k], qd[k], u[k]), right[k]) <= ACCURATE


@pytest.mark.parametrize("backend", ["numpy", "c"])
def test_vanishing_pivot_is_replaced(backend):
    """At right angles the planned equation for F3 does not contain it."""
    model = robot_of("so101")
    problem = dn.forward_dynamics(model)
    solver = dn.build(model, problem, solver="factor_graph", ordering="colamd", backend=backend)
    q = np.array([2, 1, 0, -1, -1, -2]) * np.pi / 2
    rates = np.full(6, 0.3)
    planned = elimination(model, problem, "colamd")
    graph = filled(build_graph(model, problem, q[None], rates[None], *np.zeros((2, 1, 6))), planned.blocks)
    with pytest.raises(np.linalg.LinAlgError):
        refined(graph, lambda own: eliminate(own, planned.plan).solve())
    assert str(weakest_pivot(graph, planned.plan)) == "F3"
    right = dn.build(model, problem, backend="numpy")(q, rates, rates)
    assert error(solver(q, rates, rates), right) <= ACCURATE


@pytest.mark.parametrize("ordering", ["rnea", "colamd"])
def test_weak_pivots_follow_a_payload(ordering):
    """The Program of the bare robot agrees with the recursions of one with a payload and new rotors."""
    bare = robot_of("panda7")
    other = dn.with_payload(bare, "panda_link7", 2.5, (0.1, 0, 0.05), 0.01 * np.eye(3))
    other = with_parameters(other, other.inertias, np.full(7, 0.3))
    problem = dn.forward_dynamics(bare)
    program = elimination_program(bare, problem, ordering, parameters=("inertia", "armature"))
    q, qd, u, _ = random_states(bare, 60, seed=3)
    for model in (bare, other):
        state = {"q": q, "qd": qd, "tau": u, "gravity": model.gravity}
        results = interpret(program, **state, **parameter_values(model))
        healthy = (results["health"] <= program.limits).all(axis=-1)
        assert healthy.mean() >= 0.5
        assert error(results["qdd"], expected(model, problem, q, qd, u))[healthy].max() <= ACCURATE


def test_cheapest_ordering_may_have_weak_pivots():
    """RNEA's ordering is the cheapest for the forward dynamics of a Kinova with coarse angles, including health."""
    text = ROBOTS["kinova"].file.read_text()
    text = text.replace("3.14159265359", "3.14159").replace("1.57079632679", "1.5708")
    robot = dn.parse_robot(text)
    problem = dn.forward_dynamics(robot)
    programs = {name: elimination_program(robot, problem, name) for name in ORDERINGS}
    assert min(programs, key=lambda name: cost(programs[name])) == "rnea" and programs["rnea"].limits


def test_pivot_is_definite_only_after_natural_pivots():
    """After operations on other equations, the sign of a pivot at a few states proves nothing."""
    model = robot_of("panda7")
    problem = dn.forward_dynamics(model)
    graph = generic_graph(model, problem)
    for name in ORDERINGS:
        plan = plan_elimination(graph, chosen_ordering(name, model, problem, graph).variables)
        mixed = False
        for step in plan.steps:
            assert not (step.pivot.definite and mixed)
            mixed |= not all(is_natural(step.variable, graph.factors[n]) for n, _ in step.pivot.rows)
