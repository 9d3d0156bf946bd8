"""A straight-line Program -> C text of `run(x, y)`: one state, x and y hold all inputs and outputs in
order.

First comes what angles need, then all their sines and cosines at once (sincos.c), then the rest. The
operations are split into functions, for compile time grows faster than linearly with the size of a
function; what one part needs of another goes through the workspace w, which begins with the sines and
cosines, and results are written where they are computed. The text holds numbers and indices only: no name
of a robot gets here.
"""

from collections import defaultdict
from importlib.resources import files

import numpy as np

from dynamics_node.codegen.printer.dialect import COSINE, TURNING, Parts, in_parts, of_c, plain
from dynamics_node.symbolic.fused import Operand
from dynamics_node.symbolic.sines import DOUBLE, SINGLE, without

VECTOR = 8  # doubles to whose multiples arrays are filled up: the widest vector
WIDEST = 32  # bytes in a vector of sincos.c, of one state: wider ones slow down numbers around them
STACK_BYTES = 64 * 1024  # of an array that are asked of a stack: that of a thread may have 512 KiB
PART = 1500  # operations in a function
NUMBERS = of_c("number", "sin", "cos")
VECTORS = of_c("vector", "sin_lanes", "cos_lanes")  # of states
_RESULTS = {"number": "number", "vector": "Results"}


def text_of(name):
    """A file of this folder."""
    return files(__package__).joinpath(name).read_text()


def table(kind, name, array):
    """The line that defines a constant array; one entry more, for C has no empty arrays."""
    write = NUMBERS.literal if kind == "double" else str
    numbers = [*map(write, np.ravel(array).tolist()), "0"]
    return f"static const {kind} {name} = {{{', '.join(numbers)}}};"


def memory(kind, name, size):
    """Line that defines a local array of numbers or vectors; a large one is the thread's, and stays."""
    storage = "static _Thread_local " if size * (8 * VECTOR if kind == "vector" else 8) > STACK_BYTES else ""
    return f"  {storage}{kind} {name}[{size}] __attribute__((aligned(64)));"


def before_run(precision="double") -> list[str]:
    """What the text of `run` needs before it: vectors of 'double' or 'float', and their sines."""
    numbers = DOUBLE if precision == "double" else SINGLE
    literal = NUMBERS._replace(single=precision == "float").literal
    terms = {name: ", ".join(map(literal, getattr(numbers, name))) for name in ("sine", "cosine")}
    return [
        text_of("declared.c"),
        text_of("vectors.c"),
        text_of(f"{precision}.c"),
        f"#define LARGE {literal(numbers.largest)} /* rad */",
        f"#define QUARTERS_PER_RADIAN {literal(numbers.quarters_per_radian)}",
        f"#define REDUCED(x, n) {without(numbers.parts, literal, '({x} - n * {part})')}",
        f"enum {{ TERMS = {len(numbers.sine)} }};",
        *(f"static const number {name}_term[TERMS] = {{{text}}};" for name, text in terms.items()),
        text_of("sincos.c"),
    ]


def render_run(program, dialect=NUMBERS, writing=None, name="run", reads=None):
    """The lines of a function, `run` by default, and its parts. dialect: NUMBERS or VECTORS; writing: the
    lines that write results, (text, the values that it waits for), by default those that store them in y;
    reads: places of the inputs in x, by default in order."""
    given = [f"x[{k}]" for k in (range(program.input_size) if reads is None else reads)]
    storing = [(f"y[{k}] = {{}};", (n,)) for k, n in enumerate(_results(program))]
    names = Names(program, dialect, given, writing=storing if writing is None else writing)
    number, part = dialect.number, "part" if name == "run" else f"part_of_{name}"
    return [
        *render_parts(names, part),
        f"static void {name}(const {number} *restrict x, {_RESULTS[number]} *restrict y)",
        "{",
        memory(number, "w", max(1, names.workspace)),
        *call_parts(names, part),
        *(f"  {line}" for line in names.written(None)),
        "}",
    ]


def render_parts(names, title):
    """The functions of a Program's parts, called `title` and a number."""
    number = names.dialect.number
    arguments = f"const {number} *restrict x, {number} *restrict w, {_RESULTS[number]} *restrict y"
    for k in range(len(names.operations)):
        lines = (f"  {line}" for line in names.lines(k))
        yield from (f"static void {title}{k}({arguments})", "{", *lines, "}")


