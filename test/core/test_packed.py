"""Vectorized operations of similar limbs: the same results, and the reduction of operations."""

import numpy as np
import pytest
from mirrored import two_limbs
from parallel_robots import chain
from random_lanes import nearly_alike
from robots import ROBOTS, random_states
from tolerances import error

import dynamics_node as dn
from dynamics_demo.robots import ROBOTS as LINKAGES
from dynamics_node.algorithms import cheapest, dynamics_programs, isomorphic_inputs
from dynamics_node.codegen.c import Kernel, kernel
from dynamics_node.codegen.c import compiler as tuning
from dynamics_node.symbolic import interpret, trace, vectorize

PROBLEMS = {"inverse": dn.inverse_dynamics, "forward": dn.forward_dynamics}


def robot_of(name):
    if name in MIRRORED:
        return two_limbs(4, **MIRRORED[name])
    return dn.parse_robot(LINKAGES[name]()) if name in LINKAGES else ROBOTS[name].model()


MIRRORED = {"generic": {}, "right angles": {"square": True}, "a longer limb": {"longer": 1}}


def program_of(robot, problem):
    """The Program that `build` compiles."""
    return cheapest(dynamics_programs(robot, PROBLEMS[problem](robot)))[1]


NAMES = [*MIRRORED, "solo12", "go2", "baxter", "quadruped", "humanoid", "five_bar", "differential"]


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("name", NAMES)
def test_vectorized_program_gives_the_same_results(name, problem):
    robot = robot_of(name)
    random = np.random.default_rng(3)
    program = program_of(robot, problem)
    staged = vectorize(program, isomorphic_inputs(robot, program))
    state = {n: random.uniform(-1, 1, (4, *shape)) for n, shape in program.inputs.items()}
    expected, results = interpret(program, **state), interpret(staged, **state)
    assert list(results) == list(expected) and staged.limits == program.limits
    for output, values in expected.items():
        np.testing.assert_allclose(results[output], values, rtol=1e-9, atol=1e-12 * np.abs(values).max())


@pytest.mark.parametrize(
    ("name", "problem", "ratio"),
    [
        ("talos", "inverse", 0.61),
        ("solo12", "inverse", 0.37),
        ("solo12", "forward", 0.4),
        ("quadruped", "forward", 0.3),
        ("humanoid", "inverse", 0.56),
        ("anymal_c", "inverse", 0.39),
        ("hyq", "forward", 0.39),
        ("generic", "inverse", 0.64),
    ],
)
def test_vectorization_reduces_operations(name, problem, ratio):
    """The number of vector operations relative to the Program's operations."""
    robot = robot_of(name)
    program = program_of(robot, problem)
    staged = vectorize(program, isomorphic_inputs(robot, program))
    assert staged.length <= ratio * program.length
    assert {stage.lanes for stage in staged.stages} <= {1, 2, 4}


def test_joints_are_paired_by_name():
    """Lanes of a humanoid are joints with "left" and "right" in their names."""
    robot = ROBOTS["talos"].model()
    program = program_of(robot, "inverse")
    start = robot.nq  # qd is the second input
    numbers = [n - start for row in isomorphic_inputs(robot, program) for n in row]
    names = [robot.v_names[n] for n in numbers if 0 <= n < robot.nv]
    pairs = set(zip(names[::2], names[1::2], strict=True))
    assert len(pairs) == 14 and {b.replace("right", "left") for _, b in pairs} == {a for a, _ in pairs}


@pytest.mark.parametrize("robot", [chain(8), ROBOTS["panda7"].model])
def test_robot_without_limbs_is_not_vectorized(robot):
    robot = robot() if callable(robot) else robot
    program = program_of(robot, "forward")
    assert isomorphic_inputs(robot, program) == [] and vectorize(program, []) is None


def staged(function, **inputs):
    """The Program of a function of x (lanes, n) and s, and its vectorized form; checks that both agree."""
    program = trace(function, inputs)
    (lanes, size) = inputs["x"]
    rows = np.arange(lanes * size).reshape(lanes, size).T.tolist()
    packed, random = vectorize(program, map(tuple, rows)), np.random.default_rng(1)
    state = {name: random.uniform(0.5, 1.5, shape) for name, shape in inputs.items()}
    if packed is not None:
        for name, values in interpret(program, **state).items():
            np.testing.assert_allclose(interpret(packed, **state)[name], values, rtol=1e-14)
    return program, packed


def test_random_programs_give_the_same_results():
    """Results do not depend on which operations are vectorized, nor on the order of stages."""
    vectors = 0
    for seed in range(150):
        program, rows = nearly_alike(seed)
        packed, random = vectorize(program, rows), np.random.default_rng(seed)
        state = {name: random.uniform(0.3, 1.2, shape) for name, shape in program.inputs.items()}
        vectors += packed is not None
        for name, values in interpret(packed or program, **state).items():
            expected = interpret(program, **state)[name]
            np.testing.assert_allclose(values, expected, rtol=1e-9, atol=1e-12 * np.abs(expected).max())
    assert vectors > 100


def sizes(of):
    return [(stage.lanes, len(stage.program.ops)) for stage in of.stages]


def test_lanes_differ_in_constants_and_share_inputs():
    _, packed = staged(lambda x, s: {"y": (x[:, 0] * [2.0, 3.0] + s) * x[:, 1]}, x=(2, 2), s=())
    assert sizes(packed) == [(2, 3)]


