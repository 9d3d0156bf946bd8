"""How operations are written: C of numbers, C of vectors and CUDA C are Dialects of a few lines.

A value is written as the text of an input, a literal, or a local that the line of its operation defines.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import isfinite
from typing import NamedTuple

import numpy as np

from dynamics_node.errors import InputError
from dynamics_node.symbolic import Op, Program
from dynamics_node.symbolic.fused import Operand, Operation

SINE, COSINE = TURNING = "sin", "cos"  # kinds of operations, of an angle and a constant beside it if any
_KINDS = {op.value: op.name.lower() for op in (Op.ADD, Op.SUB, Op.MUL, Op.RECIPROCAL, Op.NEG)}
_KINDS |= {Op.SIN.value: SINE, Op.COS.value: COSINE}


class Dialect(NamedTuple):
    """number: the type of a value; operations: {kind of an Operation: its text}, with braces for operands;
    single: whether numbers have 32 bits; name: of a local, before the number of its value."""

    number: str
    operations: Mapping[str, str]
    single: bool = False
    name: str = "t"

    def literal(self, value: float) -> str:
        """A number as C writes it, exactly; of 32 bits the nearest one. Raises ValueError beyond them."""
        number = _nearest_single(value) if self.single else float(value)
        if not isfinite(number):
            raise InputError(f"the constant {value} of a Program does not fit into 32 bits: use float64")
        text = number.hex() + "f" * self.single
        return f"({text})" if number < 0 else text

    def local(self, value: int) -> str:
        """The local of a value."""
        return f"{self.name}{value}"

    def pair(self, values: tuple[int, ...]) -> list[str]:
        """Locals of a sine and cosine, of which one may be unused: -1."""
        return [self.local(n) if n >= 0 else f"unused{max(values)}" for n in values]

    def line(self, operation: Operation, text: Callable[[Operand], str]) -> str:
        """The line of an operation with one result; text: how its operands are written."""
        kind, operands, (value, *_) = operation
        texts = [text(operand) for operand in operands]
        if kind in TURNING:
            texts = [" + ".join(texts)]
        return f"const {self.number} {self.name}{value} = {self.operations[kind].format(*texts)};"


def _nearest_single(value):
    with np.errstate(over="ignore"):
        return float(np.float32(value))


def of_c(number: str, sine: str, cosine: str, single: bool = False) -> Dialect:
    """The Dialect of `plain` operations in C; sine, cosine: names of functions. The compiler chooses whether
    it fuses products into sums."""
    plain = {"add": "{} + {}", "sub": "{} - {}", "mul": "{} * {}", "reciprocal": "1 / {}", "neg": "-{}"}
    return Dialect(number, {**plain, SINE: f"{sine}({{}})", COSINE: f"{cosine}({{}})"}, single)


def plain(program: Program) -> Iterator[Operation]:
    """The operations of a Program as they are; those of a machine are in `fused`."""
    values = [Operand(n) for n in range(program.first_operation + len(program.ops))]
    columns = (program.ops.tolist(), program.left.tolist(), program.right.tolist())
    for n, (op, a, b) in enumerate(zip(*columns, strict=True), start=program.first_operation):
        yield Operation(_KINDS[op], (values[a],) if b < 0 else (values[a], values[b]), (n,))


class Values:
    """How values of a Program are written. given: texts of its inputs."""

    def __init__(self, program: Program, dialect: Dialect, given: Sequence[str]):
        self.program, self.dialect = program, dialect
        self._given, self._constants = given, program.constants.tolist()
        self._first = len(self._constants) + program.input_size

    def text(self, operand: Operand) -> str:
        """An operand."""
        value, negative = operand
        if value >= self._first:
            text = self.dialect.local(value)
        elif value >= len(self._given):
            constant = self._constants[value - len(self._given)]
            return self.dialect.literal(-constant if negative else constant)
        else:
            text = self._given[value]
        return f"-{text}" if negative else text


class Parts(Values):
    """How values of Operations in parts are written: each part is a function. What one part needs of another
    goes through slots of an array w, which are used again. workspace: length of w.

    operations: the parts; `text` is for the part `now`, -1 outside of all.
    """

    def __init__(
        self, program: Program, dialect: Dialect, given: Sequence[str], operations: list[list[Operation]]
    ):
        super().__init__(program, dialect, given)
        self.operations, self.now = operations, -1
        self.part = {
            n: k for k, part in enumerate(operations) for operation in part for n in operation.values
        }
        self.slot: dict[int, int] = {}
        self.workspace = 0

    def allocate(self, readers: Iterable[tuple[int, Iterable[int]]], start: int = 0):
        """Slots from `start` on for what other parts read, unless it has one; readers: (part, values) of what
        reads beside the operations, a part beyond the last one for what is needed to the end."""
        last: dict[int, int] = {}
        operands = ((k, [x for x, _ in of.operands]) for k, part in enumerate(self.operations) for of in part)
        for k, values in (*operands, *readers):
            for n in values:
                if self.part.get(n, k) != k:
                    last[n] = max(k, last.get(n, 0))
        slots: dict[int, int] = {}
        free: list[int] = []
        self.workspace = start
        for k, part in enumerate(self.operations):
            free += [slots[n] for n, reader in last.items() if reader == k - 1 and n in slots]
            for n in (n for operation in part for n in operation.values if n in last and n not in self.slot):
                if not free:
                    free.append(self.workspace)
                    self.workspace += 1
                slots[n] = free.pop()
        self.slot |= slots

    def text(self, operand: Operand) -> str:
        n, negative = operand
        if n in self.slot and (self.now < 0 or self.part.get(n) != self.now):
            return f"{'-' * negative}w[{self.slot[n]}]"
        return super().text(operand)

    def lines(self, part: int) -> Iterator[str]:
        """The lines of a part."""
        self.now = part
        for operation in self.operations[part]:
            yield from self.computed(operation)
            for n in operation.values:
                if n in self.slot:
                    yield f"w[{self.slot[n]}] = {self.dialect.local(n)};"
                yield from self.written(n)
        self.now = -1

    def computed(self, operation: Operation) -> Iterable[str]:
        """The lines of an operation."""
        return [self.dialect.line(operation, self.text)]

    def written(self, n: int) -> Iterable[str]:
        """Lines that follow a value."""
        return ()


def in_parts(operations: Sequence, size: int) -> list:
    """Parts of so many operations each."""
    return [operations[k : k + size] for k in range(0, len(operations), size)]
