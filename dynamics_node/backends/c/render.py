"""Program -> C text. It holds numbers and indices only: no name of a robot gets here.

`run(x, y)` is one state: x and y hold all inputs and outputs in the order of the Program. First comes what
angles need, then all their sines and cosines at once (sincos.c), then the rest. The operations are split into
functions, for compile time grows faster than linearly with the size of a function; what one part needs of
another goes through the workspace w, which begins with the sines and cosines. call.c makes `run` callable
from Python; `program(count, x, y)` runs over many states. `render_batch` writes the same text with vectors
of states in place of numbers (batch.c, batch_call.c).
"""

import hashlib
from functools import cache
from importlib.resources import files
from itertools import accumulate, pairwise

import numpy as np

from dynamics_node.program import Op

PART = 1500  # operations in a function
VECTOR = 8  # doubles in a vector of sincos.c
UNIT_TOLERANCE = 2e-6  # of the square of a quaternion's length

_TEXT = {Op.ADD: "{} + {}", Op.SUB: "{} - {}", Op.MUL: "{} * {}", Op.RECIPROCAL: "1 / {}", Op.NEG: "-{}"}
_SINES = {
    "number": {Op.SIN: "sin({})", Op.COS: "cos({})"},
    "vector": {Op.SIN: "sin_lanes({})", Op.COS: "cos_lanes({})"},
}


def render(program, parameters=(), quaternions=()) -> str:
    """The C source of a Program.

    parameters: names of its last inputs, which change seldom: `solve` reads them from memory of its own.
    quaternions: where among the inputs four numbers of unit length begin; `solve` checks it.
    """
    return "\n".join(
        [
            "#include <math.h>",
            "#include <string.h>",
            "#include <sys/types.h>",
            _text("sincos_double.c"),
            _text("sincos.c"),
            *render_run(program),
            *_sizes(program, parameters, quaternions),
            _text("arrays.c"),
            _text("call.c"),
            "void program(long count, const double *restrict x, double *restrict y)",
            "{",
            "  for (long k = 0; k < count; ++k) run(x + k * INPUT_SIZE, y + k * OUTPUT_SIZE);",
            "}",
            "",
        ]
    )


@cache
def renderer() -> str:
    """Digest of what turns a Program into C: this file and the C files beside it."""
    ours = [file for file in files(__package__).iterdir() if file.name.endswith((".c", "render.py"))]
    texts = [file.read_text() for file in sorted(ours, key=lambda file: file.name)]
    return hashlib.sha256("".join(texts).encode()).hexdigest()


def render_batch(program, precision="double", quaternions=()) -> str:
    """The C source that runs a Program over many states at once; precision: 'double' or 'float';
    quaternions as in `render`."""
    return "\n".join(
        [
            "#include <math.h>",
            "#include <string.h>",
            "#include <sys/types.h>",
            _text(f"sincos_{precision}.c"),
            _text("sincos.c"),
            *render_run(program, "vector", "f" if precision == "float" else ""),
            f"#define UNIT_TOLERANCE {UNIT_TOLERANCE}",
            _text("batch.c"),
            *_batch(program, quaternions),
            _text("arrays.c"),
            _text("batch_call.c"),
            "",
        ]
    )


def _batch(program, quaternions):
    """The loop over the states: see batch.c."""
    sizes = [int(np.prod(shape, dtype=int)) for shape in program.inputs.values()]
    inputs, outputs = _places(sizes), _places([numbers.size for numbers in program.outputs.values()])
    total = sum(n for _, n, _ in outputs)
    return [
        f"#define INPUTS {len(inputs)}",
        f"#define OUTPUTS {len(outputs)}",
        _numbers("input_size[]", [n for _, n, _ in inputs]),
        _numbers("output_size[]", [n for _, n, _ in outputs]),
        "static int batch(long from, long to, long count, const number *const *input, const int *same,",
        "  number *const *output)",
        "{",
        f"  vector in[{sum(sizes) + 1}], out[{total + 1}];",
        "  vector bad = {0};",
        f"  number copy[{max(sizes, default=0) + 1} * LANES];",
        *(f"  if (same[{k}]) read_same(input[{k}], {n}, in + {at});" for k, n, at in inputs),
        "  for (long k = from; k < to; k += LANES) {",
        "    const int lanes = to - k < LANES ? to - k : LANES;",
        *(
            f"    if (!same[{k}]) read_rows(readable(input[{k}], {n}, k, count, copy), {n}, in + {at});"
            for k, n, at in inputs
        ),
        "    run(in, out);",
        f"    bad += not_finite({sum(sizes)}, in) + not_finite({total}, out);",
        *(f"    bad += not_unit(in + {k});" for k in quaternions),
        *(f"    write_rows(out + {at}, output[{k}] + k * {n}, {n}, lanes);" for k, n, at in outputs),
        "  }",
        "  return !any(bad);",
        "}",
    ]


