"""Of several ways to compile a Program the fastest is taken, once."""

import numpy as np
import pytest
from compiled import packed
from flags import QUICK_CC

from dynamics_node.codegen.c import BatchKernel, Kernel, compiler
from dynamics_node.codegen.c import compiler as library
from dynamics_node.codegen.c import compiler as tuning
from dynamics_node.codegen.cache import names, read_entry, write_entry
from dynamics_node.symbolic import in_order, interpret, trace

WAYS = {"fused": (), "scheduled": compiler.SCHEDULED, "separate": compiler.NOT_FUSED}


@pytest.fixture
def program(tmp_path, monkeypatch, every_way):
    """A narrow one, and a cache of its own. Ways differ in their flags, whatever the compiler makes of them."""
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
    """clock[name]: how long a trial takes, in ns."""
    costs, now = {}, [0]
    monkeypatch.setattr(tuning, "thread_time_ns", lambda: now[0])

    def trial(name):
        def run():
            now[0] += costs[name]

        return run

    return costs, trial


@pytest.mark.parametrize(
    ("fused", "separate", "taken"), [(100, 90, "separate"), (90, 100, "fused"), (100, 99, "fused")]
)
def test_the_first_way_is_taken_unless_another_is_clearly_faster(clock, fused, separate, taken):
    costs, trial = clock
    costs.update(fused=fused, separate=separate)
    assert tuning.fastest({name: trial(name) for name in costs}) == taken


def test_what_was_measured_is_noted_and_compiled_no_more(program, monkeypatch):
    first = Kernel(program)
    notes = [name for name in names("") if name.endswith(".way")]
    assert len(notes) == 1
    monkeypatch.setattr(tuning, "fastest", None)
    monkeypatch.setattr(library, "compiled", None)
    again = Kernel(program)
    x = np.random.default_rng(1).uniform(-1, 1, (5, 3))
    assert np.array_equal(packed(first(5, x)), packed(again(5, x)))
    assert np.abs(packed(first(5, x)) - interpret(program, x=x)["y"]).max() <= 1e-13


@pytest.mark.parametrize("way", WAYS)
def test_either_way_may_win(program, monkeypatch, way):
    flags = []
    monkeypatch.setattr(tuning, "fastest", lambda trials: [run() for run in trials.values()] and way)
    real = tuning.compile_library
    monkeypatch.setattr(tuning, "compile_library", lambda *what: flags.append(what[2]) or real(*what))
    Kernel(program)
    assert flags[-1] == WAYS[way] and sorted(flags[:3]) == sorted(WAYS.values())


def test_a_note_that_names_no_way_is_measured_anew(program):
    Kernel(program)
    (note,) = [name for name in names("") if name.endswith(".way")]
    write_entry(note, b"\xff other")
    assert Kernel(program).program is program
    assert read_entry(note).decode() in WAYS


def test_only_cached_code_is_used_where_that_is_asked_for(program):
    """By the threads that compile too."""
    with compiler.only_cached(), pytest.raises(library.CompileError, match="only cached"):
        Kernel(program)
    Kernel(program)
    with compiler.only_cached():
        Kernel(program)


def test_wide_programs_are_not_tried(monkeypatch):
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
    """What can be done at once comes together."""
    return np.lexsort((np.arange(len(program.ops)), _depths(program)))


def _depths(program):
    depths = [0] * program.first_operation
    for a, b in zip(program.left.tolist(), program.right.tolist(), strict=True):
        depths.append(1 + max(depths[a], depths[b] if b >= 0 else 0))
    return depths[program.first_operation :]
