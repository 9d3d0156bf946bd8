"""A Program as compiled C: one state, a few, or many."""

from copy import copy

import numpy as np

from dynamics_node.backends.c.batch import BATCH, PRECISIONS, BatchKernel
from dynamics_node.backends.c.kernel import Kernel
from dynamics_node.backends.results import healthy, limits_in, without_bad
from dynamics_node.program import Program


class CRunner:
    """A Runner. kernel: for one state and a few; batches: {dtype: BatchKernel}, compiled when many states
    come for the first time, shared by all that `with_parameters` returns."""

    backend = "c"
    checks = True

    def __init__(self, program, parameters=None, quaternions=()):
        """Raises CompileError."""
        self.program, self._quaternions = program, tuple(quaternions)
        self.batches: dict[np.dtype, BatchKernel] = {}
        # vectors are for straight lines: what is rolled keeps more for a vector of states than caches hold
        self._few = BATCH if isinstance(program, Program) else np.inf
        self._take(Kernel(program, parameters, quaternions))

    def _take(self, kernel):
        self.kernel, self.solve = kernel, kernel.solve
        self.inputs, self.outputs = kernel.inputs, kernel.outputs
        self._parameters = {d: [values.astype(d) for values in kernel.parameters] for d in PRECISIONS}

    def with_parameters(self, values):
        """The same code with other values {name: array} of its parameters; other names are ignored."""
        other = copy(self)
        other._take(self.kernel.with_parameters(values))
        return other

    def prepare(self, batches=False):
        """Compile now what many states need. Raises CompileError."""
        if batches and self._few < np.inf:
            self._batch(np.dtype(np.float64))

    def quick(self, count, inputs, dtype):
        """See backends.Runner."""
        if count >= self._few:
            found = self._batch(dtype).quick(count, *inputs, *self._parameters[dtype])
            return found[:-1] if found and self.program.limits else found
        return self.kernel.quick(count, *inputs) if dtype == np.float64 else None

    def run(self, count, inputs, dtype=np.float64):
        """Outputs [(count, *shape)] of inputs [(count, *shape) or (*shape)], and whether all states are good:
        see backends.Runner."""
        if count < self._few:
            return self.kernel(count, *inputs)
        dtype = np.dtype(dtype)
        outputs, good = self._batch(dtype)(count, *inputs, *self._parameters[dtype])
        health = outputs.pop() if self.program.limits else None
        if not good:
            within = True if health is None else healthy(health, limits_in(self.program, dtype))
            without_bad(outputs, within)
        return outputs, good

    def _batch(self, dtype):
        if dtype not in self.batches:
            self.batches[dtype] = BatchKernel(self.program, dtype, self._quaternions)
        return self.batches[dtype]

    def __getstate__(self):
        return {name: value for name, value in self.__dict__.items() if name != "solve"}

    def __setstate__(self, state):
        self.__dict__.update(state)
        self.solve = self.kernel.solve
