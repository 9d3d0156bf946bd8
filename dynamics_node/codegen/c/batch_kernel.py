"""A compiled Program over many states: a vector of them at a time, several threads.

The text is that of render_straight.py with vectors of states for numbers (batch.c, batch_call.c). Results
are written a vector of columns at a time, for all states of a vector, as soon as the columns are computed,
so that stores, which wait for caches, go on beside operations.
"""

from functools import cache, partial
from itertools import accumulate

import numpy as np

from dynamics_node.codegen.c.compiler import (
    FOR_VECTORS,
    CompileOption,
    compile_fastest,
    fastest_option,
    has_avx512,
    open_library,
)
from dynamics_node.codegen.c.kernel import QUICK, SHORT
from dynamics_node.codegen.c.library import Loaded, builtin_function, trust_arrays
from dynamics_node.codegen.c.render import ABOVE_CACHES, BATCH, renderer, shapes_table
from dynamics_node.codegen.c.render_stage_loops import render_stage_loops
from dynamics_node.codegen.c.render_straight import (
    NUMBERS,
    VECTOR,
    VECTORS,
    before_run,
    memory,
    render_run,
    text_of,
)
from dynamics_node.codegen.c.threads import WORTH_A_THREAD, in_parts, threads_worth
from dynamics_node.codegen.result_memory import new_array
from dynamics_node.codegen.runner import PRECISIONS, UNIT_TOLERANCE, limits_in, returned, usable
from dynamics_node.errors import CompileError
from dynamics_node.symbolic import LaneProgram, Program, depth_first, trace

HALF = ("-DWIDEST=32",)  # bytes of a vector: see vectors.c
MOST_LANES = 16  # numbers in a vector: floats
TRIED = 1024  # states of a trial, at most


def render_batch(program, precision="double", quaternions=(), limits=()) -> str:
    """The C source that runs a Program over many states at once; precision: 'double' or 'float';
    quaternions as in `render`; limits: of the last output in this precision."""
    single = precision == "float"
    lanes = MOST_LANES if single else VECTOR
    return "\n".join(
        [
            f"#define INPUTS {len(program.inputs)}",
            f"#define OUTPUTS {len(program.outputs)}",
            f"#define UNIT_TOLERANCE {UNIT_TOLERANCE}",
            *before_run(precision),
            text_of("past_caches.c"),
            text_of("batch.c"),
            *_run(program, single, lanes, limits),
            *_loop(program, quaternions),
            *shapes_table(program.inputs.values(), [numbers.shape for numbers in program.outputs.values()]),
            text_of("arrays.c"),
            text_of("batch_call.c"),
            "",
        ]
    )


def _run(program, single, lanes, limits):
    """The Program of one vector of states."""
    if isinstance(program, LaneProgram):
        return render_stage_loops(program, single, limits)
    return render_run(program, VECTORS._replace(single=single), _writing(program, lanes, limits))


def _loop(program, quaternions):
    """What batch_loop.c needs to know."""
    sizes = [int(np.prod(shape, dtype=int)) for shape in program.inputs.values()]
    results = [numbers.size for numbers in program.outputs.values()]
    return [
        _each("INPUT", _places(sizes)),
        _each("OUTPUT", _places(results)),
        _each("QUATERNION", [(place,) for place in quaternions]),
        f"#define MEMORY_IN {memory('vector', 'in', sum(sizes) + 1)}",
        f"#define MEMORY_COPY {memory('number', 'copy', (max(sizes, default=0) + 1) * MOST_LANES)}",
        f"#define MEMORY_LAST {memory('number', 'last', (sum(results) + 1) * MOST_LANES)}",
        f"#define RESULTS {sum(results)}",
        f"#define ABOVE_CACHES {ABOVE_CACHES}",
        f"#define WHOLE_ROWS {int(isinstance(program, LaneProgram))}",
        text_of("batch_loop.c"),
    ]


