"""Packs of equal operations on several lanes, for example limbs of a robot.

Superword-level parallelism (Larsen and Amarasinghe 2000), starting from the inputs: packed operands with the
same operation give packed results. Constants and signs may differ. Operations that differ in more are not
packed. Negations are signs of operands here (`without_negations`).
"""

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from dynamics_node.symbolic.expression import TURNING, Op
from dynamics_node.symbolic.program import Program

DEPTH = 4  # operations between shared values and the first difference of lanes
Row = tuple[int, ...]  # a value number for every lane


class Unit(NamedTuple):
    """One operation on all lanes. signs: for every operand, bit k is set if lane k takes its negative; a SUB
    is an ADD with signs."""

    op: Op
    operands: tuple[Row, ...]
    signs: tuple[int, ...]


def without_negations(program: Program) -> tuple[list[tuple[int, int]], dict[int, Unit]]:
    """For every value, the value it equals and 1 if it is its negative; and the other operations, by their
    values. A difference and its negative are one."""
    signed = [(n, 0) for n in range(program.first_operation + len(program.ops))]
    units: dict[int, Unit] = {}
    sums: dict[tuple, tuple[int, int]] = {}  # by two values; and the sign of the first one
    columns = zip(program.ops.tolist(), program.left.tolist(), program.right.tolist(), strict=True)
    for n, (op, *operands) in enumerate(columns, start=program.first_operation):
        values, signs = zip(*(signed[m] for m in operands if m >= 0), strict=True)
        if op == Op.NEG:
            signed[n] = values[0], 1 - signs[0]
            continue
        if op in (Op.ADD, Op.SUB):
            signs = signs[0], signs[1] ^ (op == Op.SUB)
            (a, b), first = sorted(values), signs[values.index(min(values))]
            other, sign = sums.setdefault((a, b, signs[0] ^ signs[1]), (n, first))
            signed[n] = other, sign ^ first
        if signed[n][0] == n:
            units[n] = Unit(Op.ADD if op == Op.SUB else Op(op), tuple((m,) for m in values), signs)
    return signed, units


class Packs(NamedTuple):
    """units: {row of packed values: Unit}, or None for rows that are only read: inputs, sines and cosines,
    shared values; places: {value: (row, lane)} at which it is computed; constants: {number: constant}."""

    units: dict[Row, Unit | None]
    places: dict[int, tuple[Row, int]]
    constants: dict[int, float]


def find_packs(program: Program, units: dict[int, Unit], isomorphic_inputs: Iterable[Row]) -> Packs:
    """units: of `without_negations`; isomorphic_inputs: rows of inputs with the same meaning."""
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
    """packs: units as in Packs; beginnings: {first lanes of a row: the whole row}; taken: the packed values;
    places: {(value, lane): row}; before: values that depend on no input of a lane. Those are read, not
    packed."""

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
        """Pack an operation of the first lane with its equals on the others."""
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
        for pack, unit in self._together(row, DEPTH, True) or ():
            self.add(pack, unit)

    def _other(self, row, operand):
        """The operation on the operand of the next lane that completes a row; the first if there are several,
        since a trace treats all limbs in the same order."""
        op = self.units[row[0]].op
        for n in self.uses[operand]:
            fits = self.units[n].op == op and n not in self.taken and n not in row
            if fits and self._together((*row, n), DEPTH, False) is not None:
                return n
        return None

    def _together(self, row, depth, whole):
        """The packs to add so that the values of a row match, [(row, unit)]; None if they cannot. whole: the
        row has all lanes."""
        if row in (self.packs if whole else self.beginnings) or all(n in self.constants for n in row):
            return []
        if row.count(row[0]) == len(row):
            return None if row[0] in self.taken else []
        if all(n in self.before for n in row):
            return [(row, None)]
        if depth == 0:
            return None
        if all(n in self.units and n not in self.taken for n in row):
            return self._same(row, depth, whole)
        return None

    def _same(self, row, depth, whole):
        """`_together` for the same operation on all lanes."""
        first, *others = (self.units[n] for n in row)
        if any(unit.op != first.op for unit in others):
            return None
        if first.op in TURNING:  # with any constants next to the angles
            angles = tuple(self.units[n].operands[0][0] for n in row)
            packs = self._together(angles, depth - 1, whole)
            return None if packs is None else [*packs, (row, None)]
        rows, signs = list(first.operands), list(first.signs)
        for lane, unit in enumerate(others, start=1):
            swapped = unit._replace(operands=unit.operands[::-1], signs=unit.signs[::-1])
            for turned in (unit, swapped):
                longer = [a + b for a, b in zip(rows, turned.operands, strict=True)]
                if all(self._together(r, depth - 1, False) is not None for r in longer):
                    break
            else:
                return None
            rows, signs = longer, [a | b << lane for a, b in zip(signs, turned.signs, strict=True)]
        parts = [self._together(r, depth - 1, whole) for r in rows]
        if None in parts:
            return None
        return [*(one for part in parts for one in part), (row, Unit(first.op, tuple(rows), tuple(signs)))]
