"""One call of a Runner with arrays that lie on the device: nothing is copied, nothing waits that need not."""

import ctypes
import math
from collections.abc import Mapping
from functools import cache

import numpy as np

from dynamics_node.codegen.cuda.device import LEGACY_STREAM, Device, device, scratch
from dynamics_node.codegen.cuda.device_arrays import (
    COLUMNS,
    ROWS,
    ArrayError,
    DeviceArray,
    View,
    on_device,
    view,
)
from dynamics_node.codegen.cuda.driver import DevicePointer
from dynamics_node.codegen.printer import Argument, Kernel, Variant, head

_REAL = {"float": ctypes.c_float, "double": ctypes.c_double}
NAME = "first_bad"
WORKERS = 8192  # threads, each of which looks at every so manieth state
_TEXT = """
KERNEL first_bad(const int workers, const long long states, const int stride,
                 const real *restrict numbers, long long *restrict found)
{
  EACH_BLOCK(workers) {
  EACH_THREAD {
    const int worker = BLOCK * WIDTH + THREAD;
    if (worker < workers) {
      long long first = -1;
      for (long long state = worker; state < states && first < 0; state += workers) {
        const real number = numbers[state * stride];
        if (number != number) first = state;
      }
      found[worker] = first;
    }
  }
  }
}
"""


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