def _places(sizes):
    """(number, size, where it begins) of arrays that lie side by side."""
    starts = accumulate(sizes, initial=0)
    return [(k, size, start) for k, (size, start) in enumerate(zip(sizes, starts, strict=False))]


def _each(name, rows):
    """The macro that does something with every row of numbers."""
    calls = (f"DO({', '.join(map(str, row))})" for row in rows)
    return f"#define EACH_{name}(DO) {' '.join(calls)}"


def _writing(program, lanes, limits):
    """The lines that write results: (text, the values that it waits for)."""
    lines = []
    for k, numbers in enumerate(program.outputs.values()):
        lines += _writing_row(program, k, numbers.ravel(), lanes)
    health = [*program.outputs.values()][-1].ravel()[: len(limits)] if limits else ()
    return lines + [
        (f"y->excess += exceeds({{}}, {NUMBERS.literal(limit)});", (int(n),))
        for n, limit in zip(health, limits, strict=True)
    ]


def _writing_row(program, output, row, lanes):
    """Those of an output: its columns in their order as far as operations allow it, for processors expect
    that of who writes. Zeros follow the columns before them."""
    zero = _zeros(program, row)
    lines = [("", ())]
    for start, stop in _blocks(row.size, lanes):
        place = f"y, {output}, {row.size}, {start}, {stop - start}"
        if zero[start:stop].all():
            text, values = lines[-1]
            lines[-1] = (f"{text}\n  write_zeros({place});", values)
        else:
            fields = ", ".join(["{}"] * (stop - start))
            line = f"write_part({place}, (const vector[]){{{{{fields}}}}});"
            lines.append((line, tuple(row[start:stop].tolist())))
    return lines if lines[0][0] else lines[1:]


def _blocks(size, lanes):
    """(start, stop) of all columns, a vector each."""
    return [(k, min(k + lanes, size)) for k in range(0, size, lanes)]


def _zeros(program, numbers):
    """Which results are the constant zero."""
    place = numbers - program.input_size
    constant = (place >= 0) & (place < len(program.constants))
    values = np.append(program.constants, 1.0)
    return constant & (values[np.where(constant, place, -1)] == 0)


def width_flags() -> tuple[str, ...]:
    """Flags for the width of vectors: HALF on a processor that is faster with 32 bytes than with the 64 of
    AVX-512. Measured once in a cache, by a small Program, which is optimized no more than that needs."""
    if not has_avx512():
        return ()
    options = {
        name: CompileOption(f"width {renderer()}", lambda: render_batch(_small_program()), flags)
        for name, flags in {"whole": (), "half": HALF}.items()
    }
    try:
        fastest = fastest_option(options, partial(_trial, _small_program(), np.float64))
    except CompileError:  # the caller's own Program says why
        return ()
    return HALF if fastest == "half" else ()


@cache
def _small_program():
    """A vector that is turned and moved through frames, as those of robots are."""

    def function(q, v):
        for angle in q:
            s, c = np.sin(angle), np.cos(angle)
            x, y, z = v[:3]
            v = np.array(
                [z + 0.1 * v[5], c * x + s * y, c * y - s * x, *(v[3:] + 0.2 * np.cross(v[:3], v[3:]))]
            )
        return {"v": v}

    return trace(function, {"q": (7,), "v": (6,)})


