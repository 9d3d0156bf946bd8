"""Vectors of every width and processor: the same bits, and the width that this processor is fastest with."""

from pathlib import Path

import numpy as np
import pytest
from compiled import in_vectors_of_two, packed
from flags import NOT_FUSED
from robots import ROBOTS, random_states

import dynamics_node as dn
from dynamics_node.algorithms import cheapest, dynamics_programs
from dynamics_node.codegen.c import BatchKernel, batch_kernel, compiler
from dynamics_node.codegen.c import kernel as one_state
from dynamics_node.symbolic import trace

PROCESSOR = Path("/proc/cpuinfo").read_text().split()
NEEDS = {"x86-64-v2": "sse4_2", "haswell": "avx2", "skylake-avx512": "avx512dq"}
TARGETS = [name for name, instructions in NEEDS.items() if instructions in PROCESSOR]
CASES = [("inverse", np.float32), ("forward", np.float64)]


def batch(kind, dtype, flags, monkeypatch):
    """Accelerations or torques of a Panda in many states, with flags of the compiler."""
    model = ROBOTS["panda7"].model()
    program = cheapest(dynamics_programs(model, getattr(dn, f"{kind}_dynamics")(model)))[1]
    monkeypatch.setattr(batch_kernel, "width_flags", lambda: flags)
    states = [array.astype(dtype) for array in random_states(model, 501, seed=4)[:3]]
    kernel = BatchKernel(program, dtype)
    inputs = [*states, model.gravity.astype(dtype)]
    return packed(kernel(501, *inputs)), packed(kernel(500, *(array[1:] for array in states), inputs[-1]))


@pytest.mark.optimized
@pytest.mark.parametrize(("kind", "dtype"), CASES)
def test_results_are_the_same_bits_at_every_width(kind, dtype, monkeypatch):
    """Also of rows that begin elsewhere in memory, which come into other lanes."""
    narrow, _ = batch(kind, dtype, ("-DWIDEST=16",), monkeypatch)
    for width in (32, 64):
        wide, later = batch(kind, dtype, (f"-DWIDEST={width}",), monkeypatch)
        assert np.array_equal(wide, narrow) and np.array_equal(later, narrow[1:])


@pytest.mark.optimized
@pytest.mark.parametrize(("kind", "dtype"), CASES)
def test_results_are_the_same_bits_on_every_target(kind, dtype, monkeypatch):
    """Beside each other where sums of products are not fused, for older processors cannot."""
    if len(TARGETS) < 2:
        pytest.skip("this processor runs code for fewer than two of the targets")
    for apart in ((), NOT_FUSED):
        fused = [name for name in TARGETS if apart or name != "x86-64-v2"]
        results = [batch(kind, dtype, (f"-march={name}", *apart), monkeypatch)[0] for name in fused]
        assert all(np.array_equal(result, results[0]) for result in results)


@pytest.mark.parametrize("half_is_faster", [False, True])
def test_the_faster_width_is_taken(half_is_faster, own_cache, monkeypatch):
    """Measured once, noted, and used for every Program; without AVX-512 nothing is measured."""
    monkeypatch.setattr(batch_kernel, "has_avx512", lambda: True)
    trials = []
    choice = "half" if half_is_faster else "whole"
    monkeypatch.setattr(
        compiler, "fastest", lambda of: ([run() for run in of.values()] and trials.append(of)) or choice
    )
    flags, real = [], compiler.compile_library
    monkeypatch.setattr(compiler, "compile_library", lambda *way: flags.append(way[2]) or real(*way))
    for factor in (2.0, 3.0):
        kernel = BatchKernel(trace(lambda x, by=factor: {"y": x * by}, {"x": (3,)}))
        assert packed(kernel(5, np.ones((5, 3)))).tolist() == [[factor] * 3] * 5
        assert (batch_kernel.HALF[0] in flags[-1]) == half_is_faster
    assert [list(of) for of in trials] == [["whole", "half"]]
    monkeypatch.setattr(batch_kernel, "has_avx512", lambda: False)
    assert batch_kernel.width_flags() == ()


def test_sines_of_one_state_in_vectors_of_two(monkeypatch):
    """As on processors without AVX."""
    x = np.random.default_rng(0).uniform(-3, 3, (20, 5))
    sines = trace(lambda x: {"s": np.sin(x), "c": np.cos(x + 0.25)}, {"x": (5,)})
    whole = packed(one_state.Kernel(sines)(20, x))
    in_vectors_of_two(monkeypatch)
    assert np.array_equal(packed(one_state.Kernel(sines)(20, x)), whole)
