"""A Program over many states: 8 in a vector, several threads."""

import ctypes
import os
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import numpy as np

from dynamics_node.backends.c.compiler import FOR_VECTORS, compile_library
from dynamics_node.backends.c.loaded import Loaded
from dynamics_node.backends.c.render import LANES, render_batch, renderer

CHUNK = 2048  # states that are worth a thread


class BatchKernel(Loaded):
    """batch(count, *inputs) -> packed outputs (count, outputs).

    Beside the outputs no memory grows with the number of states: a thread works on 8 of them at a time.
    """

    PER_PROCESS = ("_entry",)

    def _compile(self):
        identity = f"batch {renderer()} {self.program.digest()}"
        return compile_library(identity, lambda: render_batch(self.program), FOR_VECTORS)

    def _open(self, library):
        self._entry = library.batch
        self._entry.argtypes = (ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
        self._entry.restype = None

    def __call__(self, count, *inputs, threads=None):
        """inputs: (count, size) or (size,) in the Program's order, any numbers; threads: at most that many,
        None for one a core."""
        arrays = [np.ascontiguousarray(array, dtype=np.float64) for array in inputs]
        for array, size in zip(arrays, self._sizes, strict=True):
            if array.shape not in ((size,), (count, size)):
                raise ValueError(f"an input of shape {array.shape}, not ({count}, {size}) or ({size},)")
        y = np.empty((count, self._outputs))
        parts = _parts(count, threads or _cores())
        if len(parts) < 2:
            self._run(arrays, y, 0, count)
        else:
            list(_pool().map(lambda part: self._run(arrays, y, *part), parts))
        return y

    def _run(self, arrays, y, start, stop):
        """States start .. stop - 1; the interpreter lock is free meanwhile."""
        rows = [array if array.ndim == 1 else array[start:stop] for array in arrays]
        addresses = np.array([row.ctypes.data for row in rows], dtype=np.uintp)
        strides = np.array([0 if row.ndim == 1 else row.shape[1] for row in rows], dtype=np.int64)
        self._entry(stop - start, addresses.ctypes.data, strides.ctypes.data, y[start:stop].ctypes.data)


def _parts(count, threads):
    """(start, stop) of about equal parts, whole vectors each but the last."""
    number = max(1, min(threads, count // CHUNK))
    size = max(1, -(-count // (number * LANES))) * LANES
    return [(start, min(start + size, count)) for start in range(0, count, size)]


def _cores():
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def _pool():
    return ThreadPoolExecutor(_cores(), thread_name_prefix="dynamics_batch")
