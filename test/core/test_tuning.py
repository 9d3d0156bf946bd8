"""The library times several variants of a Program once and uses the fastest."""

import numpy as np
import pytest
from compiled import packed
from flags import QUICK_CC

from dynamics_node.codegen.c import BatchKernel, Kernel, compiler
from dynamics_node.codegen.c import compiler as library
from dynamics_node.codegen.c import compiler as tuning
from dynamics_node.codegen.c import kernel as one_state
from dynamics_node.codegen.cache import names, read_entry, write_entry
from dynamics_node.symbolic import in_order, interpret, trace

VARIANTS = ["traced", "reordered", "side by side"]
ROWS = [(0, 3), (1, 4), (2, 5)]  # inputs of the two limbs of `limbs`


@pytest.fixture
def program(tmp_path, monkeypatch, every_way):
    """A Program and an empty cache."""
    monkeypatch.setenv("CC", str(QUICK_CC))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(library, "_loaded", {})

    return trace(lambda x: {"y": chain(x)}, {"x": (3,)})


def chain(x):
    y = x
    for k in range(30):
        y = np.sin(y) * x[::-1] + y / (2.0 + k)
    return y


@pytest.fixture
def limbs(program):
    """Two limbs with the same operations, in the cache of `program`."""
    return trace(lambda x: {"y": np.array([chain(x[:3]), chain(x[3:])])}, {"x": (6,)})


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
    ("traced", "reordered", "fastest"), [(100, 90, "reordered"), (90, 100, "traced"), (100, 99, "traced")]
)
def test_first_variant_wins_unless_another_is_clearly_faster(clock, traced, reordered, fastest):
    costs, trial = clock
    costs.update(traced=traced, reordered=reordered)
    assert tuning.fastest({name: trial(name) for name in costs}) == fastest


def variants(program):
    """A Kernel with three variants, and whether they agree with the interpreter."""
    kernel = Kernel(program, reordered=in_order(program, _another_order(program)), isomorphic_inputs=ROWS)
    x = np.random.default_rng(1).uniform(-1, 1, (5, 6))
    expected = interpret(program, x=x)["y"].reshape(5, 6)
    return kernel, np.abs(packed(kernel(5, x)) - expected).max() <= 1e-13


def test_choice_is_cached_and_not_repeated(limbs, monkeypatch):
    monkeypatch.setattr(one_state, "SHORTER", 0)
    first, _ = variants(limbs)
    notes = [name for name in names("") if name.endswith(".way")]
    assert len(notes) == 1
    for module, name in ((tuning, "fastest"), (library, "compiled"), (one_state, "vectorize")):
        monkeypatch.setattr(module, name, None)
    again, right = variants(limbs)
    assert right and again.key == first.key


@pytest.mark.parametrize("way", VARIANTS)
def test_every_variant_may_win(limbs, monkeypatch, way):
    tried = []
    monkeypatch.setattr(one_state, "SHORTER", 0)
    monkeypatch.setattr(tuning, "fastest", lambda trials: [run() for run in trials.values()] and way)
    real = tuning.compile_library
    monkeypatch.setattr(tuning, "compile_library", lambda *what: tried.append(what[0]) or real(*what))
    assert variants(limbs)[1]
    assert len({*tried[:3]}) == 3 and tried[-1] in tried[:3]


def test_much_shorter_lanes_need_no_trial(limbs, monkeypatch):
    sources = []
    monkeypatch.setattr(tuning, "fastest", None)
    real = library.compiled
    monkeypatch.setattr(library, "compiled", lambda *what: sources.append(what[0]) or real(*what))
    assert variants(limbs)[1] and len(sources) == 1 and "stage0" in sources[0]


def test_limbs_with_nothing_in_common_are_compiled_as_traced(limbs, monkeypatch):
    monkeypatch.setattr(tuning, "fastest", None)
    monkeypatch.setattr(one_state, "vectorize", lambda *what: None)
    kernel = Kernel(limbs, isomorphic_inputs=ROWS)
    assert kernel.key == Kernel(limbs).key


def test_invalid_cached_choice_is_measured_again(limbs):
    variants(limbs)
    (note,) = [name for name in names("") if name.endswith(".way")]
    write_entry(note, b"\xff other")
    assert variants(limbs)[1]
    assert read_entry(note).decode() in VARIANTS


def test_only_cached_raises_an_error_without_cached_code(program):
    """The restriction includes threads that compile."""
    with compiler.only_cached(), pytest.raises(library.CompileError, match="only cached"):
        Kernel(program)
    Kernel(program)
    with compiler.only_cached():
        Kernel(program)


def test_programs_without_limbs_are_not_timed(program, monkeypatch):
    monkeypatch.setattr(tuning, "fastest", None)
    assert packed(Kernel(program)(1, np.ones((1, 3)))).shape == (1, 3)


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
