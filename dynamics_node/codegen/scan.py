"""A Program run along rows, of which each needs what the one before has left."""

import ctypes
import logging
from collections.abc import Callable
from functools import partial

import numpy as np

from dynamics_node.codegen.c.scan_kernel import ScanArguments, ScanKernel
from dynamics_node.errors import CompileError, InputError
from dynamics_node.symbolic import Program
from dynamics_node.symbolic.interpret import scalar_values

log = logging.getLogger("dynamics_node")


class Scan:
    """scan(rows, carry, out): along the rows of a Program whose first output is the first input of the next
    row. backend: what runs it, c or numpy.

    rows (count, width): the other inputs of every row in order; carry (size,): of the first row, and
    afterwards what the last one left; out (count, width of the other outputs). All float64, their last axis
    contiguous: rows may overlap, or run backward (views). What is singular comes out infinite or NaN.
    Picklable. Raises CompileError for backend c without a compiler.
    """

    def __init__(self, program: Program, backend="auto"):
        self.program = program
        self.carry_size = int(np.prod(next(iter(program.inputs.values()))))
        self.width = program.input_size - self.carry_size
        self.out_width = sum(numbers.size for numbers in program.outputs.values()) - self.carry_size
        if next(iter(program.outputs.values())).size != self.carry_size:
            raise InputError(
                "the first output of a Program that is scanned is its first input of the next row"
            )
        self._kernel = _kernel(program, backend)

    @property
    def backend(self):
        return "numpy" if self._kernel is None else "c"

    def __call__(self, rows, carry, out):
        self.bound(rows, carry, out)()

    def bound(self, rows, carry, out, limits=()) -> Callable[[], bool]:
        """The call with these arrays: a function without arguments, to be called again and again; the arrays
        stay where they are. It tells whether the last outputs of every row are within as many limits, which
        NaN is not. Raises ValueError for arrays that do not fit."""
        count, limits = len(rows), np.array(limits, dtype=np.float64)
        _require(rows, (count, self.width), "rows")
        _require(carry, (self.carry_size,), "carry")
        _require(out, (count, self.out_width), "out")
        arrays = {"rows": rows, "carry": carry, "out": out, "limits": limits}
        if self._kernel is None:
            return partial(_interpreted, self.program, rows, carry, out, limits)
        arguments = ScanArguments(
            count=count,
            carry_size=self.carry_size,
            row_stride=rows.strides[0] // 8,
            out_stride=out.strides[0] // 8,
            watched=len(limits),
            **{name: array.ctypes.data for name, array in arrays.items()},
        )
        call = partial(self._kernel.scan, ctypes.addressof(arguments))
        call.arguments = arguments, arrays  # type: ignore[attr-defined]  # they live as long as the call
        return call


def _kernel(program, backend):
    if backend == "numpy":
        return None
    try:
        return ScanKernel(program)
    except CompileError as error:
        if backend == "c":
            raise
        log.warning("%s; numpy serves instead", error)
        return None


def _require(array, shape, name):
    plain = isinstance(array, np.ndarray) and array.dtype == np.float64
    if not plain or array.shape != shape or (array.size and array.strides[-1] != 8):
        raise InputError(f"{name} must be float64 {shape} with a contiguous last axis")


def _interpreted(program, rows, carry, out, limits):
    first = next(iter(program.outputs))
    others = np.concatenate([np.ravel(n) for name, n in program.outputs.items() if name != first])
    kept = program.outputs[first].ravel()
    for row, result in zip(rows, out, strict=True):
        values = np.array(scalar_values(program, [*carry.tolist(), *row.tolist()]))
        carry[:], result[:] = values[kept], values[others]
    return bool((out[:, out.shape[1] - len(limits) :] <= limits).all())
