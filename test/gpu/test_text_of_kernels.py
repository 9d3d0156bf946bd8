"""The text of kernels, as C: what it computes against compiled C and NumPy, what a bad state is, what it is called
with. NVRTC compiles it for all kinds of devices."""

from functools import cache

import by_nvrtc
import compilers
import numpy as np
import pytest

pytest.importorskip("pinocchio", reason="the robots: pip install pin")
compilers.require("cc", module=True)

from robots import ROBOTS, random_states
from text_in_c import as_c, built, by_coroutines, given
from tolerances import error

import dynamics_node as dn
from dynamics_demo.robots import five_bar
from dynamics_node.algorithms import dynamics_programs
from dynamics_node.algorithms.first_positions import closed_samples
from dynamics_node.codegen.c import CRunner
from dynamics_node.codegen.c import kernel as one_state
from dynamics_node.codegen.printer import KernelArgument, Variant, kernel, kernel_arguments
from dynamics_node.codegen.runner import returned
from dynamics_node.symbolic import interpret, trace

COUNTS = (1, 31, 128, 129, 1000)
ROUNDING = {"float": 2e-6, "double": 4e-15}  # error of half of the states, relative to their largest number
MOST = {"float": 1e-2, "double": 1e-10}  # of the worst: near a position where a linkage is singular
PROBLEMS = {"inverse": dn.inverse_dynamics, "forward": dn.forward_dynamics}
CASES = (("panda7", "forward", "crba + solve"), ("solo12", "inverse", "rnea"), ("five_bar", "forward", "aba"))
SAME = ("gravity",)


@cache
def case(name, problem, way):
    """Robot and Program."""
    robot = dn.parse_robot(five_bar()) if name == "five_bar" else ROBOTS[name].model()
    return robot, dynamics_programs(robot, PROBLEMS[problem](robot))[way]


def states(robot, program, count, dtype=np.float64):
    """{input: (count, *shape)}, gravity (3,)."""
    random = np.random.default_rng(count)
    arrays = {name: random.uniform(-1, 1, (count, *shape)) for name, shape in program.inputs.items()}
    if not robot.constrained:
        arrays["q"] = random_states(robot, count, seed=count)[0]
    else:
        arrays["q"] = closed_samples(robot, 20, random)[random.integers(20, size=count)]
    arrays["gravity"] = robot.gravity
    return {name: np.asarray(arrays[name], dtype) for name in program.inputs}


def result(program, variant, inputs, count, same=SAME, quaternions=()):
    """The only output of a Program by its text."""
    run = built(kernel(program, variant, same, quaternions), "-O0")
    (computed,) = run(count, inputs, returned(program)).values()
    return computed


# --- against what else computes the same ---------------------------------------------------------------------


@pytest.mark.parametrize("precision", ROUNDING)
@pytest.mark.parametrize("case_", CASES, ids=lambda case_: case_[0])
def test_results_are_those_of_compiled_c_and_of_numpy(case_, precision, monkeypatch):
    """In both layouts the same bits; against NumPy no worse than compiled C over a batch of the same precision, four
    times over. States without a result (the five-bar is singular at some) are the same ones, and NaN."""
    monkeypatch.setattr(one_state, "QUICK", 0)
    (robot, program), dtype = case(*case_), Variant(precision).dtype
    compiled = CRunner(program, None, robot.quaternion_places)
    columns, rows = (
        built(kernel(program, Variant(precision, layout), SAME, robot.quaternion_places))
        for layout in ("columns", "rows")
    )
    (name,) = returned(program)
    allowed = 0.0
    for count in sorted(COUNTS, reverse=True):
        inputs = states(robot, program, count, dtype)
        computed = columns(count, inputs, returned(program))[name]
        np.testing.assert_array_equal(computed, rows(count, inputs, returned(program))[name])
        (theirs,), _ = compiled.run_checked(count, list(inputs.values()), dtype)
        right = interpret(program, **{n: np.float64(a) for n, a in inputs.items()})[name]
        good = np.isfinite(theirs).all(axis=1)
        np.testing.assert_array_equal(
            np.isnan(computed), np.repeat(~good[:, None], computed.shape[1], axis=1)
        )
        assert good.sum() > 0.8 * count and computed.dtype == dtype
        allowed = allowed or 4 * error(theirs[good], right[good]).max()
        ours = error(computed[good], right[good])
        assert ours.max() <= allowed <= MOST[precision] and np.median(ours) <= ROUNDING[precision]


