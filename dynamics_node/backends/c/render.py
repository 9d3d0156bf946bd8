"""Program -> C source. It holds numbers and indices only: no name of a robot gets here.

`run(x, y)` is one state: x and y hold all inputs and outputs in the order of the Program (straight.py, or
looped.py for one with loops). call.c makes it callable from Python; `program(count, x, y)` runs over many
states. `render_batch` writes the same text with vectors of states for numbers (batch.c, batch_call.c).
"""

import hashlib
from functools import cache
from importlib.resources import files
from itertools import accumulate

import numpy as np

from dynamics_node.backends.c.looped import render_loops
from dynamics_node.backends.c.staged import render_stages
from dynamics_node.backends.c.straight import render_run
from dynamics_node.backends.c.text import LANES, LARGE, VECTOR, literal, memory, table
from dynamics_node.backends.c.threads import WORTH_A_THREAD
from dynamics_node.backends.results import UNIT_TOLERANCE
from dynamics_node.program import Program, Rolled, Staged

BATCH = 64  # states from which vectors are worth another compilation
STRAIGHT = 36_000  # operations of a Staged up to which straight lines over vectors of states are faster
MOST_LANES = 16  # numbers in a vector: floats


def render(program, parameters=(), quaternions=()) -> str:
    """The C source of a Program.

    parameters: names of its last inputs, which change seldom: `solve` reads them from memory of its own.
    quaternions: where among the inputs four numbers of unit length begin; `solve` checks it. Of a Program
    with limits `solve` keeps the last output for itself: it declines where an entry is larger.
    """
    return "\n".join(
        [
            "#include <math.h>",
            "#include <string.h>",
            "#include <sys/types.h>",
            f"#define LANES {LANES}",
            _text("sincos_double.c"),
            _text("sincos.c"),
            *_run(program),
            *_sizes(program, parameters, quaternions),
            _text("arrays.c"),
            _text("call.c"),
            _text("scan.c"),
            "void program(long count, const double *restrict x, double *restrict y)",
            "{",
            "  for (long k = 0; k < count; ++k) run(x + k * INPUT_SIZE, y + k * OUTPUT_SIZE);",
            "}",
            "",
        ]
    )


def is_for_vectors(program: Program | Rolled | Staged):
    """True of what runs over BATCH states and more in vectors of them: straight lines. What is rolled, or
    would be long, keeps more for a vector of states than caches hold."""
    if isinstance(program, Staged):
        return sum(program.op_count().values()) <= STRAIGHT
    return isinstance(program, Program)


def _of_one_thread(program):
    """States that are not worth two."""
    return 2 * WORTH_A_THREAD // max(1, sum(program.op_count().values()))


def _run(program):
    if isinstance(program, Staged):
        return render_stages(program)
    return render_loops(program) if isinstance(program, Rolled) else render_run(program)


@cache
def renderer() -> str:
    """Digest of what turns a Program into C: the files of this folder and those of Programs."""
    folders = (files(__package__), files("dynamics_node.program"))
    ours = [file for folder in folders for file in folder.iterdir() if file.name.endswith((".c", ".py"))]
    texts = [file.read_text() for file in sorted(ours, key=lambda file: file.name)]
    return hashlib.sha256("".join(texts).encode()).hexdigest()


def render_batch(program, precision="double", quaternions=(), limits=()) -> str:
    """The C source that runs a Program over many states at once; precision: 'double' or 'float';
    quaternions as in `render`; limits: of the last output in this precision."""
    return "\n".join(
        [
            "#include <math.h>",
            "#include <string.h>",
            "#include <sys/types.h>",
            f"#define LANES {VECTOR if precision == 'double' else MOST_LANES}",
            _text(f"sincos_{precision}.c"),
            _text("sincos.c"),
            *render_run(program, "vector", "f" if precision == "float" else "", _always_zero(program)),
            f"#define UNIT_TOLERANCE {UNIT_TOLERANCE}",
            _text("batch.c"),
            *_batch(program, quaternions, limits),
            *_shapes(program.inputs.values(), [numbers.shape for numbers in program.outputs.values()]),
            _text("arrays.c"),
            _text("batch_call.c"),
            "",
        ]
    )


def _batch(program, quaternions, limits):
    """The loop over the states: see batch.c."""
    sizes = [int(np.prod(shape, dtype=int)) for shape in program.inputs.values()]
    inputs, outputs = _places(sizes), _places([numbers.size for numbers in program.outputs.values()])
    total, computed = sum(n for _, n, _ in outputs), _computed(program)
    return [
        f"#define INPUTS {len(inputs)}",
        f"#define OUTPUTS {len(outputs)}",
        "static int batch(long from, long to, long count, const number *const *input, const int *same,",
        "  number *const *output)",
        "{",
        memory("vector", "in", sum(sizes) + 1),
        memory("vector", "out", total + 1),
        "  vector bad = {0};",
        memory("number", "copy", (max(sizes, default=0) + 1) * MOST_LANES),
        *(f"  if (same[{k}]) read_same(input[{k}], {n}, in + {at});" for k, n, at in inputs),
        "  for (long k = from; k < to; k += LANES) {",
        "    const int lanes = to - k < LANES ? to - k : LANES;",
        *(
            f"    if (!same[{k}]) read_rows(readable(input[{k}], {n}, k, count, copy), {n}, in + {at});"
            for k, n, at in inputs
        ),
        "    run(in, out);",
        f"    bad += not_finite({sum(sizes)}, in);",
        *(f"    bad += not_unit(in + {k});" for k in quaternions),
        *(
            f"    bad += beyond(out[{total - len(limits) + k}], {literal(limit)});"
            for k, limit in enumerate(limits)
        ),
        *(line for output in outputs for line in _writing(output, computed[output[0]])),
        "  }",
        "  return !any(bad);",
        "}",
    ]


