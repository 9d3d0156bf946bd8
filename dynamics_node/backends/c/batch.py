"""A Program over many states: a vector of them at a time, several threads."""

import os
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import numpy as np

from dynamics_node.backends.c.compiler import FOR_VECTORS
from dynamics_node.backends.c.library import compile_library
from dynamics_node.backends.c.loaded import Loaded, builtin_function, trust_arrays
from dynamics_node.backends.c.render import render_batch, renderer

BATCH = 64  # states from which vectors are worth another compilation
# Operations per additional thread; waking one costs about 100 us, in which a core does 3 million of them.
WORTH_A_THREAD = 8_000_000
BLOCK = 16  # states; threads split the batch at multiples of the widest vector, 16 numbers of float32
PRECISIONS = {np.dtype(np.float64): "double", np.dtype(np.float32): "float"}


class BatchKernel(Loaded):
    """batch(count, *inputs) -> outputs, a list of arrays (count, size) in the Program's order, and whether
    all states are good: finite in and out, with quaternions of unit length. One that is not changes no other.

    dtype: float64 or float32, of the arithmetic and of all arrays; quaternions: where among the inputs they
    begin. Beside the outputs no memory grows with the number of states: a thread works on one vector of
    them at a time.
    """

    PER_PROCESS = ("_library", "_run")

    def __init__(self, program, dtype=np.float64, quaternions=()):
        self.dtype, self._quaternions = np.dtype(dtype), tuple(quaternions)
        super().__init__(program)

    def _compile(self):
        how = (PRECISIONS[self.dtype], self._quaternions)
        identity = f"batch {renderer()} {self.program.digest()} {how}"
        return compile_library(identity, lambda: render_batch(self.program, *how), FOR_VECTORS)

    def _open(self, library):
        trust_arrays(library, self.dtype)
        self._library, self._run = library, builtin_function(library, "batch_definition")

    def __call__(self, count, *inputs, threads=None):
        """inputs: (count, size) or (size,) in the Program's order, any numbers; threads: at most that many,
        None for one a core."""
        results = [np.empty((count, n.size), self.dtype) for n in self.program.outputs.values()]
        if self._run(0, 0, count, *inputs, *results) < 0:
            inputs = self._fitting(count, inputs)
        first, *others = self._parts(count, threads)
        # the interpreter lock is free while the library works
        at_work = [_pool().submit(self._run, *part, count, *inputs, *results) for part in others]
        good = [self._run(*first, count, *inputs, *results), *(work.result() for work in at_work)]
        if min(good) < 0:
            raise RuntimeError("compiled code refuses arrays that were made for it")  # a defect of ours
        return results, all(good)

    def _fitting(self, count, inputs):
        """The inputs as contiguous arrays of the right type. Raises ValueError for a wrong shape."""
        arrays = [np.require(array, self.dtype, ["C", "ALIGNED"]) for array in inputs]
        for array, size in zip(arrays, self._sizes, strict=True):
            if array.shape not in ((size,), (count, size)):
                raise ValueError(f"an input of shape {array.shape}, not ({count}, {size}) or ({size},)")
        return arrays

    def _parts(self, count, threads):
        """(start, stop) of about equal parts, whole blocks each but the last."""
        worth = count * len(self.program.ops) // WORTH_A_THREAD
        number = min(threads or _cores(), worth) if worth > 1 else 1
        size = max(1, -(-count // (number * BLOCK))) * BLOCK
        return [(start, min(start + size, count)) for start in range(0, max(1, count), size)]


def _cores():
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def _pool():
    return ThreadPoolExecutor(_cores(), thread_name_prefix="dynamics_batch")


os.register_at_fork(after_in_child=_pool.cache_clear)  # a forked child has none of the threads
