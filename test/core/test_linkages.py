"""Linkages at home, where pivots of a fixed order vanish, and near it: against Pinocchio's tree with constraint
multipliers."""

import re

import numpy as np
import pytest
from linkages import (
    CONSTRAINTS,
    ORDINARY,
    Drawing,
    Linkage,
    Plane,
    about,
    grid,
    palletizer,
    parallelograms,
    rod,
    spatial,
    stewart,
)
from loop_oracle import LoopOracle
from mechanisms import joint, link, robot
from tolerances import EXACT, error
from trials import positions, tried

import dynamics_node as dn
from dynamics_demo.robots import four_bar
from dynamics_node.algorithms import Actuation, dynamics_programs
from dynamics_node.algorithms.constraint_elimination import ConstraintElimination, parts
from dynamics_node.graph import build_graph, eliminate, plan_ordering
from dynamics_node.robot.constraints import FunctionConstraint
from dynamics_node.robot.loops.equations import counting_equations
from dynamics_node.symbolic import interpret, trace

AXES = {"x": (1, 0, 0), "y": (0, 1, 0), "z": (0, 0, 1), "oblique": (0.6, 0.0, 0.8)}


def draw(make, seed, **options):
    return make(np.random.default_rng(seed), **options)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("make", ORDINARY)
def test_ordinary_linkages_at_and_near_home(make, seed):
    """Some also by compiled code. Some homes are truly singular; then only positions near home are compared."""
    trial = tried(draw(make, seed), compiled=seed == 0 and make is palletizer)
    assert not trial.wrong and not trial.refused
    assert trial.conditions


@pytest.mark.parametrize("kind", CONSTRAINTS)
def test_random_linkages(kind):
    """With one loop of every kind, and a second one of any kind."""
    conditions = []
    for seed, kinds in enumerate(([kind], [kind, "rod"])):
        try:
            trial = tried(draw(spatial, seed, kinds=kinds))
        except dn.ModelError as error:
            assert "cannot move" in str(error)
            continue
        assert not trial.wrong and not trial.refused
        conditions += trial.conditions
    assert len(conditions) > 10


# --- one position by every method -----------------------------------------------------------------------------


def arm():
    """The palletizing arm in whole centimeters, whose torques at home were once off by 6 %."""
    linkage = draw(palletizer, 12)
    assert linkage.home.keys() >= {"j_bar", "j_tool"}
    return linkage


def leg(axis):
    """A planar linkage on a link that moves about the same axis, as in real legs."""
    random = np.random.default_rng(4)
    drawing, axis = Drawing("leg", random), np.array(axis, float)
    drawing.add("thigh", "ground", (0, 0, 0), axis, independent=True)
    turn = np.cross((0, 0, 1.0), axis)
    flat = np.linalg.norm(turn)
    B = np.eye(3) if flat < 1e-9 else about(turn, np.arctan2(flat, axis[2]))
    p = Plane(drawing, "thigh", B)
    p.hinge("driver", "thigh", 0.11, 0, True)
    p.hinge("support", "thigh", 0.42, 0.3, False)
    p.hinge("foot", "driver", 0.15, 0.4, False)
    p.pin("foot", "support", 0.5, 0.6)
    return drawing.done()


LEGS = {name: leg(axis) for name, axis in AXES.items()}
COMPILED = LEGS["oblique"].text


