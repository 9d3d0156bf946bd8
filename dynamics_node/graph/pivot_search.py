"""The choice of pivots, one after the other: see graph/markowitz.py."""

import heapq

import numpy as np

from dynamics_node.graph.permuted import Pivot, Turn
from dynamics_node.graph.sparse_rows import CONSTANT, Block, SparseRows, is_constant

SMALL = 1e-9  # beside the rest of the row: no pivot
WEAK = 0.05  # of a pivot that varies: only if nothing else is left
VARIES = 20.0  # products that a constant pivot may cost more than one that varies
WORST = 1e9  # the same of one that vanishes at some state


class PivotSearch(SparseRows):
    """What is left to be eliminated, and the choice of the next pivot. own, blocks: see above."""

    def __init__(self, rows, columns, inward):
        super().__init__(rows)
        self.fill = self.products = 0
        self.own: dict[int, int] = {}
        self.blocks: list[Block] = []
        self._variable = [x for x, _ in columns]
        self._rank = [-x.body if inward else 0 for x in self._variable]
        self._grades: dict[int, dict] = {}
        self._version = dict.fromkeys(rows, 0)
        self._heap: list[tuple] = []

    def run(self, most):
        """The steps."""
        steps: list[Pivot | Turn] = []
        for number in self.rows:
            self._grade(number)
        for number in self.rows:
            self._offer(number)
        while self._heap and self.products <= most:
            _, cost, row, column, version = heapq.heappop(self._heap)
            if row not in self.rows or version != self._version[row]:
                continue
            block = self._turnable(row, column, cost)
            if block is None:
                steps.append(self._pivot(row, column))
            else:
                steps.append(self._turned(block))
                self._offer(row)
        return steps

    # --- which one ------------------------------------------------------------------------------------------

    def _grade(self, number):
        """Note {column: products that one as good may cost more} of a row; what is no pivot is left out."""
        row, own = self.rows[number], self.own.get(number)
        if not row:
            self._grades[number] = {}
        elif len(row) > 1 and own in row:
            self._grades[number] = {own: 0.0}
        else:
            table = np.array(list(row.values()))
            size = np.abs(table).min(axis=1) / np.abs(table).max()
            unit = is_constant(table) & (np.abs(np.abs(table[:, 0]) - 1.0) < CONSTANT)
            grade = np.where(unit, 0.0, _grades(table, size))
            pairs = zip(row, grade.tolist(), (unit | (size > SMALL)).tolist(), strict=True)
            self._grades[number] = {c: g for c, g, is_possible in pairs if is_possible}

    def _offer(self, number):
        """Put the best pivot of a row in the queue: what costs nothing or is determined by rows of its own
        comes first, then body by body if so wished, what may vanish at last."""
        row = self.rows[number]
        self._version[number] += 1
        if not self._grades[number]:
            return
        others, first = len(row) - 1, self._is_determined(row)

        def key(column, grade):
            cost = others * (len(self.columns[column]) - 1) + grade
            early = -np.inf if first or cost == 0 else self._rank[column]
            return np.inf if grade >= WORST else early, cost, number, column, self._version[number]

        best = min(key(column, grade) for column, grade in self._grades[number].items())
        heapq.heappush(self._heap, best)

    def _is_determined(self, row):
        """Whether a row and others have no columns but its own, which are of one variable, and are enough."""
        columns = row.keys()
        if len({self._variable[c] for c in columns}) > 1:
            return False
        within = [n for n in self.neighbours(columns) if self.rows[n].keys() <= columns]
        return len(within) >= len(columns)

    def _turnable(self, row, column, cost):
        """The block to turn before anything else is eliminated; None where the pivot is good as it is."""
        here = [b for b in self.blocks if row in b.rows and column in b.columns and self.is_intact(b)]
        if not here and cost >= WORST:
            here = [b for b in self.blocks if self.is_intact(b)]
        return min(here, key=self._cost_of_turn, default=None)

    def _cost_of_turn(self, block):
        return len(self.beside(block)) * sum(len(self.columns[c]) - 1 for c in block.columns)

    # --- what it changes ------------------------------------------------------------------------------------

    def _pivot(self, row, column):
        weak = self._grades[row][column] >= WORST
        pivot, targets, rest, gone, fill = self.eliminate(row, column)
        self.fill += fill
        self.products += (len(targets) + 1) * (len(rest) + 1)
        changed = set(targets)
        for target in targets:
            self._grade(target)
            if len({self._variable[c] for c in self.rows[target]}) == 1:
                changed |= self.neighbours(self.rows[target])
        for number in changed | self.neighbours(rest):
            self._offer(number)
        return Pivot(row, column, targets, rest, gone, bool(is_constant(pivot)), weak)

    def _turned(self, block):
        self.blocks.remove(block)
        others = self.beside(block)
        step = self.turn(block)
        for number, column in zip(block.rows, block.columns, strict=True):
            self.own[number] = column
            self._grade(number)
        for number in self.neighbours((*block.columns, *others)):
            self._offer(number)
        return step


def _grades(table, size):
    """Of entries (n, states) of a row; size (n,): the least of each, beside the largest entry of the row."""
    constant = is_constant(table)
    grade = np.where(constant, 0.0, VARIES)
    grade = np.where(size < WEAK, 10.0 * VARIES, grade)
    changes = (table > 0).any(axis=1) & (table < 0).any(axis=1)
    worst = changes | ((size < WEAK) & ~constant) | (size < WEAK**3)
    beside = np.minimum(size, 1.0).astype(np.float32)  # what is nearly equal is equal
    return np.where(worst, WORST * (2.0 - beside), grade)
