"""A Program on a CUDA device as a Runner."""

import math
from copy import copy
from typing import NamedTuple

import numpy as np

from dynamics_node.codegen.cuda.device import at_work, compiled, cupy_module, lost, streams, warn_once
from dynamics_node.codegen.cuda.device_call import ROWS, DeviceCall, launch, shared_arrays
from dynamics_node.codegen.printer import KernelSource, Variant, kernel
from dynamics_node.codegen.runner import PRECISIONS, returned, taken
from dynamics_node.errors import CompileError
from dynamics_node.symbolic import Program, depth_first

GRAVITY = "gravity"  # an input that mostly is the same in all states
LEAST = 64  # states: what fewer need is done before a device has begun
PIECE_BYTES = 2**23  # of a piece of a batch, in and out
MOST_OPERATIONS = 100_000  # beyond, NVRTC takes many minutes


class HostBatch(NamedTuple):
    """Arrays of NumPy for a call. arrays: {name: (states, *shape)}; same: {name: (*shape)} of what is the
    same in all states, parameters among them."""

    states: int
    dtype: np.dtype
    arrays: dict[str, np.ndarray]
    same: dict[str, np.ndarray]


class CudaRunner:
    """A Runner. beside: the Runner of the same Program on the CPU, for all that are not batches, for states
    that a kernel does not solve (angles beyond its sines: 4096 rad in float32, 65536 in float64), and for
    everything once the device is lost.

    parameters, quaternions: as of CRunner.
    """

    checks = True

    def __init__(self, program: Program, beside, parameters=None, quaternions=()):
        """Raises DeviceError without CuPy or a device."""
        self.program, self._quaternions = program, tuple(quaternions)
        self.inputs, self.outputs = taken(program, parameters or ()), returned(program)
        self._turning = _places(program, self._quaternions)
        self._kernels: dict[tuple, KernelSource] = {}  # shared by all that `with_parameters` returns
        self._take(beside, dict(parameters or {}))
        cupy_module()

    def _take(self, beside, parameters):
        self.beside, self.call_one, self.call_new = beside, beside.call_one, beside.call_new
        self._parameters = {name: np.asarray(values) for name, values in parameters.items()}

    @property
    def backend(self):
        """'cuda', or what goes on after the device was lost."""
        return "cuda" if lost() is None else f"{self.beside.backend}, for cuda is lost"

    def with_parameters(self, values):
        """See Runner: of both sides; nothing is compiled."""
        other = copy(self)
        known = {name: values[name] for name in self._parameters}
        other._take(self.beside.with_parameters(values), known)
        return other

    def prepare(self, batches=False):
        """Compile now what many states need. Raises CompileError."""
        self.beside.prepare(batches)
        if batches:
            same = {GRAVITY} & self.inputs.keys() | self._parameters.keys()
            with at_work():
                kernel = self.kernel(np.dtype(np.float64), ROWS, same)
                compiled(kernel.text, kernel.name)

    # --- arrays of NumPy ------------------------------------------------------------------------------------

    def call_batch(self, count, inputs, dtype, out=None):
        """See Runner."""
        result = self._by_device(count, inputs, dtype)
        if result is None:
            return self.beside.call_batch(count, inputs, dtype, out)
        outputs, good = result
        return outputs if good else None

    def run_checked(self, count, inputs, dtype=np.float64):
        """See Runner."""
        result = self._by_device(count, inputs, np.dtype(dtype))
        return self.beside.run_checked(count, inputs, dtype) if result is None else result

    def _by_device(self, count, inputs, dtype) -> tuple[list[np.ndarray], bool] | None:
        """As `run_checked`; None where the device does not do it. An error was logged."""
        batch = self._batch(count, inputs, dtype)
        if batch is None:
            return None
        try:
            outputs = self.compute(batch)
        except (CompileError, MemoryError) as error:
            if lost() is None:  # else that was logged
                warn_once(f"no GPU for a batch: {error}")
            return None
        return outputs, self._mended(outputs, batch)

    def _batch(self, count, inputs, dtype) -> HostBatch | None:
        """None for what the device is not to compute: too few, not plain arrays, or bad in all states."""
        if count < LEAST or dtype not in PRECISIONS or len(inputs) != len(self.inputs) or lost() is not None:
            return None
        arrays, same = {}, self.parameters_in(dtype)
        for (name, shape), array in zip(self.inputs.items(), inputs, strict=True):
            if not isinstance(array, np.ndarray) or array.dtype != dtype:
                return None
            if array.shape == (count, *shape):
                arrays[name] = array
            elif array.shape == shape and name not in self._turning and np.isfinite(array).all():
                same[name] = array
            else:
                return None
        return HostBatch(int(count), dtype, arrays, same)

    def parameters_in(self, dtype) -> dict[str, np.ndarray]:
        """{name: values} of the parameters in a type."""
        return {name: values.astype(dtype, copy=False) for name, values in self._parameters.items()}

    def compute(self, batch: HostBatch) -> list[np.ndarray]:
        """The outputs by the device alone, in pieces. Raises CompileError, MemoryError."""
        outputs = {
            name: np.empty((batch.states, *shape), batch.dtype) for name, shape in self.outputs.items()
        }
        size = sum(a.nbytes for a in (*batch.arrays.values(), *outputs.values())) // batch.states
        kernel = self.kernel(batch.dtype, ROWS, batch.same.keys())
        each = piece(size, kernel.most_states, kernel.variant.block)
        with at_work() as cupy, Pipeline(cupy, kernel, batch.same) as pipeline:
            for start in range(0, batch.states, each):
                part = slice(start, min(start + each, batch.states))
                pipeline.submit(
                    part.stop - start,
                    {name: array[part] for name, array in batch.arrays.items()},
                    {name: array[part] for name, array in outputs.items()},
                )
            pipeline.drain()
        return list(outputs.values())

    def _mended(self, outputs, batch) -> bool:
        """Whether all states are good, after those without a result were given to the CPU, in place."""
        bad = bad_states(outputs)
        if not bad.any():
            return True
        every = {**batch.arrays, **batch.same}
        some = [every[name][bad] if name in batch.arrays else every[name] for name in self.inputs]
        try:
            again, good = self.beside.run_checked(np.count_nonzero(bad), some, batch.dtype)
        except np.linalg.LinAlgError:  # an algorithm at call time refuses all of them
            return False
        for output, array in zip(outputs, again, strict=True):
            output[bad] = array
        return good

    # --- arrays on the device -------------------------------------------------------------------------------

    def on_device(self, inputs, out=None, raises=False):
        """Results of arrays on the device, see DeviceCall: (a tuple of arrays, number of the first state
        without a result or None). Raises ArrayError, CompileError, MemoryError."""
        with at_work() as cupy:
            return DeviceCall(cupy, self, inputs, out)(raises)

    def kernel(self, dtype, layout, same) -> KernelSource:
        """The kernel for arrays of a type and layout. Raises CompileError for a Program that is too long."""
        key = dtype, layout, frozenset(same)
        if key not in self._kernels:
            if self.program.length > MOST_OPERATIONS:
                raise CompileError(f"{self.program.length} operations are too many for a GPU kernel")
            variant = Variant(precision=PRECISIONS[dtype], layout=layout)
            ordered = depth_first(self.program)  # a thread of a humanoid spills a third of the bytes
            self._kernels[key] = kernel(ordered, variant, tuple(sorted(same)), self._quaternions)
        return self._kernels[key]

    def __getstate__(self):
        left = ("call_one", "call_new")
        return {name: value for name, value in self.__dict__.items() if name not in left}

    def __setstate__(self, state):
        self.__dict__.update(state)
        self.call_one, self.call_new = self.beside.call_one, self.beside.call_new


