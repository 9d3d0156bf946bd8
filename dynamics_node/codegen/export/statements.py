"""The lines of a straight-line Program in machine operations, in parts that a compiler takes in linear time.

What one part needs of another goes through a workspace w, whose slots are used again.
"""

from collections.abc import Mapping, Sequence

from dynamics_node.codegen.printer.dialect import COSINE, SINE, Dialect, Parts, in_parts, of_c
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


class Statements(Parts):
    """The lines of a Program, and how its values are written.

    given: {input: texts of its entries}, in order; sincos: name of a function (x, *sine, *cosine), None where
    the Dialect has the two.
    """

    longest = 3000  # operations in a function

    def __init__(
        self, program: Program, dialect: Dialect, given: Mapping[str, Sequence[str]], sincos: str | None
    ):
        self._places = [name for name, own in given.items() for _ in own]
        self._sincos, self._fused, self.read = sincos, fused(program), set[str]()
        texts = [text for own in given.values() for text in own]
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
        return {name: [self.text(x) for x in own] for name, own in self._fused.outputs.items()}

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
        return [self.dialect.line(own, self.text) for own in single]
