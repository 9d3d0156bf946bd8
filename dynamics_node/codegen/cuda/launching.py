"""What a kernel is called with: its arguments in their order, as values of ctypes."""

import ctypes
from collections.abc import Mapping

import numpy as np

from dynamics_node.codegen.cuda.device import Device
from dynamics_node.codegen.cuda.driver import DevicePointer
from dynamics_node.codegen.cuda.scratch import scratch
from dynamics_node.codegen.printer import Argument, Kernel

_REAL = {"float": ctypes.c_float, "double": ctypes.c_double}


def launch(
    device: Device,
    kernel: Kernel,
    image: bytes,
    count: int,
    inputs: Mapping[str, int],
    outputs: Mapping[str, int],
    numbers: Mapping[str, np.ndarray],
    stream: int,
):
    """Compute `count` states, at least one. inputs, outputs: {name: address on the device}, of arrays and of
    what all states read; numbers: {name: values} of inputs that are handed over by value. Raises
    CudaError."""
    block, blocks = kernel.variant.block, kernel.blocks(count)
    function = device.function(image, kernel.name)

    def start(number, own):
        values = _values(kernel, count, {**inputs, "scratch": own}, outputs, numbers)
        device.launch(function, number, block, values, stream)

    if each := kernel.scratch * kernel.variant.dtype.itemsize:
        with scratch(device, each, blocks, stream) as (own, number):
            start(number, own)
    else:
        start(blocks, 0)


def _values(kernel, count, inputs, outputs, numbers):
    """Of all arguments."""
    real = _REAL[kernel.variant.precision]

    def value(argument: Argument):
        if argument.kind == "count":
            return ctypes.c_int(count)
        if argument.kind == "number":
            return real(numbers[argument.name].flat[argument.position])
        return DevicePointer((outputs if argument.kind == "output" else inputs)[argument.name])

    return [*map(value, kernel.arguments)]


def shared_inputs(kernel: Kernel) -> set[str]:
    """Names of the inputs that all states read by one pointer."""
    return {argument.name for argument in kernel.arguments if argument.kind == "same"}
