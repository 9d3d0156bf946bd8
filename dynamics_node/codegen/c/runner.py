"""A Program as compiled C: one state, a few, or many."""

from copy import copy

import numpy as np

from dynamics_node.codegen.c.batch_kernel import BATCH, BatchKernel
from dynamics_node.codegen.c.kernel import Kernel
from dynamics_node.codegen.c.render import in_straight_lines
from dynamics_node.codegen.runner import healthy, limits_in, without_bad
from dynamics_node.symbolic import UNIT, LaneProgram, depth_first, flattened


class CRunner:
    """A Runner. kernel: for one state and a few; batches: {dtype: BatchKernel}, compiled when many states
    come for the first time, shared by all that `with_parameters` returns."""

    backend = "c"
    checks = True

    def __init__(self, program, parameters=None, quaternions=(), reordered=None, isomorphic_inputs=()):
        """reordered, isomorphic_inputs: as of Kernel. Raises CompileError."""
        self.program, self._quaternions, self._reordered = program, tuple(quaternions), reordered
        self.batches: dict[np.dtype, BatchKernel] = {}
        self._take(Kernel(program, parameters, quaternions, reordered, isomorphic_inputs))

    def _take(self, kernel):
        self.kernel, self.call_one, self.call_new = kernel, kernel.call_one, kernel.call_new
        self.inputs, self.outputs = kernel.inputs, kernel.outputs
        self._vectors: dict[np.dtype, tuple] = {}  # of a type the BatchKernel, and the parameters

    def with_parameters(self, values):
        """A Runner of the same library with other values {name: array} of the parameters; unknown names are
        ignored."""
        other = copy(self)
        other._take(self.kernel.with_parameters(values))
        return other

    def called_at_once(self, cls):
        """A class of Functions with `_at_once` -> the one whose instances are called soonest, see
        instances.c."""
        return self.kernel.called_at_once(cls)

    def prepare(self, batches=False):
        """Compile now what many states need. Raises CompileError."""
        if batches:
            self._prepared(np.dtype(np.float64))

    def call_batch(self, count, inputs, dtype, out=None):
        """See Runner."""
        if count < BATCH:
            return self.kernel.quick(count, inputs, out) if dtype == np.float64 else None
        batch, parameters = self._vectors.get(dtype) or self._prepared(dtype)
        return batch.quick(count, *inputs, *parameters, out=out)

    def call_marked(self, count, inputs, dtype):
        """The outputs [(count, *shape)] of many states, the quick way, and where health exceeds its limits:
        bool (count,), None if all are good; other results may be not finite. None when it declines: for few
        states, arrays that are not as they should be, a quaternion that is not of unit length."""
        if count < BATCH:
            return None
        batch, parameters = self._vectors.get(dtype) or self._prepared(dtype)
        if not batch.fits(count, (*inputs, *parameters)):
            return None
        outputs, good = batch(count, *inputs, *parameters)
        health = outputs.pop() if self.program.limits else None
        if good:
            return outputs, None
        if health is None or not self._of_unit_length(inputs):
            return None
        return outputs, ~healthy(health, limits_in(self.program, dtype))

    def _of_unit_length(self, inputs):
        """Whether all quaternions among the inputs are."""
        starts = np.cumsum([0, *(int(np.prod(shape, dtype=int)) for shape in self.inputs.values())])
        for place in self._quaternions:
            k = int(np.searchsorted(starts, place, side="right")) - 1
            at = place - starts[k]
            quaternions = inputs[k][..., at : at + 4]
            squares = np.einsum("...k,...k->...", quaternions, quaternions)
            if not (np.abs(squares - 1.0) <= 2 * UNIT).all():
                return False
        return True

    def run_checked(self, count, inputs, dtype=np.float64):
        """Outputs [(count, *shape)] of inputs [(count, *shape) or (*shape)], and whether all states are good:
        see Runner."""
        if count < BATCH:
            return self.kernel(count, *inputs)
        batch, parameters = self._prepared(np.dtype(dtype))
        outputs, good = batch(count, *inputs, *parameters)
        health = outputs.pop() if self.program.limits else None
        if not good:
            within = True if health is None else healthy(health, limits_in(self.program, dtype))
            without_bad(outputs, within)
        return outputs, good

    def _prepared(self, dtype):
        if dtype not in self.batches:
            program = self.program
            if isinstance(program, LaneProgram) and in_straight_lines(program):
                program = depth_first(flattened(program))  # stages leave the most values alive
            self.batches[dtype] = BatchKernel(program, dtype, self._quaternions, self._reordered)
        if dtype not in self._vectors:
            parameters = [values.astype(dtype) for values in self.kernel.parameters]
            self._vectors[dtype] = self.batches[dtype], parameters
        return self._vectors[dtype]

    def __getstate__(self):
        return {name: value for name, value in self.__dict__.items() if name not in ("call_one", "call_new")}

    def __setstate__(self, state):
        self.__dict__.update(state)
        self.call_one, self.call_new = self.kernel.call_one, self.kernel.call_new
