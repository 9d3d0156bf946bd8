"""Signs of values that are computed side by side: chosen so that few products with 1 and -1 are needed.

Limbs that mirror each other have the same operations but for signs. A product takes what sign it likes, a
constant any; only where two values meet in a sum with different signs on different lanes one has to be
turned.
"""

from collections import defaultdict
from functools import reduce
from operator import xor

from dynamics_node.symbolic.expression import TURNING, Op
from dynamics_node.symbolic.units import Row, Unit

SWEEPS = 2


class LaneSigns:
    """of[row]: bit k is set where lane k holds the negative of its value.

    units: {row: Unit} in order, those of single values too; places: {value: (row, lane)} where it is
    computed; outputs: {row: {lane: sign}} of what is wanted.
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
        """Signs of an operand as it is read, lane by lane if it is not computed so."""
        if row in self.of:
            return self.of[row]
        return sum(self._sign(n) << lane for lane, n in enumerate(row))

    def factors(self, row: Row) -> list[int]:
        """What the operands of a sum, or of anything else the result, are to be multiplied with: signs."""
        unit = self.units[row]
        signs = [self.read(operand) ^ own for operand, own in zip(unit.operands, unit.signs, strict=True)]
        if unit.op == Op.ADD:
            return [sign ^ self.of[row] for sign in signs]
        return [reduce(xor, signs, self.of[row])]

    def _sign(self, n):
        if n not in self.places:
            return 0
        row, lane = self.places[n]
        return self.of[row] >> lane & 1

    def _differ(self):
        """Choose where lanes differ, from one row after the other, there and back."""
        rows = [row for row in self.units if len(row) > 1]
        for k in range(SWEEPS):
            for row in rows if k % 2 == 0 else reversed(rows):
                around = [row, *(user for user in self._users[row] if len(user) > 1)]
                costs = {}
                for mask in sorted(range(0, 1 << len(row), 2), key=lambda mask: mask != self.of[row]):
                    self.of[row] = mask
                    costs[mask] = sum(map(self._turned, around))
                self.of[row] = min(costs, key=costs.__getitem__)

    def _turned(self, row):
        """How many products with 1 and -1 a row needs."""
        uniform = (0, (1 << len(row)) - 1)
        wanted = all(self._wanted(row, mask) for mask in uniform)
        if self.units[row].op == Op.MUL and self._has_constant(row):
            return wanted
        return wanted + sum(mask not in uniform for mask in self.factors(row))

    def _flip(self):
        """Choose the sign that all lanes have in common."""
        for row, unit in self.units.items():
            if unit.op in TURNING:
                continue
            costs = {}
            for mask in (self.of[row], self.of[row] ^ (1 << len(row)) - 1):
                self.of[row] = mask
                costs[mask] = self._negative(row) + self._wanted(row, 0)
            self.of[row] = min(costs, key=costs.__getitem__)

    def _negative(self, row):
        """True where a row is the negative of its operation on all lanes."""
        if self.units[row].op == Op.MUL and self._has_constant(row):
            return False
        return all(mask == (1 << len(row)) - 1 for mask in self.factors(row))

    def _wanted(self, row, mask):
        """1 if an output does not have the sign that is wanted, all lanes being multiplied with a mask."""
        own = self.of[row] ^ mask
        return int(any(own >> lane & 1 != sign for lane, sign in self.outputs.get(row, {}).items()))

    def _has_constant(self, row):
        return any(all(n in self.constants for n in operand) for operand in self.units[row].operands)
