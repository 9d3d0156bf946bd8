"""The code behind JAX and PyTorch: an exported function over the states of a batch, and its derivatives, in C
and on a CUDA device."""

import ctypes
import hashlib
from dataclasses import replace
from functools import cached_property
from importlib.resources import files

import numpy as np

from dynamics_node.codegen.backends import Interpreter
from dynamics_node.codegen.c.batch_kernel import render_batch, width_flags
from dynamics_node.codegen.c.compiler import FOR_VECTORS, compile_library, open_library
from dynamics_node.codegen.cuda import CudaRunner, at_work
from dynamics_node.codegen.export import Entry, derivative_entry, one_file
from dynamics_node.codegen.runner import limits_in
from dynamics_node.functions.exporting import exported_entry

MOST_IN_VECTORS = 5000  # operations: what compiles within two seconds


class CompiledEntry:
    """An Entry, or its derivatives of an order, as libraries of one precision each, and as kernels.

    entry: whose arguments and results it has; takes_cuda: whether it takes arrays on a CUDA device.
    """

    def __init__(self, entry: Entry, order: int, takes_cuda: bool):
        self.entry, self.order, self.takes_cuda = entry, order, takes_cuda
        self.names = [a.name for a in entry.inputs]
        self._derivative: tuple[CompiledEntry, dict] | None = None

    @classmethod
    def of(cls, function, order: int):
        """The code of a Function with derivatives up to an order."""
        takes_cuda = getattr(function.runner, "on_device", None) is not None
        return cls(exported_entry(function, order), order, takes_cuda)

    def in_order(self, arrays, named) -> list:
        """Arguments by position and by name, in order. Raises TypeError for others than those there are."""
        rest = self.names[len(arrays) :]
        if len(arrays) > len(self.names) or set(named) != set(rest):
            given = f"{len(arrays)} by position and {', '.join(named) or 'none'} by name"
            raise TypeError(f"{self.entry.title} takes {', '.join(self.names)}, not {given}")
        return [*arrays, *(named[name] for name in rest)]

    def derivative(self) -> "tuple[CompiledEntry, dict[tuple[str, str], str]]":
        """The code of the derivatives, and {(result, argument): its result}. Raises TypeError beyond
        the order."""
        if not self.order:
            raise TypeError(
                f"{self.entry.title}: no derivatives of this order; give a larger `order` to .jax() or "
                ".torch()"
            )
        if self._derivative is None:
            entry, called = derivative_entry(self.entry)
            self._derivative = CompiledEntry(entry, self.order - 1, self.takes_cuda), called
        return self._derivative

    def library(self, dtype, handler="", flags=(), identity="") -> ctypes.CDLL:
        """A library with the function `states`, see states.c, and what `handler` defines. Raises
        CompileError."""
        text = f"{self._text(np.dtype(dtype).name)}\n{handler}"
        library = open_library(compile_library(f"bridge {identity} {text}", lambda: text, flags))
        program = self.entry.program
        if len(program.ops) <= MOST_IN_VECTORS and list(program.inputs) == self.names:
            vectors = self._vectors(np.dtype(dtype)).whole_vectors
            ctypes.c_void_p.in_dll(library, "vectors").value = ctypes.cast(vectors, ctypes.c_void_p).value
        return library

    def digest(self, dtype) -> str:
        """A hash of what the library computes."""
        return hashlib.sha256(self._text(np.dtype(dtype).name).encode()).hexdigest()

    def launch(self, stream: int, arrays, results):
        """Compute `results` of `arrays` (*batch, *shape): contiguous, of one type, on a CUDA device, with
        __cuda_array_interface__. The work is given to the CUDA stream with this address; nothing waits.
        Raises DeviceError, CompileError, MemoryError."""
        runner, names = self._on_cuda, self.names
        with at_work() as cupy:
            given = dict(zip(names, map(cupy.asarray, arrays), strict=True))
            places = tuple(map(cupy.asarray, results))
            with given[names[0]].device, cupy.cuda.Stream.from_external(_Stream(stream)):
                runner.on_device([given[name] for name in runner.inputs], places)

    @cached_property
    def _on_cuda(self):
        program = self.entry.program
        return CudaRunner(program, Interpreter(program))

    def _vectors(self, dtype):
        """The library with vectors of states, see vectors.c."""
        program = self.entry.program
        how = ("float" if dtype == np.float32 else "double", (), limits_in(program, dtype))
        text = f"{render_batch(program, *how)}\n#define LIMITS {len(program.limits)}\n{text_of('vectors.c')}"
        return open_library(compile_library(f"bridge {text}", lambda: text, FOR_VECTORS + width_flags()))

    def _text(self, precision):
        # the names in the code are the library's own
        entry = replace(self.entry, name="function", precision=precision)
        inputs = [f"in[{k}]" for k in range(len(entry.inputs))]
        outputs = [f"out[{k}]" for k in range(len(entry.outputs))]
        call = f"function({', '.join([*inputs, *outputs])})"
        constants = {
            "number": entry.real,
            "INPUT_SIZES": ", ".join([*(str(a.size) for a in entry.inputs), "0"]),
            "OUTPUT_SIZES": ", ".join([*(str(a.size) for a in entry.outputs), "0"]),
            "RANK": len(entry.outputs[0].shape),
            "CALL": call if entry.can_fail else f"({call}, 0)",
        }
        defined = [f"#define {name} {value}" for name, value in constants.items()]
        return "\n".join([one_file(entry), *defined, text_of("states.c")])


class _Stream:
    """A CUDA stream at an address, by the protocol of CUDA streams."""

    def __init__(self, address: int):
        self._address = address

    def __cuda_stream__(self):
        return 0, self._address  # version of the protocol


def text_of(name: str) -> str:
    """A file of this folder."""
    return files(__package__).joinpath(name).read_text()
