"""A Program over arrays that lie on the device: its launch, and calls with arrays of CuPy, PyTorch, JAX.

All runs on CuPy's current stream. Results are arrays of the library of the first input.
"""

import math
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from dynamics_node.codegen.cuda.device import compiled
from dynamics_node.codegen.printer import KernelSource
from dynamics_node.errors import InputError

ROWS, COLUMNS = "rows", "columns"
ON_CUDA = (2, 13)  # kinds of devices of DLPack: CUDA, and its managed memory


class ArrayError(InputError):
    """An array on the device that cannot be used; the message says what to do."""


def on_device(value) -> bool:
    """Whether a value is an array that lies on a CUDA device."""
    if isinstance(value, np.ndarray):
        return False
    exchanged = getattr(value, "__dlpack_device__", None)
    if exchanged is not None:
        return exchanged()[0] in ON_CUDA
    return hasattr(value, "__cuda_array_interface__")


# --- launches -----------------------------------------------------------------------------------------------


def launch(cupy, kernel: KernelSource, count: int, inputs: Mapping, outputs: Mapping, numbers: Mapping):
    """Compute `count` states, at least one. inputs, outputs: {name: array of CuPy}, those that all states
    read included; numbers: {name: array of NumPy} of inputs that are handed over by value. Inside
    `at_work`."""
    dtype = kernel.variant.dtype

    def value(argument):
        if argument.kind == "count":
            return np.int32(count)
        if argument.kind == "number":
            return dtype.type(np.ravel(numbers[argument.name])[argument.position])
        return (outputs if argument.kind == "output" else inputs)[argument.name]

    arguments = tuple(map(value, kernel.arguments))
    compiled(kernel.text, kernel.name)((kernel.blocks(count),), (kernel.variant.block,), arguments)