def _trial(program, dtype, key):
    """A function that runs a library over some states: where there are many results, over so many that they
    leave the caches near a core."""
    library = open_library(key)
    trust_arrays(library, dtype)
    run = builtin_function(library, "batch_definition")
    results = sum(numbers.size for numbers in program.outputs.values())
    count = max(BATCH, min(TRIED, ABOVE_CACHES // max(1, results * np.dtype(dtype).itemsize)))
    random = np.random.default_rng(0)
    inputs = [random.uniform(-1.0, 1.0, (count, *shape)).astype(dtype) for shape in program.inputs.values()]
    outputs = [np.empty((count, *numbers.shape), dtype) for numbers in program.outputs.values()]
    return lambda: run(0, count, count, *inputs, *outputs)


class BatchKernel(Loaded):
    """batch(count, *inputs) -> outputs, a list of arrays (count, *shape) in the Program's order, and whether
    all states are good: finite in and out, with quaternions of unit length, health within its limits. One
    that is not changes no other.

    dtype: float64 or float32, of the arithmetic and of all arrays; quaternions: where among the inputs they
    begin; reordered: as of Kernel. Beside the outputs no memory grows with the number of states: a thread
    works on one vector of them at a time.
    """

    PER_PROCESS = ("_library", "_run")

    def __init__(self, program, dtype=np.float64, quaternions=(), reordered=None):
        self.dtype, self._quaternions, self._reordered = np.dtype(dtype), tuple(quaternions), reordered
        self._shapes = [numbers.shape for numbers in program.outputs.values()]
        self._given = len(returned(program))  # of the outputs; health is not for those who call `quick`
        self._operations = sum(program.op_count().values()) or 1
        self._one_thread = 2 * WORTH_A_THREAD // self._operations  # states
        super().__init__(program)

    def _compile(self):
        how = (PRECISIONS[self.dtype], self._quaternions, limits_in(self.program, self.dtype))
        flags = FOR_VECTORS + width_flags()
        options = {
            name: CompileOption(
                f"batch {renderer()} {program.digest()} {how}",
                partial(render_batch, program, *how),
                flags,
            )
            for name, program in self._orders().items()
        }
        return compile_fastest(options, partial(_trial, self.program, self.dtype))

    def _orders(self):
        """The Program with its operations in several orders, of which one is the fastest. Depth first results
        are computed in the order in which they lie in memory, and little waits."""
        orders = {"traced": self.program, "reordered": self._reordered}
        if isinstance(self.program, Program) and SHORT < len(self.program.ops) <= QUICK:
            orders["depth first"] = depth_first(self.program)
        different: dict[str, str] = {}
        for name, program in orders.items():
            if program is not None:
                different.setdefault(program.digest(), name)
        return {name: orders[name] for name in different.values()}

    def _open(self, library):
        trust_arrays(library, self.dtype)
        self._library, self._run = library, builtin_function(library, "batch_definition")

    def __call__(self, count, *inputs, threads=None):
        """inputs: (count, *shape) or (*shape) in the Program's order, any numbers; threads: at most that
        many, None for one a core."""
        results = [new_array((count, *shape), self.dtype) for shape in self._shapes]
        if self._run(0, 0, count, *inputs, *results) < 0:
            inputs = self.fitting(self.program.inputs, count, inputs, self.dtype)
        good = self._in_parts(count, self._threads(count, threads), *inputs, *results)
        return results, bool(good)

    def fits(self, count, inputs):
        """Whether a call takes arrays as they are."""
        results = [np.empty((count, *shape), self.dtype) for shape in self._shapes]
        return self._run(0, 0, count, *inputs, *results) > 0

    def _threads(self, count, most=None):
        return threads_worth(count * self._operations, most)

    def quick(self, count, *inputs, out=None):
        """The outputs but health; None when an array is not contiguous, of the type and of the right shape,
        or a state is not good. out: arrays for them, not used where they lie over inputs."""
        results = usable(out, inputs)
        results += [new_array((count, *shape), self.dtype) for shape in self._shapes[len(results) :]]
        if count < self._one_thread:
            good = self._run(0, count, count, *inputs, *results)
        elif (good := self._run(0, 0, count, *inputs, *results)) > 0:
            good = self._in_parts(count, self._threads(count), *inputs, *results)
        return results[: self._given] if good > 0 else None

    def _in_parts(self, count, threads, *arrays):
        good = in_parts(count, threads, lambda start, stop: self._run(start, stop, count, *arrays))
        if good < 0:
            raise RuntimeError("compiled code refuses arrays that were made for it")  # a defect of ours
        return good