@pytest.mark.parametrize("linkage", [arm(), *LEGS.values()], ids=["arm", *AXES])
def test_every_method_at_home(linkage: Linkage):
    mechanism = dn.parse_robot(linkage.text)
    reference = LoopOracle(linkage.text, mechanism)
    q = np.array([linkage.home[name] for name in mechanism.q_names])
    yd, ydd = np.random.default_rng(0).uniform(-1, 1, (2, mechanism.nv))
    spread, tau = reference.spread_over_bodies(q, yd), reference.inverse(q, yd, ydd)
    assert spread.condition < 1e4
    problems = {"inverse": dn.inverse_dynamics(mechanism), "forward": dn.forward_dynamics(mechanism)}
    backends = ("c", "numpy") if linkage.text == COMPILED else ("numpy",)
    graph = {"solver": "factor_graph", "ordering": "aba", "backend": backends[0]}
    choices = [*({"backend": backend} for backend in backends), graph]
    for choice in choices:
        inverse, forward = (
            dn.build(mechanism, problem, **choice, f_ext=True) for problem in problems.values()
        )
        assert error(inverse(q, yd, ydd), tau) <= EXACT
        assert error(forward(q, yd, tau), ydd) <= 1e-9
        batch = inverse(np.tile(q, (70, 1)), yd, ydd)
        assert error(batch, np.tile(tau, (70, 1))).max() <= EXACT
    assert error(reference.forward(q, yd, tau), ydd) <= 1e-8
    for backend in backends:
        quantity = dn.build(mechanism, "mass_matrix", backend=backend)
        assert error(quantity(q), reference.mass_matrix(q), tail=2) <= EXACT
        closing = dn.build_loop_solver(mechanism, backend)
        at, condition = closing(q)
        assert error(at + 1, q + 1) <= 1e-9 and 1 <= condition < 1e4 and closing.is_regular(q)
        rates, accelerations, G = closing.spread(q, yd, ydd)
        assert error(rates, spread.G @ yd) <= EXACT and error(G, spread.G, tail=2) <= EXACT
        assert error(accelerations, spread.G @ ydd + spread.g) <= EXACT
        dq, dqd, M = dn.build(mechanism, "inverse_dynamics_derivatives", backend=backend, f_ext=True)(
            q, yd, ydd
        )
        assert error(M, reference.mass_matrix(q), tail=2) <= EXACT
        assert error(dqd, _by_differences(lambda v: reference.inverse(q, v, ydd), yd), tail=2) <= 1e-7
        moved = _by_differences(
            lambda x: reference.inverse(_moved(mechanism, q, x), yd, ydd), np.zeros(mechanism.nv)
        )
        assert error(dq, moved, tail=2) <= 1e-6


def test_graph_replaces_vanishing_pivots():
    """If a pivot of the plan vanishes at a position, another one is taken; for one state and in a batch."""
    linkage, ordering = draw(parallelograms, 5), "colamd"
    mechanism = dn.parse_robot(linkage.text, floating_base=linkage.floating_base)
    reference = LoopOracle(linkage.text, mechanism)
    problem = dn.forward_dynamics(mechanism)
    solver = dn.build(mechanism, problem, solver="factor_graph", ordering=ordering)
    states = list(positions(linkage, mechanism, np.random.default_rng(1)))
    q = np.array([states[0], states[-1], states[0]])
    assert reference.spread(q[0], np.zeros(mechanism.nv)).condition < 100
    assert not _residual(mechanism, problem, ordering, q[0]) <= 1e-6
    yd, ydd = np.random.default_rng(0).uniform(-1, 1, (2, 3, mechanism.nv))
    tau = np.array([reference.inverse(*state) for state in zip(q, yd, ydd, strict=True)])
    assert error(solver(q, yd, tau), ydd).max() <= 1e-9
    assert error(solver(q[0], yd[0], tau[0]), ydd[0]) <= 1e-9


def _residual(mechanism, problem, ordering, q):
    """The largest residual of an ordering's plan at a position."""
    _, plan = plan_ordering(mechanism, problem, ordering)
    graph = build_graph(mechanism, problem, q, *np.ones((3, mechanism.nv)))
    try:
        residuals = graph.residuals(eliminate(graph, plan).solve())
    except np.linalg.LinAlgError:
        return np.inf
    return max(np.abs(factor.rhs).max() for factor in residuals.factors)


