"""A Program one can call."""

import ctypes

import numpy as np

from dynamics_node.backends.c.compiler import CompileError, compile_library, open_library
from dynamics_node.backends.c.render import render


class Kernel:
    """kernel(count, *inputs) -> packed outputs. Compiled when it is made; when unpickled, in another process
    too, it opens the library that the cache has. Raises CompileError then."""

    def __init__(self, program):
        self.program = program
        self._sizes = [int(np.prod(shape)) for shape in program.inputs.values()]
        self._inputs, self._outputs = sum(self._sizes), sum(n.size for n in program.outputs.values())
        self._key = compile_library(render(program))
        self._open()

    def _open(self):
        self._entry = open_library(self._key).program
        self._entry.argtypes = (ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)
        self._entry.restype = None

    def __getstate__(self):
        return {name: value for name, value in self.__dict__.items() if name != "_entry"}

    def __setstate__(self, state):
        self.__dict__.update(state)
        try:
            self._open()
        except CompileError:  # somebody has emptied the cache meanwhile
            self._key = compile_library(render(self.program))
            self._open()

    def __call__(self, count, *inputs):
        """Outputs (count, outputs) of inputs (count, size) or (size,), in the Program's order."""
        x, y = np.empty((count, self._inputs)), np.empty((count, self._outputs))
        start = 0
        for array, size in zip(inputs, self._sizes, strict=True):
            x[:, start : start + size] = array
            start += size
        self._entry(count, x.ctypes.data, y.ctypes.data)
        return y
