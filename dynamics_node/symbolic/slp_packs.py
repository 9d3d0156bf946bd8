"""Operations that are the same on several lanes, limbs of a robot for example: which ones go together.

Superword parallelism (Larsen and Amarasinghe 2000), from the inputs on: where operands go together and the
operation is the same, results do. Constants and signs may differ. Where lanes differ in more, operations
stay alone. Negations are signs of operands here (`without_negations`).
"""

from collections import defaultdict
from collections.abc import Iterable
from itertools import count
from typing import NamedTuple

from dynamics_node.symbolic.expression import TURNING, Op
from dynamics_node.symbolic.program import Program

DEPTH = 4  # operations between what lanes share and where they first differ
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


class Packs(NamedTuple):
    """units: {row of values that go together: Unit}, None of those that are not computed so, but read:
    inputs, sines and cosines, what lanes share; places: {value: (row, lane)} where it is computed; constants:
    {number: constant}. There are new values and constants among them."""

    units: dict[Row, Unit | None]
    places: dict[int, tuple[Row, int]]
    constants: dict[int, float]


def find_packs(program: Program, units: dict[int, Unit], isomorphic_inputs: Iterable[Row]) -> Packs:
    """units: as of `without_negations`; isomorphic_inputs: those that go together."""
    matching = _Matching(program, units, rows := list(isomorphic_inputs))
    for row in rows:
        matching.add(row, None)
    for n in units:
        matching.follow(n)
    places: dict[int, tuple[Row, int]] = {}
    for (value, lane), row in matching.places.items():
        if matching.packs[row] is not None:
            places.setdefault(value, (row, lane))
    return Packs(matching.packs, places, matching.constants)


