"""A LaneProgram -> C text of `run(x, y)` for vectors of states, see batch.c.

Straight lines of a large robot leave the caches. Here every stage is a function that loops over its lanes,
and every value is a vector of states. All are in one memory w by their numbers: inputs, constants, then what
the stages leave. A table has the places of operands that are not adjacent from lane to lane.
"""

import numpy as np

from dynamics_node.codegen.c.render_straight import VECTOR, VECTORS, Names, call_parts, render_parts, table
from dynamics_node.codegen.printer.dialect import Values, plain
from dynamics_node.symbolic import LaneProgram

_OFFSETS = (  # in bytes: what is read needs no other instruction for its address
    "enum { V = sizeof(vector) };",
    "#define AT(offset) (*(const vector *)((const char *)w + (offset)))",
)
_DECLARED = "static void stage{}(const vector *restrict x, vector *restrict w, Results *restrict y)"


def render_stage_loops(program: LaneProgram, single: bool, limits=()) -> list[str]:
    """The lines of `run` and its stages; limits: of the last output."""
    return _StageLoops(program, VECTORS._replace(single=single)).lines(limits)


class _StageLoops:
    """Writes them. address: where every value is in w, which is used again; workspace: length of w."""

    def __init__(self, program, dialect):
        self.program, self.dialect = program, dialect
        stages = program.stages
        self.starts = np.cumsum([program.first_result, *(stage.size for stage in stages)])
        outputs = [numbers.ravel() for numbers in program.outputs.values()]
        self.ready = [self._stages_of(numbers).max(initial=0) for numbers in outputs]
        last = np.arange(len(stages))  # stage after which a stage's values are not needed
        reads = [*enumerate(stage.reads for stage in stages), *zip(self.ready, outputs, strict=True)]
        for k, numbers in reads:
            np.maximum.at(last, self._stages_of(numbers), k)
        self.address = np.arange(self.starts[-1])
        self.workspace = self._place(last)
        self.more = self.workspace  # with that of stages of one lane
        self.tables: list[str] = []

    def _stages_of(self, numbers):
        """The stages that compute values."""
        stages = np.searchsorted(self.starts, np.ravel(numbers), side="right") - 1
        return np.unique(stages[stages >= 0])

    def _place(self, last):
        """Give every stage the first free memory for its results, until stage last[k]. The length of all."""
        end = self.program.first_result
        free: list[tuple[int, int]] = []  # (start, end), in order
        blocks: list[tuple[int, int]] = []
        for k, stage in enumerate(self.program.stages):
            start, stop = next(((a, b) for a, b in free if b - a >= stage.size), (end, end))
            if start == end:
                end += stage.size
            else:
                free.remove((start, stop))
                free.append((start + stage.size, stop))
            blocks.append((start, start + stage.size))
            self.address[self.starts[k] : self.starts[k + 1]] = np.arange(*blocks[k])
            free = _merged([*free, *(blocks[n] for n in np.flatnonzero(last[: k + 1] == k))])
        return -(-end // VECTOR) * VECTOR

    def lines(self, limits):
        functions, calls = [], []
        for k, stage in enumerate(self.program.stages):
            if stage.size:
                write = self._alone if stage.lanes == 1 else self._side_by_side
                lines, after = write(k, stage)
                functions += lines
                calls += [f"  stage{k}(x, w, y);", *after]
            calls += self._outputs(k, limits)
        inputs, literals = self.program.input_size, list(map(self.dialect.literal, self.program.constants))
        return [
            *_OFFSETS,
            f"static const number constants[] = {{{', '.join([*literals, '0'])}}};",
            *self.tables,
            *functions,
            "static void run(const vector *restrict x, Results *restrict y)",
            "{",
            f"  static _Thread_local vector memory[{self.more}] __attribute__((aligned(64)));",
            "  vector *w = memory;",
            '  __asm__("" : "+r"(w)); /* else every stage asks for the address */',
            "  static _Thread_local int begun;",
            f"  for (int k = 0; k < {len(literals)} && !begun; ++k)",
            f"    w[{inputs} + k] = (vector){{0}} + constants[k];",
            "  begun = 1;",
            f"  memcpy(w, x, {inputs} * sizeof(vector));",
            *calls,
            "}",
        ]

    def _outputs(self, k, limits):
        """The lines that write the outputs that are ready after a stage."""
        lines = []
        for n, numbers in enumerate(self.program.outputs.values()):
            if self.ready[n] != k:
                continue
            places = self.address[numbers]
            self.tables.append(table("int", f"output{n}[]", places))
            lines.append(f"  write_values(y, {n}, {numbers.size}, output{n}, w);")
            if limits and n == len(self.ready) - 1:
                texts = map(self.dialect.literal, limits)
                pairs = zip(places.ravel(), texts, strict=True)
                lines += [f"  y->excess += exceeds(w[{at}], {limit});" for at, limit in pairs]
        return lines

    def _alone(self, k, stage):
        """The function of a stage of one lane, and the lines after it."""
        addresses = self.address[self.starts[k] : self.starts[k + 1]]
        place = dict(zip(stage.results.tolist(), addresses.tolist(), strict=True))
        given = [self._text(n) for n in stage.reads[:, 0].tolist()]
        title = f"stage{k}_"
        names = Names(stage.program, self.dialect, given, dict(place), self.workspace)
        self.more = max(self.more, names.workspace)
        moved = [(at, names.slot[value]) for value, at in place.items() if names.slot[value] != at]
        lines = [*render_parts(names, title), _DECLARED.format(k), "{", *call_parts(names, title), "}"]
        return lines, [f"  w[{at}] = w[{slot}];" for at, slot in moved]

    def _side_by_side(self, k, stage):
        """The same of a stage of several lanes."""
        given: list[str] = []
        inside: list[str] = []
        rows: list[np.ndarray] = []
        for n, row in enumerate(self.address[stage.reads]):
            if np.ptp(row) == 0:
                given.append(self._text(int(stage.reads[n, 0])))
                continue
            given.append(f"i{n}")
            if np.all(np.diff(row) == 1):
                inside.append(f"const vector i{n} = w[{row[0]} + k];")
            else:
                inside.append(f"const vector i{n} = AT(at[{len(rows)}]);")
                rows.append(row)
        if rows:
            offsets = ", ".join(f"{n}*V" for n in np.array(rows).T.ravel().tolist())
            self.tables.append(f"static const unsigned reads{k}[] = {{{offsets}}};")
            inside.insert(0, f"const unsigned *const at = reads{k} + {len(rows)} * k;")
        values = Values(stage.program, self.dialect, given)
        inside += [self.dialect.line(operation, values.text) for operation in plain(stage.program)]
        for n, value in enumerate(stage.results.tolist()):
            at = self.address[self.starts[k] + n * stage.lanes]
            inside.append(f"w[{at} + k] = {self.dialect.local(value)};")
        loop = f"  for (int k = 0; k < {stage.lanes}; ++k) {{"
        return [_DECLARED.format(k), "{", loop, *(f"    {line}" for line in inside), "  }", "}"], []

    def _text(self, n):
        """How a value is written that all lanes read."""
        if self.program.input_size <= n < self.program.first_result:
            return self.dialect.literal(self.program.constants[n - self.program.input_size])
        return f"w[{self.address[n]}]"


def _merged(intervals):
    """Intervals (start, end) in order, adjacent ones as one, without empty ones."""
    merged: list[tuple[int, int]] = []
    for start, end in sorted(interval for interval in intervals if interval[1] > interval[0]):
        if merged and merged[-1][1] == start:
            start = merged.pop()[0]
        merged.append((start, end))
    return merged
