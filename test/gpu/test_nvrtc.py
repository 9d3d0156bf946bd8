"""NVRTC's wheel without a device: cubin, PTX, what a kernel takes, the cache, errors."""

import numpy as np
import pytest
import with_nvrtc
from fake_cuda import Recorded
from gpu_programs import on_cpu, parameters, states, swinging

from dynamics_node.codegen import CompileError, make
from dynamics_node.codegen.cuda import DeviceArray, nvrtc
from dynamics_node.codegen.cuda.nvrtc import Resources, resources

TEXT = """
extern "C" __global__ void __launch_bounds__(128) doubled(const int count, const float *x, float *y)
{
  __shared__ float own[128];
  const int k = blockIdx.x * blockDim.x + threadIdx.x;
  own[threadIdx.x] = k < count ? x[k] : 0;
  __syncthreads();
  if (k < count) y[k] = 2 * own[127 - threadIdx.x];
}
"""


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


@pytest.fixture(scope="module")
def compiler():
    return with_nvrtc.nvrtc()


@pytest.mark.parametrize("arch", [80, 90, 100, 120])
def test_a_text_becomes_a_cubin(compiler, arch):
    cubin = compiler.cubin(TEXT, arch)
    assert cubin.image.startswith(b"\x7fELF") and b"doubled" in cubin.image
    taken = cubin.kernels["doubled"]
    assert 4 <= taken.registers <= 32 and taken.shared in (512, 512 + 1024)
    assert taken.spill_stores == taken.spill_loads == taken.stack == 0


def test_it_is_kept_in_the_cache(compiler, monkeypatch):
    first = compiler.cubin(TEXT, 90)
    monkeypatch.setattr(compiler, "_compiled", None)  # nobody compiles again
    assert compiler.cubin(TEXT, 90) == first
    with pytest.raises(TypeError):
        compiler.cubin(TEXT, 80)
    with pytest.raises(TypeError):
        compiler.cubin(TEXT, 90, ["-lineinfo"])


def test_without_a_place_to_keep_it_is_compiled(compiler, tmp_path, monkeypatch):
    (tmp_path / "dynamics_node").symlink_to(tmp_path)
    assert compiler.cubin(TEXT, 90).image


def test_ptx_is_text_for_the_architecture(compiler):
    text = compiler.ptx(TEXT, 90)
    assert ".target sm_90" in text and ".entry doubled" in text and "\0" not in text


def test_multiplications_and_additions_are_not_fused_behind_our_back(compiler):
    text = 'extern "C" __global__ void f(float *x) { x[0] = x[1] * x[2] + x[3]; }'
    assert "fma" not in compiler.ptx(text, 90)


def test_an_error_is_the_first_line_that_says_it(compiler):
    with pytest.raises(CompileError, match=r"NVRTC.*kernel.cu\(1\).*nonsense"):
        compiler.cubin("__device__ int f() { return nonsense; }", 90)


def test_the_architecture_is_the_newest_that_the_device_runs(compiler):
    assert compiler.arch_for(80) == 80
    assert compiler.arch_for(82) == 80
    assert compiler.arch_for(90) == 90
    with pytest.raises(CompileError, match="compute capability 3.5"):
        compiler.arch_for(35)


def test_what_the_log_says_is_read():
    log = """ptxas info    : Compiling entry function 'a' for 'sm_90'
ptxas         .     8 bytes stack frame, 12 bytes spill stores, 16 bytes spill loads
ptxas info    : Used 40 registers, used 1 barriers, 512 bytes smem, 4 bytes cmem[2]
ptxas info    : Compiling entry function 'b' for 'sm_90'
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 8 registers
"""
    assert resources(log) == {"a": Resources(40, 12, 16, 512, 8), "b": Resources(8, 0, 0, 0, 0)}


def test_a_toolkit_is_found_by_its_variable(monkeypatch):
    monkeypatch.setenv("CUDA_HOME", "/opt/cuda-of-somebody")
    monkeypatch.setenv("CUDA_PATH", "relative")
    places = list(nvrtc._places(12))
    assert "/opt/cuda-of-somebody/lib64/libnvrtc.so.12" in places and places[-1] == "libnvrtc.so.12"
    assert not any(place.startswith("relative") for place in places)


@pytest.mark.parametrize("interpreted", [False, True])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_from_numpy_over_real_images_to_numpy(compiler, fake, monkeypatch, dtype, interpreted):
    """NVRTC's own cubin is what is loaded, and the fake runs the text that it was compiled from; or its PTX,
    which NumPy runs in the memory of the fake."""
    recorded = Recorded(fake, interpreted)
    monkeypatch.setattr("dynamics_node.codegen.cuda.runner.find_nvrtc", lambda newest: recorded)
    runner, given = make(swinging(), "cuda", parameters()), states(200, dtype)
    found = runner.call_batch(200, given, np.dtype(dtype))
    tolerance = 1e-12 if dtype == np.float64 else 1e-5
    for a, b in zip(found, on_cpu().call_batch(200, given, np.dtype(dtype)), strict=True):
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)
    assert fake.launches == [("states", 200, 2)]
    (chosen,) = runner._chosen.values()
    assert chosen.cubin.image.startswith(b"//" if interpreted else b"\x7fELF\x02\x01\x01")
    assert chosen.cubin.kernels["states"].registers < 64


def test_arrays_on_the_device_by_ptx(compiler, fake, monkeypatch):
    """The kernel of states, and the one that looks for states without a result."""
    recorded = Recorded(fake, interpreted=True)
    monkeypatch.setattr("dynamics_node.codegen.cuda.runner.find_nvrtc", lambda newest: recorded)
    a, b, gravity = states(300)
    b[70, 1] = np.nan
    (x, _), bad = make(swinging(), "cuda", parameters()).on_device(
        [DeviceArray.of(a), DeviceArray.of(b), gravity], raises=True
    )
    assert bad == 70 and fake.launches[-1][0] == "first_bad"
    expected = on_cpu().run_checked(300, [a, b, gravity])[0][0]
    np.testing.assert_allclose(x.numpy(), expected, rtol=1e-12, atol=1e-12)