class _Matching:
    """packs: units as of Packs; beginnings: of their first lanes, the whole row; taken: the values in them;
    places: {(value, lane): row}; before: the values that depend on no input of a lane, which are not in rows
    but read."""

    def __init__(self, program, units, rows):
        self.units = units
        self.constants = dict(enumerate(program.constants.tolist(), start=program.input_size))
        self.packs: dict[Row, Unit | None] = {}
        self.beginnings: dict[Row, Row] = {}
        self.places: dict[tuple[int, int], Row] = {}
        self.taken: set[int] = set()
        self.uses = defaultdict(list)
        for n, unit in units.items():
            for (value,) in dict.fromkeys(unit.operands):
                self.uses[value].append(n)
        self._new = count(program.first_operation + len(program.ops))
        self._zero = next(self._new)
        self.constants[self._zero] = 0.0
        self.before = set(range(program.first_operation)) - {n for row in rows for n in row}
        for n, unit in units.items():
            if all(m in self.before for (m,) in unit.operands):
                self.before.add(n)

    def add(self, row, unit):
        if row in self.packs:
            return
        self.packs[row] = unit
        for lane, value in enumerate(row):
            if value not in self.before:
                self.taken.add(value)
                self.places.setdefault((value, lane), row)
            if any(n not in self.before for n in row[: lane + 1]):
                self.beginnings.setdefault(row[: lane + 1], row)

    def follow(self, n):
        """Find what goes together with an operation of the first lane."""
        if n in self.taken:
            return
        known = (self.beginnings.get(operand) for operand in self.units[n].operands)
        operands = next((row for row in known if row), None)
        if operands is None:
            return
        row: Row = (n,)
        for lane in range(1, len(operands)):
            other = self._other(row, operands[lane])
            if other is None:
                return
            row += (other,)
        for found, unit in self._together(row, DEPTH, True, True) or ():
            self.add(found, unit)

    def _other(self, row, operand):
        """The operation on the operand of the next lane that goes together with a row, the first one where
        there are several: a trace does the same on all limbs in the same order. Rather one without a term
        that is to be added."""
        op = self.units[row[0]].op
        longer = [n for n in self.uses[operand] if any(term.rest == operand for term in self._terms(n))]
        users = [n for m in (operand, *longer) for n in self.uses[m]]
        fitting = [n for n in users if self.units[n].op == op and n not in self.taken and n not in row]
        for completed in (False, True):
            for n in fitting:
                if self._together((*row, n), DEPTH, False, completed) is not None:
                    return n
        return None

    def _together(self, row, depth, whole, completed):
        """What is to be added so that values go together, [(row, unit)]; None if they do not. whole: the row
        has all lanes; completed: a term that one lane lacks may be added to it, times zero."""
        if row in (self.packs if whole else self.beginnings) or all(n in self.constants for n in row):
            return []
        if row.count(row[0]) == len(row):
            return None if row[0] in self.taken else []
        if all(n in self.before for n in row):
            return [(row, None)]
        if depth == 0:
            return None
        if all(n in self.units and n not in self.taken for n in row):
            found = self._same(row, depth, whole, completed)
            if found is not None:
                return found
        return self._with_term(row, depth, whole) if completed else None

    def _same(self, row, depth, whole, completed):
        """`_together` of the same operation in all lanes."""
        first, *others = (self.units[n] for n in row)
        if any(unit.op != first.op for unit in others):
            return None
        if first.op in TURNING:  # whatever constants stand beside the angles
            angles = tuple(self.units[n].operands[0][0] for n in row)
            found = self._together(angles, depth - 1, whole, completed)
            return None if found is None else [*found, (row, None)]
        rows, signs = list(first.operands), list(first.signs)
        for lane, unit in enumerate(others, start=1):
            swapped = unit._replace(operands=unit.operands[::-1], signs=unit.signs[::-1])
            for turned in (unit, swapped):
                longer = [a + b for a, b in zip(rows, turned.operands, strict=True)]
                if all(self._together(r, depth - 1, False, completed) is not None for r in longer):
                    break
            else:
                return None
            rows, signs = longer, [a | b << lane for a, b in zip(signs, turned.signs, strict=True)]
        found = [self._together(r, depth - 1, whole, completed) for r in rows]
        if None in found:
            return None
        return [*(one for part in found for one in part), (row, Unit(first.op, tuple(rows), tuple(signs)))]

    def _with_term(self, row, depth, whole):
        """`_together` where one lane is a sum with a constant times something, which other lanes have too but
        do not add: their constant is zero. A quarter turn that one limb's description writes with few digits
        does it."""
        ways = [(lane, term) for lane, n in enumerate(row) if n not in self.taken for term in self._terms(n)]
        found = (self._completed(row, lane, term, depth - 1, whole) for lane, term in ways)
        return next((more for more in found if more is not None), None)

    def _completed(self, row, lane, term, depth, whole):
        """`_with_term` of this lane and term."""
        rest = (*row[:lane], term.rest, *row[lane + 1 :])
        found = None if rest.count(rest[0]) == len(rest) else self._together(rest, depth, whole, True)
        if found is None or not whole:
            return found
        factors, more = self._factors(term.factor, lane, len(row), depth)
        if more is None:
            return None
        constants = tuple(term.constant if k == lane else self._zero for k in range(len(row)))
        product = tuple(next(self._new) for _ in row)
        return [
            *found,
            *more,
            (product, Unit(Op.MUL, (constants, factors), (0, term.signs[1] << lane))),
            (row, Unit(Op.ADD, (rest, product), (term.signs[0] << lane, 0))),
        ]

    def _factors(self, value, lane, lanes, depth):
        """The row of a value of one lane and what is to be added for it, as of `_together`; what lanes share
        is its own row."""
        if value in self.taken:
            row = self.places.get((value, lane), ())
            return row, [] if len(row) == lanes else None
        for term in self._terms(value):
            other = self.places.get((term.rest, lane), ())
            row = (*other[:lane], value, *other[lane + 1 :])
            found = self._together(row, depth, True, True) if len(other) == lanes else None
            if found is not None:
                return row, found
        return (value,) * lanes, []

    def _terms(self, n):
        """Of a sum, the ways to see it as something and a term."""
        unit = self.units.get(n)
        if unit is None or unit.op != Op.ADD:
            return
        for k, ((product,), (rest,)) in enumerate(zip(unit.operands, unit.operands[::-1], strict=True)):
            other = self.units.get(product)
            for (constant,), (factor,) in _both_ways(other.operands) if other and other.op == Op.MUL else ():
                if constant in self.constants:
                    negative = unit.signs[k] ^ other.signs[0] ^ other.signs[1]
                    yield _Term(rest, constant, factor, (unit.signs[1 - k], negative))


class _Term(NamedTuple):
    """rest + constant factor, each with its sign."""

    rest: int
    constant: int
    factor: int
    signs: tuple[int, int]


def _both_ways(pair):
    return pair, pair[::-1]
