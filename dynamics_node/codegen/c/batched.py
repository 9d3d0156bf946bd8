"""Program -> C source that runs it over many states: the text of straight.py with vectors of states for
numbers (batch.c, batch_call.c).

Results are written a vector of columns at a time, for all states of a vector, as soon as the columns are
computed, so that stores, which wait for caches, go on beside operations.
"""

from itertools import accumulate

import numpy as np

from dynamics_node.codegen.c.literals import VECTOR, literal, memory
from dynamics_node.codegen.c.render import shapes_table, text_of
from dynamics_node.codegen.c.straight import render_run
from dynamics_node.codegen.results import UNIT_TOLERANCE

MOST_LANES = 16  # numbers in a vector: floats


def render_batch(program, precision="double", quaternions=(), limits=()) -> str:
    """The C source that runs a Program over many states at once; precision: 'double' or 'float';
    quaternions as in `render`; limits: of the last output in this precision."""
    lanes, suffix = (VECTOR, "") if precision == "double" else (MOST_LANES, "f")
    return "\n".join(
        [
            text_of("declared.c"),
            f"#define LANES {lanes}",
            f"#define INPUTS {len(program.inputs)}",
            f"#define OUTPUTS {len(program.outputs)}",
            f"#define UNIT_TOLERANCE {UNIT_TOLERANCE}",
            text_of(f"sincos_{precision}.c"),
            text_of("sincos.c"),
            text_of("batch.c"),
            *render_run(program, "vector", suffix, _writing(program, lanes, limits)),
            *_batch(program, quaternions),
            *shapes_table(program.inputs.values(), [numbers.shape for numbers in program.outputs.values()]),
            text_of("arrays.c"),
            text_of("batch_call.c"),
            "",
        ]
    )


def _batch(program, quaternions):
    """The loop over the states: see batch.c."""
    sizes = [int(np.prod(shape, dtype=int)) for shape in program.inputs.values()]
    inputs, outputs = _places(sizes), _places([numbers.size for numbers in program.outputs.values()])
    return [
        "static int batch(long from, long to, long count, const number *const *input, const int *same,",
        "  number *const *output)",
        "{",
        memory("vector", "in", sum(sizes) + 1),
        memory("number", "copy", (max(sizes, default=0) + 1) * MOST_LANES),
        memory("number", "last", (sum(n for _, n, _ in outputs) + 1) * MOST_LANES),
        "  vector bad = {0};",
        *(f"  if (same[{k}]) read_same(input[{k}], {n}, in + {at});" for k, n, at in inputs),
        "  for (long k = from; k < to; k += LANES) {",
        "    const int whole = to - k >= LANES;",
        "    Results y = {{0}};",
        *(
            f"    if (!same[{k}]) read_rows(readable(input[{k}], {n}, k, count, copy), {n}, in + {at});"
            for k, n, at in inputs
        ),
        *(f"    y.row[{k}] = whole ? output[{k}] + k * {n} : last + {at} * LANES;" for k, n, at in outputs),
        "    run(in, &y);",
        f"    bad += not_finite({sum(sizes)}, in) + (y.sum - y.sum) + y.beyond;",
        *(f"    bad += not_unit(in + {k});" for k in quaternions),
        "    if (!whole) {",
        *(
            f"      memcpy(output[{k}] + k * {n}, y.row[{k}], (to - k) * {n} * sizeof(number));"
            for k, n, _ in outputs
        ),
        "    }",
        "  }",
        "  return !any(bad);",
        "}",
    ]


def _writing(program, lanes, limits):
    """The lines that write results: (text, the values that it waits for)."""
    lines = []
    for k, numbers in enumerate(program.outputs.values()):
        lines += _writing_row(program, k, numbers.ravel(), lanes)
    health = [*program.outputs.values()][-1].ravel()[: len(limits)] if limits else ()
    return lines + [
        (f"  y->beyond += beyond({{}}, {literal(limit)});", (int(n),))
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
            own = ", ".join(["{}"] * (stop - start))
            line = f"  write_part({place}, (const vector[]){{{{{own}}}}});"
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


def _places(sizes):
    """(number, size, where it begins) of arrays that lie side by side."""
    starts = [0, *accumulate(sizes)][:-1]
    return list(zip(range(len(sizes)), sizes, starts, strict=True))
