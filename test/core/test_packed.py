"""What limbs have in common side by side: the same results, and how much goes together."""

import numpy as np
import pytest
from generic_chains import chain
from mirrored import two_limbs
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


MIRRORED = {
    "generic": {},
    "right angles": {"square": True},
    "a coarse angle": {"square": True, "coarse": True},
    "a longer limb": {"longer": 1},
}


def program_of(robot, problem):
    """The one that is compiled."""
    return cheapest(dynamics_programs(robot, PROBLEMS[problem](robot)))[1]


NAMES = [*MIRRORED, "solo12", "go2", "baxter", "quadruped", "humanoid", "five_bar", "differential"]


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("name", NAMES)
def test_results_are_those_of_the_program(name, problem):
    robot = robot_of(name)
    random = np.random.default_rng(3)
    program = program_of(robot, problem)
    staged = vectorize(program, isomorphic_inputs(robot, program))
    state = {n: random.uniform(-1, 1, (4, *shape)) for n, shape in program.inputs.items()}
    expected, found = interpret(program, **state), interpret(staged, **state)
    assert list(found) == list(expected) and staged.limits == program.limits
    for output, values in expected.items():
        np.testing.assert_allclose(found[output], values, rtol=1e-9, atol=1e-12 * np.abs(values).max())


@pytest.mark.parametrize(
    ("name", "problem", "most"),
    [
        ("talos", "inverse", 0.6),
        ("solo12", "inverse", 0.35),
        ("solo12", "forward", 0.4),
        ("quadruped", "forward", 0.3),
        ("humanoid", "inverse", 0.56),
        ("anymal_c", "inverse", 0.45),
        ("generic", "inverse", 0.6),
        ("a coarse angle", "inverse", 0.6),
    ],
)
def test_operations_that_are_left(name, problem, most):
    """Beside those of the Program."""
    robot = robot_of(name)
    program = program_of(robot, problem)
    staged = vectorize(program, isomorphic_inputs(robot, program))
    assert staged.length <= most * program.length
    assert {stage.lanes for stage in staged.stages} <= {1, 2, 4}


def test_joints_go_together_by_their_names():
    """Of a humanoid: what is called left and right, or by the number of the leg."""
    robot = ROBOTS["talos"].model()
    program = program_of(robot, "inverse")
    start = robot.nq  # qd is the second input
    names = [
        robot.v_names[n - start]
        for row in isomorphic_inputs(robot, program)
        for n in row
        if 0 <= n - start < robot.nv
    ]
    pairs = set(zip(names[::2], names[1::2], strict=True))
    assert len(pairs) == 14 and {b.replace("right", "left") for _, b in pairs} == {a for a, _ in pairs}


@pytest.mark.parametrize("robot", [chain(8), ROBOTS["panda7"].model])
def test_a_robot_without_limbs(robot):
    robot = robot() if callable(robot) else robot
    program = program_of(robot, "forward")
    assert isomorphic_inputs(robot, program) == [] and vectorize(program, []) is None


def staged(function, **inputs):
    """The Program of a function of x (2, n), whose rows are lanes, and s; packed; and both at a state."""
    program = trace(function, inputs)
    (lanes, size) = inputs["x"]
    rows = np.arange(lanes * size).reshape(lanes, size).T.tolist()
    found, random = vectorize(program, map(tuple, rows)), np.random.default_rng(1)
    state = {name: random.uniform(0.5, 1.5, shape) for name, shape in inputs.items()}
    if found is not None:
        for name, values in interpret(program, **state).items():
            np.testing.assert_allclose(interpret(found, **state)[name], values, rtol=1e-14)
    return program, found


def test_random_programs():
    """Whatever goes together, and in whatever order stages come: the same results."""
    vectors = 0
    for seed in range(150):
        program, rows = nearly_alike(seed)
        found, random = vectorize(program, rows), np.random.default_rng(seed)
        state = {name: random.uniform(0.3, 1.2, shape) for name, shape in program.inputs.items()}
        vectors += found is not None
        for name, values in interpret(found or program, **state).items():
            expected = interpret(program, **state)[name]
            np.testing.assert_allclose(values, expected, rtol=1e-9, atol=1e-12 * np.abs(expected).max())
    assert vectors > 100


def sizes(of):
    return [(stage.lanes, len(stage.program.ops)) for stage in of.stages]


def test_constants_and_what_lanes_share():
    _, found = staged(lambda x, s: {"y": (x[:, 0] * [2.0, 3.0] + s) * x[:, 1]}, x=(2, 2), s=())
    assert sizes(found) == [(2, 3)]


def test_what_lanes_read_may_be_different():
    """An input for the one, a computed value for the other."""
    _, found = staged(lambda x, s: {"y": x[:, 0] * [s[0], s[1] * s[2]] + x[:, 1]}, x=(2, 2), s=(3,))
    assert sizes(found) == [(1, 1), (2, 2)]


def test_signs_that_differ():
    """Products take any sign, and so do constants: a b - 2 c beside 2 c' - a' b' is one operation each; where
    sums of inputs differ one is turned."""

    def mirrored(x, s):
        a, b = x
        return {"y": [a[0] * a[1] - 2.0 * a[2], 2.0 * b[2] - b[0] * b[1]], "z": [s + a[0] * a[1]]}

    _, found = staged(mirrored, x=(2, 3), s=())
    assert {lanes for lanes, _ in sizes(found)} == {1, 2}
    _, found = staged(lambda x, s: {"y": [(x[0, 0] + x[0, 1]) * s, (x[1, 0] - x[1, 1]) * s]}, x=(2, 2), s=())
    assert sizes(found) == [(2, 3)]


