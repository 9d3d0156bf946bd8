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

from dynamics_node.codegen.printer.dialect import COSINE, SINE, Values, of_c, plain
from dynamics_node.symbolic.fused import Operand

VECTOR = 8  # doubles to whose multiples arrays are filled up: the widest vector
WIDEST = 32  # bytes in a vector of sincos.c, of one state: wider ones slow down numbers around them
STACK_BYTES = 64 * 1024  # of an array that are asked of a stack: that of a thread may have 512 KiB
PART = 1500  # operations in a function
NUMBERS = of_c("number", "sin", "cos")
VECTORS = of_c("vector", "sin_lanes", "cos_lanes")  # of states
_RESULTS = {"number": "number", "vector": "Results"}


def table(kind, name, array):
    """Lines that define a constant array of one or two axes; one entry more, for C has no empty arrays."""
    array = np.asarray(array)
    write = NUMBERS.literal if kind == "double" else str
    if array.ndim == 1:
        return [f"static const {kind} {name}[] = {{{', '.join([*map(write, array.tolist()), '0'])}}};"]
    rows = [", ".join(map(write, row)) for row in array.tolist()]
    lines = [f"  {{{row}}}," for row in rows if row]
    return [f"static const {kind} {name}[][{array.shape[1] + 1}] = {{", *lines, "  {0}", "};"]


def memory(kind, name, size):
    """Line that defines a local array of numbers or vectors; a large one is the thread's, and stays."""
    storage = "static _Thread_local " if size * (8 * VECTOR if kind == "vector" else 8) > STACK_BYTES else ""
    return f"  {storage}{kind} {name}[{size}] __attribute__((aligned(64)));"


def render_run(program, dialect=NUMBERS, writing=None):
    """The lines of `run` and its parts; dialect: NUMBERS or VECTORS; writing: the lines that write results,
    (text, the values that it waits for), by default those that store them in y."""
    given = [f"x[{k}]" for k in range(program.input_size)]
    names = Names(program, dialect, given, writing=_storing(program) if writing is None else writing)
    number = dialect.number
    return [
        *render_parts(names, "part"),
        f"static void run(const {number} *restrict x, {_RESULTS[number]} *restrict y)",
        "{",
        memory(number, "w", max(1, names.workspace)),
        *call_parts(names, "part"),
        *names.written(None),
        "}",
    ]


def render_parts(names, title):
    """The functions of a Program's parts, called `title` and a number."""
    number = names.dialect.number
    arguments = f"const {number} *restrict x, {number} *restrict w, {_RESULTS[number]} *restrict y"
    parts = [
        [f"static void {title}{k}({arguments})", "{", *names.lines(k), "}"] for k in range(len(names.parts))
    ]
    return [line for part in parts for line in part]


def call_parts(names, title):
    """Lines that call them, with all sines and cosines in between."""
    return [
        *_sines(names, title),
        *(f"  {title}{k}(x, w, y);" for k in range(names.first_part, len(names.parts))),
    ]


