"""Programs: tracing, meaning, sharing and folding."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dynamics_node.errors import ProgramError
from dynamics_node.symbolic import Op, Program, interpret, interpret_portable, jacobian, trace


def run(function, **arrays):
    """Result of the traced function, and of the function itself."""
    program = trace(lambda **a: {"y": function(**a)}, {name: np.shape(a) for name, a in arrays.items()})
    return interpret(program, **arrays)["y"], program


def count(function, **shapes):
    return trace(lambda **a: {"y": function(**a)}, shapes).op_count()


def test_single_precision_inputs_are_computed_in_double():
    """Only the arguments have single precision; results have double precision."""
    x = np.array([0.1, 1e4, 3.0], dtype=np.float32)
    result, program = run(lambda x: x[0] + x[1] * x[2] + np.sin(x[2]), x=x)
    np.testing.assert_array_equal(result, interpret(program, x=x.astype(float))["y"])


# --- folding --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "total"),
    [
        (lambda x: x[0] + 0.0, 0),
        (lambda x: x[0] * 1.0, 0),
        (lambda x: x[0] * 0.0, 0),
        (lambda x: x[0] - x[0], 0),
        (lambda x: -(-x[0]), 0),  # noqa: B002
        (lambda x: x[0] * -1.0, 1),
        (lambda x: (x[0] * x[1]) + (x[1] * x[0]), 2),  # one product
        (lambda x: x[0] - (-x[1]), 1),
        (lambda x: x[0] + (-x[1]), 1),
        (lambda x: (-x[0]) * (-x[1]), 1),
        (lambda x: -(x[0] - x[1]), 1),
        (lambda x: x[0] / x[1] + x[1] / x[1] * 0.0, 2),  # reciprocal and product
        (lambda x: x[0] / x[2] + x[1] / x[2], 4),  # one reciprocal
        (lambda x: 0.5 * x[0] + (-0.5) * x[0], 2),  # one product for both signs, then x - x
        (lambda x: x[0] / 4.0, 1),
        (lambda x: (x[0] - x[1]) * (x[1] - x[0]), 3),  # one difference, and the sign of the result
        (lambda x: (x[0] - x[1]) * x[2] + (x[1] - x[0]) * x[1], 4),
        (lambda x: (-x[0]) - x[1] + x[2], 2),  # x[2] - (x[0] + x[1])
        (lambda x: 1.0 / (-x[0]) + 1.0, 2),
        (lambda x: -x[0] + 1.0, 1),
        (lambda x: np.sin(-x[0]) + x[1], 2),
        (lambda x: np.cos(x[0] - math.pi) + x[1], 2),
        (lambda x: np.sin(x[0]) - np.cos(x[0] - math.pi / 2), 0),
        (lambda x: np.sin(0.3 - x[0]) + np.sin(x[0] - 0.3), 0),
        (lambda x: np.cos(0.3 - x[0]) - np.cos(x[0] - 0.3), 0),
    ],
)
def test_folding_and_sharing(function, total):
    program = trace(lambda x: {"y": np.array([function(x)], dtype=object)}, {"x": (3,)})
    x = np.array([1.7, -0.4, 2.3])
    assert interpret(program, x=x)["y"][0] == pytest.approx(function(x), abs=1e-15)
    assert len(program.ops) <= total, program.op_count()


def test_small_constants_count():
    """A moment of inertia may be 1e-16 kg m^2."""
    program = trace(
        lambda x: {"y": np.stack([1e-16 * x[0], x[1] + 1e-18, 1e-20 - x[1], x[0] / 1e17])}, {"x": (2,)}
    )
    y = interpret(program, x=np.array([3.0, 1e-18]))["y"]
    np.testing.assert_allclose(y, [3e-16, 2e-18, -9.9e-19, 3e-17], rtol=1e-14)


@pytest.mark.parametrize("constant", [np.inf, np.nan])
def test_angles_with_constants_that_are_not_finite_are_rejected(constant):
    with pytest.raises(ProgramError, match="not finite"), np.errstate(invalid="ignore"):
        trace(lambda x: {"y": np.sin(x + constant)}, {"x": ()})


def test_dead_operations_are_removed():
    assert sum(count(lambda x: [x[0] + 1.0, np.sin(x)][0] if len(x) else 0, x=(1,)).values()) == 1


def test_op_count_by_kind():
    counts = count(lambda x: np.sin(x) * np.cos(x) - 1.0 / x, x=(2,))
    assert counts == {"add": 2, "mul": 2, "div": 2, "neg": 0, "sin": 2, "cos": 2}


def test_data_dependent_function_raises_an_error():
    with pytest.raises(TypeError, match="data"):
        trace(lambda x: {"y": x if x[0] else -x}, {"x": (2,)})
    with pytest.raises(TypeError, match="data"):
        trace(lambda x: {"y": np.array([float(x[0])])}, {"x": (2,)})


# --- meaning --------------------------------------------------------------------------------------------


def _apply(function, u):
    return function(np.array([u]))[0]


MEANING = {
    "add": lambda u, v, c: u + v,
    "sub": lambda u, v, c: u - v,
    "mul": lambda u, v, c: u * v,
    "div": lambda u, v, c: u / (v * v + 1.0),
    "neg": lambda u, v, c: -u,
    "sin": lambda u, v, c: _apply(np.sin, u),
    "cos": lambda u, v, c: _apply(np.cos, u),
    "constant": lambda u, v, c: u * c + c,
}


@st.composite
def graphs(draw):
    """A random expression graph as a function of an array of three."""
    steps = draw(
        st.lists(
            st.tuples(
                st.sampled_from(sorted(MEANING)),
                st.integers(0, 30),
                st.integers(0, 30),
                st.sampled_from([0.0, 1.0, -1.0, 2.0, -0.5, 6e-17, 3.7]),
            ),
            min_size=1,
            max_size=30,
        )
    )

    def function(x):
        pool = list(x)
        for kind, a, b, c in steps:
            pool.append(MEANING[kind](pool[a % len(pool)], pool[b % len(pool)], c))
        return np.array([*pool[-3:]], dtype=object)

    return function


@settings(max_examples=300, deadline=None)
@given(graphs(), st.lists(st.floats(-2, 2), min_size=3, max_size=3))
def test_random_graphs_agree_with_numpy(function, x):
    x = np.array(x)
    program = trace(lambda x: {"y": function(x)}, {"x": (3,)})
    expected = np.array([float(v) for v in function(x)])
    assert np.allclose(interpret(program, x=x)["y"], expected, rtol=1e-9, atol=1e-9)
    batch = np.stack([x, x[::-1], 0 * x])
    rows = [interpret(program, x=row)["y"] for row in batch]
    assert np.array_equal(interpret(program, x=batch)["y"], rows)


def test_single_states_and_batches_agree_at_singularities():
    """Python floats compute single states, NumPy computes batches."""

    def function(x):
        return {
            "y": np.array([1.0 / x[0], -x[1] / x[0], np.sin(x[0] + 0.3), np.cos(x[1]), x[0] - 2.0 * x[1]])
        }

    program = trace(function, {"x": (2,)})
    special = (0.0, -0.0, np.inf, -np.inf, np.nan, 1e300, 5e-324, -0.7)
    batch = np.array([(a, b) for a in special for b in special])
    together = interpret(program, x=batch)["y"]
    alone = np.array([interpret(program, x=row)["y"] for row in batch])
    assert np.array_equal(alone, together, equal_nan=True)
    assert np.isposinf(together[:8, 0]).all() and np.isneginf(together[8:16, 0]).all()


def test_program_can_be_inlined_with_symbols_and_numbers():
    """Known values fold away; a singular value raises no error if it is unused."""
    inner = trace(lambda x, t: {"y": x * t[0] + x, "z": 1.0 / t}, {"x": (3,), "t": (1,)})
    outer = trace(lambda x: {"y": interpret(inner, x=x, t=np.zeros(1))["y"]}, {"x": (3,)})
    assert outer.op_count() == trace(lambda x: {"y": x}, {"x": (3,)}).op_count()


def test_portable_interpreter_has_the_requested_digits():
    program = trace(lambda x: {"y": np.sin(x) * x - np.cos(x - 0.3) / x}, {"x": (1,)})
    x = np.random.default_rng(5).uniform(1, 300, (4000, 1))
    exact = interpret(program, x=x)["y"]
    assert (np.abs(interpret_portable(program, x=x)["y"] - exact) / x).max() < 1e-15
    errors = np.abs(interpret_portable(program, 30, x=x)["y"] - exact) / x
    assert 2.0**-32 < errors.max() < 2.0**-28


def test_shapes_and_batches():
    rng = np.random.default_rng(0)
    A, x = rng.normal(size=(4, 2, 3, 3)), rng.normal(size=(4, 2, 3))
    program = trace(lambda A, x: {"y": A @ x, "z": A + 1.0}, {"A": (3, 3), "x": (3,)})
    result = interpret(program, A=A, x=x)
    assert np.allclose(result["y"], (A @ x[..., None])[..., 0]) and np.allclose(result["z"], A + 1)


# --- validity, files ------------------------------------------------------------------------------------


def example():
    return trace(lambda x: {"y": np.sin(x) * 2.0 + x[::-1], "k": np.array([3.0])}, {"x": (2,)})


def test_save_and_load(tmp_path):
    example().save(tmp_path / "p.npz")
    copy = Program.load(tmp_path / "p.npz")
    x = np.array([0.3, 0.7])
    assert np.array_equal(interpret(copy, x=x)["y"], interpret(example(), x=x)["y"])
    assert interpret(copy, x=x)["k"] == 3.0


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"ops": np.array([99, 6])}, "set"),
        ({"left": np.array([0, 50])}, "before"),
        ({"left": np.array([-1, 0])}, "before"),
        ({"right": np.array([0])}, "number"),
        ({"constants": np.array([np.nan])}, "finite"),
        ({"outputs": {"y": np.array([70])}}, "no value"),
    ],
)
def test_invalid_programs_are_rejected(change, words):
    good = {
        "inputs": {"x": (1,)},
        "constants": np.array([2.0]),
        "ops": np.array([int(Op.MUL), int(Op.NEG)]),
        "left": np.array([0, 2]),
        "right": np.array([1, -1]),
        "outputs": {"y": np.array([3])},
    }
    assert interpret(Program(**good), x=np.array([4.0]))["y"] == -8.0
    with pytest.raises(ProgramError, match=words):
        Program(**good | change)


def test_files_without_a_program_are_rejected(tmp_path):
    (tmp_path / "noise.npz").write_bytes(b"noise")
    np.savez(tmp_path / "other.npz", a=np.zeros(3))
    for name in ("noise.npz", "other.npz", "absent.npz"):
        with pytest.raises(ProgramError, match=name):
            Program.load(tmp_path / name)


# --- health ---------------------------------------------------------------------------------------------


def with_health(limits):
    return trace(lambda x: {"y": 1.0 / x, "health": 1.0 / (x * x)}, {"x": (2,)}, limits)


def test_limits_are_part_of_a_program(tmp_path):
    program = with_health((1e4, 1e6))
    assert program.limits == (1e4, 1e6)
    assert program.digest() != with_health((1e4, 1e5)).digest() != with_health(()).digest()
    program.save(tmp_path / "p.npz")
    loaded = Program.load(tmp_path / "p.npz")
    assert loaded.limits == program.limits and loaded.digest() == program.digest()
    assert jacobian(program, ["y"], ["x"]).limits == ()


@pytest.mark.parametrize("limits", [(1.0,), (1.0, 2.0, 3.0)])
def test_limits_belong_to_the_entries_of_health(limits):
    with pytest.raises(ProgramError, match="limits.*'health'.*entries"):
        with_health(limits)


def test_limits_belong_to_the_last_output():
    with pytest.raises(ProgramError, match="last.*'health'"):
        trace(lambda x: {"health": x, "y": x}, {"x": (2,)}, (1.0, 1.0))
