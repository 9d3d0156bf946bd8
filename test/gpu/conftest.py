"""What stands for a GPU: a module in place of CuPy, by which kernels run as C; and CuPy itself where a device is."""

import sys
from types import SimpleNamespace

import compilers
import device_arrays
import pytest
from flags import in_one_order, optimized, quickly_compiled

from dynamics_node.codegen.cuda import device

__all__ = ["in_one_order", "optimized", "quickly_compiled"]


@pytest.fixture
def stand_in(monkeypatch):
    """The module in place of CuPy: `cupy`; `launches`: see LAUNCHES; `fault`: see Fault."""
    compilers.require("cc")
    fresh(monkeypatch)
    monkeypatch.setitem(sys.modules, "cupy", device_arrays.DeviceModule())
    device_arrays.LAUNCHES.clear()
    device_arrays.FAULT.plan(None)
    yield SimpleNamespace(
        cupy=sys.modules["cupy"], launches=device_arrays.LAUNCHES, fault=device_arrays.FAULT, real=False
    )
    forget()


@pytest.fixture(params=["stand-in", pytest.param("device", marks=pytest.mark.device)])
def gpu(request, monkeypatch):
    """CuPy's stand-in, and CuPy on a device: `cupy`."""
    if request.param == "stand-in":
        return request.getfixturevalue("stand_in")
    fresh(monkeypatch)
    return SimpleNamespace(cupy=device_arrays.real_cupy(), real=True)


def fresh(monkeypatch):
    """A process that has lost no device, and has compiled nothing for one."""
    monkeypatch.setattr(device, "_lost", [])
    monkeypatch.setattr(device, "_warned", set())
    forget()


def forget():
    """What a process keeps of its device."""
    device.compiled.cache_clear()
    device.streams.cache_clear()