def test_a_difference_and_its_negative_are_one():
    program, found = staged(lambda x: {"y": [x[0, 0] - x[0, 1], x[1, 1] - x[1, 0], -x[0, 0]]}, x=(2, 2))
    assert len(program.ops) == 3 and found.op_count()["add"] == 2


def test_a_term_that_one_lane_lacks():
    """It is added times zero."""

    def function(x):
        a, b = x
        return {"y": [a[0] * a[1] * a[2], b[0] * (b[1] + 1e-9 * b[3]) * b[2], a[3] + b[3]]}

    _, found = staged(function, x=(2, 4))
    assert sizes(found)[-1][0] == 2 or sizes(found)[0][0] == 2
    assert found.length <= 6


def test_a_term_that_would_need_itself():
    """What is to be added to the first lane comes of what needs it: nothing goes together."""

    def function(a, b):
        u = a[0] * a[1]
        shared = u + u * u
        other = b[0] * (b[1] + 0.5 * (b[2] * shared))
        return {"y": np.array([a[2] * shared, other])}

    program = trace(lambda x: function(*x), {"x": (2, 3)})
    assert vectorize(program, [(0, 3), (1, 4), (2, 5)]) is None


def test_sines_are_computed_alone_and_read_side_by_side():
    _, found = staged(lambda x: {"y": np.sin(x[:, 0]) * x[:, 1] + np.cos(x[:, 0] + 0.5)}, x=(4, 2))
    assert sizes(found) == [(1, 8), (4, 2)]


@pytest.fixture
def taken(monkeypatch):
    """Compiled quickly, whatever is measured."""
    monkeypatch.setattr(kernel, "QUICK", 20_000)
    monkeypatch.setattr(
        tuning, "fastest", lambda trials: "side by side" if "side by side" in trials else "fused"
    )


@pytest.mark.usefixtures("taken")
@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("name", ["solo12", "generic", "a coarse angle"])
def test_compiled(name, problem):
    robot = robot_of(name)
    solver = dn.build(robot, PROBLEMS[problem](robot), backend="c")
    q, qd, u, _ = random_states(robot, 6, seed=2)
    program = solver.runner.program
    given = dict(zip(program.inputs, (q, qd, u, robot.gravity), strict=True))
    (expected,) = interpret(program, **given).values()
    one = [solver(*state) for state in zip(q, qd, u, strict=True)]
    assert error(np.array(one), expected).max() <= 1e-12
    assert error(solver(q, qd, u), expected).max() <= 1e-12


@pytest.mark.usefixtures("taken")
def test_loops_compiled():
    """Of a robot whose limbs have loops: with health, and angles that follow from others."""
    robot = robot_of("quadruped")
    program = program_of(robot, "forward")
    random = np.random.default_rng(4)
    state = [random.uniform(-0.3, 0.3, (5, *shape)) for shape in program.inputs.values()]
    meant = interpret(program, **dict(zip(program.inputs, state, strict=True)))
    compiled = Kernel(program, isomorphic_inputs=isomorphic_inputs(robot, program))
    x = np.ascontiguousarray(np.hstack([array.reshape(5, -1) for array in state]))
    y = np.empty((5, sum(numbers.size for numbers in program.outputs.values())))
    compiled.run(x, y)
    expected = np.hstack([values.reshape(5, -1) for values in meant.values()])
    np.testing.assert_allclose(y, expected, rtol=1e-9, atol=1e-11 * np.abs(expected).max())


@pytest.mark.usefixtures("taken")
@pytest.mark.parametrize("count", [1, 100])
def test_float32(count):
    """A state side by side, and many the way of all batches."""
    robot = robot_of("solo12")
    fine, rough = (
        dn.build(robot, dn.inverse_dynamics(robot), backend="c", precision=p) for p in ("float64", "float32")
    )
    state = random_states(robot, count, seed=5)[:3]
    found = rough(*(array.astype(np.float32) for array in state))
    assert found.dtype == np.float32 and error(found, fine(*state)).max() <= 1e-4


@pytest.mark.usefixtures("own_cache")
def test_what_was_measured_is_noted(monkeypatch, taken):
    """Another process packs nothing."""
    robot = robot_of("right angles")
    program = program_of(robot, "inverse")
    first = Kernel(program, isomorphic_inputs=isomorphic_inputs(robot, program))
    monkeypatch.setattr(kernel, "vectorize", None)
    monkeypatch.setattr(tuning, "fastest", None)
    assert Kernel(program, isomorphic_inputs=isomorphic_inputs(robot, program)).key == first.key


@pytest.mark.usefixtures("own_cache", "taken")
def test_where_nothing_goes_together_it_is_compiled_as_it_is():
    def function(x):
        first, second = x
        for _ in range(60):
            first, second = 1.0 / (first + 2.0), second * second - 0.5
        return {"y": np.array([first, second])}

    program, rows = trace(function, {"x": (2,)}), [(0, 1)]
    assert vectorize(program, rows) is None
    x = np.random.default_rng(0).uniform(-1, 1, (3, 2))
    (found,), good = Kernel(program, isomorphic_inputs=rows)(3, x)
    assert good and np.abs(found - interpret(program, x=x)["y"]).max() <= 1e-12
