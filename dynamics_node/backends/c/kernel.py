"""A Program one can call."""

import ctypes
from copy import copy

import numpy as np

from dynamics_node.backends.c.compiler import NOT_FUSED, compile_library
from dynamics_node.backends.c.loaded import Loaded
from dynamics_node.backends.c.render import render, renderer

WIDE = 15  # operations on every step of the longest chain


class Kernel(Loaded):
    """kernel(count, *inputs) -> packed outputs, over many states; kernel.solve(*inputs, *outputs) for one
    state, see call.c.

    parameters: {name: array} of the Program's last inputs, which `solve` does not take.
    """

    PER_PROCESS = ("_entry", "_library", "solve")

    def __init__(self, program, parameters=None, quaternions=()):
        self._names, self._quaternions = tuple(parameters or ()), tuple(quaternions)
        self._pack(parameters or {})
        super().__init__(program)

    def _compile(self):
        how = (self._names, self._quaternions)
        return compile_library(
            f"{renderer()} {self.program.digest()} {how}",
            lambda: render(self.program, *how),
            () if _is_wide(self.program) else NOT_FUSED,
        )

    def _open(self, library):
        self._library, self._entry = library, library.program
        self._entry.argtypes = (ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)
        self._entry.restype = None
        sample = np.empty((2, 3))
        library.trust_arrays.argtypes = (ctypes.c_void_p, ctypes.c_void_p)
        library.trust_arrays(id(sample), sample.ctypes.data)
        self.solve = _builtin(library, self._parameters)

    def with_parameters(self, parameters):
        """The same code with other values of its parameters; entries of other names are ignored."""
        other = copy(self)
        other._pack(parameters)
        other.solve = _builtin(other._library, other._parameters)
        return other

    def _pack(self, parameters):
        self.parameters = [np.ravel(parameters[name]).astype(np.float64) for name in self._names]
        self._parameters = np.concatenate([*self.parameters, [0.0]])

    def __call__(self, count, *inputs):
        """Outputs (count, outputs) of inputs (count, size) or (size,), in the Program's order, without the
        parameters."""
        x, y = np.empty((count, sum(self._sizes))), np.empty((count, self._outputs))
        start = 0
        for array, size in zip(inputs, self._sizes, strict=False):
            x[:, start : start + size] = array
            start += size
        x[:, start:] = self._parameters[:-1]
        self.run(x, y)
        return y

    def run(self, x, y):
        """Outputs y (count, outputs) of all inputs x (count, inputs), packed in the Program's order; both
        C-contiguous float64."""
        self._entry(len(x), x.ctypes.data, y.ctypes.data)


def _is_wide(program):
    """False where most operations wait for the one before: a fused multiply-add makes the sum wait longer
    than a separate one would (Panda: 10 % slower; a quadruped, whose legs go side by side: 15 % faster)."""
    return len(program.ops) > WIDE * program.depth()


def _builtin(library, parameters):
    """The library's `solve` as a builtin function. A call with four arrays takes 60 ns beside the Program,
    160 ns with the buffer protocol, 1200 ns through cffi, 3900 ns through ctypes."""
    api = ctypes.pythonapi
    api.PyCapsule_New.restype = api.PyCFunction_NewEx.restype = ctypes.py_object
    api.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    api.PyCFunction_NewEx.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.py_object]
    memory = api.PyCapsule_New(parameters.ctypes.data, None, None)
    definition = ctypes.addressof(ctypes.c_char.in_dll(library, "solve_definition"))
    return api.PyCFunction_NewEx(definition, memory, parameters)  # as its module: it keeps them alive
