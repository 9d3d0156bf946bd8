"""A straight-line Program -> C text of `run(x, y)`: one state, x and y hold all inputs and outputs in order.

First comes what angles need, then all their sines and cosines at once (sincos.c), then the rest. The
operations are split into functions, for compile time grows faster than linearly with the size of a function;
what one part needs of another goes through the workspace w, which begins with the sines and cosines.
"""

from itertools import pairwise

from dynamics_node.backends.c.text import OPERATIONS, VECTOR, literal, memory
from dynamics_node.program import Op
from dynamics_node.program.expression import TURNING

PART = 1500  # operations in a function

_SINES = {
    "number": {Op.SIN: "sin({})", Op.COS: "cos({})"},
    "vector": {Op.SIN: "sin_lanes({})", Op.COS: "cos_lanes({})"},
}


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
        memory(number, "w", max(1, names.workspace)),
        *_sines(names, number),
        *(f"  part{k}(x, w);" for k in range(names.first_part, len(parts))),
        *(f"  y[{k}] = {_filled(names.anywhere(int(n)), number)};" for k, n in enumerate(numbers)),
        "}",
    ]


def _filled(text, number):
    """A literal as a vector of it; what has a name is one already."""
    return f"(vector){{0}} + {text}" if number == "vector" and text[0] in "0123456789-(" else text


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
            return literal(self.constants[n - self.inputs], self.suffix)
        return f"w[{self.slot[n]}]"

    def within(self, n, part):
        """A value as a part sees it."""
        return f"t{n}" if self.part.get(n) == part else self.anywhere(n)


def _angles(program):
    """Angles (angle, constant beside it or -1) whose sine or cosine needs no other one; the operations they
    need; and {sine or cosine: (angle, 0 or 1)}, all by value number."""
    first = program.first_operation
    turned: set[int] = set()  # values that depend on a sine or cosine
    angles: dict[tuple[int, int], None] = {}
    grouped = {}
    for n, op, a, b in _numbered(program):
        turned_already = a in turned or b in turned
        if op in (Op.SIN, Op.COS) and not turned_already:
            angles[a, b] = None
            grouped[n] = ((a, b), int(op == Op.COS))
        if turned_already or op in (Op.SIN, Op.COS):
            turned.add(n)
    needed = {n for n, _ in angles if n >= first}
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
    angles = [_filled(names.anywhere(a), number) for a, _ in names.angles]
    return [
        f"  {number} angle[{names.padded}] __attribute__((aligned(64))) = {{0}};",
        _offsets(names, number),
        *(f"  part{k}(x, w);" for k in range(names.first_part)),
        *(f"  angle[{k}] = {angle};" for k, angle in enumerate(angles)),
        f"  sincos_all({blocks}, (vector *)angle, (vector *)offset, (vector *)w,",
        f"    (vector *)(w + {names.padded}));",
    ]


def _offsets(names, number):
    """The constants that are added to the angles."""
    offsets = [names.anywhere(b) if b >= 0 else literal(0.0, names.suffix) for _, b in names.angles]
    filled = ", ".join(offsets if number == "number" else [f"IN_ALL_LANES({offset})" for offset in offsets])
    return f"  static const {number} offset[{names.padded}] __attribute__((aligned(64))) = {{{filled}}};"


def _operations(program, names, part, number):
    lines = []
    text = OPERATIONS | _SINES[number]
    own = names.part[part[0]]
    for n in part:
        k = n - program.first_operation
        op = Op(int(program.ops[k]))
        operands = [names.within(int(m), own) for m in (program.left[k], program.right[k]) if m >= 0]
        if op in TURNING:
            operands = [" + ".join(operands)]
        lines.append(f"  const {number} t{n} = {text[op].format(*operands)};")
        if n in names.slot:
            lines.append(f"  w[{names.slot[n]}] = t{n};")
    return lines
