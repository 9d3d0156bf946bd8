"""What a kernel is called with: its arguments in their order, as values of ctypes."""

import ctypes
from collections.abc import Mapping

import numpy as np

from dynamics_node.backends.cuda.device import Device
from dynamics_node.backends.cuda.driver import DevicePointer
from dynamics_node.backends.text import Argument, Kernel

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
    real = _REAL[kernel.variant.precision]

    def value(argument: Argument):
        if argument.kind == "count":
            return ctypes.c_int(count)
        if argument.kind == "number":
            return real(numbers[argument.name].flat[argument.position])
        return DevicePointer((outputs if argument.kind == "output" else inputs)[argument.name])

    block = kernel.variant.block
    function = device.function(image, kernel.name)
    device.launch(function, -(-count // block), block, [*map(value, kernel.arguments)], stream)


def shared_inputs(kernel: Kernel) -> set[str]:
    """Names of the inputs that all states read by one pointer."""
    return {argument.name for argument in kernel.arguments if argument.kind == "same"}
