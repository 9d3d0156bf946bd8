"""A Program in machine operations: products are fused into the sums that use them (FMA), negations become
signs of operands, and sine and cosine of an angle are one operation."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from dynamics_node.symbolic.expression import TURNING, Op
from dynamics_node.symbolic.program import Program

KINDS = ("add", "mul", "fma", "reciprocal", "sincos")
_KIND = {Op.ADD: "add", Op.SUB: "add", Op.MUL: "mul", Op.RECIPROCAL: "reciprocal"}


class Operand(NamedTuple):
    """A value by its number in the Program, or its negative."""

    value: int
    negative: bool = False

    def negated(self, negative=True):
        """Its negative, if `negative` is true."""
        return Operand(self.value, self.negative != negative)


class Operation(NamedTuple):
    """kind: one of KINDS. fma: the first operand times the second plus the third; sincos: of the first
    operand plus the second, a constant, if there is one (see Op).

    values: the numbers of the results; of sincos those of sine and cosine, -1 for an unused one.
    """

    kind: str
    operands: tuple[Operand, ...]
    values: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Fused:
    """program: defines the inputs, constants and value numbers; operations: operands come before their use;
    outputs: {name: an Operand for every entry}."""

    program: Program
    operations: tuple[Operation, ...]
    outputs: dict[str, tuple[Operand, ...]]

    def counts(self) -> dict[str, int]:
        """{kind: number of operations}"""
        counts = Counter(operation.kind for operation in self.operations)
        return {kind: counts[kind] for kind in KINDS}


def fused(program: Program) -> Fused:
    """Fuse each product into the sums that use it, if all its uses are sums without a product of their own.
    Products with the fewest uses come first: they save most."""
    signed, turned = _signed(program)
    outputs = {
        name: tuple(signed[n] for n in numbers.ravel().tolist()) for name, numbers in program.outputs.items()
    }
    operations = {operation.values: operation for operation in _plain(program, signed, turned)}
    kept = {operand.value for operands in outputs.values() for operand in operands}
    _into_sums(operations, kept)
    return Fused(program, tuple(operations.values()), outputs)


def _signed(program):
    """Every value as an Operand without negations, where sines and cosines of an angle share one number; and
    the numbers {(angle, constant or -1): [sine, cosine]}."""
    signed = [Operand(n) for n in range(program.first_operation + len(program.ops))]
    turned: dict[tuple[Operand, int], list[int]] = {}
    for n, op, a, b in _numbered(program):
        if op == Op.NEG:
            signed[n] = signed[a].negated()
        elif op in TURNING:
            pair, cosine = turned.setdefault((signed[a], b), [-1, -1]), op == Op.COS
            pair[cosine] = n if pair[cosine] < 0 else pair[cosine]
            signed[n] = Operand(pair[cosine])
    return signed, turned


def _plain(program, signed, turned) -> Iterator[Operation]:
    """All operations but negations; a sine and cosine pair stands at the first of the two."""
    first = {min(n for n in pair if n >= 0): (key, pair) for key, pair in turned.items()}
    for n, op, a, b in _numbered(program):
        if op in _KIND:
            operands = (signed[a],) if b < 0 else (signed[a], signed[b].negated(op == Op.SUB))
            yield Operation(_KIND[op], operands, (n,))
        elif n in first:
            (angle, constant), pair = first[n]
            yield Operation("sincos", (angle, *([Operand(constant)] if constant >= 0 else [])), tuple(pair))


def _into_sums(operations, kept):
    """Fuse products in place. kept: values needed by themselves."""
    users: dict[int, list[tuple[int, ...]]] = defaultdict(list)
    for key, operation in operations.items():
        for operand in operation.operands:
            users[operand.value].append(key)
    products = [key for key, operation in operations.items() if operation.kind == "mul"]
    for key in sorted(products, key=lambda key: (len(users[key[0]]), -key[0])):
        (product,) = key
        sums = users[product]
        fits = len(set(sums)) == len(sums) and all(operations[user].kind == "add" for user in sums)
        if not fits or product in kept:
            continue
        x, y = operations.pop(key).operands
        for user in sums:
            operations[user] = _with_product(operations[user], product, x, y)
        for factor in {x.value, y.value}:
            users[factor] = [user for user in users[factor] if user != key] + sums


def _with_product(addition, product, x, y):
    """A sum with a product x y in place of its value."""
    taken, other = addition.operands
    if taken.value != product:
        taken, other = other, taken
    negative = taken.negative != (x.negative != y.negative)
    return Operation("fma", (Operand(x.value, negative), Operand(y.value), other), addition.values)


def _numbered(program):
    """(value number, op, left, right) of every operation."""
    columns = (program.ops.tolist(), program.left.tolist(), program.right.tolist())
    return ((program.first_operation + k, *row) for k, row in enumerate(zip(*columns, strict=True)))
