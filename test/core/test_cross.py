"""Compiled code for ARM and RISC-V: the tests of C that compute numbers, with a cross compiler and an emulator."""

from itertools import product

import numpy as np
import pytest
import test_backend_c
import test_batch
import test_facade
from compiled import packed
from flags import NOT_FUSED
from foreign import PROCESSORS, runs_on
from robots import ROBOTS, random_states

import dynamics_node as dn
from dynamics_node.algorithms import cheapest, dynamics_programs
from dynamics_node.codegen.c import BatchKernel, batch_kernel

TESTS = (
    test_batch.test_batch_equals_scalar,
    test_batch.test_rows_of_any_size,
    test_batch.test_empty_batch,
    test_batch.test_input_of_any_layout_and_type,
    test_batch.test_bad_state_leaves_others_unchanged,
    test_batch.test_batch_flags_bad_states,
    test_batch.test_sines_of_floats,
    test_batch.test_zeros_among_the_results,
    test_batch.test_columns_computed_far_apart,
    test_backend_c.test_compiled_equals_interpreted,
    test_backend_c.test_sines_and_cosines,
    test_backend_c.test_sines_of_computed_angles,
    test_backend_c.test_programs_of_several_parts,
    test_facade.test_robot_without_joints,
)
ESSENTIAL = (
    test_batch.test_batch_equals_scalar,
    test_batch.test_sines_of_floats,
    test_backend_c.test_sines_and_cosines,
)


def cases(test):
    """The arguments with which pytest calls a test."""
    marks = [mark for mark in getattr(test, "pytestmark", ()) if mark.name == "parametrize"]
    rows = []
    for names, values in (mark.args for mark in marks):
        split = [name.strip() for name in names.split(",")]
        rows.append([dict(zip(split, value if len(split) > 1 else [value], strict=True)) for value in values])
    for row in product(*rows):
        yield {name: value for part in row for name, value in part.items()}


def program_of(kind):
    """What is compiled for a Panda."""
    model = ROBOTS["panda7"].model()
    return model, cheapest(dynamics_programs(model, getattr(dn, f"{kind}_dynamics")(model)))[1]


@pytest.fixture(params=PROCESSORS)
def processor(request):
    own = PROCESSORS[request.param]
    if reason := own.fault():
        pytest.skip(reason)
    return own


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Of the programs, which several tests run."""
    return tmp_path_factory.mktemp("cross")


@pytest.mark.parametrize(
    ("processor", "shift", "test"),
    [
        *(("aarch64", 0, test) for test in TESTS),
        *(("aarch64", 1, test) for test in ESSENTIAL),
        *(("riscv64", 1, test) for test in ESSENTIAL),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)).removeprefix("test_"),
    indirect=["processor"],
)
def test_numbers_are_right(test, shift, processor, folder, monkeypatch):
    """shift: numbers between arrays and a multiple of 64 bytes."""
    runs_on(processor, folder, monkeypatch, shift)
    for arguments in cases(test):
        test(**arguments)


@pytest.mark.optimized
@pytest.mark.parametrize(("kind", "dtype"), [("inverse", np.float32), ("forward", np.float64)])
def test_results_are_the_bits_of_this_processor(kind, dtype, processor, folder, monkeypatch):
    """Where sums of products are not fused: which ones are is the compiler's choice for a processor."""
    model, program = program_of(kind)
    inputs = [array.astype(dtype) for array in (*random_states(model, 101, seed=5)[:3], model.gravity)]
    with monkeypatch.context() as here:
        here.setattr(batch_kernel, "width_flags", lambda: NOT_FUSED)
        expected = packed(BatchKernel(program, dtype)(101, *inputs))
    runs_on(processor, folder, monkeypatch, more=NOT_FUSED)
    assert np.array_equal(packed(BatchKernel(program, dtype)(101, *inputs)), expected)
