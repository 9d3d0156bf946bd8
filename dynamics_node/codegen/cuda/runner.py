"""A Program on a CUDA device as a Runner."""

import math
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from copy import copy
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np

from dynamics_node.codegen.cuda import choice
from dynamics_node.codegen.cuda.device import (
    at_work,
    compiled,
    cupy_module,
    description,
    lost,
    streams,
    warn_once,
)
from dynamics_node.codegen.cuda.device_call import COLUMNS, ROWS, DeviceCall, launch, shared_arrays
from dynamics_node.codegen.printer import Kernel, Variant, kernel
from dynamics_node.codegen.runner import PRECISIONS, returned, taken
from dynamics_node.errors import CompileError
from dynamics_node.symbolic import Program

GRAVITY = "gravity"  # an input that mostly is the same in all states
LEAST = 64  # states: what fewer need is done before a device has begun
PIECE_BYTES = 2**23  # of a piece of a batch, in and out
TRIED, TRIED_BYTES, REPEATS = 2**16, 2**28, 5  # states, their bytes and launches of a measurement


class Batch(NamedTuple):
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

    parameters, quaternions, reordered: as of CRunner; alternatives: see make.
    """

    checks = True

    def __init__(
        self,
        program: Program,
        beside,
        parameters=None,
        quaternions=(),
        reordered=None,
        alternatives=None,
    ):
        """Raises DeviceError without CuPy or a device."""
        self.program, self._quaternions = program, tuple(quaternions)
        self._reordered, self._alternatives = reordered, alternatives
        self.inputs, self.outputs = taken(program, parameters or ()), returned(program)
        self._turning = _places(program, self._quaternions)
        self._chosen: dict[tuple, Kernel] = {}  # shared by all that `with_parameters` returns
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

    def require(self, dtype):
        """It has float64 and float32."""

    def prepare(self, batches=False):
        """Compile now what many states need. Raises CompileError."""
        self.beside.prepare(batches)
        if batches:
            same = {GRAVITY} & self.inputs.keys() | self._parameters.keys()
            with at_work():
                self.chosen(np.dtype(np.float64), ROWS, same)

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

    def _batch(self, count, inputs, dtype) -> Batch | None:
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
        return Batch(int(count), dtype, arrays, same)

    def parameters_in(self, dtype) -> dict[str, np.ndarray]:
        """{name: values} of the parameters in a type."""
        return {name: values.astype(dtype, copy=False) for name, values in self._parameters.items()}

    def compute(self, batch: Batch) -> list[np.ndarray]:
        """The outputs by the device alone, in pieces over two streams: while one is computed, the next is on
        its way. Raises CompileError, MemoryError."""
        outputs = {
            name: np.empty((batch.states, *shape), batch.dtype) for name, shape in self.outputs.items()
        }
        size = sum(a.nbytes for a in (*batch.arrays.values(), *outputs.values())) // batch.states
        with at_work() as cupy:
            chosen = self.chosen(batch.dtype, ROWS, batch.same.keys())
            constants = shared_arrays(cupy, chosen, batch.same)
            cupy.cuda.get_current_stream().synchronize()  # they are there for all streams
            lanes = [_Lane(cupy, stream) for stream in streams()]
            each = piece(size, chosen.most_states, chosen.variant.block)
            try:
                for k, start in enumerate(range(0, batch.states, each)):
                    lane, part = lanes[k % 2], slice(start, min(start + each, batch.states))
                    lane.finish()
                    with lane.stream:
                        given = {name: lane.put(array[part]) for name, array in batch.arrays.items()}
                        places = {name: array[part] for name, array in outputs.items()}
                        results = {name: cupy.empty(a.shape, a.dtype) for name, a in places.items()}
                        launch(cupy, chosen, part.stop - start, given | constants, results, batch.same)
                        for name, place in places.items():
                            lane.get(results[name], place)
                for lane in lanes:
                    lane.finish()
            finally:  # after an error, too, nothing is on its way when the memory is used again
                for lane in lanes:
                    lane.stream.synchronize()
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

    # --- what is chosen -------------------------------------------------------------------------------------

    def chosen(self, dtype, layout, same) -> Kernel:
        """The kernel of the current device for arrays of a type and layout, chosen by timing. Inside
        `at_work`. Raises CompileError."""
        key = cupy_module().cuda.runtime.getDevice(), dtype, layout, frozenset(same)
        if key not in self._chosen:
            write = partial(kernel, same=tuple(sorted(same)), quaternions=self._quaternions)
            base = Variant(precision=PRECISIONS[dtype], layout=layout)
            measure = partial(self._seconds, batch=self._example(dtype, same))
            self._chosen[key] = choice.choose(self._orders, write, base, measure, description())
        return self._chosen[key]

    @cached_property
    def _orders(self):
        """Programs that a kernel may be written of."""
        return choice.orders_of(
            self.program, self._reordered, self._alternatives() if self._alternatives else {}
        )

    def _seconds(self, kernels, batch) -> list[float]:
        """Of a launch of each kernel, infinite for one that does not compile; threads compile them."""
        cupy = cupy_module()
        device = cupy.cuda.Device()

        def compiles(kernel):
            with device, suppress(CompileError):
                return compiled(kernel.text, kernel.name)

        with ThreadPoolExecutor() as pool:
            runs = list(pool.map(compiles, kernels))
        pairs = zip(kernels, runs, strict=True)
        return [_measured(cupy, one, self, batch) if run else math.inf for one, run in pairs]

    def _example(self, dtype: np.dtype, same) -> Batch:
        """States for a measurement."""
        numbers = sum(math.prod(shape) for shape in (*self.inputs.values(), *self.outputs.values()))
        count = max(LEAST, min(TRIED, TRIED_BYTES // (numbers * dtype.itemsize)))
        random, arrays, alike = np.random.default_rng(0), {}, self.parameters_in(dtype)
        for name, shape in self.inputs.items():
            if name in same:
                alike[name] = random.uniform(-1.0, 1.0, shape).astype(dtype)
            else:
                arrays[name] = random.uniform(-1.0, 1.0, (count, *shape)).astype(dtype)
        for name, places in self._turning.items():
            for place in places if name in arrays else ():
                arrays[name].reshape(count, -1)[:, place : place + 4] = (0, 0, 0, 1)
        return Batch(count, dtype, arrays, alike)

    def __getstate__(self):
        left = ("call_one", "call_new", "_orders")
        return {name: value for name, value in self.__dict__.items() if name not in left}

    def __setstate__(self, state):
        self.__dict__.update(state)
        self.call_one, self.call_new = self.beside.call_one, self.beside.call_new


class _Lane:
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


def _measured(cupy, kernel, runner, batch) -> float:
    """Seconds of a launch, the shortest one."""

    def there(array):
        rows = array.reshape(batch.states, -1)
        return cupy.asarray(np.ascontiguousarray(rows.T if kernel.variant.layout == COLUMNS else rows))

    inputs = {name: there(array) for name, array in batch.arrays.items()}
    inputs |= shared_arrays(cupy, kernel, batch.same)
    shapes = {name: (batch.states, *shape) for name, shape in runner.outputs.items()}
    outputs = {name: there(np.empty(shape, batch.dtype)) for name, shape in shapes.items()}
    times = []
    for _ in range(REPEATS):
        start, end = cupy.cuda.Event(), cupy.cuda.Event()
        start.record()
        launch(cupy, kernel, batch.states, inputs, outputs, batch.same)
        end.record()
        end.synchronize()
        times.append(cupy.cuda.get_elapsed_time(start, end) / 1e3)
    return min(times)
