"""The driver by ctypes: signatures as in NVIDIA's header, one device a process, contexts of others."""

import ctypes
import re
import threading

import fake_cuda
import numpy as np
import pytest

from dynamics_node.codegen.cuda import CudaError, DeviceArray
from dynamics_node.codegen.cuda import device as opened
from dynamics_node.codegen.cuda.driver import SIGNATURES, Driver


def _declared(header, name):
    """The types of a function's parameters, as the header says."""
    plain = re.sub(r"_v\d$", "", name)
    found = re.search(rf"CUresult CUDAAPI {plain}\(([^)]*)\);", header)
    return [" ".join(part.split()[:-1]) + "*" * part.count("*") for part in found[1].split(",")]


SIZES = {
    "int": 4,
    "unsigned int": 4,
    "CUdevice": 4,
    "CUdevice_attribute": 4,
    "CUpointer_attribute": 4,
    "size_t": 8,
    "CUdeviceptr": 8,
    "CUcontext": 8,
    "CUstream": 8,
    "CUevent": 8,
    "CUmodule": 8,
    "CUfunction": 8,
}


def test_signatures_are_those_of_the_header():
    folder = fake_cuda.headers()
    if folder is None:
        pytest.skip("cuda.h: pip install nvidia-cuda-runtime")
    header = (folder / "cuda.h").read_text()
    for name, types in SIGNATURES.items():
        declared = _declared(header, name)
        assert len(declared) == len(types), name
        for said, kind in zip(declared, types, strict=True):
            expected = 8 if "*" in said else SIZES[said.replace("const ", "")]
            assert ctypes.sizeof(kind) == expected, (name, said)


def test_names_are_those_that_the_header_calls():
    """cuda.h renames what has a second version: the first one takes 32 bits for sizes."""
    folder = fake_cuda.headers()
    if folder is None:
        pytest.skip("cuda.h: pip install nvidia-cuda-runtime")
    header = (folder / "cuda.h").read_text()
    renamed = {
        plain: named
        for plain, named in re.findall(r"#define\s+(cu\w+)\s+(?:__CUDA_API_PTSZ\()?(cu\w+)\)?", header)
    }
    for name in SIGNATURES:
        plain = re.sub(r"_v\d$", "", name)
        assert renamed.get(plain, plain) == name


def test_what_the_device_says(fake):
    found = opened.device()
    assert (found.name, found.capability, found.processors) == ("fake device 0", 90, 2)
    assert found.driver_version == (13, 0)
    assert opened.device() is found


def test_an_error_has_name_number_and_meaning(fake):
    driver = Driver(str(fake.path))
    with pytest.raises(CudaError) as caught:
        driver.asked("cuDeviceGet", ctypes.c_int, 7)
    assert (caught.value.call, caught.value.number) == ("cuDeviceGet", 101)
    assert str(caught.value).endswith("look at CUDA_VISIBLE_DEVICES")


def test_a_context_is_current_only_while_something_works(fake):
    there = opened.device()
    with there.at_work():
        assert fake.depth == 1
        with there.at_work():
            assert fake.depth == 2
    assert fake.depth == 0
    with pytest.raises(CudaError, match="context"):
        there.memory(100)


def test_every_thread_has_its_own_stack_of_contexts(fake):
    there, depths = opened.device(), []

    def work():
        with there.at_work():
            depths.append(fake.depth)

    with there.at_work():
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        assert fake.depth == 1
    assert depths == [1]


def test_a_lack_of_memory_is_not_the_end(fake):
    with (
        pytest.raises(CudaError, match=r"\(2\).*memory"),
        opened.device().at_work(),
    ):
        opened.device().memory(2**40)
    assert opened.lost() is None


def test_another_error_is(fake):
    with pytest.raises(CudaError, match="stream"), opened.device().at_work():
        opened.device().wait(12345)
    assert opened.lost().call == "cuStreamSynchronize"
    with pytest.raises(CudaError, match="lost.*cuStreamSynchronize"):
        opened.device()


def test_an_error_of_ours_is_nobody_elses(fake):
    with pytest.raises(ZeroDivisionError), opened.device().at_work():
        raise ZeroDivisionError
    assert opened.lost() is None and fake.depth == 0


def test_the_context_goes_with_the_last_array(fake):
    kept = DeviceArray.of(np.ones(3))
    opened.forget()
    assert fake.held == {"memory": 1, "context": 1}
    del kept
    assert fake.held == {}


def test_nothing_is_given_back_twice(fake):
    there = opened.device()
    with there.at_work():
        place = there.memory(10)
        there.free("memory", place)
        calls = fake.calls
        there.free("memory", place)
        assert fake.calls == calls
