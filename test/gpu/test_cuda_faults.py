"""Every call of the driver fails in turn, once or for good: nothing is left on the device, and the CPU goes on."""

import gc
import os

import numpy as np
import pytest
from fake_cuda import LOST
from gpu_programs import on_cpu, parameters, states, swinging

from dynamics_node.codegen import CompileError, make
from dynamics_node.codegen.cuda import CudaError, DeviceArray, device_call, driver, lanes, nvrtc
from dynamics_node.codegen.cuda import device as opened
from dynamics_node.codegen.cuda.device_call import launch
from dynamics_node.codegen.errors import ADVICE, failed

DOUBLE = np.dtype(np.float64)
COUNT = 600


@pytest.fixture(autouse=True)
def in_pieces(monkeypatch):
    """Six of them, over both streams."""
    monkeypatch.setattr(lanes, "LEAST_STATES", 100)


def made():
    return make(swinging(), "cuda", parameters())


def batch(runner):
    given = states(COUNT)
    found = runner.call_batch(COUNT, given, DOUBLE)
    for a, b in zip(found, on_cpu().call_batch(COUNT, given, DOUBLE), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


def on_device(runner):
    given = states(COUNT)
    there = [DeviceArray.of(array) for array in given[:2]]
    results, bad = runner.on_device([*there, given[2]], raises=True)
    assert bad is None
    for result, expected in zip(results, on_cpu().call_batch(COUNT, given, DOUBLE), strict=True):
        np.testing.assert_allclose(result.numpy(), expected, rtol=1e-12, atol=1e-12)


def calls_of(fake, work):
    """How many calls of the driver some work takes, but for those that find the device."""
    runner = made()
    fake.fail(-1)
    work(runner)
    return fake.calls


@pytest.mark.parametrize("lasts", [False, True])
def test_a_batch_survives_the_failure_of_any_call(fake, lasts, caplog):
    survived = 0
    calls = calls_of(fake, batch)
    opened.forget()
    for k in range(calls):
        runner = made()
        caplog.clear()
        fake.fail(k, LOST, lasts)
        batch(runner)
        well = opened.lost() is None
        survived += well
        assert runner.backend == ("cuda" if well else "c, for cuda is lost")
        assert well == ("the GPU fake device 0 is lost" not in caplog.text)
        batch(runner)
        del runner
        gc.collect()  # a traceback holds arrays
        opened.forget()
        fake.fail(-1)
        assert fake.held == {}, k
    assert (
        survived == 2 - lasts
    )  # the context does not leave this thread: what the parameters need, and the batch


def test_a_lost_device_is_told_once_by_name(fake, caplog):
    runner = made()
    fake.fail(3, LOST, lasts=True)
    for _ in range(3):
        batch(runner)
    assert caplog.text.count("the GPU fake device 0 is lost, and the CPU goes on: cu") == 1
    assert "CUDA_ERROR_FAKED (719)" in caplog.text and ADVICE[719] in caplog.text
    assert len(caplog.records) == 1


@pytest.mark.parametrize("lasts", [False, True])
def test_arrays_on_the_device_tell_the_failure_of_any_call(fake, lasts):
    told = 0
    calls = calls_of(fake, on_device)
    opened.forget()
    for k in range(calls):
        runner = made()
        fake.fail(k, LOST, lasts)
        try:
            on_device(runner)
        except CudaError as error:
            told += 1
            assert "(719)" in str(error)
        del runner
        gc.collect()  # a traceback holds arrays
        opened.forget()
        fake.fail(-1)
        assert fake.held == {}, k
    assert told > 20


def test_an_unknown_error_of_a_kernel_is_told_where_somebody_waits(fake, caplog):
    runner = made()
    runner.call_batch(COUNT, states(COUNT), DOUBLE)
    fake.texts.clear()  # the fake cannot run what it does not know
    batch(runner)
    assert "cuStreamSynchronize" in caplog.text and runner.backend == "c, for cuda is lost"
    assert fake.faults
    fake.faults.clear()


def test_a_kernel_that_writes_too_far_is_noticed(fake, monkeypatch):
    """By the marks around the memory of the fake: a planted defect, one state too many."""
    monkeypatch.setattr(device_call, "launch", _one_more)
    runner = made()
    with pytest.raises(CudaError, match="outside"):
        on_device(runner)


def _one_more(there, kernel, image, count, *arguments):
    launch(there, kernel, image, count + 1, *arguments)


# --- what is missing ----------------------------------------------------------------------------------------


def test_without_a_driver_cuda_is_an_error_that_says_so(monkeypatch):
    monkeypatch.setattr(driver, "LIBRARY", "libcuda-of-nowhere.so.1")
    opened.forget()
    for _ in range(2):
        with pytest.raises(CompileError, match="NVIDIA driver.*nowhere"):
            made()
    assert make(swinging(), "auto", parameters()).backend == "c"
    opened.forget()


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ({"devices": 0}, r"cuInit: .*\(100\).*; nvidia-smi lists none.*--gpus all"),
        ({"version": 11080}, "this NVIDIA driver is of CUDA 11.8: one of CUDA 12 or newer is needed"),
        (
            {"capability": 61},
            "NVRTC 13.999 compiles for 75, .*, not for compute capability 6.1 of this device",
        ),
    ],
)
def test_what_is_no_use_is_told(fake, kind, words):
    fake.be(**kind)
    with pytest.raises(CompileError, match=words):
        made()
    runner = make(swinging(), "auto", parameters())
    assert runner.call_batch(2**13, states(2**13), DOUBLE) is not None and runner.backend == "c"


def test_without_a_compiler_cuda_says_what_to_install(fake, monkeypatch):
    monkeypatch.setattr("dynamics_node.codegen.cuda.runner.find_nvrtc", nvrtc.find_nvrtc)
    monkeypatch.setattr(nvrtc, "_opened", lambda major: None)
    with pytest.raises(CompileError, match=r"NVRTC.*pip install nvidia-cuda-nvrtc"):
        made()
    opened.forget()
    fake.be(version=12040)
    with pytest.raises(CompileError, match="NVRTC.*CUDA 12.*pip install nvidia-cuda-nvrtc-cu12"):
        made()


def test_a_device_that_cannot_be_opened_is_told(fake):
    fake.fail(0, 803)
    with pytest.raises(CompileError, match=r"cuInit: .*\(803\).*reboot"):
        made()


def test_errors_say_what_to_do():
    for number, advice in ADVICE.items():
        assert str(failed("cuInit", number, "CUDA_ERROR_X", "meaning")).endswith(f"meaning; {advice}")
    assert str(failed("cuInit", 5, "", "")) == "cuInit: CUDA_ERROR (5), unknown to this driver"


# --- processes ----------------------------------------------------------------------------------------------


def test_a_forked_process_goes_on_with_the_cpu(fake):
    runner = made()
    batch(runner)
    kept = DeviceArray.of(np.ones(3))
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            batch(runner)
            told = runner.backend
            try:
                kept.numpy()
            except CudaError as error:
                told += f"; {error}"
            del kept
            os.write(writing, told.encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    told = os.read(reading, 1000).decode()
    assert told.startswith("c, for cuda is lost; fork: CUDA_ERROR_NOT_INITIALIZED (3)") and "by spawn" in told
    batch(runner)
    assert runner.backend == "cuda" and kept.numpy().tolist() == [1, 1, 1]