def _places(sizes):
    """(number, size, where it begins) of arrays that lie side by side."""
    starts = [0, *accumulate(sizes)][:-1]
    return list(zip(range(len(sizes)), sizes, starts, strict=True))


def render_run(program, number="number", suffix=""):
    """The lines of `run` and its parts; number: 'number', or 'vector' of states; suffix: of literals."""
    names = _Names(program, suffix)
    parts = [
        _function(f"part{k}", number, _operations(program, names, part, number))
        for k, part in enumerate(names.parts)
    ]
    numbers = [n for array in program.outputs.values() for n in array.flat]
    return [
        *(line for part in parts for line in part),
        f"static void run(const {number} *restrict x, {number} *restrict y)",
        "{",
        f"  {number} w[{max(1, names.workspace)}] __attribute__((aligned(64)));",
        *_sines(names, number),
        *(f"  part{k}(x, w);" for k in range(names.first_part, len(parts))),
        *(f"  y[{k}] = {_filled(names.anywhere(int(n)), number)};" for k, n in enumerate(numbers)),
        "}",
    ]


def _filled(text, number):
    """A literal as a vector of it; what has a name is one already."""
    return f"(vector){{0}} + {text}" if number == "vector" and text[0] in "0123456789-(" else text


def _text(name):
    return files(__package__).joinpath(name).read_text()


def _sizes(program, parameters, quaternions):
    sizes = {name: int(np.prod(shape, dtype=int)) for name, shape in program.inputs.items()}
    names = [name for name in program.inputs if name not in parameters]
    outputs = list(program.outputs.values())
    numbers = {
        "INPUTS": len(names),
        "OUTPUTS": len(outputs),
        "INPUT_SIZE": program.input_size,
        "OUTPUT_SIZE": sum(array.size for array in outputs),
        "PARAMETER_SIZE": sum(sizes[name] for name in parameters),
        "QUATERNIONS": len(quaternions),
        "UNIT_TOLERANCE": UNIT_TOLERANCE,
    }
    return [
        *(f"#define {name} {number}" for name, number in numbers.items()),
        _numbers("input_size[]", [sizes[name] for name in names]),
        _numbers("output_size[]", [array.size for array in outputs]),
        _numbers("quaternion[]", quaternions),
        _shapes("input_shape", [program.inputs[name] for name in names]),
        _shapes("output_shape", [array.shape for array in outputs]),
    ]


def _numbers(name, numbers):
    return f"static const ssize_t {name} = {{{', '.join(map(str, [*numbers, 0]))}}};"


def _shapes(name, shapes):
    """Rows of the number of axes and their lengths."""
    width = 1 + max((len(shape) for shape in shapes), default=0)
    rows = [f"{{{', '.join(map(str, (len(shape), *shape)))}}}" for shape in shapes]
    return f"static const ssize_t {name}[][{width}] = {{{', '.join([*rows, '{0}'])}}};"


def _function(name, number, lines):
    return [f"static void {name}(const {number} *restrict x, {number} *restrict w)", "{", *lines, "}"]


