"""What every compiled Program shares: its library, made once and opened in every process."""

import ctypes

import numpy as np

from dynamics_node.backends.c.compiler import CompileError, open_library


class Loaded:
    """A Program with its library. Compiled when it is made; when unpickled, in another process too, it opens
    the library that the cache has. Raises CompileError then."""

    def __init__(self, program):
        self.program = program
        self._sizes = [int(np.prod(shape, dtype=int)) for shape in program.inputs.values()]
        self._outputs = sum(numbers.size for numbers in program.outputs.values())
        self._key = self._compile()
        self._open(open_library(self._key))

    def _compile(self) -> str:
        """Key of the library, compiled if the cache has none."""
        raise NotImplementedError

    def _open(self, library: ctypes.CDLL):
        """Keep what is called of the library, in attributes that PER_PROCESS names."""
        raise NotImplementedError

    PER_PROCESS: tuple[str, ...] = ()

    def __getstate__(self):
        return {name: value for name, value in self.__dict__.items() if name not in self.PER_PROCESS}

    def __setstate__(self, state):
        self.__dict__.update(state)
        try:
            library = open_library(self._key)
        except CompileError:  # somebody has emptied the cache meanwhile
            self._key = self._compile()
            library = open_library(self._key)
        self._open(library)