@pytest.mark.parametrize("precision", ROUNDING)
def test_rows_that_find_no_room_are_read_as_they_lie(precision, monkeypatch):
    robot, program = case(*CASES[1])
    inputs = states(robot, program, 129, Variant(precision).dtype)
    variant, computed = Variant(precision, "rows", 64), []
    for room in (0, 10_000, 48 * 1024):
        monkeypatch.setattr(kernel_arguments, "SHARED_MEMORY", room)
        kernel_ = kernel(program, variant, SAME)
        assert kernel_.shared <= room and (kernel_.shared > 0) == (room > 0)
        assert ("SHARED real" in kernel_.text) == (room > 0)
        computed.append(result(program, variant, inputs, 129))
    assert np.array_equal(computed[0], computed[1]) and np.array_equal(computed[0], computed[2])


@pytest.mark.parametrize("precision", ROUNDING)
@pytest.mark.parametrize("offset", [0.0, 0.5, -2.0])
def test_sines_up_to_the_largest_angle(precision, offset):
    """Within 2 units in the last place, with a constant beside the angle or not; one quarter turn after another."""
    program = trace(lambda x: {"y": np.array([np.sin(x[0] + offset), np.cos(x[0] + offset)])}, {"x": (1,)})
    dtype, most = Variant(precision).dtype, {"float": 2.0**12, "double": 2.0**16}[precision]
    random = np.random.default_rng(0)
    near = np.arange(-4000, 4000) * np.pi / 4
    x = np.concatenate(
        [random.uniform(-most, most, 20_000), random.uniform(-4, 4, 20_000), near[abs(near) < most]]
    )
    x = np.array([*x, most, -most, 0.0], dtype)[:, None]
    computed = result(program, Variant(precision), {"x": x}, len(x), same=())
    exact = x[:, 0].astype(np.longdouble) + np.longdouble(offset)
    for column, right in zip(computed.T, (np.sin(exact), np.cos(exact)), strict=True):
        unit = np.spacing(np.abs(right).astype(dtype)).astype(np.longdouble)
        # with a constant beside it, what is left of an angle is rounded: absolutely small, where a sine is near zero
        least = 2 * np.finfo(dtype).eps if offset else 0.0
        assert (np.abs(column - right) <= np.maximum(2 * unit, least)).all()


# --- bad states ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("case_", "layout"), [(CASES[0], "columns"), (CASES[1], "rows")])
def test_an_input_that_is_not_finite_makes_its_state_nan_and_no_other(case_, layout):
    robot, program = case(*case_)
    sizes = {name: int(np.prod(shape)) for name, shape in program.inputs.items() if name not in SAME}
    for wrong in (np.nan, np.inf, -np.inf):
        count = sum(sizes.values()) + 10
        inputs = states(robot, program, count)
        before = result(program, Variant("double", layout), inputs, count)
        entries = [(name, k) for name, size in sizes.items() for k in range(size)]
        for state, (name, k) in enumerate(entries):
            inputs[name][state, k] = wrong
        computed = result(program, Variant("double", layout), inputs, count)
        assert np.isnan(computed[: len(entries)]).all()
        assert np.array_equal(computed[len(entries) :], before[len(entries) :]) and np.isfinite(before).all()


