"""Batches of NumPy's arrays on a GPU against compiled C: on CuPy's stand-in, and on a device where there is one."""

import logging
import pickle
import subprocess
import sys

import numpy as np
import pytest
from gpu_programs import on_cpu, parameters, states, swinging

from dynamics_node.codegen import make_runner
from dynamics_node.codegen.cuda import device, lost
from dynamics_node.codegen.cuda import runner as runners

DOUBLE = np.dtype(np.float64)
TOLERANCE = {np.float64: 1e-13, np.float32: 1e-5}


def made():
    return make_runner(swinging(), "cuda", parameters())


def same(results, expected, dtype=np.float64):
    for a, b in zip(results, expected, strict=True):
        assert a.dtype == dtype and a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("count", [64, 127, 129, 1000])
def test_a_batch_is_what_c_computes(gpu, count, dtype):
    runner, given = made(), states(count, dtype)
    results = runner.call_batch(count, given, np.dtype(dtype))
    same(results, on_cpu().call_batch(count, given, np.dtype(dtype)), dtype)
    outputs, good = runner.run_checked(count, given, dtype)
    same(outputs, results, dtype)
    assert good and runner.backend == "cuda" and lost() is None


def test_long_batches_go_in_pieces(gpu, monkeypatch):
    monkeypatch.setattr(runners, "PIECE_BYTES", 300 * 80)
    given = states(2000)
    same(made().call_batch(2000, given, DOUBLE), on_cpu().call_batch(2000, given, DOUBLE))
    if not gpu.real:
        pieces = [(count, blocks) for _, count, blocks, _ in gpu.launches]
        assert pieces == 7 * [(256, 2)] + [(208, 2)]


def test_pieces_are_whole_blocks():
    for size, most, expected in ((80, 10**6, 104_832), (2**20, 10**6, 128), (80, 1000, 896), (0, 1000, 896)):
        assert runners.piece(size, most, 128) == expected


def test_states_that_a_kernel_does_not_solve_are_those_of_c(gpu):
    a, b, g = states(300)
    a[7, 0] = 1e12  # an angle
    same(made().call_batch(300, [a, b, g], DOUBLE), on_cpu().call_batch(300, [a, b, g], DOUBLE))


def test_states_without_a_result_are_nan_and_change_no_other(gpu):
    runner, (a, b, g) = made(), states(300)
    a[7, 1], a[8, 1] = np.nan, np.inf
    b[9, 1] = 2.5  # beyond the limit of health
    assert runner.call_batch(300, [a, b, g], DOUBLE) is None
    outputs, good = runner.run_checked(300, [a, b, g])
    assert not good
    for results, array in zip(outputs, on_cpu().run_checked(300, [a, b, g])[0], strict=True):
        assert np.isnan(results[7:10]).all()
        np.testing.assert_allclose(results, array, rtol=1e-13, atol=1e-13)


def test_few_states_stay_on_the_cpu(stand_in):
    runner = made()
    for count in (0, 1, 63):
        outputs, good = runner.run_checked(count, states(count))
        same(outputs, on_cpu().run_checked(count, states(count))[0])
        assert good
        quick = runner.call_batch(count, states(count), DOUBLE)
        same(quick, on_cpu().call_batch(count, states(count), DOUBLE))
    assert stand_in.launches == []
    assert type(runner.call_one).__name__ == "builtin_function_or_method"


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
def test_arrays_that_are_not_plain_are_declined(stand_in, spoil):
    assert made().call_batch(300, spoil(*states(300)), DOUBLE) is None
    assert stand_in.launches == []


def test_parameters_and_gravity_change_without_another_kernel(gpu):
    runner, (a, b, g), other = made(), states(100), parameters(1)
    runner.call_batch(100, [a, b, g], DOUBLE)
    kernels = dict(runner._kernels)
    changed, on_c = runner.with_parameters(other | {"unknown": 1}), on_cpu().with_parameters(other)
    same(changed.call_batch(100, [a, b, 2 * g], DOUBLE), on_c.call_batch(100, [a, b, 2 * g], DOUBLE))
    assert changed._kernels == kernels
    every = np.tile(g, (100, 1)) + np.arange(100.0)[:, None]  # an argument of another kind
    same(runner.call_batch(100, [a, b, every], DOUBLE), on_cpu().call_batch(100, [a, b, every], DOUBLE))


def test_a_pickled_runner_has_its_kernels(gpu):
    runner, given = made(), states(100)
    runner.prepare(batches=True)
    again = pickle.loads(pickle.dumps(runner))
    assert again._kernels.keys() == runner._kernels.keys() and len(again._kernels) == 1
    same(again.call_batch(100, given, DOUBLE), runner.call_batch(100, given, DOUBLE))
    assert len(again._kernels) == 1 and again.backend == "cuda"


# --- a device that fails ------------------------------------------------------------------------------------


def test_each_call_of_cuda_fails_once_and_the_cpu_goes_on(stand_in, monkeypatch, caplog):
    """With the very batch; the loss is logged once."""
    monkeypatch.setattr(runners, "PIECE_BYTES", 130 * 80)
    given = states(300)
    expected = on_cpu().call_batch(300, given, DOUBLE)
    for k in range(200):
        monkeypatch.setattr(device, "_lost", [])
        device.compiled.cache_clear()
        device.streams.cache_clear()
        caplog.clear()
        runner = made()
        stand_in.fault.plan(k)
        for _ in range(2):
            same(runner.call_batch(300, given, DOUBLE), expected)
        if stand_in.fault.at is not None:
            break
        assert lost() == "cudaError 719" and runner.backend == "c, for cuda is lost"
        assert [record.levelno for record in caplog.records] == [logging.ERROR]
        stand_in.launches.clear()
        same(runner.call_batch(300, given, DOUBLE), expected)
        assert stand_in.launches == []
    assert 10 < k < 199


def test_a_lack_of_memory_is_no_loss(stand_in, caplog):
    runner, given = made(), states(300)
    runner.prepare(batches=True)
    stand_in.fault.plan(0, status=device.OUT_OF_MEMORY)
    for _ in range(2):
        same(runner.call_batch(300, given, DOUBLE), on_cpu().call_batch(300, given, DOUBLE))
    assert lost() is None and "no GPU for a batch: cudaError 2" in caplog.text
    stand_in.launches.clear()
    runner.call_batch(300, given, DOUBLE)
    assert stand_in.launches


def test_a_program_that_is_too_long_stays_on_the_cpu(stand_in, monkeypatch, caplog):
    monkeypatch.setattr(runners, "MOST_OPERATIONS", 3)
    given = states(300)
    same(made().call_batch(300, given, DOUBLE), on_cpu().call_batch(300, given, DOUBLE))
    assert stand_in.launches == [] and "operations are too many for a GPU kernel" in caplog.text


# --- auto ---------------------------------------------------------------------------------------------------


def test_auto_takes_no_device(stand_in):
    """No GPU has run the kernels yet."""
    runner = make_runner(swinging(), "auto", parameters())
    assert type(runner).__name__ == "CRunner"
    same(runner.call_batch(5000, states(5000), DOUBLE), on_cpu().call_batch(5000, states(5000), DOUBLE))
    assert stand_in.launches == []


def test_builds_import_no_cupy():
    """Its import takes a second."""
    script = (
        "import sys, dynamics_node as dn\nfrom dynamics_demo.robots import five_bar\n"
        "dn.build(dn.parse_robot(five_bar()), 'inverse_dynamics')\nassert 'cupy' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=100)
