"""A compiled stage of an integrator along many steps of many states: a vector of states at a time, several
threads."""

import ctypes

import numpy as np

from dynamics_node.codegen.c.batch_kernel import width_flags
from dynamics_node.codegen.c.compiler import FOR_VECTORS, compile_library
from dynamics_node.codegen.c.library import Loaded
from dynamics_node.codegen.c.render import renderer
from dynamics_node.codegen.c.render_straight import VECTORS, before_run, memory, render_run, table, text_of
from dynamics_node.codegen.c.threads import in_parts, threads_worth
from dynamics_node.codegen.runner import PRECISIONS, limits_in
from dynamics_node.symbolic import depth_first

CARRIED = ("q", "qd", "hidden")  # inputs that are outputs of the stage before
_LONG, _POINTER = ctypes.c_long, ctypes.c_void_p


def render_rollout(program, precision="double", limits=()) -> str:
    """The C source of `rollout`, see rollout.c and RolloutKernel; limits: of health in this precision."""
    size = {name: int(np.prod(shape, dtype=int)) for name, shape in program.inputs.items()}
    outputs = sum(numbers.size for numbers in program.outputs.values())
    sizes = {
        "Q_SIZE": size["q"],
        "QD_SIZE": size["qd"],
        "CARRIED": sum(size.pop(name, 0) for name in CARRIED),
        "CONTROL": size.pop("tau"),
        "COEFFICIENTS": size.pop("stage", 0),
        "SAME": sum(size.values()),
        "LIMITS": len(limits),
    }
    return "\n".join(
        [
            *before_run(precision),
            "typedef vector Results;",
            *render_run(program, VECTORS._replace(single=precision == "float")),
            *(f"#define {name} {value}" for name, value in sizes.items()),
            f"#define MEMORY_X {memory('vector', 'x', program.input_size + 1)}",
            f"#define MEMORY_Y {memory('vector', 'y', outputs + 1)}",
            table("double", "limit[]", limits),
            text_of("rollout.c"),
        ]
    )


class RolloutKernel(Loaded):
    """kernel(tau, stages, same, q, qd) for the Program of an Integrator; see algorithms.integrators.

    tau (count, steps, *shape); stages (stages, coefficients); same (numbers,): the other inputs of the
    Program, side by side; q, qd (count, steps + 1, *shape): their first step is the start, the others are
    written. All are contiguous, of dtype. From the step on that fails, the results of a state are NaN; others
    do not change.
    """

    PER_PROCESS = ("_run",)

    def __init__(self, program, dtype=np.float64):
        self.dtype = np.dtype(dtype)
        super().__init__(depth_first(program))  # fewer values are alive at a time

    def _compile(self):
        how = PRECISIONS[self.dtype], limits_in(self.program, self.dtype)
        return compile_library(
            f"rollout {renderer()} {self.program.digest()} {how}",
            lambda: render_rollout(self.program, *how),
            FOR_VECTORS + width_flags(),
        )

    def _open(self, library):
        self._run = library.rollout
        self._run.argtypes = (*[_LONG] * 4, *[_POINTER] * 5)

    def __call__(self, tau, stages, same, q, qd):
        count, steps = tau.shape[:2]
        arrays = [array.ctypes.data for array in (tau, stages, same, q, qd)]
        threads = threads_worth(count * steps * len(stages) * len(self.program.ops))
        in_parts(count, threads, lambda start, stop: self._run(start, stop, steps, len(stages), *arrays))
