"""Batches of NumPy's on a GPU: the whole way over the fake driver, against compiled C."""

import pickle
import threading

import numpy as np
import pytest
from gpu_programs import on_cpu, parameters, states, swinging

from dynamics_node.codegen import make
from dynamics_node.codegen.cuda import device as opened
from dynamics_node.codegen.cuda import lanes

TOLERANCE = {np.float64: 1e-13, np.float32: 1e-5}


def made():
    """It holds its parameters on the device as long as it lives."""
    return make(swinging(), "cuda", parameters())


def _same(found, expected, dtype=np.float64):
    for a, b in zip(found, expected, strict=True):
        assert a.dtype == dtype and a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("count", [64, 127, 128, 129, 1000])
def test_a_batch_is_what_c_computes(fake, count, dtype):
    runner = made()
    given = states(count, dtype)
    found = runner.call_batch(count, given, np.dtype(dtype))
    _same(found, on_cpu().call_batch(count, given, np.dtype(dtype)), dtype)
    assert fake.launches == [("states", count, -(-count // 128))]
    outputs, good = runner.run_checked(count, given, dtype)
    _same(outputs, found, dtype)
    assert good


@pytest.mark.parametrize("count", [0, 1, 63])
def test_few_states_stay_on_the_cpu(fake, count):
    runner = made()
    given = states(count)
    assert runner.call_batch(count, given, np.dtype(np.float64)) is None
    outputs, good = runner.run_checked(count, given)
    _same(outputs, on_cpu().run_checked(count, given)[0])
    assert good and fake.launches == []


def test_one_state_is_solved_by_the_function_of_c(fake):
    runner = made()
    a, b, g = (array if array.ndim == 1 else array[0] for array in states(1))
    x, y = np.empty(3), np.empty(())
    assert runner.call_one(a, b, g, x, y) is None
    assert type(runner.call_one).__name__ == "builtin_function_or_method"
    assert runner.call_new(tuple, *states(5))[0].shape == (5, 3)


def test_long_batches_go_in_pieces_over_two_streams(fake, monkeypatch):
    runner = made()
    monkeypatch.setattr(lanes, "MOST_BYTES", 300 * 80)
    given = states(2000)
    _same(
        runner.call_batch(2000, given, np.dtype(np.float64)),
        on_cpu().call_batch(2000, given, np.dtype(np.float64)),
    )
    counts = [count for _, count, _ in fake.launches]
    assert sum(counts) == 2000 and max(counts) == 256 and len(counts) == 8
    assert fake.held["stream"] == fake.held["pinned"] == 2


def test_memory_is_used_again(fake):
    runner = made()
    given = states(500)
    for _ in range(3):
        runner.call_batch(500, given, np.dtype(np.float64))
        assert fake.held["stream"] == 1
    before = fake.calls
    runner.call_batch(500, given, np.dtype(np.float64))
    assert fake.calls - before == 8  # push, 2 in, launch, 2 out, wait, pop


def test_what_is_different_in_every_state_needs_another_kernel(fake):
    runner = made()
    a, b, g = states(200)
    every = np.tile(g, (200, 1)) + np.arange(200.0)[:, None]
    found = runner.call_batch(200, [a, b, every], np.dtype(np.float64))
    _same(found, on_cpu().call_batch(200, [a, b, every], np.dtype(np.float64)))


def test_states_that_a_kernel_does_not_solve_are_those_of_c(fake):
    runner = made()
    a, b, g = states(300)
    a[7, 0] = 1e12  # an angle
    found = runner.call_batch(300, [a, b, g], np.dtype(np.float64))
    _same(found, on_cpu().call_batch(300, [a, b, g], np.dtype(np.float64)))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_states_without_a_result_are_nan_and_change_no_other(fake, bad):
    runner = made()
    a, b, g = states(300)
    a[7, 1] = bad
    b[9, 1] = 2.5  # beyond the limit of health
    assert runner.call_batch(300, [a, b, g], np.dtype(np.float64)) is None
    outputs, good = runner.run_checked(300, [a, b, g])
    assert not good
    expected = on_cpu().run_checked(300, [a, b, g])[0]
    for found, array in zip(outputs, expected, strict=True):
        assert np.isnan(found[[7, 9]]).all()
        np.testing.assert_allclose(found, array, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda a, b, g: [a.astype(np.float32), b, g],
        lambda a, b, g: [a[:-1], b, g],
        lambda a, b, g: [a.tolist(), b, g],
        lambda a, b, g: [a, b, g * np.nan],
        lambda a, b, g: [a, b],
    ],
)
def test_what_is_not_plain_is_declined(fake, spoil):
    runner = made()
    assert runner.call_batch(300, spoil(*states(300)), np.dtype(np.float64)) is None
    assert fake.launches == []


def test_arrays_with_strides_are_read_as_they_are(fake):
    runner = made()
    a, b, g = states(400)
    wide = np.zeros((400, 6))
    wide[:, ::2] = a
    found = runner.call_batch(400, [wide[:, ::2], np.asfortranarray(b), g], np.dtype(np.float64))
    _same(found, on_cpu().call_batch(400, [a, b, g], np.dtype(np.float64)))


def test_parameters_change_without_compiling(fake):
    runner = made()
    given, other = states(100), parameters(1)
    runner.call_batch(100, given, np.dtype(np.float64))
    compiled = len(fake.texts)
    found = runner.with_parameters(other | {"unknown": 1}).call_batch(100, given, np.dtype(np.float64))
    _same(found, on_cpu().with_parameters(other).call_batch(100, given, np.dtype(np.float64)))
    assert len(fake.texts) == compiled
    _same(
        runner.call_batch(100, given, np.dtype(np.float64)),
        on_cpu().call_batch(100, given, np.dtype(np.float64)),
    )


def test_prepared_is_compiled(fake):
    runner = made()
    runner.prepare(batches=True)
    compiled = len(fake.texts)
    assert compiled
    runner.call_batch(100, states(100), np.dtype(np.float64))
    assert len(fake.texts) == compiled


def test_a_pickled_runner_has_its_kernels(fake):
    runner = made()
    given = states(100)
    found = runner.call_batch(100, given, np.dtype(np.float64))
    compiled = len(fake.texts)
    again = pickle.loads(pickle.dumps(runner))
    _same(again.call_batch(100, given, np.dtype(np.float64)), found)
    assert len(fake.texts) == compiled and again.backend == "cuda"


def test_two_threads(fake):
    runner = made()
    given = [states(3000, seed=k) for k in range(4)]
    found = [None] * 4

    def work(k):
        for _ in range(5):
            found[k] = runner.call_batch(3000, given[k], np.dtype(np.float64))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for k in range(4):
        _same(found[k], on_cpu().call_batch(3000, given[k], np.dtype(np.float64)))
    assert 1 <= fake.held["stream"] <= 4


def test_short_memory_makes_smaller_pieces(fake, monkeypatch):
    runner = made()
    monkeypatch.setattr(lanes, "LEAST_BYTES", 4096)
    monkeypatch.setattr(lanes, "LEAST_STATES", 10**6)
    fake.be(memory=100_000)
    given = states(2000)  # 160 kB
    _same(
        runner.call_batch(2000, given, np.dtype(np.float64)),
        on_cpu().call_batch(2000, given, np.dtype(np.float64)),
    )
    assert len(fake.launches) > 1 and opened.lost() is None


def test_no_memory_at_all_leaves_the_batch_to_the_cpu(fake, caplog):
    runner = made()
    fake.be(memory=1000)
    given = states(2000)
    _same(
        runner.call_batch(2000, given, np.dtype(np.float64)),
        on_cpu().call_batch(2000, given, np.dtype(np.float64)),
    )
    assert "out of memory" in caplog.text and "give fewer states" in caplog.text
    assert opened.lost() is None and runner.backend == "cuda"
    fake.be()
    runner.call_batch(2000, given, np.dtype(np.float64))
    assert fake.launches
