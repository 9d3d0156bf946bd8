"""The fake driver for tests of the CUDA backend."""

import gc

import compilers
import fake_cuda
import pytest
from flags import optimised, quickly_compiled

from dynamics_node.codegen.cuda import device as opened

__all__ = ["optimised", "quickly_compiled"]


@pytest.fixture
def fake(monkeypatch):
    """The fake in place of driver and NVRTC. At the end kernels have run without a fault, and nothing is left
    on the device."""
    if fake_cuda.headers() is None:
        pytest.skip("cuda.h: pip install nvidia-cuda-runtime")
    compilers.require("gcc", *fake_cuda.UBSAN)
    compilers.require("gcc", "-march=native")
    fake = fake_cuda.installed(monkeypatch)
    gc.freeze()  # collections look at what the test makes, not at all that others have left
    yield fake
    fake.fail(-1)
    gc.collect()
    opened.forget()
    assert fake.held == {} and fake.depth == 0
    assert fake.faults == []
