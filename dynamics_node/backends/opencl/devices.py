"""Which device computes, and what is open on it."""

import logging
import os
from functools import cache
from typing import Any, NamedTuple

from dynamics_node.backends.errors import DeviceError

log = logging.getLogger("dynamics_node")
NAMED = "DYNAMICS_OPENCL_DEVICE"  # part of the name of a platform or device, where none is asked for


class Opened(NamedTuple):
    """cl: the module pyopencl; queue, beside: what is given to one of them runs in order, and beside what is
    given to the other; name: of platform and device, for people."""

    cl: Any
    device: Any
    context: Any
    queue: Any
    beside: Any
    name: str

    @property
    def doubles(self) -> bool:
        """Whether it has float64."""
        return bool(self.device.double_fp_config)

    @property
    def is_cpu(self) -> bool:
        return _kind(self.cl, self.device) == self.cl.device_type.CPU


def opened(part="") -> Opened:
    """The device whose name, or whose platform's, has this part; without one (nor $DYNAMICS_OPENCL_DEVICE)
    the first GPU, else the first CPU. Raises DeviceError, and ImportError that says what to install."""
    if _forked:
        raise DeviceError("a forked process cannot use the OpenCL devices of its parent: start it by spawn")
    return _opened(part or os.environ.get(NAMED, ""))


@cache
def _opened(part):
    cl = pyopencl()
    found = _devices(cl)
    fitting = [(name, device) for name, device in found if part.casefold() in name.casefold()]
    if not fitting:
        listed = ", ".join(name for name, _ in found)
        raise DeviceError(f"no OpenCL device has {part!r} in its name; there are {listed}")
    name, device = min(fitting, key=lambda pair: _rank(cl, pair[1]))
    context = cl.Context([device])
    return Opened(cl, device, context, cl.CommandQueue(context), cl.CommandQueue(context), name)


_forked: list[bool] = []  # True in a process whose parent had opened devices: it would wait for their threads


def _after_fork():
    if _opened.cache_info().currsize:
        _forked.append(True)


os.register_at_fork(after_in_child=_after_fork)


@cache
def say_once(told: str):
    """A warning, in a process once."""
    log.warning("%s", told)


def pyopencl():
    """The module. Raises ImportError that says what to install."""
    try:
        import pyopencl
    except ImportError as error:
        raise ImportError(f"backend opencl needs pyopencl: pip install pyopencl ({error})") from error
    return pyopencl


def _devices(cl):
    """[(name, device)] of all platforms."""
    found = []
    try:
        for platform in cl.get_platforms():
            try:
                devices = platform.get_devices()
            except cl.Error:  # a platform without devices says so by an error
                continue
            found += [(f"{platform.name.strip()}: {device.name.strip()}", device) for device in devices]
    except cl.Error as error:
        raise DeviceError(_nothing(error)) from None
    if not found:
        raise DeviceError(_nothing("no platform has a device"))
    return found


def _nothing(error):
    return f"no OpenCL device ({error}): install the driver of the GPU, or pocl-opencl-icd for the CPU"


def _rank(cl, device):
    """GPUs first, then CPUs; last what claims to be everything: simulators do."""
    kinds = (cl.device_type.GPU, cl.device_type.CPU)
    kind = _kind(cl, device)
    return kinds.index(kind) if kind in kinds else len(kinds)


def _kind(cl, device):
    kinds = cl.device_type
    return device.type & (kinds.GPU | kinds.CPU | kinds.ACCELERATOR)
