"""Operations of processors, and numbers, as text."""

import numpy as np

from dynamics_node.codegen.printer.arguments import Variant
from dynamics_node.symbolic import Program
from dynamics_node.symbolic.fused import Operand, Operation

_SUMS = {
    "add": "{} + {}",
    "mul": "MUL({}, {})",
    "fma": "FMA({}, {}, {})",
    "reciprocal": "reciprocal({})",
}


def literal(value: float, variant: Variant) -> str:
    """A number as C writes it, exactly; of a float the nearest one."""
    with np.errstate(over="ignore"):
        number = variant.dtype.type(value)
    if not np.isfinite(number):
        raise ValueError(f"the constant {value} of a Program has no place in {variant.precision}")
    text = float(number).hex() + ("f" if variant.precision == "float" else "")
    return f"({text})" if number < 0 else text


class Values:
    """Of a Program: value n is called `name`{n} in the text, a constant by its number."""

    def __init__(self, program: Program, variant: Variant, name: str):
        self.program, self.variant, self.name = program, variant, name

    def text(self, operand: Operand) -> str:
        """An operand."""
        k = operand.value - self.program.input_size
        if 0 <= k < len(self.program.constants):
            constant = float(self.program.constants[k])
            return literal(-constant if operand.negative else constant, self.variant)
        return f"{'-' * operand.negative}{self.name}{operand.value}"

    def computed(self, operation: Operation) -> str:
        """The line of any operation but sincos."""
        written = _SUMS[operation.kind].format(*map(self.text, operation.operands))
        return f"const real {self.name}{operation.values[0]} = {written};"
