"""The lines of a Program in machine operations.

Those of a straight-line Program are in parts that a compiler takes in linear time. What one part needs of
another goes through a workspace w, whose slots are used again.

In a LaneProgram the function of a stage is called for one lane after the other. Straight lines of a large
robot's derivatives are megabytes, which do not fit into caches; its stages are a tenth. All values are in one
array w: inputs, constants, then the results of the stages.
"""

from collections.abc import Mapping, Sequence
from itertools import accumulate
from math import prod

from dynamics_node.codegen.export.entry import Entry
from dynamics_node.codegen.export.names import number
from dynamics_node.codegen.printer.dialect import COSINE, SINE, Dialect, Parts, in_parts, of_c
from dynamics_node.symbolic import Program, fused
from dynamics_node.symbolic.fused import Operation

MANY = 8000  # operations; from there on stages are faster than straight lines
_PER_LINE = 16  # numbers
_FUSED = {"add": "{} + {}", "mul": "{} * {}", "fma": "{} * {} + {}", "reciprocal": "1 / {}"}


class PlainC(Dialect):
    """C99; the compiler chooses whether it fuses products into sums."""

    def line(self, operation, text):
        return super().line(operation, text).replace(" + -", " - ")


def plain_c(precision: str) -> PlainC:
    """The Dialect of a precision: float64 or float32."""
    number, suffix = {"float64": ("double", ""), "float32": ("float", "f")}[precision]
    dialect = of_c(number, f"sin{suffix}", f"cos{suffix}", single=precision == "float32")
    return PlainC(number, {**dialect.operations, **_FUSED}, dialect.single)


class Statements(Parts):
    """The lines of a Program, and how its values are written.

    given: {input: texts of its entries}, in order; sincos: name of a function (x, *sine, *cosine), None where
    the Dialect has the two.
    """

    longest = 3000  # operations in a function

    def __init__(
        self, program: Program, dialect: Dialect, given: Mapping[str, Sequence[str]], sincos: str | None
    ):
        self._places = [name for name, entries in given.items() for _ in entries]
        self._sincos, self._fused, self.read = sincos, fused(program), set[str]()
        texts = [text for entries in given.values() for text in entries]
        super().__init__(program, dialect, texts, in_parts(self._fused.operations, self.longest))
        if len(self.operations) > 1:
            results = [x.value for operands in self._fused.outputs.values() for x in operands]
            self.allocate([(len(self.operations), results)])

    def text(self, operand):
        """See Values."""
        if operand.value < len(self._places):
            self.read.add(self._places[operand.value])
        return super().text(operand)

    def parts(self) -> list[list[str]]:
        """The lines of all parts."""
        return [[*self.lines(k)] for k in range(len(self.operations))]

    def outputs(self) -> dict[str, list[str]]:
        """{output: texts of its entries}, after all parts."""
        return {name: [self.text(x) for x in entries] for name, entries in self._fused.outputs.items()}

    def computed(self, operation):
        if operation.kind != "sincos":
            return super().computed(operation)
        if self._sincos is not None:
            angle = " + ".join(map(self.text, operation.operands))
            sine, cosine = self.dialect.pair(operation.values)
            return [
                f"{self.dialect.number} {sine}, {cosine};",
                f"{self._sincos}({angle}, &{sine}, &{cosine});",
            ]
        kinds = zip((SINE, COSINE), operation.values, strict=True)
        single = [Operation(kind, operation.operands, (n,)) for kind, n in kinds if n >= 0]
        return [self.dialect.line(one, self.text) for one in single]


# --- stages -------------------------------------------------------------------------------------------------


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
                f"for (int i = 0; i < {len(constants)}; ++i) w[{at} + i] = {self._prefixed('constants')}[i];"
            )
        return lines

    def _number(self, value):
        return number(value, self.entry.precision)

    def _prefixed(self, word):
        return f"{self.entry.name}_{word}"

    def _table(self, kind, word, texts):
        texts = list(texts)
        self.before.append(f"{kind} {self._prefixed(word)}[] = {{")
        for k in range(0, len(texts), _PER_LINE):
            self.before.append(f"  {', '.join(texts[k : k + _PER_LINE])},")
        self.before += ["};", ""]

    def _stage(self, k, stage):
        """Add a stage."""
        function, start, reads = self._function(k, stage), self._starts[k], len(stage.reads)
        self._table("static const unsigned", f"reads{k}", map(str, stage.reads.T.ravel().tolist()))
        place = f"w, {self._prefixed(f'reads{k}')}"
        if stage.lanes == 1:
            self.lines.append(f"{function}({place}, w + {start});")
        else:
            call = f"{function}({place} + {reads} * i, w + {start} + i)"
            self.lines.append(f"for (int i = 0; i < {stage.lanes}; ++i) {call};")

    def _function(self, k, stage):
        """Name of the function of a stage; equal stages share one."""
        key = stage.program.digest(), stage.lanes
        if key not in self._functions:
            self._functions[key] = name = self._prefixed(f"stage{k}")
            real, given = self.entry.real, {"x": [f"x{n}" for n in range(len(stage.reads))]}
            statements = _Whole(stage.program, plain_c(self.entry.precision), given, self._sincos)
            lines = [line for part in statements.parts() for line in part]
            results = [text for entries in statements.outputs().values() for text in entries]
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