class Names(Values):
    """Which part computes a value, and how it is written: an input, a literal, a local, or a slot of w.

    placed: {operation: its slot}, of those that have one elsewhere than in the workspace, which begins at
    slot `start`, a multiple of VECTOR. Sines and cosines have theirs there. writing: the lines that write
    results, of which each follows the last operation that it waits for; None: all outputs have slots.
    """

    def __init__(self, program, dialect, given, placed=None, start=0, writing=None):
        super().__init__(program, dialect, given)
        self.start = start
        self.operations = {operation.values[0]: operation for operation in plain(program)}
        self.angles, needed, grouped = _angles(self.operations)
        rest = [n for n in self.operations if n not in grouped]
        before, after = [n for n in rest if n in needed], [n for n in rest if n not in needed]
        self.parts = [*_pieces(before), *_pieces(after)]
        self.first_part = len(_pieces(before))
        self.part = {n: k for k, numbers in enumerate(self.parts) for n in numbers}
        self._after = self._placed(writing or ())
        place = {angle: k for k, angle in enumerate(self.angles)}
        self.padded = -(-len(place) // VECTOR) * VECTOR
        self.slot = {n: start + place[angle] + offset * self.padded for n, (angle, offset) in grouped.items()}
        placed = {n: slot for n, slot in (placed or {}).items() if n not in grouped}
        kept = _results(program) if writing is None else self._read_elsewhere()
        shared = [n for n in self._shared(kept) if n not in placed]
        first = start + 2 * self.padded
        self.slot |= {n: first + k for k, n in enumerate(shared)} | placed
        self.workspace = first + len(shared)

    def _placed(self, writing):
        """{operation, None for none: lines that follow it (text, values)}"""
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
            for last, lines in self._after.items()
            for _, values in lines
            for n in values
            if n in self.part and self.part[n] != self.part.get(last)
        }

    def _shared(self, kept):
        """Operations whose value another part needs, or an angle is, or that are `kept`."""
        used = {n for n in kept if n in self.part}
        for n, operation in self.operations.items():
            own = self.part.get(n, -1)
            used |= {x for x, _ in operation.operands if x in self.part and self.part[x] != own}
        return sorted(used)

    def lines(self, part):
        """The lines of a part."""

        def text(operand):
            return self.within(operand.value, part)

        for n in self.parts[part]:
            yield f"  {self.dialect.line(self.operations[n], text)}"
            if n in self.slot:
                yield f"  w[{self.slot[n]}] = {self.dialect.local(n)};"
            yield from self.written(n)

    def written(self, n):
        """The lines that follow an operation."""
        for text, values in self._after.get(n, ()):
            yield text.format(*(self.filled(m, self.part.get(n)) for m in values))

    def within(self, n, part=None):
        """A value as a part sees it, or any part."""
        if n in self.slot and (part is None or self.part.get(n) != part):
            return f"w[{self.slot[n]}]"
        return self.text(Operand(n))

    def filled(self, n, part=None):
        """The same as a vector where numbers are vectors."""
        constant = self.program.input_size <= n < self.program.first_operation
        fill = "(vector){0} + " if constant and self.dialect.number == "vector" else ""
        return fill + self.within(n, part)


def _angles(operations):
    """Angles (angle, constant beside it or -1) whose sine or cosine needs no other one; the operations they
    need; and {sine or cosine: (angle, 0 or 1)}, all by value number."""
    turned: set[int] = set()  # values that depend on a sine or cosine
    angles: dict[tuple[int, int], None] = {}
    grouped = {}
    for n, operation in operations.items():
        a, b = (*(x for x, _ in operation.operands), -1)[:2]
        turning = operation.kind in (SINE, COSINE)
        turned_already = a in turned or b in turned
        if turning and not turned_already:
            angles[a, b] = None
            grouped[n] = ((a, b), int(operation.kind == COSINE))
        if turned_already or turning:
            turned.add(n)
    needed = {n for n, _ in angles if n in operations}
    for n in reversed(operations):
        if n in needed:
            needed |= {x for x, _ in operations[n].operands if x in operations}
    return list(angles), needed, grouped


def _pieces(numbers):
    bounds = [*range(0, len(numbers), PART), len(numbers)]
    return [numbers[a:b] for a, b in pairwise(bounds)]


def _storing(program):
    """The lines that store all outputs in y, and the value of each."""
    return [(f"  y[{k}] = {{}};", (n,)) for k, n in enumerate(_results(program))]


def _results(program):
    """The values of all outputs, in order."""
    return [int(n) for array in program.outputs.values() for n in array.flat]


def _sines(names, title):
    """The lines that fill the head of the workspace."""
    if not names.angles:
        return []
    angles = [names.filled(a) for a, _ in names.angles]
    if names.dialect.number == "number":
        sets = [[*angles[k : k + 4], *["0"] * 3][:4] for k in range(0, len(angles), 4)]
        filling = [f"  FOUR_ANGLES({4 * k}, {', '.join(own)});" for k, own in enumerate(sets)]
        size = f"{4 * len(sets)} / LANES"
    else:
        filling = [f"  angle[{k}] = {angle};" for k, angle in enumerate(angles)]
        size = str(len(angles))
    return [
        f"  vector angle[{size}];",
        _offsets(names),
        *(f"  {title}{k}(x, w, y);" for k in range(names.first_part)),
        *filling,
        f"  sincos_all({size}, angle, (const vector *)offset, (vector *)(w + {names.start}),",
        f"    (vector *)(w + {names.start + names.padded}));",
    ]


def _offsets(names):
    """The constants that are added to the angles."""
    number = names.dialect.number
    offsets = [names.within(b) if b >= 0 else names.dialect.literal(0.0) for _, b in names.angles]
    filled = ", ".join(offsets if number == "number" else [f"IN_ALL_LANES({offset})" for offset in offsets])
    return f"  static const {number} offset[{names.padded}] __attribute__((aligned(64))) = {{{filled}}};"
