"""A Program on a CUDA device as a Runner, and from how many states on the device is faster than the
processor.
"""

import json
from contextlib import suppress
from copy import copy
from functools import cached_property, partial
from time import perf_counter

import numpy as np

from dynamics_node.codegen.c.compiler import hash_here
from dynamics_node.codegen.cache import read_entry, write_entry
from dynamics_node.codegen.cuda import lanes
from dynamics_node.codegen.cuda.choice import Chosen, Orders, choose, orders_of
from dynamics_node.codegen.cuda.device import device, lost, say_once
from dynamics_node.codegen.cuda.device_arrays import ROWS, DeviceArray
from dynamics_node.codegen.cuda.device_call import DeviceCall, launch, shared_inputs
from dynamics_node.codegen.cuda.lanes import GRAVITY, PRECISIONS, Batch, bad_states, example, placed
from dynamics_node.codegen.cuda.nvrtc import Nvrtc, find_nvrtc
from dynamics_node.codegen.errors import CompileError, CudaError, DeviceError
from dynamics_node.codegen.printer import Variant, kernel
from dynamics_node.codegen.runner import returned, taken
from dynamics_node.symbolic import LoopProgram, Program

SIZES = tuple(2**k for k in range(12, 19))  # states that are tried
REPEATS = 3
NEVER = 2**62
LEAST = 64  # states: what fewer need is done before a device has begun


class Crossover:
    """Of a Program."""

    def __init__(self, program):
        self._digest = program.digest()
        self._least: dict[np.dtype, int] = {}

    def pays(self, count: int, dtype: np.dtype, runner) -> bool:
        """Whether the device is faster for so many states. A first batch of some thousand is when it is
        compiled and measured."""
        if count < SIZES[0]:
            return False
        if dtype not in self._least:
            try:
                self._least[dtype] = self._found(dtype, runner)
            except (CompileError, CudaError) as error:
                say_once(f"no GPU for batches: {error}")
                self._least[dtype] = NEVER
        return count >= self._least[dtype]

    def __getstate__(self):
        return self.__dict__ | {"_least": {}}  # of the device of a process

    def _found(self, dtype, runner):
        note = f"{hash_here(self._digest, dtype.name, device().name, __doc__)}.crossover"
        kept = _read(note)
        if kept is None:
            kept = first_faster(*measured(runner, dtype))
            with suppress(CompileError):
                write_entry(note, json.dumps(kept).encode())
        return kept


def _read(note):
    with suppress(CompileError):
        if content := read_entry(note):
            return json.loads(content)
    return None


def measured(runner, dtype) -> tuple[dict[int, float], dict[int, float]]:
    """{states: s} of the device and of the CPU. Raises CompileError, CudaError."""
    there, here = {}, {}
    for count in SIZES:
        batch = runner.example(count, dtype)
        chosen = runner.chosen(dtype, "rows", batch.same.keys())
        every = {**batch.arrays, **batch.same}
        inputs = [every[name] for name in runner.inputs]
        there[count] = _shortest(lambda b=batch, c=chosen: runner.compute(b, c))
        here[count] = _shortest(lambda n=count, i=inputs: runner.beside.run_checked(n, i, dtype))
    return there, here


def first_faster(there: dict[int, float], here: dict[int, float]) -> int:
    """The first size from which on the device is faster at all sizes, NEVER where it is not at the
    largest."""
    found = NEVER
    for count in sorted(there, reverse=True):
        if there[count] >= here[count]:
            break
        found = count
    return found


def _shortest(work):
    work()  # what is made once
    times = []
    for _ in range(REPEATS):
        started = perf_counter()
        work()
        times.append(perf_counter() - started)
    return min(times)


