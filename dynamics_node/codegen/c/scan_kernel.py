"""A compiled Program along rows of which each needs what the one before has left."""

import ctypes

from dynamics_node.codegen.c.compiler import compile_library
from dynamics_node.codegen.c.library import Loaded
from dynamics_node.codegen.c.render import renderer
from dynamics_node.codegen.c.render_straight import WIDEST, before_run, memory, render_run, text_of
from dynamics_node.symbolic import depth_first

_LONG, _POINTER = ctypes.c_long, ctypes.c_void_p


class ScanArguments(ctypes.Structure):
    """Of `scan`, see scan.c: one pointer is passed sooner than nine numbers."""

    _fields_ = (
        *((name, _LONG) for name in ("count", "carry_size", "row_stride", "out_stride", "watched")),
        *((name, _POINTER) for name in ("rows", "carry", "out", "limits")),
    )


def render_scan(program) -> str:
    """The C source of `scan`, see scan.c."""
    outputs = sum(numbers.size for numbers in program.outputs.values())
    return "\n".join(
        [
            f"#define WIDEST {WIDEST}",
            *before_run(),
            *render_run(program),
            f"#define INPUT_SIZE {program.input_size}",
            f"#define OUTPUT_SIZE {outputs}",
            f"#define MEMORY_X {memory('number', 'x', program.input_size + 1)}",
            f"#define MEMORY_Y {memory('number', 'y', outputs + 1)}",
            text_of("scan.c"),
        ]
    )


class ScanKernel(Loaded):
    """kernel.scan(address of ScanArguments): true where the last outputs of every row are within limits."""

    PER_PROCESS = ("scan",)

    def __init__(self, program):
        super().__init__(depth_first(program))  # few values are alive at a time

    def _compile(self):
        identity = f"scan {renderer()} {self.program.digest()}"
        return compile_library(identity, lambda: render_scan(self.program))

    def _open(self, library):
        self.scan = library.scan
        self.scan.argtypes, self.scan.restype = (_POINTER,), ctypes.c_int