def shared_arrays(cupy, kernel: KernelSource, same: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """{name: array of CuPy} of what all states read by a pointer."""
    names = {argument.name for argument in kernel.arguments if argument.kind == "same"}
    return {name: cupy.asarray(np.ascontiguousarray(same[name], kernel.variant.dtype)) for name in names}


# --- calls --------------------------------------------------------------------------------------------------


class DeviceCall:
    """The arrays of a call, of which at least one lies on the device.

    Those on the device (..., *shape) are of one type, which is that of the arithmetic, over the same leading
    axes. What is given as an array of NumPy (*shape) is the same in all states. Where all arrays lie in
    columns, an entry of all states side by side, so do results; else in rows.
    """

    def __init__(self, cupy, runner, inputs, out=None):
        """inputs: in the order of runner.inputs; out: a tuple of arrays for the results. Raises
        ArrayError."""
        self._cupy, self._runner, self._out = cupy, runner, out
        given = dict(zip(runner.inputs, inputs, strict=True))
        self._there = {
            name: taken_there(cupy, name, value) for name, value in given.items() if on_device(value)
        }
        self._places = None if out is None else [taken_there(cupy, "out", place) for place in out]
        arrays = [value for value in (*inputs, *(out or ())) if on_device(value)]
        self._first, self._foreign = arrays[0], not all(isinstance(a, cupy.ndarray) for a in arrays)
        name, first = next(iter(self._there.items()))
        self.dtype, self.batch = first.dtype, first.shape[: first.ndim - len(runner.inputs[name])]
        self.count = math.prod(self.batch)
        shaped = [(name, array, runner.inputs[name]) for name, array in self._there.items()]
        for place, shape in zip(self._places or (), runner.outputs.values(), strict=False):
            shaped.append(("out", place, shape))
        for one in shaped:
            self._require(*one)
        self.same = runner.parameters_in(self.dtype)
        self.same |= {name: self._alike(name, v) for name, v in given.items() if name not in self._there}
        self.layout = COLUMNS if _in_columns([(array, len(shape)) for _, array, shape in shaped]) else ROWS

    def _require(self, name, array, shape):
        if array.dtype != self.dtype or self.dtype not in (np.float32, np.float64):
            raise ArrayError(f"{name} is of {array.dtype}: all arrays must be of float32, or of float64")
        if array.shape != (*self.batch, *shape):
            whole = (*self.batch, *shape)
            raise ArrayError(f"{name} must have shape {whole}, not {array.shape}: nothing is broadcast there")

    def _alike(self, name, value):
        """An input of the host, which is the same in all states."""
        shape, values = self._runner.inputs[name], np.asarray(value, dtype=self.dtype)
        if values.shape != shape:
            raise ArrayError(f"{name} {values.shape} does not lie on the device: only {shape} may be NumPy's")
        if not np.isfinite(values).all():
            raise ArrayError(f"{name} is not finite")
        return values

    def __call__(self, raises=False) -> tuple[tuple, int | None]:
        """(results or the caller's arrays, with `raises` the number of the first state without a result, None
        where there is none); only `raises`, and arrays of other libraries than CuPy, make the call wait.
        Raises CompileError, MemoryError."""
        results = [self._result(k, shape) for k, shape in enumerate(self._runner.outputs.values())]
        bad = None
        if self.count:
            kernel = self._runner.kernel(self.dtype, self.layout, self.same.keys())
            self._launch(kernel, results)
            bad = self._first_bad(results) if raises else None
        if self._places is not None:
            for place, result in zip(self._places, results, strict=True):
                if place is not result:
                    place[...] = result
        if self._foreign:  # whose library may use the memory again at once, by its own stream
            self._cupy.cuda.get_current_stream().synchronize()
        if self._out is not None:
            return tuple(self._out), bad
        return tuple(like(self._cupy, self._first, result) for result in results), bad

    def _result(self, k, shape):
        """The caller's array where it lies as the kernel writes, else a new one."""
        if self._places is not None and (self.layout == COLUMNS or self._places[k].flags.c_contiguous):
            return self._places[k]
        if self.layout == ROWS:
            return self._cupy.empty((*self.batch, *shape), self.dtype)
        return _turned(self._cupy.empty((*shape, *self.batch), self.dtype), len(self.batch))

    def _launch(self, kernel, results):
        if self.count > kernel.most_states:
            raise ArrayError(f"{self.count} states are too many at a time: give at most {kernel.most_states}")
        inputs = self._there
        if self.layout == ROWS:
            inputs = {name: self._cupy.ascontiguousarray(array) for name, array in inputs.items()}
        inputs = inputs | shared_arrays(self._cupy, kernel, self.same)
        outputs = dict(zip(self._runner.outputs, results, strict=True))
        launch(self._cupy, kernel, self.count, inputs, outputs, self.same)

    def _first_bad(self, results):
        """All outputs of a state without a result are NaN: one entry of it is looked at."""
        shapes = self._runner.outputs.values()
        result, axes = next((r, len(s)) for r, s in zip(results, shapes, strict=True) if r.size)
        bad = self._cupy.isnan(result[(..., *[0] * axes)]).ravel()
        return int(bad.argmax()) if bad.any() else None


def taken_there(cupy, name, value):
    """An array on the device as CuPy's, without a copy; what its library has still to do is waited for by the
    current stream. Raises ArrayError."""
    if not isinstance(value, cupy.ndarray):
        if not on_device(value):
            raise ArrayError(f"{name} does not lie on the device, as the inputs do")
        value = cupy.from_dlpack(value) if hasattr(value, "__dlpack__") else cupy.asarray(value)
    if value.device != cupy.cuda.Device():
        raise ArrayError(f"{name} lies on {value.device}, not on the current one, {cupy.cuda.Device()}")
    return value


def _in_columns(arrays) -> bool:
    """Whether all of [(array, axes of a state)] lie in columns, and not all in rows as well."""
    rows = all(array.flags.c_contiguous for array, _ in arrays)
    return not rows and all(_turned(array, axes).flags.c_contiguous for array, axes in arrays)


def _turned(array, axes):
    """The last axes first."""
    batch = array.ndim - axes
    return array.transpose((*range(batch, array.ndim), *range(batch)))


def like(cupy, example, result):
    """A CuPy array as one of the library of `example` where that reads DLPack."""
    if isinstance(example, cupy.ndarray):
        return result
    if hasattr(example, "__array_namespace__"):
        library = example.__array_namespace__()
    else:
        library = sys.modules.get(type(example).__module__.partition(".")[0])
    take = getattr(library, "from_dlpack", None)
    return result if take is None else take(result)
