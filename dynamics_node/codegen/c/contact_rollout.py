"""A compiled step with contacts along many steps of many states: a vector of states at a time, several
threads."""

import ctypes

import numpy as np

from dynamics_node.codegen.c.batch_kernel import width_flags
from dynamics_node.codegen.c.compiler import FOR_VECTORS, compile_library
from dynamics_node.codegen.c.library import Loaded
from dynamics_node.codegen.c.render import renderer
from dynamics_node.codegen.c.render_straight import VECTORS, before_run, memory, render_run, table, text_of
from dynamics_node.codegen.c.threads import in_parts, threads_worth
from dynamics_node.codegen.contact_solver import PUSH, PUSHED, SLOW, SMALLEST, STEEP, WEDGED
from dynamics_node.codegen.pd_loops import Loops
from dynamics_node.codegen.runner import PRECISIONS
from dynamics_node.symbolic import CROSSING, Halves, depth_first

_LONG, _POINTER = ctypes.c_long, ctypes.c_void_p
_TINY = {"double": "1e-300", "float": "1e-30f"}


class ContactRolloutKernel(Loaded):
    """kernel(control, gains, same, sweeps, q, qd, force, residual) for a ContactStep.

    control (count, steps, width): torques, or with loops, see loop_torques; gains (3, loops): LoopGains; same
    (numbers,): the other inputs of the first half, side by side; q, qd (count, steps + 1, *shape): their
    first step is the start, the others are written, as are force (count, steps, 3 touches) and residual
    (count, steps). All are contiguous, of dtype.
    """

    PER_PROCESS = ("_run",)

    def __init__(self, halves: Halves, rows, loops: Loops, dtype=np.float64):
        self.dtype, self._rows, self._loops = np.dtype(dtype), rows, loops
        self._second = depth_first(halves.second)
        super().__init__(depth_first(halves.first))

    def _compile(self):
        digests = self.program.digest(), self._second.digest()
        numbers = [
            np.asarray(x).tolist() for x in (self._rows.friction, self._rows.restitution, self._rows.dry)
        ]
        return compile_library(
            f"contact rollout {renderer()} {digests} {PRECISIONS[self.dtype]} {numbers} {self._loops}",
            self._text,
            (*FOR_VECTORS, *width_flags(), "-fno-math-errno"),
        )

    def _text(self) -> str:
        """The C source, see contact_rollout.c."""
        precision, program, rows = PRECISIONS[self.dtype], self.program, self._rows
        dialect = VECTORS._replace(single=precision == "float")
        size = {name: int(np.prod(shape, dtype=int)) for name, shape in program.inputs.items()}
        starts = np.cumsum([0, *(n.size for n in program.outputs.values())]).tolist()
        sizes = {
            "Q_SIZE": size.pop("q"),
            "QD_SIZE": size.pop("qd"),
            "CONTROL": size.pop("tau") + size.pop("loop_inertia", 0),
            "SAME": sum(size.values()),
            "LOOPS": len(self._loops.v),
            "TOUCHES": len(rows.touches),
            "JOINTS": len(rows.joints),
            "ROWS": rows.size,
            "SLOPES": program.outputs["steep"].size,
            "STEEP": STEEP,
            "CROSSING": program.outputs[CROSSING].size,
            **{f"{name.upper()}_AT": at for name, at in zip(program.outputs, starts, strict=False)},
            "PUSHED": PUSHED,
            "PUSH": PUSH,
            "SLOW": SLOW,
            "WEDGED": WEDGED,
            "SMALLEST_PIVOT": SMALLEST[self.dtype].pivot,
            "SMALLEST_ENTRY": SMALLEST[self.dtype].entry,
            "TINY": _TINY[precision],
        }
        results = sum(n.size for n in self._second.outputs.values())
        return "\n".join(
            [
                *before_run(precision),
                "typedef vector Results;",
                *render_run(program, dialect),
                *render_run(self._second, dialect, name="second"),
                *(f"#define {name} {value}" for name, value in sizes.items()),
                f"#define MEMORY_A {memory('vector', 'A', rows.size**2 + 1)}",
                f"#define MEMORY_X {memory('vector', 'x', program.input_size + 1)}",
                f"#define MEMORY_Y {memory('vector', 'y', starts[-1] + 1)}",
                f"#define MEMORY_Z {memory('vector', 'z', self._second.input_size + 3 * rows.size + 1)}",
                f"#define MEMORY_W {memory('vector', 'w', results + 1)}",
                table("double", "friction[]", rows.friction),
                table("double", "restitution[]", rows.restitution),
                table("double", "dry[]", rows.dry),
                table("int", "loop_q[]", self._loops.q),
                table("int", "loop_v[]", self._loops.v),
                text_of("contact_solver.c"),
                text_of("pd_loops.c"),
                text_of("contact_rollout.c"),
            ]
        )

    def _open(self, library):
        self._run = library.rollout
        self._run.argtypes = (*[_LONG] * 5, *[_POINTER] * 7)

    def __call__(self, control, gains, same, sweeps, q, qd, force, residual):
        count, steps, width = control.shape
        arrays = [array.ctypes.data for array in (control, gains, same, q, qd, force, residual)]
        work = len(self.program.ops) + len(self._second.ops) + sweeps * self._rows.size**2
        threads = threads_worth(count * steps * work)
        in_parts(count, threads, lambda start, stop: self._run(start, stop, steps, sweeps, width, *arrays))
