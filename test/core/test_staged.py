"""LanePrograms: interpreted, flattened and compiled."""

from typing import NamedTuple

import numpy as np
import pytest
from compiled import in_vectors_of_two
from robots import ROBOTS, random_states
from tolerances import error

import dynamics_node as dn
from dynamics_node.algorithms import derivative_program, parameter_values
from dynamics_node.algorithms.solution_by_branches import BranchSolver
from dynamics_node.codegen.c import BATCH, BatchKernel, CRunner, Kernel
from dynamics_node.codegen.c.render import ABOVE_CACHES, in_straight_lines
from dynamics_node.errors import ProgramError
from dynamics_node.robot.inertial_parameters import PARAMETERS
from dynamics_node.symbolic import LaneProgram, Stage, Staging, flattened, interpret
from dynamics_node.symbolic.program import Program


class Pair(NamedTuple):
    """Two arrays."""

    first: np.ndarray
    second: np.ndarray


def rotated_pair(x, angle):
    """A Pair made of x (..., 3), and a sine."""
    return Pair(x * np.cos(angle), x - 0.5), np.sin(angle)


def weighted(pair, weights, both):
    return pair.first * weights[0] + both * pair.second[..., ::-1], pair.first / (
        2.0 + weights[1] * weights[1]
    )


def total(*arrays):
    return sum(array.sum() for array in arrays)


CONSTANTS = np.arange(10.0).reshape(5, 2) * [1.0, 0.0] + [0.5, 3.0]  # the second is the same on all lanes


def expected_results(x, angle, order=(4, 2, 0, 1, 3)):
    """The results of `stages` by NumPy: x (5, 3), angle (2,)."""
    pair, sine = rotated_pair(x[:2], angle[0])
    seconds = np.concatenate([pair.second, x[2:]])
    firsts = np.concatenate([pair.first, x[2:] * 0.0])
    pairs = [weighted(Pair(f, s), c, sine) for f, s, c in zip(firsts, seconds, CONSTANTS, strict=True)]
    sums = np.array([f for f, _ in pairs])[list(order)]
    last = np.array([f * angle[1] + s for f, s in zip(sums, seconds, strict=True)])
    return {"y": last, "z": np.array([total(*last), sine, 7.0]), "w": sums[1:4, 2]}


def stages(order=(4, 2, 0, 1, 3)) -> LaneProgram:
    """Stages on one lane, on five, on five in another order, and on one; lanes read inputs, results and constants."""
    staging = Staging({"x": (5, 3), "angle": (2,)})
    x, angle = staging.arrays["x"], staging.arrays["angle"]
    pair, sine = staging.alone(rotated_pair, x[:2], angle[0])
    seconds = np.concatenate([pair.second, x[2:]])
    firsts = np.concatenate([pair.first, np.zeros((3, 3))])
    sums, _ = staging.side_by_side(weighted, Pair(firsts, seconds), CONSTANTS, shared=(sine,))
    sums = sums[list(order)]
    last = staging.side_by_side(lambda f, s, a: f * a + s, sums, seconds, shared=(angle[1],))
    whole = staging.alone(total, *last)
    return staging.finish({"y": last, "z": np.array([whole, sine, 7.0]), "w": sums[1:4, 2]})


@pytest.fixture(scope="module")
def given():
    random = np.random.default_rng(0)
    return {"x": random.uniform(-1, 1, (6, 5, 3)), "angle": random.uniform(-1, 1, (6, 2))}


def right(given):
    rows = [expected_results(x, angle) for x, angle in zip(given["x"], given["angle"], strict=True)]
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def test_interpreted_stages_agree_with_numpy(given):
    staged = stages()
    assert [stage.lanes for stage in staged.stages] == [1, 5, 5, 1]
    assert len(staged.stages[0].results) < staged.length < sum(staged.op_count().values())
    for program in (staged, flattened(staged)):
        results = interpret(program, **given)
        for name, array in right(given).items():
            assert np.abs(results[name] - array).max() <= 1e-14
    single = interpret(staged, x=given["x"][0], angle=given["angle"][0])
    assert single["y"].shape == (5, 3) and np.array_equal(single["y"], interpret(staged, **given)["y"][0])


