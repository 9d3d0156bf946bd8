"""Programs in stages: what they mean, as straight lines, and compiled."""

from typing import NamedTuple

import numpy as np
import pytest
from robots import ROBOTS, random_states
from tolerances import error

import dynamics_node as dn
from dynamics_node.algorithms import derivative_program, parameter_values
from dynamics_node.codegen.c import BATCH, CRunner, Kernel, kernel
from dynamics_node.codegen.c.render import is_for_vectors
from dynamics_node.robot.inertial_parameters import PARAMETERS
from dynamics_node.symbolic import LaneProgram, ProgramError, Stage, Staging, flattened, interpret
from dynamics_node.symbolic.program import Program


class Pair(NamedTuple):
    """Two arrays."""

    first: np.ndarray
    second: np.ndarray


def turned(x, angle):
    """A Pair of x (..., 3) and what is left of it, and a sine as it is."""
    return Pair(x * np.cos(angle), x - 0.5), np.sin(angle)


def weighed(pair, weights, both):
    return pair.first * weights[0] + both * pair.second[..., ::-1], pair.first / (
        2.0 + weights[1] * weights[1]
    )


def total(*arrays):
    return sum(array.sum() for array in arrays)


CONSTANTS = np.arange(10.0).reshape(5, 2) * [1.0, 0.0] + [0.5, 3.0]  # of the second all lanes agree


def meant(x, angle, order=(4, 2, 0, 1, 3)):
    """What `stages` computes, by NumPy: x (5, 3), angle (2,)."""
    pair, sine = turned(x[:2], angle[0])
    left = np.concatenate([pair.second, x[2:]])
    first = np.concatenate([pair.first, x[2:] * 0.0])
    found = [weighed(Pair(f, s), c, sine) for f, s, c in zip(first, left, CONSTANTS, strict=True)]
    sums = np.array([f for f, _ in found])[list(order)]
    last = np.array([f * angle[1] + s for f, s in zip(sums, left, strict=True)])
    return {"y": last, "z": np.array([total(*last), sine, 7.0]), "w": sums[1:4, 2]}


def stages(order=(4, 2, 0, 1, 3)) -> LaneProgram:
    """Alone, on five lanes, on five in another order, alone; what lanes read is mixed of all there is."""
    staging = Staging({"x": (5, 3), "angle": (2,)})
    x, angle = staging.arrays["x"], staging.arrays["angle"]
    pair, sine = staging.alone(turned, x[:2], angle[0])
    left = np.concatenate([pair.second, x[2:]])
    first = np.concatenate([pair.first, np.zeros((3, 3))])
    sums, _ = staging.side_by_side(weighed, Pair(first, left), CONSTANTS, shared=(sine,))
    sums = sums[list(order)]
    last = staging.side_by_side(lambda f, s, a: f * a + s, sums, left, shared=(angle[1],))
    whole = staging.alone(total, *last)
    return staging.finish({"y": last, "z": np.array([whole, sine, 7.0]), "w": sums[1:4, 2]})


@pytest.fixture(scope="module")
def given():
    random = np.random.default_rng(0)
    return {"x": random.uniform(-1, 1, (6, 5, 3)), "angle": random.uniform(-1, 1, (6, 2))}


def right(given):
    rows = [meant(x, angle) for x, angle in zip(given["x"], given["angle"], strict=True)]
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def test_what_it_means(given):
    staged = stages()
    assert [stage.lanes for stage in staged.stages] == [1, 5, 5, 1]
    assert len(staged.stages[0].results) < staged.length < sum(staged.op_count().values())
    for program in (staged, flattened(staged)):
        found = interpret(program, **given)
        for name, array in right(given).items():
            assert np.abs(found[name] - array).max() <= 1e-14
    one = interpret(staged, x=given["x"][0], angle=given["angle"][0])
    assert one["y"].shape == (5, 3) and np.array_equal(one["y"], interpret(staged, **given)["y"][0])


@pytest.mark.parametrize("wide", [True, False])
def test_compiled(given, monkeypatch, wide):
    """State after state in the same memory; vectors as wide as there are, or of four."""
    if not wide:
        narrow = kernel.render
        monkeypatch.setattr(kernel, "render", lambda *a: narrow(*a).replace("#ifdef __AVX512F__", "#if 0"))
        monkeypatch.setattr(kernel, "renderer", lambda: "narrow")
    found, good = Kernel(stages())(6, given["x"], given["angle"])
    assert good
    for array, expected in zip(found, right(given).values(), strict=True):
        assert np.abs(array - expected).max() <= 1e-14


def test_a_digest_tells_them_apart():
    assert stages().digest() == stages().digest() != stages((0, 1, 2, 3, 4)).digest()


def test_what_is_not_there_yet():
    program = Program({"x": (1,)}, np.array([2.0]), *np.array([[2], [0], [1]]), {"y": np.array([2])})
    with pytest.raises(ProgramError, match="reads"):
        LaneProgram({"x": (1,)}, np.zeros(0), (Stage(program, np.array([[1]])),), {"y": np.array([1])})
    with pytest.raises(ProgramError, match="output"):
        LaneProgram({"x": (1,)}, np.zeros(0), (Stage(program, np.array([[0]])),), {"y": np.array([2])})


@pytest.mark.parametrize("name", ["panda", "double_pendulum"])
def test_derivatives_compiled(name):
    """Of a robot with a joint that mimics another one, loads and wrenches from outside; and a short one."""
    model = ROBOTS[name].model()
    q, qd, u, f_ext = random_states(model, 4, seed=3)
    arrays = {"q": q, "qd": qd, "qdd": u, "tau": u, "f_ext": f_ext, "gravity": model.gravity}
    arrays |= parameter_values(model)
    for problem in (dn.inverse_dynamics(model), dn.hybrid_dynamics(model, model.joint_names[:1])):
        program = derivative_program(model, problem, wrenches=True, parameters=PARAMETERS)
        state = [arrays[n] for n in program.inputs]
        outputs, good = Kernel(program)(4, *state)
        meant = interpret(program, **{n: arrays[n] for n in program.inputs})
        assert good
        for found, expected in zip(outputs, meant.values(), strict=True):
            assert error(found, expected, tail=2).max() <= 1e-10


def test_many_states_of_a_long_one(monkeypatch):
    """Row by row, by several threads."""
    model = ROBOTS["panda7"].model()
    program = derivative_program(model, dn.inverse_dynamics(model))
    assert is_for_vectors(program)
    monkeypatch.setattr("dynamics_node.codegen.c.render.STRAIGHT", 100)
    monkeypatch.setattr(kernel, "threads_worth", lambda operations: 3)
    runner = CRunner(program)
    q, qd, qdd, _ = random_states(model, 2 * BATCH + 5, seed=4)
    state = (q, qd, qdd, model.gravity)
    found, good = runner.run_checked(len(q), state)
    assert good and not runner.batches
    for array, rows in zip(found, packed_rows(runner, state), strict=True):
        assert np.array_equal(array, rows)


def packed_rows(runner, state):
    """One state after the other."""
    *differ, gravity = state
    found = [runner.kernel(1, *(a[k : k + 1] for a in differ), gravity)[0] for k in range(len(differ[0]))]
    return [np.concatenate(arrays) for arrays in zip(*found, strict=True)]
