"""The operations of a Program without negations: operands have signs. On one lane, or on several."""

from typing import NamedTuple

from dynamics_node.symbolic.expression import Op
from dynamics_node.symbolic.program import Program

Row = tuple[int, ...]  # of every lane a value's number


class Unit(NamedTuple):
    """One operation on all lanes. signs: of every operand bit k is set where lane k takes its negative; a SUB
    is an ADD with signs."""

    op: Op
    operands: tuple[Row, ...]
    signs: tuple[int, ...]


def without_negations(program: Program) -> tuple[list[tuple[int, int]], dict[int, Unit]]:
    """Of every value the one that it is, and 1 if it is its negative; the operations on those, by their
    values. A difference and its negative are one."""
    found = [(n, 0) for n in range(program.first_operation + len(program.ops))]
    units: dict[int, Unit] = {}
    sums: dict[tuple, tuple[int, int]] = {}  # of two values; and the sign of the first one in it
    columns = zip(program.ops.tolist(), program.left.tolist(), program.right.tolist(), strict=True)
    for n, (op, *operands) in enumerate(columns, start=program.first_operation):
        values, signs = zip(*(found[m] for m in operands if m >= 0), strict=True)
        if op == Op.NEG:
            found[n] = values[0], 1 - signs[0]
            continue
        if op in (Op.ADD, Op.SUB):
            signs = signs[0], signs[1] ^ (op == Op.SUB)
            (a, b), first = sorted(values), signs[values.index(min(values))]
            other, sign = sums.setdefault((a, b, signs[0] ^ signs[1]), (n, first))
            found[n] = other, sign ^ first
        if found[n][0] == n:
            units[n] = Unit(Op.ADD if op == Op.SUB else Op(op), tuple((m,) for m in values), signs)
    return found, units