@pytest.mark.parametrize("wide", [True, False])
def test_compiled_stages_agree_with_numpy(given, monkeypatch, wide):
    """States in sequence in the same memory, with vectors of this processor or of two numbers."""
    if not wide:
        in_vectors_of_two(monkeypatch)
    outputs, good = Kernel(stages())(6, given["x"], given["angle"])
    assert good
    for array, expected in zip(outputs, right(given).values(), strict=True):
        assert np.abs(array - expected).max() <= 1e-14


def test_digest_depends_on_the_order_of_lanes():
    assert stages().digest() == stages().digest() != stages((0, 1, 2, 3, 4)).digest()


def test_stage_that_reads_undefined_values_raises_an_error():
    program = Program({"x": (1,)}, np.array([2.0]), *np.array([[2], [0], [1]]), {"y": np.array([2])})
    with pytest.raises(ProgramError, match="reads"):
        LaneProgram({"x": (1,)}, np.zeros(0), (Stage(program, np.array([[1]])),), {"y": np.array([1])})
    with pytest.raises(ProgramError, match="output"):
        LaneProgram({"x": (1,)}, np.zeros(0), (Stage(program, np.array([[0]])),), {"y": np.array([2])})


@pytest.mark.parametrize("name", ["panda", "double_pendulum"])
def test_compiled_derivatives_agree_with_the_interpreter(name):
    """A robot with a mimic joint, runtime inertias and wrenches; and a small one."""
    model = ROBOTS[name].model()
    q, qd, u, f_ext = random_states(model, 4, seed=3)
    arrays = {"q": q, "qd": qd, "qdd": u, "tau": u, "f_ext": f_ext, "gravity": model.gravity}
    arrays |= parameter_values(model)
    for problem in (dn.inverse_dynamics(model), dn.hybrid_dynamics(model, model.joint_names[:1])):
        program = derivative_program(model, problem, wrenches=True, parameters=PARAMETERS)
        state = [arrays[n] for n in program.inputs]
        outputs, good = Kernel(program)(4, *state)
        interpreted = interpret(program, **{n: arrays[n] for n in program.inputs})
        assert good
        for output, expected in zip(outputs, interpreted.values(), strict=True):
            assert error(output, expected, tail=2).max() <= 1e-10


PARENTS = [-1, 0, 1, 2, 1, 4, 5, 5, -1]  # coordinates that fork twice, and one alone
_PATHS = [[]]  # by coordinate + 1: from the root to it
for _k, _parent in enumerate(PARENTS):
    _PATHS.append([*_PATHS[_parent + 1], _k])


def test_solutions_by_branches_agree_with_numpy():
    """Columns take part where they are not zero, and the results are those of a dense solution."""
    n, random = len(PARENTS), np.random.default_rng(5)
    related = np.zeros((n, n), dtype=bool)
    for k, path in enumerate(_PATHS[1:]):
        related[k, path] = related[path, k] = True
    A = np.where(related, random.uniform(-1, 1, (n, n)), 0.0)
    numbers = {"M": A + A.T + 8.0 * np.eye(n), "R": random.uniform(-1, 1, (n, n))}
    staging = Staging({"M": (n, n), "R": (n, n)})
    M, R = (np.where(related, staging.arrays[name], 0.0) for name in ("M", "R"))
    right = np.concatenate([R, np.eye(n)], axis=1)
    X = BranchSolver(staging, M).solutions(right)
    program = staging.finish({"X": X})
    expected = np.linalg.solve(numbers["M"], -np.hstack([np.where(related, numbers["R"], 0.0), np.eye(n)]))
    for form in (program, flattened(program)):
        assert np.abs(interpret(form, **numbers)["X"] - expected).max() <= 1e-13
    lanes = [stage.lanes for stage in program.stages if stage.lanes > 1]
    assert lanes[0] == 2  # branches 6 and 7 are factored side by side
    assert lanes[1:7] == [2, 6, 6, 10, 6, 16]  # columns of branches 8, 7, 6, 4 and 5, 2 and 3, 0 and 1