def first_bad(compiler, dtype: np.dtype, count: int, address: int, stride: int, stream: int) -> int | None:
    """The number of the first of `count` states whose entry is NaN, None where there is none; entries lie
    `stride` numbers apart, the first at an address. compiler: NVRTC and an architecture. Waits for the
    stream. Inside `at_work`. Raises CompileError, CudaError."""
    image = _image(*compiler, dtype)
    there, workers = device(), min(WORKERS, count)
    found = np.empty(workers, np.int64)
    block = Variant().block
    place = there.memory(found.nbytes)
    try:
        arguments = [ctypes.c_int(workers), ctypes.c_longlong(count), ctypes.c_int(stride)]
        arguments += [DevicePointer(address), DevicePointer(place)]
        there.launch(there.function(image, NAME), -(-workers // block), block, arguments, stream)
        there.get(found.ctypes.data, place, found.nbytes, stream)
        there.wait(stream)
    finally:
        there.free("memory", place)
    return int(found[found >= 0].min()) if (found >= 0).any() else None


@cache
def _image(nvrtc, arch, dtype):
    text = "\n".join([*head(Variant(precision="float" if dtype == np.float32 else "double")), _TEXT])
    return nvrtc.cubin(text, arch).image


class DeviceCall:
    """The arrays of a call, looked at.

    All arrays of states (..., *shape) lie on the device, over the same leading axes, of one type, which is
    that of the arithmetic, in one layout, which is that of the results. What is given as an array of NumPy
    (*shape) is the same in all states.

    The kernel is given to the stream that the inputs tell, and the results tell it; where one tells none, the
    results are there when the call returns.
    """

    def __init__(self, runner, inputs, out=None):
        """inputs: in the order of runner.inputs; out: a tuple of arrays for the results. Raises ArrayError,
        CudaError."""
        self._runner, self._out = runner, out
        given = dict(zip(runner.inputs, inputs, strict=True))
        self._there = {name: view(name, value) for name, value in given.items() if on_device(value)}
        first = next(iter(self._there.values()))
        self.dtype, self.batch = first.dtype, first.shape[: len(first.shape) - len(runner.inputs[first.name])]
        self.count = math.prod(self.batch)
        for found in self._there.values():
            self._require(found, runner.inputs[found.name], first)
        self._same = runner.parameters_in(self.dtype)
        self._same |= {
            name: self._here(name, value) for name, value in given.items() if name not in self._there
        }
        self._results = self._places(out)
        self.layout = self._common_layout()

    def _require(self, found: View, shape, first: View):
        if found.dtype != self.dtype:
            raise ArrayError(
                f"{found.name} is of {found.dtype}, {first.name} of {self.dtype}: one type is needed"
            )
        if found.shape != (*self.batch, *shape):
            told = f"{found.name} must have shape {(*self.batch, *shape)}, not {found.shape}"
            raise ArrayError(f"{told}: arrays on the device are not broadcast")

    def _here(self, name, value):
        shape, values = self._runner.inputs[name], np.asarray(value, dtype=self.dtype)
        if values.shape != shape:
            told = f"{name} {values.shape} does not lie on the device: copy it there (DeviceArray.of)"
            raise ArrayError(f"{told}, or give what is the same in all states, {shape}")
        if not np.isfinite(values).all():
            raise ArrayError(f"{name} is not finite")
        return values

    def _places(self, out):
        """{name: View} of the caller's arrays for results, none where there are none."""
        if out is None:
            return {}
        shapes = self._runner.outputs
        found = {name: view("out", place, written=True) for name, place in zip(shapes, out, strict=True)}
        for name, place in found.items():
            self._require(place, shapes[name], next(iter(self._there.values())))
        return found

    def _common_layout(self):
        laid = [(found, len(self._runner.inputs[found.name])) for found in self._there.values()]
        laid += [(found, len(self._runner.outputs[name])) for name, found in self._results.items()]
        for layout in (ROWS, COLUMNS):
            if all(layout in found.layouts(axes) for found, axes in laid):
                return layout
        told = ", ".join(
            f"{found.name} {'/'.join(sorted(found.layouts(axes))) or 'neither'}" for found, axes in laid
        )
        raise ArrayError(
            "all arrays must lie alike, C-contiguous (rows) or in Fortran's order (columns): "
            f"{told}; copy those that do not, as by cupy.ascontiguousarray"
        )

    def __call__(self, raises=False):
        """The results, a tuple of DeviceArrays or the caller's arrays; with `raises` also the number of the
        first state without one, None where there is none; the call waits for that. Raises CompileError,
        CudaError."""
        chosen = self._runner.chosen(self.dtype, self.layout, self._same.keys())
        given = [*self._there.values(), *self._results.values()]
        streams = list(dict.fromkeys(LEGACY_STREAM if g.stream is None else g.stream for g in given))
        waits, bad = any(g.stream is None for g in given), None
        there = device()
        with there.at_work():
            stream = streams[0]
            results = self._out or self._made(None if waits else stream)
            for other in streams[1:]:
                there.follow(stream, other)
            if self.count:
                places = self._addresses(results)
                self._launch(chosen, places, stream)
                bad = self._first_bad(places, stream) if raises else None
            for other in streams[1:]:
                there.follow(other, stream)
            if waits:
                there.wait(stream)
        return tuple(results), bad

    def _made(self, stream):
        """New arrays for the results."""
        return [
            DeviceArray((*self.batch, *shape), self.dtype, self.layout, len(shape), stream)
            for shape in self._runner.outputs.values()
        ]

    def _addresses(self, results):
        """{name of an output: address}"""
        if self._results:
            return {name: found.address for name, found in self._results.items()}
        return {name: made.address for name, made in zip(self._runner.outputs, results, strict=True)}

    def _launch(self, chosen, places, stream):
        """In as many parts as indices need."""
        most = chosen.kernel.most_states
        if self.count > most and self.layout == COLUMNS:
            raise ArrayError(f"{self.count} states in columns are too many at a time: give at most {most}")
        inputs = {name: found.address for name, found in self._there.items()}
        # freed where the name goes, which waits for what reads them
        constants = self._runner.constants(chosen.kernel, self._same, self.dtype)
        known = {name: array.address for name, array in constants.items()}
        for start in range(0, self.count, most):
            launch(
                device(),
                chosen.kernel,
                chosen.cubin.image,
                min(most, self.count - start),
                known | self._moved(inputs, self._runner.inputs, start),
                self._moved(places, self._runner.outputs, start),
                self._same,
                stream,
            )

    def _moved(self, addresses, shapes, start):
        """Addresses of the rows from a state on."""
        step = start * self.dtype.itemsize
        return {name: address + step * math.prod(shapes[name]) for name, address in addresses.items()}

    def _first_bad(self, places, stream):
        """All outputs of a state without a result are NaN: one entry of each is looked at."""
        name, size = next(
            (name, math.prod(shape)) for name, shape in self._runner.outputs.items() if math.prod(shape)
        )
        stride = size if self.layout == ROWS else 1
        return first_bad(self._runner.compiler(), self.dtype, self.count, places[name], stride, stream)
