"""The row and column permutation of a sparse system, found once at a few generic states.

Markowitz, The elimination form of the inverse, 1957: the next pivot is the one with the fewest products,
(entries in its row - 1) (entries in its column - 1), which bounds what fills in. Every entry that is not zero at all states
counts. What makes a pivot sound at other states than those tried: constants are; entries that
change sign vanish somewhere and are left for last; in between a threshold beside the rest of the row (Duff,
Erisman, Reid, Direct Methods for Sparse Matrices, sec. 5.4). Where a body's motion or wrench is to be carried
against the direction in which its equation is written, the equation is turned first: its block is a transform, and has an inverse.
"""

import heapq
from typing import NamedTuple

import numpy as np

from dynamics_node.graph.elimination import VANISHES
from dynamics_node.graph.factors import NATURAL
from dynamics_node.graph.permuted import Permuted, Pivot, Turn, inverse_of_transform, scalar_columns, scalar_rows
from dynamics_node.graph.variables import JOINT_ACCELERATION

SMALL = 1e-9  # beside the rest of the row: no pivot
WEAK = 0.05  # of a pivot that varies: only if nothing else is left
CONSTANT = 1e-12
WORST = 1e9  # reluctance to a pivot that vanishes at some state


class NoPivotError(ValueError):
    """Rows that determine fewer columns than there are; `open`: the columns without a pivot."""

    def __init__(self, open_columns):
        self.open = tuple(open_columns)
        super().__init__(f"no equation is left for {', '.join(sorted({str(x) for x, _ in self.open}))}")


def plan_permuted(factors, kept=None, reluctance=20.0, natural=True, inward=False, most=np.inf) -> Permuted | None:
    """The plan of factors at several generic states (one leading axis).

    kept: numbers of the rows that may be pivots, as many as there are unknowns, by default all; reluctance:
    products that a constant pivot may cost more than one that varies. Raises NoPivotError.
    """
    columns = scalar_columns(dict.fromkeys(x for factor in factors for x in factor.blocks))
    rows, _ = scalar_rows(factors, columns)
    states = max((f.rhs.shape[0] for f in factors if f.rhs.ndim > 1), default=1)
    rows = [_structure(row, states) for row in rows]
    pattern = tuple(tuple(row) for row in rows)
    active = range(len(rows)) if kept is None else kept
    own = _own_columns(factors, columns) if natural else {}
    search = _Search({k: rows[k] for k in active}, _transforms(factors, columns, states), reluctance, own)
    search.names = [x for x, _ in columns]
    search.rank = [-x.body if inward else 0 for x, _ in columns]
    for number in search.rows:
        search._offer(number)
    steps = search.run(most)
    if steps is None:
        return None
    pivoted = {step.column for step in steps if isinstance(step, Pivot)}
    if len(pivoted) < len(columns):
        raise NoPivotError([column for k, column in enumerate(columns) if k not in pivoted])
    return Permuted(columns, pattern, tuple(steps), search.fill, search.products)


def _structure(row, states):
    """The entries (states,) of a row that are no rounding beside the largest."""
    entries = {c: np.broadcast_to(np.asarray(a, dtype=float), (states,)) for c, a in row.items()}
    size = np.max([np.abs(a) for a in entries.values()], axis=0, initial=0.0) if entries else 0.0
    return {c: a for c, a in entries.items() if np.any(np.abs(a) > VANISHES * size)}


def _own_columns(factors, columns):
    """{row: column} of the equations that say what a variable is: (5) of A, (6) of F, (7) of tau."""
    number, found, top = {column: k for k, column in enumerate(columns)}, {}, 0
    for factor in factors:
        for x, block in factor.blocks.items():
            if x.body == factor.body and NATURAL.get(x.kind) == factor.kind and x.kind != JOINT_ACCELERATION:
                found |= {top + k: number[x, k] for k in range(x.dim)}
        top += factor.rows
    return found