class Pipeline:
    """Pieces of a batch over two streams: while one is computed, the next is on its way. Inside `at_work`;
    left by an error, too, nothing is on its way when the memory is used again."""

    def __init__(self, cupy, kernel: KernelSource, same):
        self._cupy, self._kernel, self._same = cupy, kernel, same
        self._constants = shared_arrays(cupy, kernel, same)
        cupy.cuda.get_current_stream().synchronize()  # they are there for all streams
        self._pieces = [_Piece(cupy, stream) for stream in streams()]

    def __enter__(self):
        return self

    def __exit__(self, *error):
        for piece in self._pieces:
            piece.stream.synchronize()

    def submit(self, count: int, inputs, outputs):
        """Compute `count` states: {name: array} of NumPy; outputs are there after `drain`."""
        piece = self._pieces[0]
        self._pieces.reverse()
        piece.finish()
        with piece.stream:
            there = {name: piece.put(array) for name, array in inputs.items()} | self._constants
            results = {name: self._cupy.empty(array.shape, array.dtype) for name, array in outputs.items()}
            launch(self._cupy, self._kernel, count, there, results, self._same)
            for name, place in outputs.items():
                piece.get(results[name], place)

    def drain(self):
        """Wait for all pieces."""
        for piece in self._pieces:
            piece.finish()


class _Piece:
    """A stream, with memory that does not move for what it copies."""

    def __init__(self, cupy, stream):
        self._cupy, self.stream = cupy, stream
        self._copies: list[np.ndarray] = []  # on their way to the device
        self._results: list[tuple[np.ndarray, np.ndarray]] = []

    def _pinned(self, shape, dtype):
        size = int(np.prod(shape, dtype=int))
        memory = self._cupy.cuda.alloc_pinned_memory(size * dtype.itemsize)
        return np.frombuffer(memory, dtype, size).reshape(shape)

    def put(self, array: np.ndarray):
        """On the device; the array may change afterwards."""
        pinned, there = self._pinned(array.shape, array.dtype), self._cupy.empty(array.shape, array.dtype)
        pinned[...] = array
        there.set(pinned, stream=self.stream)
        self._copies.append(pinned)
        return there

    def get(self, there, place: np.ndarray):
        """Copy to `place` what lies on the device; it is there when `finish` returns."""
        pinned = self._pinned(place.shape, place.dtype)
        there.get(stream=self.stream, out=pinned, blocking=False)
        self._results.append((place, pinned))

    def finish(self):
        """Wait for the stream, and hand over results."""
        self.stream.synchronize()
        for place, pinned in self._results:
            place[...] = pinned
        self._copies.clear()
        self._results.clear()


def piece(size: int, most: int, block: int) -> int:
    """States of a piece: whole blocks, at most `most` states, and PIECE_BYTES, of `size` a state."""
    return max(1, min(PIECE_BYTES // max(1, size), most) // block) * block


def bad_states(outputs) -> np.ndarray:
    """Which states (count,) have no result: all outputs of such a state are NaN, so one entry tells."""
    array = next((array for array in outputs if array[0].size), outputs[0])
    return np.isnan(array.reshape(len(array), -1)[:, :1]).any(axis=1)


def _places(program, quaternions) -> dict[str, list[int]]:
    """{input: where quaternions begin in it}, which begin at some places among all entries."""
    by_input, start = {}, 0
    for name, shape in program.inputs.items():
        end = start + math.prod(shape)
        by_input[name] = [place - start for place in quaternions if start <= place < end]
        start = end
    return {name: places for name, places in by_input.items() if places}
