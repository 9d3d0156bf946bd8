"""A LaneProgram in C: the function of a stage is called for one lane after the other.

Straight lines of a large robot's derivatives are megabytes, which do not fit into caches; its stages are a
tenth. All values are in one array w: inputs, constants, then the results of the stages.
"""

from itertools import accumulate
from math import prod

from dynamics_node.codegen.export.entry import Entry
from dynamics_node.codegen.export.names import number
from dynamics_node.codegen.export.statements import Statements, plain_c

MANY = 8000  # operations; from there on stages are faster than straight lines
_PER_LINE = 16  # numbers


class _Whole(Statements):
    """Those of a stage, in one function."""

    longest = 1_000_000


class Lanes:
    """The lines of the LaneProgram of an Entry.

    before: static functions and tables; lines: what fills w; texts: of the entries of every output.
    """

    def __init__(self, entry: Entry, sincos: str | None):
        assert entry.lanes is not None
        self.entry, self.program, self._sincos = entry, entry.lanes, sincos
        sizes = [stage.size for stage in self.program.stages]
        self._starts = list(accumulate(sizes, initial=self.program.first_result))
        self.workspace = self._starts[-1]
        self.before: list[str] = []
        self.lines = self._inputs()
        self._functions: dict[tuple[str, int], str] = {}
        for k, stage in enumerate(self.program.stages):
            if stage.size:
                self._stage(k, stage)
        outputs = self.program.outputs
        self.texts = {
            name: [f"w[{n}]" for n in numbers.ravel().tolist()] for name, numbers in outputs.items()
        }

    def _inputs(self):
        """Lines that copy inputs and constants."""
        lines, at, constants = [], 0, self.program.constants.tolist()
        for name, shape in self.program.inputs.items():
            size = prod(shape)
            if name in self.entry.fixed:
                values = self.entry.fixed[name].ravel().tolist()
                lines += [f"w[{at + k}] = {self._number(x)};" for k, x in enumerate(values)]
            else:
                lines.append(f"for (int i = 0; i < {size}; ++i) w[{at} + i] = {name}[i];")
            at += size
        if constants:
            self._table(f"static const {self.entry.real}", "constants", map(self._number, constants))
            lines.append(
                f"for (int i = 0; i < {len(constants)}; ++i) w[{at} + i] = {self._own('constants')}[i];"
            )
        return lines

    def _number(self, value):
        return number(value, self.entry.precision)

    def _own(self, word):
        return f"{self.entry.name}_{word}"

    def _table(self, kind, word, texts):
        texts = list(texts)
        self.before.append(f"{kind} {self._own(word)}[] = {{")
        for k in range(0, len(texts), _PER_LINE):
            self.before.append(f"  {', '.join(texts[k : k + _PER_LINE])},")
        self.before += ["};", ""]

    def _stage(self, k, stage):
        """Add a stage."""
        function, start, reads = self._function(k, stage), self._starts[k], len(stage.reads)
        self._table("static const unsigned", f"reads{k}", map(str, stage.reads.T.ravel().tolist()))
        place = f"w, {self._own(f'reads{k}')}"
        if stage.lanes == 1:
            self.lines.append(f"{function}({place}, w + {start});")
        else:
            call = f"{function}({place} + {reads} * i, w + {start} + i)"
            self.lines.append(f"for (int i = 0; i < {stage.lanes}; ++i) {call};")

    def _function(self, k, stage):
        """Name of the function of a stage; equal stages share one."""
        key = stage.program.digest(), stage.lanes
        if key not in self._functions:
            self._functions[key] = name = self._own(f"stage{k}")
            real, given = self.entry.real, {"x": [f"x{n}" for n in range(len(stage.reads))]}
            statements = _Whole(stage.program, plain_c(self.entry.precision), given, self._sincos)
            lines = [line for part in statements.parts() for line in part]
            results = [text for own in statements.outputs().values() for text in own]
            loads = [f"const {real} x{n} = v[reads[{n}]];" for n in range(len(stage.reads))]
            self.before += [
                f"static void {name}(const {real} *v, const unsigned *reads, {real} *y)",
                "{",
                *(f"  {line}" for line in [*([] if loads else ["(void)v;", "(void)reads;"]), *loads, *lines]),
                *(f"  y[{stage.lanes * n}] = {text};" for n, text in enumerate(results)),
                "}",
                "",
            ]
        return self._functions[key]