def _moved(mechanism, q, change):
    at = q.copy()
    at[[joint.q.start for joint in mechanism.independent_joints]] += change
    return dn.close_loops(mechanism, at)


def _by_differences(function, x, step=1e-5):
    columns = [function(x + step * e) - function(x - step * e) for e in np.eye(len(x))]
    return np.array(columns).T / (2 * step)


# --- elimination ----------------------------------------------------------------------------------------------


def solve_by_elimination(A, b):
    """x of A x = b, and the squared condition number, by a Program with symbols for the nonzero entries of A."""
    nonzero = A != 0

    def function(numbers, b):
        symbols = np.zeros(A.shape, dtype=object)
        symbols[nonzero] = numbers
        elimination = ConstraintElimination(symbols, np.ones(len(A)))
        return {"x": elimination.solve(b), "condition": np.array([elimination.condition()])}

    program = trace(function, {"numbers": (np.count_nonzero(nonzero),), "b": b.shape})
    with np.errstate(all="ignore"):
        outputs = interpret(program, numbers=A[nonzero], b=b)
    return outputs["x"], outputs["condition"][0]


@pytest.mark.parametrize("rows", [0, 2])
@pytest.mark.parametrize("n", [1, 2, 3, 4, 6, 9])
def test_elimination_without_pivots(n, rows):
    """As accurate as LAPACK, which pivots; also with zero leading minors, and with more equations than unknowns."""
    random = np.random.default_rng(n)
    for scale in (1.0, 1e-2, 1e-4):
        U, V = (np.linalg.qr(random.normal(size=(m, m)))[0] for m in (n + rows, n))
        A = U[:, :n] * np.logspace(0, np.log10(scale), n) @ V
        if scale == 1.0 and not rows:
            A = np.roll(np.eye(n), 1, axis=0) + 0.0
        x = random.normal(size=(n, 2))
        solution, condition = solve_by_elimination(A, A @ x)
        assert np.abs(solution - x).max() <= 1e-14 * n / scale * max(1, np.abs(x).max())
        assert n == 1 or condition >= np.linalg.cond(A) ** 2 * 0.99


@pytest.mark.parametrize("rows", [0, 2])
@pytest.mark.parametrize("n", [1, 3, 4, 6, 9])
def test_transposed_elimination(n, rows):
    """Constraint forces from torques of the dependent joints: the least ones if equations outnumber unknowns."""
    random = np.random.default_rng(n)
    for scale in (1.0, 1e-2, 1e-4):
        U, V = (np.linalg.qr(random.normal(size=(m, m)))[0] for m in (n + rows, n))
        A = U[:, :n] * np.logspace(0, np.log10(scale), n) @ V
        b = A.T @ random.normal(size=(n + rows, 2))

        def function(numbers, b, A=A):
            return {"x": ConstraintElimination(numbers.reshape(A.shape), np.ones(len(A))).solve_transposed(b)}

        program = trace(function, {"numbers": (A.size,), "b": b.shape})
        solution = interpret(program, numbers=A.ravel(), b=b)["x"]
        assert np.abs(solution - np.linalg.pinv(A.T) @ b).max() <= 1e-13 * n / scale


@pytest.mark.parametrize("n", [1, 2, 3, 4, 6])
def test_singular_matrix_has_a_large_condition(n):
    random = np.random.default_rng(n)
    A = random.normal(size=(n, n))
    A[:, -1] = A[:, :-1] @ random.normal(size=n - 1) + 1e-13 * A[:, -1]
    _, condition = solve_by_elimination(A, A)
    assert not condition <= 1e20


