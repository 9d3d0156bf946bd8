"""A straight-line Program -> C text of `run(x, y)`: one state, x and y hold all inputs and outputs in
order.

First comes what angles need, then all their sines and cosines at once (sincos.c), then the rest. The
operations are split into functions, for compile time grows faster than linearly with the size of a
function; what one part needs of another goes through the workspace w, which begins with the sines and
cosines, and results are written where they are computed. The text holds numbers and indices only: no name
of a robot gets here.
"""

from itertools import pairwise

import numpy as np

from dynamics_node.symbolic import Op
from dynamics_node.symbolic.expression import TURNING

VECTOR = 8  # doubles to whose multiples arrays are filled up: the widest vector
WIDEST = 32  # bytes in a vector of sincos.c, of one state: wider ones slow down numbers around them
STACK_BYTES = 64 * 1024  # of an array that are asked of a stack: that of a thread may have 512 KiB
OPERATIONS = {Op.ADD: "{} + {}", Op.SUB: "{} - {}", Op.MUL: "{} * {}", Op.RECIPROCAL: "1 / {}", Op.NEG: "-{}"}
PART = 1500  # operations in a function
_SINES = {
    "number": {Op.SIN: "sin({})", Op.COS: "cos({})"},
    "vector": {Op.SIN: "sin_lanes({})", Op.COS: "cos_lanes({})"},
}
_RESULTS = {"number": "number", "vector": "Results"}


def literal(value, suffix=""):
    """A number as C writes it, exactly."""
    text = float(value).hex() + suffix
    return f"({text})" if value < 0 else text


def table(kind, name, array):
    """Lines that define a constant array of one or two axes; one entry more, for C has no empty arrays."""
    array = np.asarray(array)
    write = literal if kind == "double" else str
    if array.ndim == 1:
        return [f"static const {kind} {name}[] = {{{', '.join([*map(write, array.tolist()), '0'])}}};"]
    rows = [", ".join(map(write, row)) for row in array.tolist()]
    lines = [f"  {{{row}}}," for row in rows if row]
    return [f"static const {kind} {name}[][{array.shape[1] + 1}] = {{", *lines, "  {0}", "};"]


def memory(kind, name, size):
    """Line that defines a local array of numbers or vectors; a large one is the thread's, and stays."""
    storage = "static _Thread_local " if size * (8 * VECTOR if kind == "vector" else 8) > STACK_BYTES else ""
    return f"  {storage}{kind} {name}[{size}] __attribute__((aligned(64)));"


def render_run(program, number="number", suffix="", writing=None):
    """The lines of `run` and its parts; number: 'number', or 'vector' of states; suffix: of literals;
    writing: the lines that write results, (text, the values that it waits for), by default those that store
    them in y."""
    given = [f"x[{k}]" for k in range(program.input_size)]
    writing = _storing(program) if writing is None else writing
    names = Names(program, given, suffix, writing=writing)
    return [
        *render_parts(program, names, "part", number),
        f"static void run(const {number} *restrict x, {_RESULTS[number]} *restrict y)",
        "{",
        memory(number, "w", max(1, names.workspace)),
        *call_parts(names, "part", number),
        *names.written(None, -1, number),
        "}",
    ]


def render_parts(program, names, title, number="number"):
    """The functions of a Program's parts, called `title` and a number."""
    parts = [
        _function(f"{title}{k}", number, _operations(program, names, part, number))
        for k, part in enumerate(names.parts)
    ]
    return [line for part in parts for line in part]


def call_parts(names, title, number="number"):
    """Lines that call them, with all sines and cosines in between."""
    return [
        *_sines(names, title, number),
        *(f"  {title}{k}(x, w, y);" for k in range(names.first_part, len(names.parts))),
    ]


def _filled(text, number):
    """A literal as a vector of it; what has a name is one already."""
    return f"(vector){{0}} + {text}" if number == "vector" and text[0] in "0123456789-(" else text


def _function(name, number, lines):
    arguments = f"const {number} *restrict x, {number} *restrict w, {_RESULTS[number]} *restrict y"
    return [f"static void {name}({arguments})", "{", *lines, "}"]


