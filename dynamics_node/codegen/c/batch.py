"""A Program over many states: a vector of them at a time, several threads."""

from functools import partial

import numpy as np

from dynamics_node.codegen.c.batched import render_batch
from dynamics_node.codegen.c.compiler import FOR_VECTORS
from dynamics_node.codegen.c.kernel import QUICK, SHORT
from dynamics_node.codegen.c.loaded import Loaded, builtin_function, trust_arrays
from dynamics_node.codegen.c.render import BATCH, renderer
from dynamics_node.codegen.c.shared_library import open_library
from dynamics_node.codegen.c.threads import WORTH_A_THREAD, in_parts, threads_worth
from dynamics_node.codegen.c.tuning import Way, compile_fastest
from dynamics_node.codegen.results import limits_in, returned, usable
from dynamics_node.symbolic import depth_first

__all__ = ["BATCH", "PRECISIONS", "BatchKernel"]

TRIED = 1024  # states of a trial, at most
BEYOND_CACHES = 4 << 20  # bytes
PRECISIONS = {np.dtype(np.float64): "double", np.dtype(np.float32): "float"}


class BatchKernel(Loaded):
    """batch(count, *inputs) -> outputs, a list of arrays (count, *shape) in the Program's order, and whether
    all states are good: finite in and out, with quaternions of unit length, health within its limits. One
    that is not changes no other.

    dtype: float64 or float32, of the arithmetic and of all arrays; quaternions: where among the inputs they
    begin; other: as of Kernel. Beside the outputs no memory grows with the number of states: a thread works
    on one vector of them at a time.
    """

    PER_PROCESS = ("_library", "_run")

    def __init__(self, program, dtype=np.float64, quaternions=(), other=None):
        self.dtype, self._quaternions, self._other = np.dtype(dtype), tuple(quaternions), other
        self._shapes = [numbers.shape for numbers in program.outputs.values()]
        self._given = len(returned(program))  # of the outputs; health is not for those who call `quick`
        self._one_thread = 2 * WORTH_A_THREAD // max(1, len(program.ops))  # states
        super().__init__(program)

    def _compile(self):
        how = (PRECISIONS[self.dtype], self._quaternions, limits_in(self.program, self.dtype))
        ways = {
            name: Way(
                f"batch {renderer()} {program.digest()} {how}",
                partial(render_batch, program, *how),
                FOR_VECTORS,
            )
            for name, program in self._orders().items()
        }
        return compile_fastest(ways, self._trial)

    def _orders(self):
        """The Program with its operations in several orders, of which one is the fastest. Depth first results
        are computed in the order in which they lie in memory, and little waits."""
        orders = {"traced": self.program, "reordered": self._other}
        if SHORT < len(self.program.ops) <= QUICK:
            orders["depth first"] = depth_first(self.program)
        return {name: program for name, program in orders.items() if program is not None}

    def _trial(self, key):
        """A function that runs a library over some states: where there are many results, over so many that
        they leave the caches near a core."""
        library = open_library(key)
        trust_arrays(library, self.dtype)
        run = builtin_function(library, "batch_definition")
        count = max(BATCH, min(TRIED, BEYOND_CACHES // max(1, self._outputs * self.dtype.itemsize)))
        random = np.random.default_rng(0)
        inputs = [
            random.uniform(-1.0, 1.0, (count, *shape)).astype(self.dtype)
            for shape in self.program.inputs.values()
        ]
        outputs = [np.empty((count, *shape), self.dtype) for shape in self._shapes]
        return lambda: run(0, count, count, *inputs, *outputs)

    def _open(self, library):
        trust_arrays(library, self.dtype)
        self._library, self._run = library, builtin_function(library, "batch_definition")

    def __call__(self, count, *inputs, threads=None):
        """inputs: (count, *shape) or (*shape) in the Program's order, any numbers; threads: at most that
        many, None for one a core."""
        results = [np.empty((count, *shape), self.dtype) for shape in self._shapes]
        if self._run(0, 0, count, *inputs, *results) < 0:
            inputs = self.fitting(self.program.inputs, count, inputs, self.dtype)
        good = self._in_parts(count, self._threads(count, threads), *inputs, *results)
        return results, bool(good)

    def _threads(self, count, most=None):
        return threads_worth(count * len(self.program.ops), most)

    def quick(self, count, *inputs, out=None):
        """The outputs but health; None when an array is not contiguous, of the type and of the right shape,
        or a state is not good. out: arrays for them, not used where they lie over inputs."""
        results = usable(out, inputs)
        results += [np.empty((count, *shape), self.dtype) for shape in self._shapes[len(results) :]]
        if count < self._one_thread:
            good = self._run(0, count, count, *inputs, *results)
        elif (good := self._run(0, 0, count, *inputs, *results)) > 0:
            good = self._in_parts(count, self._threads(count), *inputs, *results)
        return results[: self._given] if good > 0 else None

    def _in_parts(self, count, threads, *arrays):
        good = in_parts(count, threads, lambda start, stop: self._run(start, stop, count, *arrays))
        if good < 0:
            raise RuntimeError("compiled code refuses arrays that were made for it")  # a defect of ours
        return good