class _Block(NamedTuple):
    """Six rows with a transform (states, 6, 6) in six columns."""

    rows: tuple[int, ...]
    columns: tuple[int, ...]
    X: np.ndarray


def _transforms(factors, columns, states):
    """The blocks that can be turned."""
    number, found, top = {column: k for k, column in enumerate(columns)}, [], 0
    for factor in factors:
        for x, block in factor.blocks.items():
            if x.dim == factor.rows == 6 and block.ndim > 2 and _is_transform(block):
                X = np.broadcast_to(block, (states, 6, 6))
                found.append(_Block(tuple(range(top, top + 6)), tuple(number[x, k] for k in range(6)), X))
        top += factor.rows
    return found


def _is_transform(X):
    product = np.array(inverse_of_transform(np.moveaxis(X, 0, -1))).transpose(2, 0, 1) @ X
    return bool(np.abs(product - np.eye(6)).max() < 1e-9 * max(1.0, np.abs(X).max()))


class _Search:
    """The rows that are left, {number: {column: (states,)}}, and the choice of the next pivot."""

    def __init__(self, rows, blocks, reluctance, own):
        self.rows, self.reluctance, self.own = rows, reluctance, own
        self.fill, self.products = 0, 0
        self.columns: dict[int, set[int]] = {}
        for number, row in rows.items():
            for column in row:
                self.columns.setdefault(column, set()).add(number)
        self.blocks = [block for block in blocks if set(block.rows) <= rows.keys()]
        self.grades = {number: self._graded(number) for number in rows}
        self.version = dict.fromkeys(rows, 0)
        self.heap: list[tuple] = []

    def run(self, most=np.inf):
        """The steps; None where they would take more than `most` products."""
        steps: list[Pivot | Turn] = []
        while self.heap and self.products <= most:
            _, cost, row, column, version = heapq.heappop(self.heap)
            if row not in self.rows or version != self.version[row]:
                continue
            block = self._turnable(row, column, cost)
            if block is not None:
                steps.append(self._turn(block))
                self._offer(row)
            else:
                steps.append(self._eliminate(row, column))
        return steps if self.products <= most else None

    # --- which one ---------------------------------------------------------------------------------------

    def _graded(self, number):
        """{column: reluctance to take it}; columns that can be no pivot are left out."""
        row = self.rows[number]
        if not row:
            return {}
        if len(row) > 1 and self.own.get(number) in row:
            return {self.own[number]: 0.0}
        table = np.array(list(row.values()))
        size = np.abs(table).min(axis=1) / np.abs(table).max()
        varies = np.ptp(table, axis=1) > CONSTANT * np.abs(table).max(axis=1)
        changes = (table > 0).any(axis=1) & (table < 0).any(axis=1)
        unit = ~varies & (np.abs(np.abs(table[:, 0]) - 1.0) < CONSTANT)
        grade = np.where(varies, self.reluctance, 0.0)
        grade = np.where(size < WEAK, 10.0 * self.reluctance, grade)
        weak = changes | (size < WEAK) & varies | (size < WEAK**3)
        grade = np.where(weak, WORST * (2.0 - np.minimum(size, 1.0)), grade)
        grade = np.where(unit, 0.0, grade)
        return {c: g for c, g, s, u in zip(row, grade, size, unit, strict=True) if u or s > SMALL}

    def _offer(self, number):
        row, grades = self.rows[number], self.grades[number]
        if grades:
            others, first = len(row) - 1, self._is_determined(row)
            key, cost, column = min(
                (self._turn_of(c, products + g, g, first), products + g, c)
                for c, g in grades.items()
                for products in (others * (len(self.columns[c]) - 1),)
            )
            self.version[number] += 1
            heapq.heappush(self.heap, (key, cost, number, column, self.version[number]))

    def _turn_of(self, column, cost, grade, first):
        """Whose turn it is: what costs nothing or is determined already, body by body if so wished, and what may vanish at last."""
        return -np.inf if grade < WORST and (first or cost == 0) else np.inf if grade >= WORST else self.rank[column]

    def _is_determined(self, row):
        """Whether a row and others determine its columns, all of one variable, and nothing else."""
        columns = row.keys()
        if len({self.names[c] for c in columns}) > 1:
            return False
        rows = set.intersection(*(self.columns[c] for c in columns)) if len(row) == 1 else set.union(*(self.columns[c] for c in columns))
        return sum(self.rows[other].keys() <= columns for other in rows) >= len(columns)

    def _turnable(self, row, column, cost):
        """The block to turn before anything else is eliminated, None where the pivot is good as it is."""
        here = [b for b in self.blocks if row in b.rows and column in b.columns and self._intact(b)]
        if not here and cost >= WORST:
            here = [b for b in self.blocks if self._intact(b)]
        if not here:
            return None
        return min(here, key=self._cost_of_turn)

    def _intact(self, block):
        if not all(row in self.rows for row in block.rows):
            return False
        zero = np.zeros(1)
        return all(
            np.allclose(self.rows[row].get(c, zero), block.X[:, i, k], rtol=0, atol=1e-12)
            for i, row in enumerate(block.rows)
            for k, c in enumerate(block.columns)
        )

    def _cost_of_turn(self, block):
        others = {c for row in block.rows for c in self.rows[row]} - set(block.columns)
        return len(others) * sum(len(self.columns[c]) - 1 for c in block.columns)

    # --- what it does ------------------------------------------------------------------------------------

    def _eliminate(self, row, column):
        own, weak = self.rows.pop(row), self.grades[row][column] >= WORST
        pivot = own.pop(column)
        for c in (column, *own):
            self.columns[c].discard(row)
        targets = tuple(sorted(self.columns.pop(column)))
        self.products += (len(targets) + 1) * (len(own) + 1)
        gone, dirty = [], set(targets)
        for target in targets:
            entries = self.rows[target]
            factor = entries.pop(column) / pivot
            for c, entry in own.items():
                change, before = factor * entry, entries.get(c)
                if before is None:
                    entries[c] = -change
                    self.columns[c].add(target)
                    self.fill += 1
                    continue
                after = before - change
                if np.all(np.abs(after) <= VANISHES * (np.abs(before) + np.abs(change))):
                    gone.append((target, c))
                    del entries[c]
                    self.columns[c].discard(target)
                else:
                    entries[c] = after
            self.grades[target] = self._graded(target)
            if len({self.names[c] for c in entries}) == 1:
                dirty |= set.union(*(self.columns[c] for c in entries))
        for c in own:
            dirty |= self.columns[c]
        for number in dirty:
            self._offer(number)
        return Pivot(row, column, targets, tuple(own), tuple(gone), bool(np.ptp(pivot) <= CONSTANT * np.abs(pivot).max()), weak)

    def _turn(self, block):
        self.blocks.remove(block)
        old = [self.rows[row] for row in block.rows]
        others = dict.fromkeys(c for row in old for c in row if c not in block.columns)
        inverse = np.array(inverse_of_transform(np.moveaxis(block.X, 0, -1)))
        gone, zero, dirty = [], np.zeros(block.X.shape[0]), set()
        for k, number in enumerate(block.rows):
            row = {block.columns[k]: np.ones(len(zero))}
            for c in others:
                parts = np.array([inverse[k, i] * old[i].get(c, zero) for i in range(6)])
                value = parts.sum(axis=0)
                if np.all(np.abs(value) <= VANISHES * np.abs(parts).sum(axis=0)):
                    gone.append((number, c))
                else:
                    row[c] = value
            self.rows[number] = row
            self.own[number] = block.columns[k]
            self.grades[number] = self._graded(number)
        for c in (*block.columns, *others):
            dirty |= self.columns[c]
            self.columns[c] -= set(block.rows)
        for number in block.rows:
            for c in self.rows[number]:
                self.columns[c].add(number)
                dirty |= self.columns[c]
        for number in dirty | set(block.rows):
            self._offer(number)
        return Turn(block.rows, block.columns, tuple(gone))
