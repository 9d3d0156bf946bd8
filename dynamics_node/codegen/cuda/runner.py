"""A Program on an NVIDIA GPU: batches there, one state and a few beside it on the CPU."""

from copy import copy
from functools import cached_property, partial

import numpy as np

from dynamics_node.codegen.cuda import lanes
from dynamics_node.codegen.cuda.batches import GRAVITY, PRECISIONS, Batch, bad_states, example, placed
from dynamics_node.codegen.cuda.choice import Chosen, Orders, choose, orders_of
from dynamics_node.codegen.cuda.crossover import Crossover
from dynamics_node.codegen.cuda.device_arrays import ROWS, DeviceArray
from dynamics_node.codegen.cuda.device_call import DeviceCall
from dynamics_node.codegen.cuda.errors import CudaError
from dynamics_node.codegen.cuda.launching import launch, shared_inputs
from dynamics_node.codegen.cuda.nvrtc import Nvrtc, find_nvrtc
from dynamics_node.codegen.cuda.opened import device, lost, say_once
from dynamics_node.codegen.errors import CompileError, DeviceError
from dynamics_node.codegen.printer import Variant, kernel
from dynamics_node.codegen.results import returned, taken
from dynamics_node.symbolic import Program, Rolled

LEAST = 64  # states: what fewer need is done before a device has begun


class CudaRunner:
    """A Runner. beside: the Runner of the same Program on the CPU, for all that are not batches, for states
    that a kernel does not solve (angles beyond its sines: 4096 rad in float32, 65536 in float64), and for
    everything once the device is lost.

    parameters, quaternions, other: as of CRunner; rivals: see backends.make; measured: whether the device
    takes a batch only where it was measured to be faster.
    """

    checks = True

    def __init__(
        self,
        program: Program | Rolled,
        beside,
        parameters=None,
        quaternions=(),
        other=None,
        rivals=None,
        measured=False,
    ):
        """Raises DeviceError: no driver, no device; CompileError: no NVRTC."""
        self.program, self.beside = program, beside
        self._quaternions = tuple(quaternions)
        self._other, self._rivals = other, rivals
        self.inputs, self.outputs = taken(program, parameters or ()), returned(program)
        self._turning = placed(program, self._quaternions)
        self._chosen: dict[tuple, Chosen] = {}  # shared by all that `with_parameters` returns
        self._crossover = Crossover(program) if measured else None
        self._take(beside, dict(parameters or {}))
        if not measured:
            self.compiler()

    def _take(self, beside, parameters):
        self.beside, self.solve, self.few = beside, beside.solve, beside.few
        self._parameters = {name: np.asarray(values) for name, values in parameters.items()}
        self._there: dict[tuple, DeviceArray] = {}  # parameters that kernels read by a pointer

    @property
    def backend(self):
        """'cuda', or what goes on after the device was lost."""
        if self._crossover is not None:
            return self.beside.backend
        return "cuda" if lost() is None else f"{self.beside.backend}, for cuda is lost"

    def with_parameters(self, values):
        """See backends.Runner: of both sides; nothing is compiled."""
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

    def many(self, count, inputs, dtype, out=None):
        """See backends.Runner."""
        batch = self._batch(count, inputs, dtype)
        outputs = None if batch is None else self._by_device(batch)
        if outputs is None:
            return self.beside.many(count, inputs, dtype, out)
        return outputs if self._mended(outputs, batch) else None

    def run(self, count, inputs, dtype=np.float64):
        """See backends.Runner."""
        batch = self._batch(count, inputs, np.dtype(dtype))
        outputs = None if batch is None else self._by_device(batch)
        if outputs is None:
            return self.beside.run(count, inputs, dtype)
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
            again, good = self.beside.run(np.count_nonzero(bad), some, batch.dtype)
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
        return orders_of(self.program, self._other, self._rivals() if self._rivals else {})

    def compiler(self) -> tuple[Nvrtc, int]:
        """And the architecture to compile for. Raises CompileError."""
        try:
            there = device()
        except CudaError as error:
            raise DeviceError(f"backend cuda: {error}") from None
        nvrtc = find_nvrtc(there.driver_version[0])
        return nvrtc, nvrtc.arch_for(there.capability)

    def __getstate__(self):
        left = ("solve", "few", "_there", "_orders")
        return {name: value for name, value in self.__dict__.items() if name not in left}

    def __setstate__(self, state):
        self.__dict__.update(state)
        self.solve, self.few, self._there = self.beside.solve, self.beside.few, {}