def test_parts_of_coupled_loops():
    """Three loops, the last of which depends on the two others; equations in any order."""
    random = np.random.default_rng(0)
    A = np.zeros((7, 7))
    A[:2, :2], A[2:5, 2:5], A[5:, 5:] = (random.normal(size=(k, k)) for k in (2, 3, 2))
    A[5:, [1, 2]] = random.normal(size=(2, 2))
    rows, columns = random.permutation(7), random.permutation(7)
    shuffled = A[np.ix_(rows, columns)]
    blocks = list(parts(shuffled != 0))
    assert sorted(map(len, (unknowns for _, unknowns in blocks))) == [2, 2, 3]
    assert set(columns[blocks[-1][1]]) == {5, 6}
    x = random.normal(size=(7, 1))
    assert np.allclose(solve_by_elimination(shuffled, shuffled @ x)[0], x, atol=1e-12)

    def transposed(numbers, b):
        symbols = np.zeros(shuffled.shape, dtype=object)
        symbols[shuffled != 0] = numbers
        return {"x": ConstraintElimination(symbols, np.ones(7)).solve_transposed(b)}

    program = trace(transposed, {"numbers": (np.count_nonzero(shuffled),), "b": x.shape})
    solution = interpret(program, numbers=shuffled[shuffled != 0], b=shuffled.T @ x)["x"]
    assert np.allclose(solution, x, atol=1e-12)


def test_stewart_platform_is_solved_three_times():
    """For rates, accelerations and torques; solving for every rod took 3277 operations."""
    mechanism = dn.parse_robot(draw(stewart, 0).text)
    (program,) = dynamics_programs(mechanism, dn.inverse_dynamics(mechanism)).values()
    assert len(program.ops) <= 2360


# --- open loops -----------------------------------------------------------------------------------------------


def welded(kind):
    """An arm of three joints whose tip is tied to a link that slides and turns in the plane. Only the tie determines
    the angle of that link."""
    drawing = Drawing(kind, np.random.default_rng(3))
    z, at = (0, 0, 1), np.array([1.0, 0.0, 0.0])
    for name, parent, x in (("a", "ground", 0.0), ("b", "a", 0.5), ("c", "b", 0.8)):
        drawing.add(name, parent, (x, 0, 0), z, independent=True)
    drawing.add("x", "ground", at, (1, 0, 0), "prismatic", False)
    drawing.add("y", "x", at, (0, 1, 0), "prismatic", kind == "prismatic")
    drawing.add("t", "y", at, z, independent=False)
    axis = (0, 1, 0) if kind in ("prismatic", "revolute", "planar") else (1, 0, 0)
    drawing.tie(kind, "c", "t", at, axis)
    return drawing.done()


@pytest.mark.parametrize("kind", ["fixed", "prismatic"])
def test_half_a_turn_apart_is_open(kind):
    mechanism = dn.parse_robot(welded(kind).text)
    turn = mechanism.q_names.index("j_t")
    start = np.zeros(mechanism.nq)
    start[mechanism.q_names.index("j_a")] = 0.3
    q = dn.close_loops(mechanism, start)
    assert q[turn] == pytest.approx(0.3)
    flipped = q.copy()
    flipped[turn] += np.pi
    one = np.ones(mechanism.nv)
    for choice in ({"backend": "c"}, {"backend": "numpy"}, {"solver": "factor_graph", "ordering": "rnea"}):
        solver = dn.build(mechanism, dn.inverse_dynamics(mechanism), **choice)
        assert np.isfinite(solver(q, one, one)).all()
        with pytest.raises(dn.SolutionError, match="'tie0'.*turned"):
            solver(flipped, one, one)
    with pytest.raises(dn.TrajectoryError, match="half a turn"):
        dn.simulate(mechanism, flipped, steps=1, backend="numpy")
    for away in (0.0, -0.01, 0.5)[2 * (kind == "prismatic") :]:  # the slide is across its axis on the way
        start = flipped.copy()
        start[turn] -= away
        closed = dn.close_loops(mechanism, start)
        assert np.remainder(closed[turn] - q[turn] + 1, 2 * np.pi) == pytest.approx(1, abs=1e-9)
    closing = dn.build_loop_solver(mechanism)
    assert closing.is_regular(q) and not closing.is_regular(flipped)
    assert closing.following(flipped)[0][turn] == pytest.approx(q[turn], abs=1e-9)


