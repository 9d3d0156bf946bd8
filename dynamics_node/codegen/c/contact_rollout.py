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
from dynamics_node.codegen.pd_loops import LoopPlaces
from dynamics_node.codegen.runner import PRECISIONS
from dynamics_node.symbolic import SplitProgram, depth_first

_LONG, _POINTER = ctypes.c_long, ctypes.c_void_p
_TINY = {"double": "1e-300", "float": "1e-30f"}


def step_lines(parts: SplitProgram, programs, rows, loops: LoopPlaces, dtype):
    """The lines of the rollout of a ContactStep, in the words of lanes.c. programs: of the parts, ordered."""
    precision = PRECISIONS[dtype]
    dialect = VECTORS._replace(single=precision == "float")
    size = {name: place.stop - place.start for name, place in parts.places.items()}
    sizes = {
        "Q_SIZE": size["q"],
        "QD_SIZE": size["qd"],
        "CONTROL": size["tau"] + size.get("loop_inertia", 0),
        "SAME": size["dt"] + size["gravity"],
        "LOOPS": len(loops.v),
        "TOUCHES": len(rows.touches),
        "JOINTS": len(rows.joints),
        "ROWS": rows.size,
        "ALWAYS": rows.always,
        "SLOPES": size["steep"],
        **{f"{name.upper()}_AT": place.start for name, place in parts.places.items()},
        **{f"PART{k}_AT": part.writes for k, part in enumerate(parts.parts)},
        "STEEP": STEEP,
        "PUSHED": PUSHED,
        "PUSH": PUSH,
        "SLOW": SLOW,
        "WEDGED": WEDGED,
        "SMALLEST_PIVOT": SMALLEST[dtype].pivot,
        "SMALLEST_ENTRY": SMALLEST[dtype].entry,
        "TINY": _TINY[precision],
    }
    yield "typedef vector Results;"
    for k, (program, part) in enumerate(zip(programs, parts.parts, strict=True)):
        yield from render_run(program, dialect, name=f"part{k}", reads=part.reads.tolist())
    yield from (f"#define {name} {value}" for name, value in sizes.items())
    yield f"#define MEMORY_A {memory('vector', 'A', rows.size**2 + 1)}"
    yield f"#define MEMORY_M {memory('vector', 'm', parts.size + 1)}"
    for name in ("friction", "restitution", "dry"):
        yield table("double", f"{name}[]", getattr(rows, name))
    yield table("int", "loop_q[]", loops.q)
    yield table("int", "loop_v[]", loops.v)
    yield from map(text_of, ("contact_solver.c", "pd_loops.c", "contact_rollout.c"))


class ContactRolloutKernel(Loaded):
    """kernel(control, gains, same, sweeps, q, qd, force, residual) for a ContactStep.

    control (count, steps, width): torques, or with loops, see loop_torques; gains (3, loops): LoopGains; same
    (numbers,): the other inputs of the first half, side by side; q, qd (count, steps + 1, *shape): their
    first step is the start, the others are written, as are force (count, steps, 3 touches) and residual
    (count, steps). All are contiguous, of dtype.
    """

    PER_PROCESS = ("_run",)

    def __init__(self, parts: SplitProgram, rows, loops: LoopPlaces, dtype=np.float64):
        self.dtype, self._rows, self._loops, self._parts = np.dtype(dtype), rows, loops, parts
        self._programs = [depth_first(part.program) for part in parts.parts]
        super().__init__(self._programs[0])

    def _compile(self):
        digests = [program.digest() for program in self._programs]
        numbers = [
            np.asarray(x).tolist() for x in (self._rows.friction, self._rows.restitution, self._rows.dry)
        ]
        return compile_library(
            f"contact rollout {renderer()} {digests} {PRECISIONS[self.dtype]} {numbers} {self._loops}"
            f" {[part.reads.tolist() for part in self._parts.parts]} {self._parts.places}",
            self._text,
            (*FOR_VECTORS, *width_flags(), "-fno-math-errno"),
        )

    def _text(self) -> str:
        """The C source, see contact_rollout.c."""
        lines = step_lines(self._parts, self._programs, self._rows, self._loops, self.dtype)
        return "\n".join([*before_run(PRECISIONS[self.dtype]), text_of("lanes.c"), *lines])

    def _open(self, library):
        self._run = library.rollout
        self._run.argtypes = (*[_LONG] * 5, *[_POINTER] * 7)

    def __call__(self, control, gains, same, sweeps, q, qd, force, residual):
        count, steps, width = control.shape
        arrays = [array.ctypes.data for array in (control, gains, same, q, qd, force, residual)]
        work = sum(len(program.ops) for program in self._programs[:2]) + sweeps * self._rows.size**2
        threads = threads_worth(count * steps * work)
        in_parts(count, threads, lambda start, stop: self._run(start, stop, steps, sweeps, width, *arrays))