class _Names:
    """Which part computes a value, and how it is written: an input, a literal, a local, or a slot of w."""

    def __init__(self, program, suffix):
        self.suffix = suffix
        self.inputs, self.first = program.input_size, program.first_operation
        self.constants = program.constants
        self.angles, needed, grouped = _angles(program)
        rest = [n for n in range(self.first, self.first + len(program.ops)) if n not in grouped]
        before, after = [n for n in rest if n in needed], [n for n in rest if n not in needed]
        self.parts = [*_pieces(before), *_pieces(after)]
        self.first_part = len(_pieces(before))
        self.part = {n: k for k, numbers in enumerate(self.parts) for n in numbers}
        place = {angle: k for k, angle in enumerate(self.angles)}
        self.padded = -(-len(place) // VECTOR) * VECTOR
        self.slot = {n: place[angle] + offset * self.padded for n, (angle, offset) in grouped.items()}
        shared = _shared(program, self.part)
        self.slot |= {n: 2 * self.padded + k for k, n in enumerate(shared)}
        self.workspace = 2 * self.padded + len(shared)

    def anywhere(self, n):
        """A value that every part can read."""
        if n < self.inputs:
            return f"x[{n}]"
        if n < self.first:
            value = float(self.constants[n - self.inputs])
            return f"({value.hex()}{self.suffix})" if value < 0 else f"{value.hex()}{self.suffix}"
        return f"w[{self.slot[n]}]"

    def within(self, n, part):
        """A value as a part sees it."""
        return f"t{n}" if self.part.get(n) == part else self.anywhere(n)


def _angles(program):
    """Angles whose sine or cosine needs no other one; the operations they need; and
    {sine or cosine: (angle, 0 or 1)}, all by value number."""
    first = program.first_operation
    turned: set[int] = set()  # values that depend on a sine or cosine
    angles: dict[int, None] = {}
    grouped = {}
    for n, op, a, b in _numbered(program):
        turned_already = a in turned or b in turned
        if op in (Op.SIN, Op.COS) and not turned_already:
            angles[a] = None
            grouped[n] = (a, int(op == Op.COS))
        if turned_already or op in (Op.SIN, Op.COS):
            turned.add(n)
    needed = {n for n in angles if n >= first}
    for n, _, a, b in reversed(list(_numbered(program))):
        if n in needed:
            needed |= {x for x in (a, b) if x >= first}
    return list(angles), needed, grouped


def _numbered(program):
    """(value number, op, left, right) of every operation."""
    columns = (program.ops.tolist(), program.left.tolist(), program.right.tolist())
    return ((program.first_operation + k, *row) for k, row in enumerate(zip(*columns, strict=True)))


def _pieces(numbers):
    bounds = [*range(0, len(numbers), PART), len(numbers)]
    return [numbers[a:b] for a, b in pairwise(bounds)]


def _shared(program, part):
    """Operations whose value another part or an output needs, or an angle is."""
    used = {int(n) for numbers in program.outputs.values() for n in numbers.flat if n in part}
    for n, _, a, b in _numbered(program):
        own = part.get(n, -1)
        used |= {x for x in (a, b) if x in part and part[x] != own}
    return sorted(used)


def _sines(names, number):
    """The lines that fill the head of the workspace."""
    if not names.angles:
        return []
    blocks = names.padded // VECTOR if number == "number" else len(names.angles)
    return [
        f"  {number} angle[{names.padded}] __attribute__((aligned(64))) = {{0}};",
        *(f"  part{k}(x, w);" for k in range(names.first_part)),
        *(f"  angle[{k}] = {_filled(names.anywhere(n), number)};" for k, n in enumerate(names.angles)),
        f"  sincos_all({blocks}, (vector *)angle, (vector *)w, (vector *)(w + {names.padded}));",
    ]


def _operations(program, names, part, number):
    lines = []
    text = _TEXT | _SINES[number]
    own = names.part[part[0]]
    for n in part:
        k = n - program.first_operation
        operands = [names.within(int(m), own) for m in (program.left[k], program.right[k]) if m >= 0]
        lines.append(f"  const {number} t{n} = {text[Op(program.ops[k])].format(*operands)};")
        if n in names.slot:
            lines.append(f"  w[{names.slot[n]}] = t{n};")
    return lines