def test_lanes_read_inputs_and_computed_values():
    """One lane reads an input, the other a computed value."""
    _, packed = staged(lambda x, s: {"y": x[:, 0] * [s[0], s[1] * s[2]] + x[:, 1]}, x=(2, 2), s=(3,))
    assert sizes(packed) == [(1, 1), (2, 2)]


def test_lanes_may_differ_in_signs():
    """Products and constants take any sign, so a b - 2 c and 2 c' - a' b' need the same operations; sums of inputs with
    different signs need one negation."""

    def mirrored(x, s):
        a, b = x
        return {"y": [a[0] * a[1] - 2.0 * a[2], 2.0 * b[2] - b[0] * b[1]], "z": [s + a[0] * a[1]]}

    _, packed = staged(mirrored, x=(2, 3), s=())
    assert {lanes for lanes, _ in sizes(packed)} == {1, 2}
    _, packed = staged(lambda x, s: {"y": [(x[0, 0] + x[0, 1]) * s, (x[1, 0] - x[1, 1]) * s]}, x=(2, 2), s=())
    assert sizes(packed) == [(2, 3)]


def test_difference_and_its_negative_are_one_operation():
    program, packed = staged(lambda x: {"y": [x[0, 0] - x[0, 1], x[1, 1] - x[1, 0], -x[0, 0]]}, x=(2, 2))
    assert len(program.ops) == 3 and packed.op_count()["add"] == 2


def test_sines_are_scalar_and_read_by_lanes():
    _, packed = staged(lambda x: {"y": np.sin(x[:, 0]) * x[:, 1] + np.cos(x[:, 0] + 0.5)}, x=(4, 2))
    assert sizes(packed) == [(1, 8), (4, 2)]


@pytest.fixture
def vectorized_variant(monkeypatch):
    """The vectorized variant wins every timing."""
    monkeypatch.setattr(kernel, "QUICK", 20_000)
    monkeypatch.setattr(tuning, "fastest", lambda trials: "side by side")


@pytest.mark.usefixtures("vectorized_variant")
@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("name", ["solo12", "generic", "right angles"])
def test_compiled_lanes_give_the_same_results(name, problem):
    robot = robot_of(name)
    solver = dn.build(robot, PROBLEMS[problem](robot), backend="c")
    q, qd, u, _ = random_states(robot, 6, seed=2)
    program = solver.runner.program
    given = dict(zip(program.inputs, (q, qd, u, robot.gravity), strict=True))
    (expected,) = interpret(program, **given).values()
    single = [solver(*state) for state in zip(q, qd, u, strict=True)]
    assert error(np.array(single), expected).max() <= 1e-12
    assert error(solver(q, qd, u), expected).max() <= 1e-12


@pytest.mark.usefixtures("vectorized_variant")
def test_compiled_lanes_of_loops_give_the_same_results():
    """Limbs with loops: results include health, and dependent angles."""
    robot = robot_of("quadruped")
    program = program_of(robot, "forward")
    random = np.random.default_rng(4)
    state = [random.uniform(-0.3, 0.3, (5, *shape)) for shape in program.inputs.values()]
    interpreted = interpret(program, **dict(zip(program.inputs, state, strict=True)))
    compiled = Kernel(program, isomorphic_inputs=isomorphic_inputs(robot, program))
    x = np.ascontiguousarray(np.hstack([array.reshape(5, -1) for array in state]))
    y = np.empty((5, sum(numbers.size for numbers in program.outputs.values())))
    compiled.run(x, y)
    expected = np.hstack([values.reshape(5, -1) for values in interpreted.values()])
    np.testing.assert_allclose(y, expected, rtol=1e-9, atol=1e-11 * np.abs(expected).max())


@pytest.mark.usefixtures("vectorized_variant")
@pytest.mark.parametrize("count", [1, 100])
def test_lanes_in_float32(count):
    """One state runs vectorized, many as an ordinary batch."""
    robot = robot_of("solo12")
    fine, rough = (
        dn.build(robot, dn.inverse_dynamics(robot), backend="c", precision=p) for p in ("float64", "float32")
    )
    state = random_states(robot, count, seed=5)[:3]
    results = rough(*(array.astype(np.float32) for array in state))
    assert results.dtype == np.float32 and error(results, fine(*state)).max() <= 1e-4


@pytest.mark.usefixtures("own_cache")
def test_choice_is_cached(monkeypatch, vectorized_variant):
    """Another process does not vectorize again."""
    robot = robot_of("right angles")
    program = program_of(robot, "inverse")
    first = Kernel(program, isomorphic_inputs=isomorphic_inputs(robot, program))
    monkeypatch.setattr(kernel, "vectorize", None)
    monkeypatch.setattr(tuning, "fastest", None)
    assert Kernel(program, isomorphic_inputs=isomorphic_inputs(robot, program)).key == first.key


@pytest.mark.usefixtures("own_cache", "vectorized_variant")
def test_program_without_similar_lanes_is_compiled_unchanged():
    def function(x):
        first, second = x
        for _ in range(60):
            first, second = 1.0 / (first + 2.0), second * second - 0.5
        return {"y": np.array([first, second])}

    program, rows = trace(function, {"x": (2,)}), [(0, 1)]
    assert vectorize(program, rows) is None
    x = np.random.default_rng(0).uniform(-1, 1, (3, 2))
    (results,), good = Kernel(program, isomorphic_inputs=rows)(3, x)
    assert good and np.abs(results - interpret(program, x=x)["y"]).max() <= 1e-12