def _writing(output, computed):
    """The lines that write an output (its number, size, where it begins): what is computed, and zeros."""
    k, size, at = output
    edges = [at, *(edge for part in computed for edge in part), at + size]
    zeros = [(a, b) for a, b in zip(edges[::2], edges[1::2], strict=True) if a < b]
    rows = f"output[{k}] + k * {size}"
    return [
        *(
            f"    bad += write_rows(out + {a}, {rows} + {a - at}, {size}, lanes, {b - a});"
            for a, b in computed
        ),
        *(f"    write_zeros({rows} + {a - at}, {size}, lanes, {b - a});" for a, b in zeros),
    ]


def _computed(program):
    """Of every output the stretches [(from, to)] that are not always zero, among all outputs; shorter ones
    than a vector are not taken out."""
    start, found = 0, []
    for numbers in program.outputs.values():
        zero = _zeros(program, numbers).ravel()
        edges = np.flatnonzero(np.diff(np.concatenate([[False], zero, [False]]).astype(int)))
        runs = [(a, b) for a, b in edges.reshape(-1, 2).tolist() if b - a >= MOST_LANES]
        inner = [0, *(edge for run in runs for edge in run), zero.size]
        pairs = zip(inner[::2], inner[1::2], strict=True)
        found.append([(start + a, start + b) for a, b in pairs if a < b])
        start += zero.size
    return found


def _always_zero(program):
    """Places among all outputs that `_computed` leaves out."""
    total = sum(numbers.size for numbers in program.outputs.values())
    return set(range(total)) - {k for parts in _computed(program) for a, b in parts for k in range(a, b)}


def _zeros(program, numbers):
    """Which results are the constant zero."""
    place = numbers - program.input_size
    constant = (place >= 0) & (place < len(program.constants))
    values = np.append(program.constants, 1.0)
    return constant & (values[np.where(constant, place, -1)] == 0)


def _places(sizes):
    """(number, size, where it begins) of arrays that lie side by side."""
    starts = [0, *accumulate(sizes)][:-1]
    return list(zip(range(len(sizes)), sizes, starts, strict=True))


def _text(name):
    return files(__package__).joinpath(name).read_text()


def _sizes(program, parameters, quaternions):
    sizes = {name: int(np.prod(shape, dtype=int)) for name, shape in program.inputs.items()}
    names = [name for name in program.inputs if name not in parameters]
    outputs = list(program.outputs.values())
    numbers = {
        "INPUTS": len(names),
        "OUTPUTS": len(outputs) - bool(program.limits),
        "LIMITS": len(program.limits),
        "INPUT_SIZE": program.input_size,
        "OUTPUT_SIZE": sum(array.size for array in outputs),
        "PARAMETER_SIZE": sum(sizes[name] for name in parameters),
        "QUATERNIONS": len(quaternions),
        "UNIT_TOLERANCE": UNIT_TOLERANCE,
        "LARGE": LARGE,
        "FEW": BATCH - 1 if is_for_vectors(program) else max(BATCH - 1, _of_one_thread(program)),
    }
    return [
        *(f"#define {name} {number}" for name, number in numbers.items()),
        _numbers("input_size[]", [sizes[name] for name in names]),
        _numbers("output_size[]", [array.size for array in outputs]),
        _numbers("quaternion[]", quaternions),
        *table("double", "limit", program.limits),
        *_shapes([program.inputs[name] for name in names], [array.shape for array in outputs]),
    ]


def _numbers(name, numbers):
    return f"static const ssize_t {name} = {{{', '.join(map(str, [*numbers, 0]))}}};"


def _shapes(inputs, outputs):
    """Tables of the shapes of all inputs and outputs: rows of the number of axes and their lengths."""
    inputs, outputs = list(inputs), list(outputs)
    most = max((len(shape) for shape in [*inputs, *outputs]), default=0)
    lines = [f"#define MOST_AXES {most}"]
    for name, shapes in (("input_shape", inputs), ("output_shape", outputs)):
        rows = [f"{{{', '.join(map(str, (len(shape), *shape)))}}}" for shape in shapes]
        lines.append(f"static const ssize_t {name}[][{most + 1}] = {{{', '.join([*rows, '{0}'])}}};")
    return lines
