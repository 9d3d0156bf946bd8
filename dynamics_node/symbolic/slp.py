"""Superword-level parallelism: equal operations of limbs side by side, a LaneProgram of a straight-line
Program.

`slp_packs` packs operations. This module orders the packs in stages and chooses the signs of the lanes: limbs
that mirror each other have the same operations up to signs. A product takes any sign, and so does a constant.
Only a sum of two values whose signs differ from lane to lane needs a product with 1 and -1.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import reduce
from operator import xor

import numpy as np

from dynamics_node.symbolic.expression import TURNING, Op
from dynamics_node.symbolic.lane_program import LaneProgram, Staging
from dynamics_node.symbolic.program import Program
from dynamics_node.symbolic.slp_packs import Row, Unit, find_packs, without_negations

_MEANING: dict[Op, Callable] = {
    Op.ADD: lambda a, b: a + b,
    Op.MUL: lambda a, b: a * b,
    Op.RECIPROCAL: lambda a: 1.0 / a,
    Op.SIN: lambda a, offset=0.0: np.sin(a + offset),
    Op.COS: lambda a, offset=0.0: np.cos(a + offset),
}


def vectorize(program: Program, isomorphic_inputs: Iterable[Row]) -> LaneProgram | None:
    """The LaneProgram with the same results, or None if no operations can be packed.

    isomorphic_inputs: rows of input numbers, one for each lane, with the same meaning. For limbs this gives
    three kinds of stages: shared values, the limbs side by side, and results of all limbs.
    """
    values, alone = without_negations(program)
    together, places, constants = find_packs(program, alone, isomorphic_inputs)
    units = {row: unit for row, unit in together.items() if unit is not None}
    if not units:
        return None
    units |= {(n,): unit for n, unit in alone.items() if n not in places}
    places |= {n: ((n,), 0) for n in alone if n not in places}
    angles = [(n,) for row in sorted(together, key=len, reverse=True) for n in row if _turns(units, n)]
    stages = _in_stages(units, places, angles)
    if stages is None:
        return None
    ordered = {row: units[row] for rows in stages for row in rows}
    outputs: dict[Row, dict[int, int]] = defaultdict(dict)
    for n, sign in (values[n] for numbers in program.outputs.values() for n in numbers.ravel().tolist()):
        if n in places:
            row, lane = places[n]
            outputs[row].setdefault(lane, sign)
    return _Writer(program, LaneSigns(ordered, places, constants, outputs)).written(stages, values)


def _turns(units, n):
    """True for a sine or cosine."""
    return (n,) in units and units[n,].op in TURNING


def _in_stages(units, places, first):
    """Rows in stages, each after its operands; None if rows depend on each other in a circle. Among
    stages of the same phase those with fewer lanes come first. first: rows that come before others if
    possible."""

    def later(other, row):
        """Whether an earlier stage must compute it: it has more lanes, or is read lane by lane."""
        apart = len(row) > 1 and other not in units[row].operands
        return len(other) > len(row) or (apart and len(other) == len(row))

    phase: dict[Row, int] = {}
    begun: set[Row] = set()
    stages = defaultdict(list)
    waiting = [*reversed(units), *reversed(first)]
    while waiting:
        row = waiting[-1]
        if row in phase:
            waiting.pop()
            continue
        needed = [*_needed(units, places, row)]
        missing = [other for other in needed if other not in phase]
        if not missing:
            phase[row] = max((phase[other] + later(other, row) for other in needed), default=0)
            stages[phase[row], len(row)].append(row)
        elif row in begun:
            return None
        else:
            begun.add(row)
            waiting += missing
    return [stages[key] for key in sorted(stages)]


def _needed(units, places, row):
    """The rows that an operation reads."""
    for operand in units[row].operands:
        if operand in units:
            yield operand
        else:
            yield from (places[n][0] for n in dict.fromkeys(operand) if n in places)


class _Writer:
    """results: {row: its Values} of completed stages."""

    def __init__(self, program: Program, signs: "LaneSigns"):
        self.program, self.signs = program, signs
        self.staging = Staging(program.inputs)
        self.inputs = [x for array in self.staging.arrays.values() for x in array.ravel()]
        self.results: dict[Row, np.ndarray] = {}

    def written(self, stages, values) -> LaneProgram:
        left = self._left(stages, values)
        for rows in stages:
            stage = _Stage(self, rows, [row for row in rows if row in left])
            computed = self.staging.side_by_side(stage, stage.given())
            self.results |= dict(zip(stage.left, computed, strict=True))
        return self.staging.finish(self._outputs(values), self.program.limits)

    def _left(self, stages, values):
        """The rows needed outside their stage."""
        units, places = self.signs.units, self.signs.places
        stage = {row: k for k, rows in enumerate(stages) for row in rows}
        wanted = (values[n][0] for numbers in self.program.outputs.values() for n in numbers.ravel().tolist())
        left = {places[n][0] for n in wanted if n in places}
        for row in stage:
            left |= {other for other in _needed(units, places, row) if stage[other] != stage[row]}
        return left

    def read(self, row):
        """Values or constants of all lanes."""
        return self.results[row] if row in self.results else [self._value(n) for n in row]

    def _value(self, n):
        if n in self.signs.places:
            row, lane = self.signs.places[n]
            return self.results[row][lane]
        return self.signs.constants[n] if n in self.signs.constants else self.inputs[n]

    def _outputs(self, values):
        """The outputs; a last stage flips those with the wrong sign."""
        flat = [values[n] for numbers in self.program.outputs.values() for n in numbers.ravel().tolist()]
        entries = np.empty(len(flat), dtype=object)
        entries[:] = [self._value(n) for n, _ in flat]
        turned = [k for k, (n, sign) in enumerate(flat) if self.signs.read((n,)) != sign]
        if turned:
            entries[turned] = self.staging.alone(lambda x: -x, entries[turned])
        outputs, start = {}, 0
        for name, numbers in self.program.outputs.items():
            outputs[name] = entries[start : start + numbers.size].reshape(numbers.shape)
            start += numbers.size
        return outputs


class _Stage:
    """Operations on symbols: every step has operands (row, sign) and signs to multiply the result with.

    sources: (row, signs) that the stage reads on all lanes; the row () means the signs themselves.
    """

    def __init__(self, writer, rows, left):
        self.writer, self.lanes, self.left = writer, len(rows[0]), left
        self.full = (1 << self.lanes) - 1
        self._rows = set(rows)
        self.sources: dict[tuple[Row, int], None] = {}
        self._steps = [self._step(row) for row in rows]

    def given(self):
        """(lanes, sources) Values and constants."""
        given = np.empty((self.lanes, len(self.sources)), dtype=object)
        for k, (row, mask) in enumerate(self.sources):
            signs = [-1.0 if mask >> lane & 1 else 1.0 for lane in range(self.lanes)]
            read = signs if row == () else self.writer.read(row)
            given[:, k] = [x * sign for x, sign in zip(read, signs, strict=True)] if row and mask else read
        return given

    def __call__(self, x):
        values = dict(zip(self.sources, x, strict=True))
        for row, op, operands, mask in self._steps:
            value = _MEANING[op](*(self._signed(values, values[key], sign) for key, sign in operands))
            values[row, 0] = self._signed(values, value, mask)
        return tuple(np.asarray(values[row, 0], dtype=object) for row in self.left)

    def _signed(self, values, value, mask):
        if mask in (0, self.full):
            return -value if mask else value
        return value * values[(), mask]

    def _step(self, row):
        """(row, op, [((operand, signs), sign)], sign)"""
        unit = self.writer.signs.units[row]
        masks, rest = self.writer.signs.factors(row), 0
        if unit.op != Op.ADD:
            masks, rest = [0] * len(unit.operands), masks[0]
        keys = [(operand, 0) for operand in unit.operands]
        constants = self.writer.signs.constants
        constant = next((k for k, ns in enumerate(unit.operands) if all(n in constants for n in ns)), None)
        if unit.op in TURNING:
            masks[0], rest = rest, 0
        elif unit.op == Op.MUL and constant is not None:
            keys[constant], rest = (unit.operands[constant], rest), 0
        self.sources |= {key: None for key in keys if key[0] not in self._rows}
        self.sources |= {((), mask): None for mask in (*masks, rest) if mask not in (0, self.full)}
        return row, unit.op, [*zip(keys, masks, strict=True)], rest


class LaneSigns:
    """of[row]: bit k is set if lane k holds the negative of its value.

    units: {row: Unit} in order, including single values; places: {value: (row, lane)} at which it is
    computed; outputs: {row: {lane: sign}} required.
    """

    def __init__(self, units: dict[Row, Unit], places: dict[int, tuple[Row, int]], constants, outputs):
        self.units, self.places, self.constants, self.outputs = units, places, constants, outputs
        self.of: dict[Row, int] = dict.fromkeys(units, 0)
        self._users: dict[Row, list[Row]] = defaultdict(list)
        for row, unit in units.items():
            for operand in unit.operands:
                self._users[operand].append(row)
        self._differ()
        self._flip()

    def read(self, row: Row) -> int:
        """Signs with which an operand is read; lane by lane if it is not a computed row."""
        if row in self.of:
            return self.of[row]
        return sum(self._sign(n) << lane for lane, n in enumerate(row))

    def factors(self, row: Row) -> list[int]:
        """Signs to multiply the operands of a sum with, or the result of any other operation."""
        unit = self.units[row]
        signs = [self.read(operand) ^ sign for operand, sign in zip(unit.operands, unit.signs, strict=True)]
        if unit.op == Op.ADD:
            return [sign ^ self.of[row] for sign in signs]
        return [reduce(xor, signs, self.of[row])]

    def _sign(self, n):
        if n not in self.places:
            return 0
        row, lane = self.places[n]
        return self.of[row] >> lane & 1

    def _differ(self):
        """Choose which lanes differ, row by row: forward, where users have no signs yet, then backward."""
        rows = [row for row in self.units if len(row) > 1]
        for users, ordered in (({}, rows), (self._users, reversed(rows))):
            for row in ordered:
                around = [row, *(user for user in users.get(row, ()) if len(user) > 1)]
                costs = {}
                for mask in sorted(range(0, 1 << len(row), 2), key=lambda mask: mask != self.of[row]):
                    self.of[row] = mask
                    costs[mask] = sum(map(self._turned, around))
                self.of[row] = min(costs, key=costs.__getitem__)

    def _turned(self, row):
        """Number of products with 1 and -1 that a row needs."""
        uniform = (0, (1 << len(row)) - 1)
        wanted = all(self._wanted(row, mask) for mask in uniform)
        if self.units[row].op == Op.MUL and self._has_constant(row):
            return wanted
        return wanted + sum(mask not in uniform for mask in self.factors(row))

    def _flip(self):
        """Choose the sign common to all lanes."""
        for row, unit in self.units.items():
            if unit.op in TURNING:
                continue
            costs = {}
            for mask in (self.of[row], self.of[row] ^ (1 << len(row)) - 1):
                self.of[row] = mask
                costs[mask] = self._negative(row) + self._wanted(row, 0)
            self.of[row] = min(costs, key=costs.__getitem__)

    def _negative(self, row):
        """True if a row is the negative of its operation on all lanes."""
        if self.units[row].op == Op.MUL and self._has_constant(row):
            return False
        return all(mask == (1 << len(row)) - 1 for mask in self.factors(row))

    def _wanted(self, row, mask):
        """Number of outputs with the wrong sign if all lanes are multiplied with a mask."""
        signs = self.of[row] ^ mask
        return int(any(signs >> lane & 1 != sign for lane, sign in self.outputs.get(row, {}).items()))

    def _has_constant(self, row):
        return any(all(n in self.constants for n in operand) for operand in self.units[row].operands)