@pytest.mark.parametrize("precision", ROUNDING)
def test_an_angle_out_of_the_range_of_sines_has_no_result(precision):
    robot, program = case(*CASES[0])
    inputs, dtype = states(robot, program, 6, Variant(precision).dtype), Variant(precision).dtype
    most = dtype.type({"float": 2.0**12, "double": 2.0**16}[precision])
    for state, angle in enumerate((most, -most, np.nextafter(most, dtype.type(np.inf)), -2 * most)):
        inputs["q"][state, 3] = angle
    computed = result(program, Variant(precision), inputs, 6)
    assert np.array_equal(
        np.isnan(computed), np.repeat([[0], [0], [1], [1], [0], [0]], 7, axis=1).astype(bool)
    )


@pytest.mark.parametrize("precision", ROUNDING)
def test_a_quaternion_that_is_none(precision):
    robot, program = case(*CASES[1])
    inputs = states(robot, program, 5, Variant(precision).dtype)
    for state, length in enumerate((1 + 5e-7, 1 - 5e-7, 1 + 3e-6, 0.9)):
        inputs["q"][state, 3:7] *= length
    computed = result(program, Variant(precision), inputs, 5, quaternions=robot.quaternion_places)
    assert np.isnan(computed).all(axis=1).tolist() == [False, False, True, True, False]
    assert np.isfinite(computed[[0, 1, 4]]).all()
    assert np.isfinite(result(program, Variant(precision), inputs, 5)).all()


def test_health_out_of_its_limits():
    program = trace(lambda x: {"y": x[:1], "health": np.array([x[0] * x[0], x[1]])}, {"x": (2,)}, (4.0, 1.0))
    x = np.array([[1.0, 0.5], [2.0, 1.0], [2.1, 0.0], [0.0, 1.1], [0.0, np.nan], [0.0, -1.0]])
    run = built(kernel(program, Variant("double")))
    computed = run(6, {"x": x}, returned(program))
    assert list(computed) == ["y"]
    assert np.isnan(computed["y"][:, 0]).tolist() == [False, False, True, True, True, False]


def test_what_only_divides_and_what_nobody_reads_is_looked_at():
    """1 / inf is 0: the outputs are finite, and the state is bad all the same."""
    program = trace(lambda x, u: {"y": 1.0 / x[:1], "z": x[1:] * 2.0}, {"x": (2,), "u": (1,)})
    x = np.array([[np.inf, 1.0], [2.0, 1.0], [2.0, 1.0], [2.0, np.inf], [0.0, 1.0]])
    u = np.array([[0.0], [np.nan], [0.0], [0.0], [0.0]])
    computed = built(kernel(program, Variant("double")))(5, {"x": x, "u": u}, returned(program))
    for output in computed.values():
        assert np.isnan(output[:, 0]).tolist() == [True, True, False, True, True]


def test_outputs_that_are_inputs_and_constants():
    program = trace(
        lambda x: {"y": np.array([x[0], -x[0], 2.5, -1.0, x[1] + x[0]], dtype=object)}, {"x": (2,)}
    )
    x = np.array([[1.0, 2.0], [np.inf, 0.0]])
    for layout in ("columns", "rows"):
        computed = result(program, Variant("double", layout), {"x": x}, 2, same=())
        assert computed[0].tolist() == [1.0, -1.0, 2.5, -1.0, 3.0] and np.isnan(computed[1]).all()


def test_long_outputs():
    """More than a compiler writes out."""
    program = trace(lambda x: {"y": np.outer(x, x)}, {"x": (5,)})
    x = np.array([[1.0, 2.0, 3.0, 4.0, 5.0], [1.0, np.nan, 3.0, 4.0, 5.0]])
    for layout in ("columns", "rows"):
        computed = result(program, Variant("double", layout), {"x": x}, 2, same=())
        assert np.array_equal(computed[0], np.outer(x[0], x[0])) and np.isnan(computed[1]).all()


# --- what a kernel is ----------------------------------------------------------------------------------------