class CudaRunner:
    """A Runner. beside: the Runner of the same Program on the CPU, for all that are not batches, for states
    that a kernel does not solve (angles beyond its sines: 4096 rad in float32, 65536 in float64), and for
    everything once the device is lost.

    parameters, quaternions, reordered: as of CRunner; alternatives: see make; measured: whether the device
    takes a batch only where it was measured to be faster.
    """

    checks = True

    def __init__(
        self,
        program: Program | LoopProgram,
        beside,
        parameters=None,
        quaternions=(),
        reordered=None,
        alternatives=None,
        measured=False,
    ):
        """Raises DeviceError: no driver, no device; CompileError: no NVRTC."""
        self.program, self.beside = program, beside
        self._quaternions = tuple(quaternions)
        self._reordered, self._alternatives = reordered, alternatives
        self.inputs, self.outputs = taken(program, parameters or ()), returned(program)
        self._turning = placed(program, self._quaternions)
        self._chosen: dict[tuple, Chosen] = {}  # shared by all that `with_parameters` returns
        self._crossover = Crossover(program) if measured else None
        self._take(beside, dict(parameters or {}))
        if not measured:
            self.compiler()

    def _take(self, beside, parameters):
        self.beside, self.call_one, self.call_new = beside, beside.call_one, beside.call_new
        self._parameters = {name: np.asarray(values) for name, values in parameters.items()}
        self._there: dict[tuple, DeviceArray] = {}  # parameters that kernels read by a pointer

    @property
    def backend(self):
        """'cuda', or what goes on after the device was lost."""
        if self._crossover is not None:
            return self.beside.backend
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
        if batches and self._crossover is None:
            same = {GRAVITY} & self.inputs.keys() | self._parameters.keys()
            self.chosen(np.dtype(np.float64), ROWS, same)

    # --- arrays of NumPy ------------------------------------------------------------------------------------

    def call_batch(self, count, inputs, dtype, out=None):
        """See Runner."""
        batch = self._batch(count, inputs, dtype)
        outputs = None if batch is None else self._by_device(batch)
        if outputs is None:
            return self.beside.call_batch(count, inputs, dtype, out)
        return outputs if self._mended(outputs, batch) else None

    def run_checked(self, count, inputs, dtype=np.float64):
        """See Runner."""
        batch = self._batch(count, inputs, np.dtype(dtype))
        outputs = None if batch is None else self._by_device(batch)
        if outputs is None:
            return self.beside.run_checked(count, inputs, dtype)
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
        if self._crossover is not None and not self._crossover.pays(count, dtype, self):
            return None
        return Batch(int(count), dtype, arrays, same)

    def parameters_in(self, dtype) -> dict[str, np.ndarray]:
        """{name: values} of the parameters in a type."""
        return {name: values.astype(dtype, copy=False) for name, values in self._parameters.items()}

    def _by_device(self, batch) -> list[np.ndarray] | None:
        """The outputs, NaN for states that are not solved; None where the device does not do it."""
        try:
            chosen = self.chosen(batch.dtype, ROWS, batch.same.keys())
            return self.compute(batch, chosen)
        except (CompileError, CudaError) as error:
            if lost() is None:  # else it is told
                say_once(f"no GPU for a batch: {error}")
            return None

    def compute(self, batch: Batch, chosen: Chosen) -> list[np.ndarray]:
        """The outputs by the device alone. Raises CudaError."""
        outputs = {
            name: np.empty((batch.states, *shape), batch.dtype) for name, shape in self.outputs.items()
        }
        arrays = [*batch.arrays.values(), *outputs.values()]
        sizes = [array.nbytes // batch.states for array in arrays]
        kernel, image = chosen.kernel, chosen.cubin.image
        pieces = lanes.in_pieces(batch.states, sizes, kernel.most_states, kernel.variant.block)
        with device().at_work():
            there = self.constants(kernel, batch.same, batch.dtype)

            def work(lane, places, start, stop):
                addresses = [lane.there + place for place in places]
                inputs = dict(zip(batch.arrays, addresses, strict=False))
                results = dict(zip(outputs, addresses[len(inputs) :], strict=False))
                for array, place in zip(batch.arrays.values(), places, strict=False):
                    lane.put(place, array[start:stop])
                known = inputs | {name: array.address for name, array in there.items()}
                launch(device(), kernel, image, stop - start, known, results, batch.same, lane.stream)
                for array, place in zip(outputs.values(), places[len(inputs) :], strict=False):
                    lane.get(place, array[start:stop])

            lanes.run(device(), pieces, work)
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

    def example(self, count: int, dtype: np.dtype) -> Batch:
        """Some states for a trial."""
        return example(self.inputs, self.parameters_in(dtype), self._turning, count, dtype)

    # --- arrays on the device -------------------------------------------------------------------------------

    def on_device(self, inputs, out=None, raises=False):
        """Results of arrays on the device, see DeviceCall: (a tuple of arrays, number of the first state
        without a result or None). Raises ArrayError, CompileError, CudaError."""
        return DeviceCall(self, inputs, out)(raises)

    def constants(self, kernel, same, dtype) -> dict[str, DeviceArray]:
        """{name: array on the device} of what all states read by a pointer. Inside `at_work`."""
        return {name: self._constant(name, same[name], dtype) for name in shared_inputs(kernel)}

    def _constant(self, name, values, dtype):
        if name not in self._parameters:
            return DeviceArray.of(values)
        if (name, dtype) not in self._there:
            self._there[name, dtype] = DeviceArray.of(values)
        return self._there[name, dtype]

    # --- what is compiled -----------------------------------------------------------------------------------

    def chosen(self, dtype, layout, same) -> Chosen:
        """The kernel for arrays of a type and layout. Raises CompileError."""
        key = dtype, layout, frozenset(same)
        if key not in self._chosen:
            write = partial(kernel, same=tuple(sorted(same)), quaternions=self._quaternions)
            base = Variant(precision=PRECISIONS[dtype], layout=layout)
            self._chosen[key] = choose(Orders(self._orders, write), base, *self.compiler())
        return self._chosen[key]

    @cached_property
    def _orders(self):
        """Programs that a kernel may be written of."""
        return orders_of(self.program, self._reordered, self._alternatives() if self._alternatives else {})

    def compiler(self) -> tuple[Nvrtc, int]:
        """And the architecture to compile for. Raises CompileError."""
        try:
            there = device()
        except CudaError as error:
            raise DeviceError(f"backend cuda: {error}") from None
        nvrtc = find_nvrtc(there.driver_version[0])
        return nvrtc, nvrtc.arch_for(there.capability)

    def __getstate__(self):
        left = ("call_one", "call_new", "_there", "_orders")
        return {name: value for name, value in self.__dict__.items() if name not in left}

    def __setstate__(self, state):
        self.__dict__.update(state)
        self.call_one, self.call_new = self.beside.call_one, self.beside.call_new
        self._there = {}
