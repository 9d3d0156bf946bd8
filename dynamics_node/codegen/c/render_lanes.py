"""A LaneProgram -> C text of `run(x, y)`, as of render_straight.py, and of `run_into(x, out)`, which writes
every output to an array of its own.

All that stages leave lies in one memory w (`LaneLayout`). What a stage of one lane computes is put where the
first stage that reads it on several lanes wants it, beside what the other lanes read; only what is not
there, or belongs elsewhere too, is copied. A stage of several lanes loops over vectors of them; one of two
or four is straight lines on a vector of just as many, which brings together in registers what does not lie
side by side.
"""

from itertools import accumulate, pairwise

import numpy as np

from dynamics_node.codegen.c.render_straight import (
    NUMBERS,
    VECTOR,
    Names,
    call_parts,
    memory,
    render_parts,
)
from dynamics_node.codegen.printer.dialect import Values, plain
from dynamics_node.symbolic.fused import Operand

FEW = (2, 4)  # lanes that are one vector in a register: what they read is brought together there
_LANES = (
    "#if defined __AVX512F__",
    "#define SIDE 8",
    "#elif defined __AVX__",
    "#define SIDE 4",
    "#else",
    "#define SIDE 2",
    "#endif",
    *(
        f"typedef double {name}{lanes or ''} __attribute__((vector_size(8 * {lanes or 'SIDE'}){aligned}));"
        for lanes in (0, *FEW)
        for name, aligned in (("side", ""), ("loose", ", aligned(8)"))
    ),
)
_DECLARED = "static void stage{}(const number *restrict x, number *restrict w, number *restrict y)"


def render_stages(program):
    """The stages of a LaneProgram, each a function, `run_into` and `run`."""
    layout = LaneLayout(program)
    functions, calls = [], []
    for k, stage in enumerate(program.stages):
        if not len(stage.results):
            continue
        write = _alone if stage.lanes == 1 else _side_by_side
        functions += write(layout, k, stage)
        calls += [*layout.copies[k], f"  stage{k}(x, w, y);", *layout.after.get(k, ())]
    outputs = [array.ravel() for array in program.outputs.values()]
    starts = [0, *accumulate(map(len, outputs))]
    return [
        *_LANES,
        *layout.tables,
        *functions,
        "static void run_into(const number *restrict x, number *const *out)",
        "{",
        "  number *const y = 0; /* stages write no results */",
        _memory(layout),
        *calls,
        *(line for k, numbers in enumerate(outputs) for line in _results(layout, f"y{k}", numbers, k)),
        "}",
        "static void run(const number *restrict x, number *restrict y)",
        "{",
        f"  number *const out[] = {{{', '.join(f'y + {start}' for start in starts)}}};",
        "  run_into(x, out);",
        "}",
    ]


def _memory(layout):
    """The line that defines w: where stages loop over lanes, zeros among what they read are there already."""
    if all(stage.lanes in (1, *FEW) for stage in layout.program.stages):
        return memory("number", "w", layout.size + VECTOR)
    return f"  static _Thread_local number w[{layout.size + VECTOR}] __attribute__((aligned(64)));"


def _results(layout, name, numbers, k):
    """Lines that write output k, called by a name."""
    pairs = [(at, int(n)) for at, n in enumerate(numbers) if not layout.is_zero(int(n))]
    zeros = [at for at, n in enumerate(numbers) if layout.is_zero(int(n))]
    return [
        f"  number *restrict const {name} = out[{k}];",
        *(f"  memset({name} + {at}, 0, {size} * sizeof(number));" for at, size in _runs(zeros)),
        *layout.moves(pairs, name),
    ]


def _runs(numbers):
    """(first, how many) of consecutive numbers."""
    starts = [k for k, n in enumerate(numbers) if k == 0 or n != numbers[k - 1] + 1]
    return [(numbers[a], b - a) for a, b in pairwise([*starts, len(numbers)])]


def _alone(layout, k, stage):
    names = layout.names[k]
    title = f"stage{k}_"
    return [
        *render_parts(names, title),
        _DECLARED.format(k),
        "{",
        *call_parts(names, title),
        "}",
    ]


def _side_by_side(layout, k, stage):
    few = stage.lanes in FEW
    side, loose = (f"{name}{stage.lanes if few else ''}" for name in ("side", "loose"))
    values = Values(stage.program, NUMBERS, [f"i{n}" for n in range(len(stage.reads))])
    before, inside = [], []  # the loop over vectors of lanes
    alike = [layout.is_shared(row) for row in stage.reads] + [True] * len(stage.program.constants)
    for n, row in enumerate(stage.reads):
        at = layout.vector(tuple(row.tolist()))
        if alike[n]:
            before.append(f"const number i{n} = {layout.text(int(row[0]))};")
        elif at is not None:
            inside.append(f"const {side} i{n} = *(const {loose} *)({at} + k);")
        else:
            inside.append(f"const {side} i{n} = {{{', '.join(map(layout.text, row.tolist()))}}};")
    places = {True: (before, NUMBERS), False: (inside, NUMBERS._replace(number=side))}
    for operation in plain(stage.program):
        alike.append(all(alike[operand.value] for operand in operation.operands))
        lines, dialect = places[alike[-1]]
        lines.append(dialect.line(operation, values.text))
    for n, value in enumerate(stage.results.tolist()):
        at = layout.address[layout.starts[k] + n * stage.lanes]
        filled = f"({side}){{0}} + " if alike[value] else ""
        inside.append(f"*({side} *)(w + {at} + k) = {filled}{values.text(Operand(value))};")
    loop = "const int k = 0;" if few else f"for (int k = 0; k < {stage.lanes}; k += SIDE)"
    indented = [*(f"  {line}" for line in before), f"  {loop} {{", *(f"    {line}" for line in inside), "  }"]
    return [_DECLARED.format(k), "{", *indented, "}"]