class Names:
    """Which part computes a value, and how it is written: an input, a literal, a local, or a slot of w.

    given: what the inputs are written as; placed: {operation: its slot}, of those that have one elsewhere
    than in the workspace, which begins at slot `start`, a multiple of VECTOR. Sines and cosines have theirs
    there. writing: the lines that write results, of which each follows the last operation that it waits for;
    None: all outputs have slots.
    """

    def __init__(self, program, given, suffix="", placed=None, start=0, writing=None):
        self.given, self.suffix, self.start = given, suffix, start
        self.inputs, self.first = program.input_size, program.first_operation
        self.constants = program.constants
        self.angles, needed, grouped = _angles(program)
        rest = [n for n in range(self.first, self.first + len(program.ops)) if n not in grouped]
        before, after = [n for n in rest if n in needed], [n for n in rest if n not in needed]
        self.parts = [*_pieces(before), *_pieces(after)]
        self.first_part = len(_pieces(before))
        self.part = {n: k for k, numbers in enumerate(self.parts) for n in numbers}
        self.lines = self._placed(writing or ())  # that follow an operation, or no one
        place = {angle: k for k, angle in enumerate(self.angles)}
        self.padded = -(-len(place) // VECTOR) * VECTOR
        self.slot = {n: start + place[angle] + offset * self.padded for n, (angle, offset) in grouped.items()}
        placed = {n: slot for n, slot in (placed or {}).items() if n not in grouped}
        kept = _results(program) if writing is None else self._read_elsewhere()
        shared = [n for n in _shared(program, self.part, kept) if n not in placed]
        first = start + 2 * self.padded
        self.slot |= {n: first + k for k, n in enumerate(shared)} | placed
        self.workspace = first + len(shared)

    def _placed(self, writing):
        """{operation: its lines (text, values)}"""
        lines: dict[int | None, list] = {}
        for line in writing:
            computed = [n for n in line[1] if n in self.part]
            last = max(computed, key=lambda n: (self.part[n], n), default=None)
            lines.setdefault(last, []).append(line)
        return lines

    def _read_elsewhere(self):
        """Values that lines of another part read."""
        return {
            n
            for last, lines in self.lines.items()
            for _, values in lines
            for n in values
            if n in self.part and self.part[n] != self.part.get(last)
        }

    def written(self, n, part, number):
        """The lines that follow an operation."""
        for text, values in self.lines.get(n, ()):
            yield text.format(*(_filled(self.within(m, part), number) for m in values))

    def anywhere(self, n):
        """A value that every part can read."""
        if n < self.inputs:
            return self.given[n]
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


def _storing(program):
    """The lines that store all outputs in y, and the value of each."""
    return [(f"  y[{k}] = {{}};", (n,)) for k, n in enumerate(_results(program))]


def _results(program):
    """The values of all outputs, in order."""
    return [int(n) for array in program.outputs.values() for n in array.flat]


def _shared(program, part, kept):
    """Operations whose value another part needs, or an angle is, or that are `kept`."""
    used = {n for n in kept if n in part}
    for n, _, a, b in _numbered(program):
        own = part.get(n, -1)
        used |= {x for x in (a, b) if x in part and part[x] != own}
    return sorted(used)


def _sines(names, title, number):
    """The lines that fill the head of the workspace."""
    if not names.angles:
        return []
    angles = [_filled(names.anywhere(a), number) for a, _ in names.angles]
    if number == "number":
        sets = [[*angles[k : k + 4], *["0"] * 3][:4] for k in range(0, len(angles), 4)]
        filling = [f"  FOUR_ANGLES({4 * k}, {', '.join(own)});" for k, own in enumerate(sets)]
        size = f"{4 * len(sets)} / LANES"
    else:
        filling = [f"  angle[{k}] = {angle};" for k, angle in enumerate(angles)]
        size = str(len(angles))
    return [
        f"  vector angle[{size}];",
        _offsets(names, number),
        *(f"  {title}{k}(x, w, y);" for k in range(names.first_part)),
        *filling,
        f"  sincos_all({size}, angle, (const vector *)offset, (vector *)(w + {names.start}),",
        f"    (vector *)(w + {names.start + names.padded}));",
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
        lines += names.written(n, own, number)
    return lines
