"""A Program on an OpenCL device: batches there, one state and a few beside it on the CPU."""

from copy import copy

import numpy as np

from dynamics_node.backends.errors import CompileError, DeviceError
from dynamics_node.backends.opencl.devices import opened, say_once
from dynamics_node.backends.opencl.launch import Launch, fitting_variant
from dynamics_node.backends.results import UNIT_TOLERANCE, returned, taken
from dynamics_node.backends.text import kernel
from dynamics_node.program import Program, Rolled

DOUBLE = np.dtype(np.float64)
GRAVITY = "gravity"  # mostly the same in all states
LEAST = 64  # states: what fewer need is done before a device has begun


class OpenClRunner:
    """A Runner. beside: the Runner of the same Program on the CPU, for what is no batch, for states that a
    kernel leaves without a result (angles beyond its sines: 4096 rad for float32, 65536 for float64), and for
    what the device fails to do, which is said once.

    parameters, quaternions: as of CRunner; other: the same operations in another order, in which fewer values
    are alive: it is taken. device: part of the name of a device or platform, see `opened`; variant: of the
    text, by default what suits the device; memory: bytes that a piece of a batch may take there: see Launch.
    """

    backend = "opencl"
    checks = True

    def __init__(
        self,
        program: Program | Rolled,
        beside,
        parameters=None,
        quaternions=(),
        other=None,
        device="",
        variant=None,
        memory=None,
    ):
        """Raises DeviceError, and ImportError without pyopencl."""
        self.program = program if other is None else other
        self.inputs, self.outputs = taken(program, parameters or ()), returned(program)
        self._quaternions, self._device = tuple(quaternions), device
        self._variant, self._memory = variant, memory
        self._launches: dict[tuple, Launch] = {}  # by type and inputs that are the same; of this process
        self._take(beside, parameters or {})
        opened(device)

    def _take(self, beside, parameters):
        self.beside, self.solve, self.few = beside, beside.solve, beside.few
        self._parameters = {name: np.asarray(values) for name, values in parameters.items()}

    @property
    def device(self) -> str:
        """Platform and device, for people."""
        return opened(self._device).name

    def require(self, dtype):
        """Raise DeviceError where the device does not compute with a type."""
        if dtype == DOUBLE and not opened(self._device).doubles:
            raise DeviceError(f"{self.device} has no float64: ask for precision='float32'")

    def with_parameters(self, values):
        """A Runner of the same kernels with other values {name: array} of the parameters; unknown names are
        ignored."""
        other = copy(self)
        other._take(self.beside.with_parameters(values), {name: values[name] for name in self._parameters})
        return other

    def prepare(self, batches=False):
        """Compile now what many states in float64 need that have parameters and gravity in common."""
        self.beside.prepare(batches)
        on = opened(self._device)
        if batches and on.doubles:
            self._launch(on, DOUBLE, {GRAVITY, *self._parameters} & {*self.program.inputs})

    def many(self, count, inputs, dtype, out=None):
        """See backends.Runner."""
        shapes = [*self.inputs.values()]
        plain = len(inputs) == len(shapes) and all(
            _plain(array, shape, count, dtype) for array, shape in zip(inputs, shapes, strict=True)
        )
        if count < LEAST or not plain:
            return None
        outputs, good = self.run(count, inputs, dtype)
        return outputs if good else None

    def run(self, count, inputs, dtype=np.float64):
        """See backends.Runner."""
        dtype = np.dtype(dtype)
        outputs = self._by_device(count, inputs, dtype) if count >= LEAST else None
        if outputs is None:
            return self.beside.run(count, inputs, dtype)
        # all outputs of a bad state are NaN: one number tells
        told = [np.isnan(output.reshape(count, -1)[:, 0]) for output in outputs if output.size]
        return outputs, not told or not told[0].any() or self._mended(outputs, inputs, told[0], dtype)

    def _by_device(self, count, inputs, dtype):
        """The outputs, NaN for bad states; None where the device has no such numbers, or fails."""
        try:
            on = opened(self._device)
            return self._computed(on, count, inputs, dtype) if on.doubles or dtype != DOUBLE else None
        except CompileError as error:
            say_once(f"{error}; the CPU goes on")
            return None

    def _computed(self, on, count, inputs, dtype):
        given = dict(zip(self.inputs, inputs, strict=True)) | self._parameters
        arrays = {name: np.ascontiguousarray(array, dtype) for name, array in given.items()}
        same = {name for name, shape in self.program.inputs.items() if arrays[name].ndim == len(shape)}
        outputs = [np.empty((count, *shape), dtype) for shape in self.outputs.values()]
        if self._good(arrays, same):
            self._launch(on, dtype, same)(count, arrays, dict(zip(self.outputs, outputs, strict=True)))
        else:
            for output in outputs:
                output.fill(np.nan)
        return outputs

    def _mended(self, outputs, inputs, bad, dtype):
        """Ask the CPU about bad states (count,), in place; whether all are good then."""
        some = [
            array[bad] if array.ndim > len(shape) else array
            for array, shape in zip(inputs, self.inputs.values(), strict=True)
        ]
        try:
            again, good = self.beside.run(np.count_nonzero(bad), some, dtype)
        except np.linalg.LinAlgError:  # an algorithm at call time refuses all of them
            return False
        for output, array in zip(outputs, again, strict=True):
            output[bad] = array
        return good

    def _good(self, arrays, same):
        """Whether the inputs that are the same in all states are finite and of unit length."""
        start = 0
        for name, shape in self.program.inputs.items():
            size = int(np.prod(shape, dtype=int))
            if name in same:
                row = arrays[name].ravel()
                units = [row[k - start : k - start + 4] for k in self._quaternions if 0 <= k - start < size]
                if not np.isfinite(row).all() or any(abs(p @ p - 1) > UNIT_TOLERANCE for p in units):
                    return False
            start += size
        return True

    def _launch(self, on, dtype, same):
        key = dtype, frozenset(same)
        if key not in self._launches:
            variant = self._variant or fitting_variant(on, dtype, isinstance(self.program, Rolled))
            text = kernel(self.program, variant, key[1], self._quaternions)
            self._launches[key] = Launch(on, text, self._memory)
        return self._launches[key]

    def __getstate__(self):
        return {name: value for name, value in self.__dict__.items() if name not in ("solve", "few")} | {
            "_launches": {}
        }

    def __setstate__(self, state):
        self.__dict__.update(state)
        self.solve, self.few = self.beside.solve, self.beside.few


def _plain(array, shape, count, dtype):
    """True of an array that a device reads as it is."""
    fits = isinstance(array, np.ndarray) and array.dtype == dtype and array.flags.c_contiguous
    return fits and array.shape in ((count, *shape), shape)
