"""A Staged -> C text of `run(x, y)`, as of straight.py.

All that stages leave lies in one memory w. What a stage of one lane computes is put where the first stage
that reads it on several lanes wants it, beside what the other lanes read; only what is not there, or belongs
elsewhere too, is copied. A stage of several lanes loops over vectors of them; one of two or four is straight
lines on a vector of just as many, which brings together in registers what does not lie side by side.
"""

import numpy as np

from dynamics_node.codegen.c.layout import FEW, Layout
from dynamics_node.codegen.c.literals import OPERATIONS, VECTOR, literal, memory
from dynamics_node.codegen.c.straight import call_parts, render_parts
from dynamics_node.symbolic import Op


def render_stages(program):
    """The stages of a Staged, each a function, and `run`."""
    layout = Layout(program)
    functions, calls = [], []
    for k, stage in enumerate(program.stages):
        if not len(stage.results):
            continue
        write = _alone if stage.lanes == 1 else _side_by_side
        functions += write(layout, k, stage)
        calls += [*layout.copies[k], f"  stage{k}(x, w, y);", *layout.after.get(k, ())]
    numbers = np.concatenate([array.ravel() for array in program.outputs.values()])
    return [
        *_LANES,
        *layout.tables,
        *functions,
        "static void run(const number *restrict x, number *restrict y)",
        "{",
        _memory(layout),
        *calls,
        *_results(layout, numbers),
        "}",
    ]


def _memory(layout):
    """The line that defines w: where stages loop over lanes, zeros among what they read are there already."""
    if all(stage.lanes in (1, *FEW) for stage in layout.program.stages):
        return memory("number", "w", layout.size + VECTOR)
    return f"  static _Thread_local number w[{layout.size + VECTOR}] __attribute__((aligned(64)));"


_LANES = (
    "#ifdef __AVX512F__",
    "#define SIDE 8",
    "#else",
    "#define SIDE 4",
    "#endif",
    *(
        f"typedef double {name}{lanes or ''} __attribute__((vector_size(8 * {lanes or 'SIDE'}){aligned}));"
        for lanes in (0, *FEW)
        for name, aligned in (("side", ""), ("loose", ", aligned(8)"))
    ),
)


_DECLARED = "static void stage{}(const number *restrict x, number *restrict w, number *restrict y)"


def _results(layout, numbers):
    """Lines that write the outputs."""
    pairs = [(k, int(n)) for k, n in enumerate(numbers) if not layout.is_zero(int(n))]
    lines = [] if len(pairs) == len(numbers) else [f"  memset(y, 0, {len(numbers)} * sizeof(number));"]
    return [*lines, *layout.moves(pairs, "y")]


def _alone(layout, k, stage):
    names = layout.names[k]
    title = f"stage{k}_"
    return [
        *render_parts(stage.program, names, title),
        _DECLARED.format(k),
        "{",
        *call_parts(names, title),
        "}",
    ]


def _side_by_side(layout, k, stage):
    few = stage.lanes in FEW
    side, loose = (f"{name}{stage.lanes if few else ''}" for name in ("side", "loose"))
    before, inside = [], []  # the loop over vectors of lanes
    text, alike = [], []
    for n, row in enumerate(stage.reads):
        text.append(f"i{n}")
        alike.append(layout.is_shared(row))
        at = layout.vector(tuple(row.tolist()))
        if alike[n]:
            before.append(f"  const number i{n} = {layout.text(int(row[0]))};")
        elif at is not None:
            inside.append(f"    const {side} i{n} = *(const {loose} *)({at} + k);")
        else:
            inside.append(f"    const {side} i{n} = {{{', '.join(map(layout.text, row.tolist()))}}};")
    _operations(stage.program, text, alike, side, before, inside)
    for n, value in enumerate(stage.results.tolist()):
        at = layout.address[layout.starts[k] + n * stage.lanes]
        filled = f"({side}){{0}} + {text[value]}" if alike[value] else text[value]
        inside.append(f"    *({side} *)(w + {at} + k) = {filled};")
    loop = "const int k = 0;" if few else f"for (int k = 0; k < {stage.lanes}; k += SIDE)"
    return [_DECLARED.format(k), "{", *before, f"  {loop} {{", *inside, "  }", "}"]


def _operations(program, text, alike, side, before, inside):
    """Write all operations; `text` and `alike`, whether lanes agree, go on with what they compute."""
    text += [literal(value) for value in program.constants]
    alike += [True] * len(program.constants)
    columns = (program.ops.tolist(), program.left.tolist(), program.right.tolist())
    for n, (op, a, b) in enumerate(zip(*columns, strict=True), start=program.first_operation):
        operands = (a,) if b < 0 else (a, b)
        operation = OPERATIONS[Op(op)].format(*(text[m] for m in operands))
        alike.append(all(alike[m] for m in operands))
        if alike[n]:
            before.append(f"  const number t{n} = {operation};")
        else:
            inside.append(f"    const {side} t{n} = {operation};")
        text.append(f"t{n}")