def upright(kind):
    """A rod on three hinges that a tie about z keeps upright; half a turn of a hinge turns it upside down."""
    drawing = Drawing(kind, np.random.default_rng(3))
    for k, (axis, slide) in enumerate(
        (((1, 0, 0), "revolute"), ((0, 1, 0), "revolute"), ((0, 0, 1), "revolute"))
    ):
        drawing.add(f"b{k}", f"b{k - 1}" if k else "ground", (0, 0, 0), axis, slide, k == 2)
    for k, axis in enumerate(np.eye(3)):
        drawing.add(
            f"s{k}", f"s{k - 1}" if k else "ground", (0, 0, 0), axis, "prismatic", kind == "planar" and k < 2
        )
    drawing.tie(kind, "b2", "s2", (0, 0, 0.0), (0, 0, 1))
    return drawing.done()


@pytest.mark.parametrize("kind", ["revolute", "planar"])
def test_upside_down_is_open(kind):
    mechanism = dn.parse_robot(upright(kind).text)
    q = dn.close_loops(mechanism, mechanism.neutral())
    one = np.ones(mechanism.nv)
    solver = dn.build(mechanism, dn.inverse_dynamics(mechanism), backend="numpy")
    assert np.isfinite(solver(q, one, one)).all()
    q[mechanism.q_names.index("j_b0")] += np.pi
    with pytest.raises(dn.SolutionError, match="'tie0'.*turned"):
        solver(q, one, one)


@pytest.mark.parametrize("length", [0.001, 0.01, 1.0, 30.0])
def test_tolerance_of_rods_is_in_meters(length):
    """A gap above 1e-6 m is open, for any length."""
    drawing = Drawing("rod", np.random.default_rng(1))
    drawing.add("a", "ground", (0, 0, 0), (0, 0, 1), "prismatic", True)
    drawing.add("b", "ground", (0, 0, 0), (1, 0, 0), "prismatic", False)
    rod(drawing, "a", np.array([0, 0, -0.6 * length]), "b", np.array([0.8 * length, 0, 0]))
    mechanism = dn.parse_robot(drawing.done().text)
    solver = dn.build(mechanism, dn.inverse_dynamics(mechanism), backend="numpy")
    along = mechanism.q_names.index("j_b")
    for gap, is_open in ((0.5e-6, False), (1.5e-6, True)):
        q = np.zeros(2)
        q[along] = gap / 0.8
        if is_open:
            with pytest.raises(dn.SolutionError, match=r"'tie0'.*open.* 1\.5"):
                solver(q, [0.1], [0.1])
        else:
            assert np.isfinite(solver(q, [0.1], [0.1])).all()
    q[along] += 0.01 * length
    closed = dn.close_loops(mechanism, q)
    assert abs(np.hypot(closed[along] + 0.8 * length, 0.6 * length) - length) <= 1e-10


@pytest.mark.parametrize("true, false", [("True", "False"), ("TRUE", "FALSE"), (" true ", "false")])
def test_independent_in_any_case(true, false):
    """As the authors of URDF+ write it."""
    text = draw(palletizer, 12).text
    variant = text.replace('independent="true"', f'independent="{true}"')
    variant = variant.replace('independent="false"', f'independent="{false}"')
    assert variant != text
    assert dn.parse_robot(variant).v_names == dn.parse_robot(text).v_names


COLAMD = {"solver": "factor_graph", "ordering": "colamd"}


