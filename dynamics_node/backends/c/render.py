"""Program -> C text. It holds numbers and indices only: no name of a robot gets here.

One entry `program(count, x, y)` runs over `count` states: x (count, inputs) and y (count, outputs),
packed in the order of the Program. The operations are split into functions, for compile time grows
faster than linearly with the size of a function; what one part needs of another goes through the
workspace w.
"""

import numpy as np

from dynamics_node.program import Op

PART = 1500  # operations in a function

_TEXT = {
    Op.ADD: "{} + {}",
    Op.SUB: "{} - {}",
    Op.MUL: "{} * {}",
    Op.RECIPROCAL: "1.0 / {}",
    Op.NEG: "-{}",
    Op.SIN: "sin({})",
    Op.COS: "cos({})",
}


def render(program) -> str:
    """The C source of a Program."""
    outputs = np.array([n for numbers in program.outputs.values() for n in numbers.flat], dtype=int)
    names = _Names(program, outputs)
    parts = [_part(program, names, start) for start in range(0, len(program.ops), PART)]
    calls = [f"    part{k}(x, w);" for k in range(len(parts))]
    results = [f"    y[{k}] = {names.anywhere(n)};" for k, n in enumerate(outputs)]
    return "\n".join(
        [
            "#include <math.h>",
            *(_function(f"static void part{k}", body) for k, body in enumerate(parts)),
            "void program(long count, const double *restrict x, double *restrict y)",
            "{",
            f"  double w[{max(1, names.workspace)}];",
            f"  for (long k = 0; k < count; ++k, x += {program.input_size}, y += {len(outputs)}) {{",
            *calls,
            *results,
            "  }",
            "}",
            "",
        ]
    )


def _function(head, body):
    return "\n".join([f"{head}(const double *restrict x, double *restrict w)", "{", *body, "}"])


class _Names:
    """How a value is written: an input, a literal, a local of its part, or a slot of the workspace."""

    def __init__(self, program, outputs):
        self.inputs, self.first = program.input_size, program.first_operation
        self.constants = program.constants
        self.slot = {n: k for k, n in enumerate(_shared(program, outputs))}
        self.workspace = len(self.slot)

    def anywhere(self, n):
        """A value that every part can read."""
        if n < self.inputs:
            return f"x[{n}]"
        if n < self.first:
            value = float(self.constants[n - self.inputs])
            return f"({value.hex()})" if value < 0 else value.hex()
        return f"w[{self.slot[n]}]"

    def within(self, n, start):
        """A value as the part that begins at operation `start` sees it."""
        return f"t{n}" if n >= self.first + start else self.anywhere(n)


def _shared(program, outputs):
    """Operations whose value another part or an output needs."""
    first = program.first_operation
    part = np.arange(len(program.ops)) // PART
    used = set(int(n) for n in outputs if n >= first)
    for operand in (program.left, program.right):
        across = (operand >= first) & (part != (np.maximum(operand, first) - first) // PART)
        used.update(operand[across].tolist())
    return sorted(used)


def _part(program, names, start):
    lines = []
    for k in range(start, min(start + PART, len(program.ops))):
        operands = [names.within(int(n), start) for n in (program.left[k], program.right[k]) if n >= 0]
        n = program.first_operation + k
        lines.append(f"  const double t{n} = {_TEXT[Op(program.ops[k])].format(*operands)};")
        if n in names.slot:
            lines.append(f"  w[{names.slot[n]}] = t{n};")
    return lines
