"""The compiled library of a Program: opened in this process, called from Python without ctypes."""

import ctypes
import inspect
from abc import ABC, abstractmethod

import numpy as np

from dynamics_node.codegen.c.compiler import hash_here, open_library
from dynamics_node.errors import CompileError, InputError


class Loaded(ABC):
    """A Program with its library. Compiled when it is made; when unpickled, in another process too, it opens
    the library that the cache has. It compiles where there is none, and on another kind of processor. Raises
    CompileError then. key: of the library in the cache."""

    def __init__(self, program):
        self.program = program
        self._sizes = [int(np.prod(shape, dtype=int)) for shape in program.inputs.values()]
        self._outputs = sum(numbers.size for numbers in program.outputs.values())
        self.key, self._processor = self._compile(), hash_here()
        self._open(open_library(self.key))

    @abstractmethod
    def _compile(self) -> str:
        """Key of the library, compiled if the cache has none."""

    @abstractmethod
    def _open(self, library: ctypes.CDLL):
        """Keep what is called of the library, in attributes that PER_PROCESS names."""

    PER_PROCESS: tuple[str, ...] = ()

    @staticmethod
    def fitting(shapes, count, inputs, dtype):
        """The inputs, (count, ...) or one state for all, as contiguous arrays of a type in the `shapes`
        {name: shape}. Raises ValueError for a wrong number of entries."""
        arrays = [np.require(array, dtype, ["C", "ALIGNED"]) for array in inputs]
        for k, (array, shape) in enumerate(zip(arrays, shapes.values(), strict=True)):
            size = int(np.prod(shape, dtype=int))
            if array.shape in (shape, (count, *shape)):
                continue
            if array.shape not in ((size,), (count, size)):
                raise InputError(f"an input of shape {array.shape}, not ({count}, {size}) or ({size},)")
            arrays[k] = array.reshape((count, *shape) if array.ndim == 2 else shape)
        return arrays

    def __getstate__(self):
        return {name: value for name, value in self.__dict__.items() if name not in self.PER_PROCESS}

    def __setstate__(self, state):
        self.__dict__.update(state)
        if self._processor != (here := hash_here()):  # machines of a cluster may share a cache
            self.key, self._processor = self._compile(), here
        try:
            library = open_library(self.key)
        except CompileError:  # somebody has emptied the cache meanwhile
            self.key = self._compile()
            library = open_library(self.key)
        self._open(library)


def trust_arrays(library, dtype):
    """Let a library read NumPy's arrays of a type where they lie: see arrays.c."""
    sample = np.empty((2, 3), dtype)
    library.trust_arrays.argtypes = (ctypes.c_void_p, ctypes.c_void_p)
    library.trust_arrays(id(sample), sample.ctypes.data)


def builtin_function(library, definition, memory=None):
    """Wrap a C function as a Python builtin whose `self` points to the array `memory`. A call with four
    arrays takes 60 ns beside the Program, 160 ns with the buffer protocol, 1200 ns through cffi, 3900 ns
    through ctypes. The library must stay open as long as the function lives."""
    api = ctypes.pythonapi
    api.PyCapsule_New.restype = api.PyCFunction_NewEx.restype = ctypes.py_object
    api.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    api.PyCFunction_NewEx.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.py_object]
    memory = np.zeros(1) if memory is None else memory
    capsule = api.PyCapsule_New(memory.ctypes.data, None, None)
    address = ctypes.addressof(ctypes.c_char.in_dll(library, definition))
    return api.PyCFunction_NewEx(address, capsule, memory)  # memory as its module: it keeps it alive


_called_at_once: dict[type, type] = {}  # by the classes they are derived from, and by themselves


def called_at_once(library, cls):
    """A class derived from one with `__call__`, whose instances are called without a frame of Python, see
    instances.c. `_reach(instance)` begins that; `_plain` is the class it is derived from."""
    if cls not in _called_at_once:
        size = cls.__basicsize__
        library.spec_behind.restype, library.spec_behind.argtypes = ctypes.c_void_p, (ctypes.c_int,)
        library.call_at_once.restype, library.call_at_once.argtypes = None, (ctypes.py_object, ctypes.c_long)
        make = ctypes.pythonapi.PyType_FromSpecWithBases
        make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.py_object]
        derived = make(library.spec_behind(size), (cls,))
        attributes = {
            **{name: getattr(cls, name) for name in ("__name__", "__qualname__", "__module__", "__doc__")},
            "__signature__": property(lambda instance: inspect.signature(instance._by_python)),
            "_by_python": cls.__call__,
            "_plain": cls,
            "_reach": staticmethod(lambda instance: library.call_at_once(instance, size)),
        }
        for name, value in attributes.items():
            setattr(derived, name, value)
        _called_at_once[cls] = _called_at_once[derived] = derived
    return _called_at_once[cls]