@pytest.mark.parametrize("choice", [{"backend": "c"}, {"backend": "numpy"}, COLAMD], ids=str)
def test_batches_of_bad_states_and_empty_batches(choice):
    """A chunk of bad rows is NaN; an empty one is empty."""
    mechanism = dn.parse_robot(four_bar())
    results = 0
    for problem in (dn.inverse_dynamics(mechanism), dn.forward_dynamics(mechanism)):
        solver = dn.build(mechanism, problem, **choice, f_ext=True)
        for count in (0, 3, 70):
            q, x, f_ext = np.full((count, 3), np.nan), np.zeros((count, 1)), np.zeros((mechanism.nbodies, 6))
            for wrenches in (None, f_ext, np.tile(f_ext, (count, 1, 1))):
                torques = solver(q, x, x, wrenches, errors="nan")
                assert torques.shape == (count, 1) and np.isnan(torques).all()
                results += 1
        assert solver(np.zeros((0, 3)), np.zeros((0, 1)), np.zeros((0, 1))).shape == (0, 1)
    assert results == 18


@pytest.mark.parametrize("backend", ["c", "numpy"])
def test_quantities_of_bad_states_are_nan(backend):
    mechanism = dn.parse_robot(four_bar())
    for name, arguments in (("mass_matrix", 1), ("inverse_dynamics_derivatives", 3)):
        quantity = dn.build(mechanism, name, backend=backend)
        for count in (0, 3, 70):
            arrays = (np.full((count, 3), np.nan), np.zeros((count, 1)), np.zeros((count, 1)))[:arguments]
            result = quantity(*arrays, errors="nan")
            for array in result if isinstance(result, tuple) else (result,):
                assert array.shape == (count, 1, 1) and np.isnan(array).all()


def test_independent_joints_are_chosen_without_marks():
    """For this palletizing arm, a choice from a single position was rejected as singular."""
    text = arm().text
    assert dn.parse_robot(without_marks(text)).nv == dn.parse_robot(text).nv


@pytest.mark.parametrize("seed", [14, 28, 29, 34])
def test_proposed_independent_joint_is_accepted(seed):
    text = draw(grid, seed).text
    with pytest.raises(dn.ModelError, match="'j_first'.*independent") as excinfo:
        dn.parse_robot(text)
    proposed = re.search(r"; use '(\w+)'$", str(excinfo.value)).group(1)

    def mark(match):
        return f'{match[0]} independent="{str(match[1] in (proposed, "j_carrier")).lower()}"'

    marked = re.sub(r'<joint name="(\w+)" type="\w+"', mark, without_marks(text))
    assert proposed in dn.parse_robot(marked).v_names


def without_marks(text):
    return re.sub(' independent="(true|false)"', "", text)


def test_double_parallelogram_moves():
    """One equation is redundant, and which one changes with the position."""
    mechanism = dn.parse_robot(draw(parallelograms, 0).text)
    (cluster,) = (cluster for cluster in mechanism.clusters if cluster.dependent)
    assert len(cluster.constraints) == 2 and len(cluster.dependent) == 3
    assert len(counting_equations(mechanism.tree, cluster).rows) == 4


def test_rigid_assembly_is_singular():
    """Two joints that turn alike, or stand still at 1.5 and 0.5, where rates are undefined."""
    text = robot(link("a"), *(part for k in "bc" for part in (link(k, 1, 1.0), joint(f"j{k}", "a", k))))

    def alike(tree):
        function = lambda q: (q[1] - q[0]) * np.array([q[1] + q[0] - 2.0, q[1] - 3 * q[0] + 4.0])  # noqa: E731
        return FunctionConstraint("tie", function, (0, 1), frozenset({0, 1}))

    mechanism = dn.parse_robot(text, constraints=[alike])
    inverse = dn.build(mechanism, dn.inverse_dynamics(mechanism), backend="numpy")
    assert np.allclose(dn.spanning(mechanism, np.array([0.3, 0.3]), [1.0])[1], 1.0)
    assert np.isfinite(inverse([0.3, 0.3], [1.0], [1.0])).all()
    rigid = np.array([1.5, 0.5])
    with pytest.raises(dn.SolutionError, match="tie.*rigid.* 2 .* 1"):
        inverse(rigid, [1.0], [1.0])
    assert np.isnan(dn.spanning(mechanism, rigid, [1.0])[1]).all()


