"""The library times several variants of a Program once and uses the fastest."""

import numpy as np
import pytest
from compiled import packed
from flags import QUICK_CC

from dynamics_node.codegen.c import BatchKernel, Kernel, compiler
from dynamics_node.codegen.c import compiler as library
from dynamics_node.codegen.c import compiler as tuning
from dynamics_node.codegen.cache import names, read_entry, write_entry
from dynamics_node.symbolic import in_order, interpret, trace

VARIANTS = {"fused": (), "scheduled": compiler.SCHEDULED, "separate": compiler.NOT_FUSED}


@pytest.fixture
def program(tmp_path, monkeypatch, every_way):
    """A narrow Program and an empty cache. Variants differ in their flags, whatever their effect."""
    monkeypatch.setenv("CC", str(QUICK_CC))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(library, "_loaded", {})

    def chain(x):
        y = x
        for k in range(30):
            y = np.sin(y) * x[::-1] + y / (2.0 + k)
        return {"y": y}

    return trace(chain, {"x": (3,)})


@pytest.fixture
def clock(monkeypatch):
    """(costs {name: ns}, trial(name)): trials that advance a fake clock by their cost."""
    costs, now = {}, [0]
    monkeypatch.setattr(tuning, "thread_time_ns", lambda: now[0])

    def trial(name):
        def run():
            now[0] += costs[name]

        return run

    return costs, trial


@pytest.mark.parametrize(
    ("fused", "separate", "fastest"), [(100, 90, "separate"), (90, 100, "fused"), (100, 99, "fused")]
)
def test_first_variant_wins_unless_another_is_clearly_faster(clock, fused, separate, fastest):
    costs, trial = clock
    costs.update(fused=fused, separate=separate)
    assert tuning.fastest({name: trial(name) for name in costs}) == fastest


def test_choice_is_cached_and_not_repeated(program, monkeypatch):
    first = Kernel(program)
    notes = [name for name in names("") if name.endswith(".way")]
    assert len(notes) == 1
    monkeypatch.setattr(tuning, "fastest", None)
    monkeypatch.setattr(library, "compiled", None)
    again = Kernel(program)
    x = np.random.default_rng(1).uniform(-1, 1, (5, 3))
    assert np.array_equal(packed(first(5, x)), packed(again(5, x)))
    assert np.abs(packed(first(5, x)) - interpret(program, x=x)["y"]).max() <= 1e-13


@pytest.mark.parametrize("way", VARIANTS)
def test_every_variant_may_win(program, monkeypatch, way):
    flags = []
    monkeypatch.setattr(tuning, "fastest", lambda trials: [run() for run in trials.values()] and way)
    real = tuning.compile_library
    monkeypatch.setattr(tuning, "compile_library", lambda *what: flags.append(what[2]) or real(*what))
    Kernel(program)
    assert flags[-1] == VARIANTS[way] and sorted(flags[:3]) == sorted(VARIANTS.values())


def test_invalid_cached_choice_is_measured_again(program):
    Kernel(program)
    (note,) = [name for name in names("") if name.endswith(".way")]
    write_entry(note, b"\xff other")
    assert Kernel(program).program is program
    assert read_entry(note).decode() in VARIANTS


def test_only_cached_raises_an_error_without_cached_code(program):
    """The restriction includes threads that compile."""
    with compiler.only_cached(), pytest.raises(library.CompileError, match="only cached"):
        Kernel(program)
    Kernel(program)
    with compiler.only_cached():
        Kernel(program)


def test_wide_programs_are_not_timed(monkeypatch):
    wide = trace(lambda x: {"y": np.sin(x) * x}, {"x": (40,)})
    monkeypatch.setattr(tuning, "fastest", None)
    assert packed(Kernel(wide)(1, np.ones((1, 40)))).shape == (1, 40)


def test_another_order_of_operations_may_win(program, monkeypatch):
    other = in_order(program, _another_order(program))
    monkeypatch.setattr(tuning, "fastest", lambda trials: [run() for run in trials.values()] and "reordered")
    x = np.random.default_rng(1).uniform(-1, 1, (100, 3))
    expected = interpret(program, x=x)["y"]
    kernel = Kernel(program, reordered=other)
    assert np.abs(packed(kernel(100, x)) - expected).max() <= 1e-13
    batch = BatchKernel(program, reordered=other)
    assert np.abs(packed(batch(100, x)) - expected).max() <= 1e-13
    monkeypatch.setattr(tuning, "fastest", None)
    assert Kernel(program, reordered=other).key == kernel.key


def _another_order(program):
    """An order that groups independent operations."""
    return np.lexsort((np.arange(len(program.ops)), _depths(program)))


def _depths(program):
    depths = [0] * program.first_operation
    for a, b in zip(program.left.tolist(), program.right.tolist(), strict=True):
        depths.append(1 + max(depths[a], depths[b] if b >= 0 else 0))
    return depths[program.first_operation :]