class LaneLayout:
    """Where every value is: at an address of w, in x, or a literal."""

    def __init__(self, program):
        self.program = program
        self.inputs, self.first = program.input_size, program.first_result
        self.address: dict[int, int] = {}
        self.size = 0
        self.vectors: dict[tuple, str] = {}  # where what several lanes read lies side by side
        self.copies: list[list[str]] = []
        self.after: dict[int, list[str]] = {}
        self.tables: list[str] = []
        self.names: dict[int, Names] = {}
        starts = [self.first]
        for stage in program.stages:
            starts.append(starts[-1] + stage.size)
        self.starts = starts
        for k, stage in enumerate(program.stages):
            self.copies.append(self._read(stage))
            if stage.lanes > 1:
                self._leave(k, stage)
        for k, stage in enumerate(program.stages):
            if stage.lanes == 1 and len(stage.results):
                self._work(k, stage)

    def _leave(self, k, stage):
        """Places of what several lanes compute, of every result a row of whole vectors."""
        row = stage.lanes if stage.lanes in FEW else -(-stage.lanes // VECTOR) * VECTOR
        block = self._block(len(stage.results) * row)
        for n in range(len(stage.results)):
            for lane in range(stage.lanes):
                self.address[self.starts[k] + n * stage.lanes + lane] = block + n * row + lane

    def _block(self, size):
        """Address of a new block."""
        at = self.size
        self.size += -(-size // VECTOR) * VECTOR
        return at

    def _read(self, stage):
        """Lines that bring together what several lanes read."""
        copies: list[tuple[int, int]] = []
        if stage.lanes == 1 or stage.lanes in FEW:
            return []
        for row in stage.reads:
            key = tuple(row.tolist())
            if self.is_shared(row) or self.vector(key) is not None:
                continue
            if all(self.inputs <= n < self.first for n in key):
                self.vectors[key] = self._table(key)
                continue
            block = self._block(stage.lanes)
            self.vectors[key] = f"w + {block}"
            for lane, n in enumerate(key):
                if n >= self.first and n not in self.address:
                    self.address[n] = block + lane
                elif not self.is_zero(n):
                    copies.append((block + lane, n))
        return self.moves(copies, "w")

    def _table(self, key):
        """A constant for every lane."""
        size, name = -(-len(key) // VECTOR) * VECTOR, f"c{len(self.tables)}"
        text = ", ".join(self.text(n) for n in key)
        self.tables.append(f"static const number {name}[{size}] __attribute__((aligned(64))) = {{{text}}};")
        return name

    def is_shared(self, row):
        """True where all lanes read the same."""
        return np.ptp(row) == 0

    def is_zero(self, n):
        return self.inputs <= n < self.first and self.program.constants[n - self.inputs] == 0.0

    def vector(self, key):
        """Where values lie side by side, None if they do not."""
        if key in self.vectors:
            return self.vectors[key]
        first = self.address.get(key[0])
        if first is None or any(self.address.get(n) != first + k for k, n in enumerate(key)):
            return None
        return f"w + {first}"

    def _work(self, k, stage):
        """Places of what a stage of one lane computes, and its workspace."""
        results = list(enumerate(stage.results.tolist(), start=self.starts[k]))
        wanted = [(number, value) for number, value in results if number in self.address]
        others = [(number, value) for number, value in results if number not in self.address]
        placed = {value: self.address[number] for number, value in wanted}
        given = [self.text(int(n)) for n in stage.reads[:, 0]]
        start = self._block(0)
        names = self.names[k] = Names(stage.program, NUMBERS, given, placed, start)
        self.after[k] = [
            f"  w[{self.address[number]}] = w[{names.slot[value]}];"
            for number, value in wanted
            if names.slot[value] != self.address[number]
        ]
        self._block(names.workspace - start)
        self.address |= {number: names.slot[value] for number, value in others}

    def text(self, n):
        """How a value is written."""
        if n < self.inputs:
            return f"x[{n}]"
        if n < self.first:
            return NUMBERS.literal(self.program.constants[n - self.inputs])
        return f"w[{self.address[n]}]"

    def moves(self, pairs, target):
        """Lines that write values to addresses [(address, value)]."""
        lines, k = [], 0
        while k < len(pairs):
            run = 1
            while k + run < len(pairs) and self._goes_on(pairs[k], pairs[k + run], run):
                run += 1
            to, n = pairs[k]
            if run > 1:
                lines.append(f"  memcpy({target} + {to}, &{self.text(n)}, {run} * sizeof(number));")
            else:
                lines.append(f"  {target}[{to}] = {self.text(n)};")
            k += run
        return lines

    def _goes_on(self, first, other, run):
        if other[0] != first[0] + run:
            return False
        a, b = first[1], other[1]
        if a < self.first or b < self.first:
            return b < self.inputs and b == a + run
        return self.address[b] == self.address[a] + run
