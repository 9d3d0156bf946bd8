"""What NVRTC makes of the project's kernels, run by NumPy: the same bits as the C build of the same text,
no fault, no access that memory must serve in more pieces than need be."""

import re
from functools import cache

import numpy as np
import pytest
import text_in_c
from compilers import fault
from robots import ROBOTS, random_states
from text_in_ptx import ran
from with_nvrtc import nvrtc, without

import dynamics_node as dn
from dynamics_demo.robots import five_bar
from dynamics_node.algorithms import cheapest, limb_after_limb, recursive_programs
from dynamics_node.algorithms.first_positions import closed_samples
from dynamics_node.codegen import make
from dynamics_node.codegen.printer import Variant, kernel
from dynamics_node.symbolic import interpret

NVRTC = nvrtc()
if fault("cc"):
    without(fault("cc"))
PROBLEMS = {"inverse": dn.inverse_dynamics, "forward": dn.forward_dynamics}
SHARED = ("gravity",)
CASES = {  # robot, problem, precision, layout: counts
    ("panda7", "forward", "float", "columns"): (1, 128, 300),
    ("panda7", "forward", "double", "rows"): (31, 129),
    ("panda7", "inverse", "float", "rows"): (129,),
    ("panda7", "inverse", "double", "columns"): (31,),
    ("solo12", "forward", "double", "columns"): (129,),
    ("solo12", "inverse", "double", "rows"): (129,),
    ("talos", "inverse", "float", "columns"): (129,),
    ("five_bar", "forward", "float", "rows"): (129,),
}


@cache
def _program(robot, problem):
    model = dn.parse_robot(five_bar()) if robot == "five_bar" else ROBOTS[robot].model()
    program = cheapest(recursive_programs(model, PROBLEMS[problem](model)))[1]
    return model, program if robot == "five_bar" else limb_after_limb(model, program)


def _states(model, program, count, dtype):
    if not model.constrained:
        q, qd, u, _ = random_states(model, count, seed=count)
    else:
        random = np.random.default_rng(count)
        q = closed_samples(model, 10, random)[random.integers(10, size=count)]
        qd, u = random.uniform(-1, 1, (2, count, model.nv))
    known = {"q": q, "qd": qd, "qdd": u, "tau": u, "gravity": model.gravity}
    return {name: np.asarray(known[name], dtype) for name in program.inputs}


def _kernel(robot, problem, precision, layout, **choices):
    model, program = _program(robot, problem)
    variant = Variant(precision, layout, block=64 if robot == "talos" else 128, **choices)
    return model, program, kernel(program, variant, SHARED, model.quaternion_places)


def _shapes(program):
    return {name: array.shape for name, array in program.outputs.items() if name != "health"}


def _same_bits(found, expected):
    for name, array in expected.items():
        bits = f"u{array.dtype.itemsize}"
        nan = np.isnan(array)
        np.testing.assert_array_equal(np.isnan(found[name]), nan)
        np.testing.assert_array_equal(found[name][~nan].view(bits), array[~nan].view(bits))


@pytest.mark.parametrize("case", CASES, ids="-".join)
def test_the_bits_are_those_of_the_same_text_in_c(case):
    model, program, written = _kernel(*case, exact_reciprocal=True)
    in_c = text_in_c.built(written, "-O0")  # whatever the compiler does
    for count in CASES[case]:
        states = _states(model, program, count, written.variant.dtype)
        if count > 3:
            states["q"][1, -1], states["qd"][2, 0] = 1e9, np.nan  # beyond what the sine can do; no number
        found, report = ran(written, NVRTC, count, states, _shapes(program))
        assert all(access.ratio <= 2 for access in report.of("shared"))
        expected = in_c(count, states, _shapes(program))
        _same_bits(found, expected)
        for array in expected.values():
            assert np.isnan(array[1:3]).all() or count <= 3
            assert np.isfinite(np.delete(array, [1, 2] if count > 3 else [], axis=0)).all()


def _errors(case, count, reference, **choices):
    """Of every output beside its largest entry, with the reciprocals of devices: every second one of
    float32 is one unit off before the Newton step, those of float64 have 20 bits."""
    model, program, written = _kernel(*case, **choices)
    states = _states(model, program, count, np.float64)
    true = reference(model, program, states)
    found, _ = ran(written, NVRTC, count, states, _shapes(program))
    return [np.abs(found[name] - array).max() / np.abs(array).max() for name, array in true.items()]


def _by_c(model, program, states):
    arguments = [states[name] for name in program.inputs]
    outputs, healthy = make(program, "c", quaternions=model.quaternion_places).run_checked(
        len(states["q"]), arguments
    )
    assert healthy
    return dict(zip(_shapes(program), outputs, strict=True))


@pytest.mark.parametrize(
    ("precision", "layout", "error"), [("float", "columns", 3e-6), ("double", "rows", 2e-14)]
)
def test_with_the_reciprocals_of_devices_it_is_near_the_c_backend(precision, layout, error):
    assert max(_errors(("panda7", "forward", precision, layout), 128, _by_c)) < error


@pytest.mark.parametrize(("robot", "problem"), [("solo12", "forward"), ("talos", "inverse")])
def test_with_registers_spilled_to_shared_memory_it_is_near_the_program(robot, problem):
    def interpreted(_, program, states):
        return {name: array for name, array in interpret(program, **states).items() if name != "health"}

    case = robot, problem, "double", "columns"
    assert max(_errors(case, 40, interpreted, spill_to_shared=True)) < 2e-14


@pytest.mark.parametrize("precision", ["float", "double"])
@pytest.mark.parametrize("layout", ["columns", "rows"])
def test_neighbours_read_what_lies_side_by_side(precision, layout):
    """128 bytes of float, 256 of double a warp, in sectors of 32; in shared memory no two words of one
    bank."""
    model, program, written = _kernel("panda7", "inverse", precision, layout)
    states = _states(model, program, 256, written.variant.dtype)
    _, report = ran(written, NVRTC, 256, states, _shapes(program))
    assert {access.ratio for access in report.of("global")} == {4 if precision == "float" else 8}
    assert {access.ratio for access in report.of("shared")} == (set() if layout == "columns" else {1})
    assert report.divergent == 0
    assert report.barriers == (0 if layout == "columns" else 2 * 2)
    if layout == "columns":  # a straight line: every warp executes every instruction once
        products = re.findall(r"\tfma\.rn\.f\d\d", NVRTC.ptx(written.text, 90))
        kind = products[0].strip()
        assert report.issued[kind] == len(products) * 256 // 32
