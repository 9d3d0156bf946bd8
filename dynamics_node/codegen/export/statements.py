"""The lines of a straight-line Program in machine operations, in parts that a compiler takes in linear time.

What one part needs of another goes through a workspace w, whose slots are used again.
"""

from collections.abc import Mapping, Sequence

from dynamics_node.codegen.printer.dialect import COSINE, SINE, Dialect, Values, of_c
from dynamics_node.symbolic import Program, fused
from dynamics_node.symbolic.fused import Operation

_FUSED = {"add": "{} + {}", "mul": "{} * {}", "fma": "{} * {} + {}", "reciprocal": "1 / {}"}


class PlainC(Dialect):
    """C99; the compiler chooses whether it fuses products into sums."""

    def line(self, operation, text):
        return super().line(operation, text).replace(" + -", " - ")


def plain_c(precision: str) -> PlainC:
    """The Dialect of a precision: double or single."""
    number, suffix = {"double": ("double", ""), "single": ("float", "f")}[precision]
    dialect = of_c(number, f"sin{suffix}", f"cos{suffix}", single=precision == "single")
    return PlainC(number, {**dialect.operations, **_FUSED}, dialect.single)


class Statements(Values):
    """The lines of a Program, and how its values are written.

    given: {input: texts of its entries}, in order; sincos: name of a function (x, *sine, *cosine), None where
    the Dialect has the two.
    """

    part = 3000  # operations in a function

    def __init__(
        self, program: Program, dialect: Dialect, given: Mapping[str, Sequence[str]], sincos: str | None
    ):
        self._places = [name for name, own in given.items() for _ in own]
        super().__init__(program, dialect, [text for own in given.values() for text in own])
        self._sincos, self._fused, self.read = sincos, fused(program), set[str]()
        operations = self._fused.operations
        self._parts = [operations[k : k + self.part] for k in range(0, len(operations), self.part)]
        self._part = {
            n: k for k, own in enumerate(self._parts) for operation in own for n in operation.values
        }
        self._slots, self.workspace = self._allocated() if len(self._parts) > 1 else ({}, 0)
        self._now = -1  # the part of the current line

    def _allocated(self):
        """({value: slot in the workspace}, number of slots) of the values that other parts read."""
        last = {}
        for k, own in enumerate(self._parts):
            for operand in (x for operation in own for x in operation.operands):
                if self._part.get(operand.value, k) != k:
                    last[operand.value] = k
        for operands in self._fused.outputs.values():
            last |= {x.value: len(self._parts) for x in operands if x.value in self._part}
        slots: dict[int, int] = {}
        free: list[int] = []
        count = 0
        for k in range(len(self._parts)):
            free += [slots[n] for n, end in last.items() if end == k - 1 and n in slots]
            for n in (n for operation in self._parts[k] for n in operation.values if n in last):
                if not free:
                    free.append(count)
                    count += 1
                slots[n] = free.pop()
        return slots, count

    def text(self, operand):
        """See Values."""
        n = operand.value
        if n < len(self._places):
            self.read.add(self._places[n])
        if n in self._slots and self._part[n] != self._now:
            return f"{'-' * operand.negative}w[{self._slots[n]}]"
        return super().text(operand)

    def parts(self) -> list[list[str]]:
        """The lines of all parts."""
        lines = []
        for k, own in enumerate(self._parts):
            self._now = k
            lines.append([line for operation in own for line in self._lines(operation)])
        self._now = -1
        return lines

    def outputs(self) -> dict[str, list[str]]:
        """{output: texts of its entries}, after all parts."""
        return {name: [self.text(x) for x in own] for name, own in self._fused.outputs.items()}

    def _lines(self, operation):
        yield from (
            self._sine_lines(operation)
            if operation.kind == "sincos"
            else [self.dialect.line(operation, self.text)]
        )
        for n in operation.values:
            if n in self._slots:
                yield f"w[{self._slots[n]}] = {self.dialect.local(n)};"

    def _sine_lines(self, operation):
        angle = " + ".join(map(self.text, operation.operands))
        if self._sincos is not None:
            return self.both(angle, *operation.values)
        kinds = zip((SINE, COSINE), operation.values, strict=True)
        return [
            self.dialect.line(Operation(kind, operation.operands, (n,)), self.text)
            for kind, n in kinds
            if n >= 0
        ]

    def both(self, angle, s, c):
        """Lines of the sine and cosine of an angle."""
        names = [self.dialect.local(n) if n >= 0 else f"unused{max(s, c)}" for n in (s, c)]
        return [
            f"{self.dialect.number} {', '.join(names)};",
            f"{self._sincos}({angle}, &{names[0]}, &{names[1]});",
        ]
