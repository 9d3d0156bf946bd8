"""Program -> C source. It holds numbers and indices only: no name of a robot gets here.

`run(x, y)` is one state: x and y hold all inputs and outputs in the order of the Program (render_straight.py,
render_lanes.py). call.c makes it callable from Python; `program(count, x, y)` runs over many
states. `render_batch` writes the same text with vectors of states for numbers (batch.c, batch_call.c).
"""

import numpy as np

from dynamics_node.codegen.c.render_lanes import render_stages
from dynamics_node.codegen.c.render_straight import (
    STACK_BYTES,
    WIDEST,
    before_run,
    render_run,
    table,
    text_of,
)
from dynamics_node.codegen.cache import source_digest
from dynamics_node.codegen.result_memory import LARGE
from dynamics_node.codegen.runner import UNIT_TOLERANCE
from dynamics_node.symbolic import LaneProgram

BATCH = 64  # states from which vectors are worth another compilation
# Instructions of a LaneProgram up to which straight lines over vectors of states are not slower than loops
# over lanes. A result takes some: it is transposed.
STRAIGHT, A_RESULT = 10_000, 5
IN_PLACE = 512  # results of a LaneProgram from which another pass over them counts
ABOVE_CACHES = 4 << 20  # bytes of results that leave the caches near a core


def render(program, parameters=(), quaternions=()) -> str:
    """The C source of a Program.

    parameters: names of its last inputs, which change seldom: `solve` reads them from memory of its own.
    quaternions: where among the inputs four numbers of unit length begin; `solve` checks it. Of a Program
    with limits `solve` keeps the last output for itself: it declines where an entry is larger.
    """
    return "\n".join(
        [
            f"#define WIDEST {WIDEST}",
            *before_run(),
            *_run(program),
            *_sizes(program, parameters, quaternions),
            text_of("past_caches.c"),
            text_of("arrays.c"),
            text_of("call.c"),
            text_of("instances.c"),
            "void program(long count, const double *restrict x, double *restrict y)",
            "{",
            "  for (long k = 0; k < count; ++k) run(x + k * INPUT_SIZE, y + k * OUTPUT_SIZE);",
            "}",
            "",
        ]
    )


def in_straight_lines(program: LaneProgram):
    """True of one that is short enough for straight lines over vectors of states."""
    results = sum(numbers.size for numbers in program.outputs.values())
    return sum(program.op_count().values()) + A_RESULT * results <= STRAIGHT


def _few(results):
    """States whose results `solve_new` allocates: not worth vectors, in memory at hand."""
    return min(BATCH - 1, LARGE // (8 * max(1, results)))


def _run(program):
    return render_stages(program) if isinstance(program, LaneProgram) else render_run(program)


def renderer() -> str:
    """Digest of what turns a Program into C: the files of this folder, of the printer and of Programs."""
    return source_digest(__package__, "dynamics_node.codegen.printer", "dynamics_node.symbolic")


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
        "IN_PLACE": int(isinstance(program, LaneProgram) and sum(a.size for a in outputs) >= IN_PLACE),
        "PARAMETER_SIZE": sum(sizes[name] for name in parameters),
        "QUATERNIONS": len(quaternions),
        "UNIT_TOLERANCE": UNIT_TOLERANCE,
        "STACK_BYTES": STACK_BYTES,
        "ABOVE_CACHES": ABOVE_CACHES,
        "FEW": _few(sum(array.size for array in outputs)),
    }
    return [
        *(f"#define {name} {number}" for name, number in numbers.items()),
        table("ssize_t", "input_size[]", [sizes[name] for name in names]),
        table("ssize_t", "output_size[]", [array.size for array in outputs]),
        table("ssize_t", "quaternion[]", np.array(quaternions, dtype=int)),
        table("double", "limit[]", program.limits),
        *shapes_table([program.inputs[name] for name in names], [array.shape for array in outputs]),
    ]


def shapes_table(inputs, outputs):
    """Tables of the shapes of all inputs and outputs: rows of the number of axes and their lengths."""
    inputs, outputs = list(inputs), list(outputs)
    most = max((len(shape) for shape in [*inputs, *outputs]), default=0)
    lines = [f"#define MOST_AXES {most}"]
    for name, shapes in (("input_shape", inputs), ("output_shape", outputs)):
        rows = [f"{{{', '.join(map(str, (len(shape), *shape)))}}}" for shape in shapes]
        lines.append(f"static const ssize_t {name}[][{most + 1}] = {{{', '.join([*rows, '{0}'])}}};")
    return lines