def call_parts(names, title):
    """Lines that call them, with all sines and cosines in between."""
    calls = [f"  {title}{k}(x, w, y);" for k in range(len(names.operations))]
    sines = _sines(names, calls[: names.first_part]) if names.angles else []
    return [*sines, *calls[names.first_part :]]


class Names(Parts):
    """How a value is written: an input, a literal, a local, or a slot of w.

    placed: {operation: its slot}, of those that have one elsewhere than in the workspace, which begins at
    slot `start`, a multiple of VECTOR. Sines and cosines have theirs there. writing: the lines that write
    results, of which each follows the last operation that it waits for; None: all outputs have slots.
    """

    def __init__(self, program, dialect, given, placed=None, start=0, writing=None):
        operations = {operation.values[0]: operation for operation in plain(program)}
        self.angles, needed, grouped = _angles(operations)
        rest = [operation for n, operation in operations.items() if n not in grouped]
        before, after = (
            in_parts([operation for operation in rest if (operation.values[0] in needed) == early], PART)
            for early in (True, False)
        )
        super().__init__(program, dialect, given, [*before, *after])
        self.start, self.first_part = start, len(before)
        self._after = self._following(writing or ())
        place = {angle: k for k, angle in enumerate(self.angles)}
        self.padded = -(-len(place) // VECTOR) * VECTOR
        sines = {n: start + place[angle] + offset * self.padded for n, (angle, offset) in grouped.items()}
        self.slot = (placed or {}) | sines
        readers = [(self.first_part, [a for a, _ in self.angles])]
        readers += [(self.part.get(n, 0), values) for n, lines in self._after.items() for _, values in lines]
        readers += [(len(self.operations), _results(program) if writing is None else [])]
        self.allocate(readers, start + 2 * self.padded)

    def _following(self, writing):
        """{operation, None for none: lines that follow it (text, values)}"""
        lines = defaultdict(list)
        for line in writing:
            computed = [n for n in line[1] if n in self.part]
            lines[max(computed, key=lambda n: (self.part[n], n), default=None)].append(line)
        return lines

    def written(self, n):
        for text, values in self._after.get(n, ()):
            yield text.format(*map(self.filled, values))

    def filled(self, n):
        """A value, as a vector where numbers are vectors."""
        constant = self.program.input_size <= n < self.program.first_operation
        fill = "ZERO + " if constant and self.dialect.number == "vector" else ""
        return fill + self.text(Operand(n))


def _angles(operations):
    """Angles (angle, constant beside it or -1) whose sine or cosine needs no other one; the operations they
    need; and {sine or cosine: (angle, 0 or 1)}, all by value number."""
    turned: set[int] = set()  # values that depend on a sine or cosine
    angles: dict[tuple[int, int], None] = {}
    grouped = {}
    for n, operation in operations.items():
        a, b = (*(x for x, _ in operation.operands), -1)[:2]
        turning = operation.kind in TURNING
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


def _results(program):
    """The values of all outputs, in order."""
    return [int(n) for array in program.outputs.values() for n in array.flat]


def _sines(names, calls):
    """The lines that fill the head of the workspace; calls: of the parts that angles need."""
    number = names.dialect.number
    angles = [names.filled(a) for a, _ in names.angles]
    offsets = [names.text(Operand(b)) if b >= 0 else names.dialect.literal(0.0) for _, b in names.angles]
    if number == "number":
        sets = [[*angles[k : k + 4], *["0"] * 3][:4] for k in range(0, len(angles), 4)]
        filling = [f"  FOUR_ANGLES({4 * k}, {', '.join(four)});" for k, four in enumerate(sets)]
        size = f"{4 * len(sets)} / LANES"
    else:
        filling = [f"  angle[{k}] = {angle};" for k, angle in enumerate(angles)]
        size, offsets = str(len(angles)), [f"IN_ALL_LANES({offset})" for offset in offsets]
    given, table = "0", []
    if any(b >= 0 for _, b in names.angles):
        aligned = f"offset[{names.padded}] __attribute__((aligned(64)))"
        table = [f"  static const {number} {aligned} = {{{', '.join(offsets)}}};"]
        given = "(const vector *)offset"
    return [
        f"  vector angle[{size}];",
        *table,
        *calls,
        *filling,
        f"  sincos_all({size}, angle, {given}, (vector *)(w + {names.start}),",
        f"    (vector *)(w + {names.start + names.padded}));",
    ]