def test_many_results_are_written_in_place():
    """Also over an input, where the state is a copy before; of a bad state nothing is reported as solved."""
    staging = Staging({"x": (30, 20)})
    x = staging.arrays["x"]
    kernel = Kernel(staging.finish({"y": staging.side_by_side(lambda a: a * a, x), "z": x[:1]}))
    given = np.random.default_rng(6).uniform(-1, 1, (30, 20))
    y, z = np.empty((30, 20)), np.empty((1, 20))
    assert kernel.call_one(given, y, z) is None
    assert np.array_equal(y, given**2) and np.array_equal(z, given[:1])
    memory = np.empty(1000)
    over, first = memory[:600].reshape(30, 20), memory[7:607].reshape(30, 20)
    for places in ((first, z), (y, memory[595:615].reshape(1, 20))):
        over[:] = given
        assert kernel.call_one(over, *places) is None
        assert np.array_equal(places[0], given**2) and np.array_equal(places[1], given[:1])
    given[29, 19] = 1e200  # its square is not finite
    assert kernel.call_one(given, y, z) is False and np.isnan(kernel(1, given[None])[0][0]).all()
    given[0, 0] = np.nan
    assert kernel.call_one(given, y, z) is False


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_many_states_of_a_long_program(monkeypatch, dtype):
    """Loops over lanes for vectors of states, on several threads."""
    model = ROBOTS["panda7"].model()
    program = derivative_program(model, dn.inverse_dynamics(model))
    assert in_straight_lines(program)
    monkeypatch.setattr("dynamics_node.codegen.c.render.STRAIGHT", 100)
    monkeypatch.setattr("dynamics_node.codegen.c.batch_kernel.threads_worth", lambda operations, most: 3)
    runner = CRunner(program)
    q, qd, qdd, _ = (array.astype(dtype) for array in random_states(model, 2 * BATCH + 5, seed=4))
    state = (q, qd, qdd, model.gravity)
    outputs, good = runner.run_checked(len(q), state, np.dtype(dtype))
    assert good and isinstance(runner.batches[np.dtype(dtype)].program, LaneProgram)
    for array, rows in zip(outputs, packed_rows(runner, state), strict=True):
        assert array.dtype == dtype and error(array, rows, tail=2).max() <= 1e4 * np.finfo(dtype).eps


@pytest.mark.parametrize("lanes", [10, 7])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_results_of_many_states_in_stages(lanes, dtype):
    """Rows of 4 and 2 numbers a lane, in the caches and past them, in arrays that begin anywhere; a bad state
    is found wherever it is."""
    staging = Staging({"x": (lanes, 4), "a": ()})
    x, a = staging.arrays["x"], staging.arrays["a"]
    y = staging.side_by_side(lambda own, a: own * a, x, shared=(a,))
    first = staging.alone(lambda sums: np.array([sums[0].sum(), 3.0 * sums[0, 0]]), y)
    results = {"y": y} if lanes == 10 else {"y": y[:, :2], "z": np.concatenate([first, [0.0]])}
    batch = BatchKernel(staging.finish(results), dtype)
    random, itemsize = np.random.default_rng(7), np.dtype(dtype).itemsize
    for count in (1, BATCH + 3, ABOVE_CACHES // (lanes * itemsize) + 3):
        given = random.uniform(-1, 1, (count, lanes, 4)).astype(dtype)
        right = [given * dtype(2.0)]
        if lanes == 7:
            sums = right[0][:, 0]
            right = [right[0][:, :, :2], np.stack([sums.sum(axis=1), 3 * sums[:, 0], 0 * sums[:, 0]], axis=1)]
        for shift in (0, 1, 2):
            memory = [np.full(array.size + 4, -7.0, dtype) for array in right]
            out = [m[shift : shift + r.size].reshape(r.shape) for m, r in zip(memory, right, strict=True)]
            assert batch.quick(count, given, np.array(2.0, dtype), out=out) is not None
            for array, expected, around in zip(out, right, memory, strict=True):
                assert np.abs(array - expected).max() <= 8 * np.finfo(dtype).eps
                assert np.all(around[:shift] == -7.0) and np.all(around[shift + array.size :] == -7.0)
        for place in ((0, 0, 0), (-1, -1, 1)):
            for bad in (np.nan, np.finfo(dtype).max):  # twice the largest number is infinite
                given[place] = bad
                assert batch.quick(count, given, np.array(2.0, dtype)) is None
            given[place] = 0.5


def packed_rows(runner, state):
    """Results of one call per state."""
    *differ, gravity = state
    outputs = [runner.kernel(1, *(a[k : k + 1] for a in differ), gravity)[0] for k in range(len(differ[0]))]
    return [np.concatenate(arrays) for arrays in zip(*outputs, strict=True)]