def test_arguments_by_value_and_by_pointer():
    def function(q, g, p):
        return {"y": q * g[0] + p[9, 9], "w": q[0] * g, "health": q[:1]}

    program = trace(function, {"q": (2,), "g": (3,), "p": (10, 10)}, (1.0,))
    expected = (
        KernelArgument("count", "count"),
        KernelArgument("q", "array", 2),
        *(KernelArgument("g", "number", 1, k) for k in range(3)),
        KernelArgument("p", "same", 100),
        KernelArgument("y", "output", 2),
        KernelArgument("w", "output", 3),
    )
    one = kernel(program, Variant("double"), ("g", "p"))
    assert one.name == "states" and one.arguments == expected and one.shared == 0
    assert kernel(program, Variant("double", "rows"), ("g", "p")).shared == 128 * 8 * (2 + 2 + 3)
    assert one.most_states == (2**31 - 1) // 100 - 128
    arrays = {"q": np.ones((3, 2)), "g": np.array([2.0, 3.0, 4.0]), "p": np.full((10, 10), 5.0)}
    computed = built(one)(3, arrays, returned(program))
    assert np.array_equal(computed["y"], np.full((3, 2), 7.0))
    assert np.array_equal(computed["w"][1], [2.0, 3.0, 4.0])
    kinds = ["count", *["array"] * 3, *["output"] * 2]
    assert [a.kind for a in kernel(program).arguments] == kinds


def test_names_do_not_reach_the_text():
    program = trace(lambda **x: {'"); wicked("': x["*/ evil"] * 2.0}, {"*/ evil": (1,)})
    for same in ((), ("*/ evil",)):
        text = kernel(program, same=same).text
        assert "evil" not in text and "wicked" not in text


def test_a_constant_without_a_place_in_float32():
    program = trace(lambda x: {"y": x * 1e300}, {"x": (1,)})
    assert kernel(program, Variant("double"))
    with pytest.raises(ValueError, match="constant 1e"):
        kernel(program, Variant("float"))


# --- as GPUs run it ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", ["rows", "columns"])
def test_threads_that_take_turns_at_barriers_leave_the_same_bits(layout):
    """In either order, in place of a loop over them; without one of the barriers they do not."""
    program = trace(lambda x: {"y": np.array([x[0] * x[1], x[1], 3.0 - x[2]])}, {"x": (3,)})
    made, x = kernel(program, Variant("double", layout, 16)), np.random.default_rng(0).normal(size=(50, 3))
    right = result(program, made.variant, {"x": x}, 50, same=())

    def computed(text, backward):
        arguments, written = given(made, 50, {"x": x})
        by_coroutines(text, made.name, made.blocks(50), [as_c(a) for a in arguments], backward)
        return written["y"].T if layout == "columns" else written["y"]

    for backward in (False, True):
        np.testing.assert_array_equal(computed(made.text, backward), right)
    parts = made.text.split("  BARRIER;\n")
    assert len(parts) == (3 if layout == "rows" else 1)
    for k in range(1, len(parts)):
        text = "  BARRIER;\n".join(parts[:k]) + "  BARRIER;\n".join(parts[k:])
        assert not np.array_equal(computed(text, False), right) or not np.array_equal(
            computed(text, True), right
        )


@pytest.mark.parametrize("arch", by_nvrtc.ARCHS)
def test_nvrtc_compiles_for_every_kind_of_device(arch):
    """With hardly a spill; rows of doubles and exact reciprocals for the oldest and the newest one alone."""
    robot, program = case(*CASES[0])
    ways = (Variant(), Variant("double", "rows", exact_reciprocal=True))
    for variant in ways if arch in (by_nvrtc.ARCHS[0], by_nvrtc.ARCHS[-1]) else ways[:1]:
        made = kernel(program, variant, SAME, robot.quaternion_places)
        taken = by_nvrtc.compiled(made.text, arch)
        assert made.shared <= taken.shared <= 48 * 1024
        assert taken.spilled <= (0 if variant == Variant() else 16)
        assert taken.registers <= (80 if variant == Variant() else 255)