# --- undetermined accelerations -------------------------------------------------------------------------------


def with_wheel(moment, **options):
    """A four-bar with a wheel on its coupler; moment: the wheel's inertia about its axle, zero elsewhere."""
    wheel = '<link name="wheel"><inertial><mass value="1"/><inertia ixx="0" ixy="0" ixz="0" iyy="0" iyz="0" izz="{}"/>'
    parts = wheel.format(moment) + "</inertial></link>" + joint("axle", "coupler", "wheel", independent=True)
    return dn.parse_robot(four_bar().replace("<loop", parts + "<loop", 1), **options)


def test_error_names_a_joint_without_inertia():
    mechanism = with_wheel(0)
    assert "axle" in mechanism.joint_names
    forward = dn.forward_dynamics(mechanism)
    link_name = mechanism.bodies[-1].name
    builds = (
        lambda: dn.build(mechanism, forward),
        lambda: dn.build(mechanism, forward, backend="numpy"),
        lambda: dn.build(mechanism, forward, solver="factor_graph"),
        lambda: dn.build(mechanism, dn.hybrid_dynamics(mechanism, ["axle"])),
        lambda: dn.build(mechanism, "forward_dynamics_derivatives"),
        lambda: dn.build(mechanism, "operational_space_inertia_inverse", links=[link_name]),
    )
    for build in builds:
        with pytest.raises(dn.ModelError, match="forward dynamics.*'axle'"):
            build()
    dn.build(mechanism, dn.inverse_dynamics(mechanism), backend="numpy")
    for regular in (with_wheel(1e-5), with_wheel(0, armature={"axle": 1e-4})):
        dn.build(regular, dn.forward_dynamics(regular), backend="numpy")


def test_singular_position_of_a_batch_gives_nan():
    """Next to a regular one: NaN, and no error from LAPACK."""
    mechanism = dn.parse_robot(draw(grid, 1).text)
    q = np.stack([np.zeros(mechanism.nq), dn.close_loops(mechanism, np.full(mechanism.nq, 0.3))])
    one = np.ones((2, mechanism.nv))
    for array in (
        dn.spanning(mechanism, q, one)[1],
        *Actuation(mechanism, ["j_first"]).from_coordinates(q, one),
    ):
        assert np.isnan(array[0]).all() and np.isfinite(array[1]).all()
    for backend in ("c", "numpy"):
        closing = dn.build_loop_solver(mechanism, backend)
        assert not closing.is_regular(q[0]) and closing.is_regular(q[1])


SHAKY = """<robot name="shaky"><link name="w"/>{links}
<loop name="c" type="revolute"><predecessor link="b"><origin xyz="1 0 0"/></predecessor>
<successor link="w"><origin xyz="{reach} 0 0"/></successor><axis xyz="0 0 1"/></loop></robot>"""


@pytest.mark.parametrize("reach", [2.0, 1.9])
def test_loop_of_infinitesimal_mobility_raises(reach):
    """Two bars of 1 m between hinges 2 m apart: stretched, they move to first order only. Between hinges 1.9 m apart
    they do not even move to first order."""
    bar = '<link name="{0}"><inertial><mass value="1"/><inertia ixx=".1" ixy="0" ixz="0" iyy=".1" iyz="0" izz=".1"/></inertial></link>'
    hinge = '<joint name="j{1}" type="continuous"><parent link="{0}"/><child link="{1}"/><origin xyz="{2} 0 0"/><axis xyz="0 0 1"/></joint>'
    links = bar.format("a") + bar.format("b") + hinge.format("w", "a", 0) + hinge.format("a", "b", 1)
    with pytest.raises(dn.ModelError, match=r"'c'.*move"):
        dn.parse_robot(SHAKY.format(links=links, reach=reach))
