"""The row and column permutation of a sparse system, computed once at a few generic states.

Markowitz, The elimination form of the inverse, 1957: the next pivot is the one with the fewest products,
(entries in its row - 1) (entries in its column - 1), which bounds the fill-in. An entry counts if it is
nonzero at some state. A pivot should be sound at all states: constants are; entries that change sign vanish
somewhere and come last; in between there is a threshold relative to the rest of the row (Duff, Erisman and
Reid, Direct Methods for Sparse Matrices, sec. 5.4). To propagate a motion or a wrench against the direction
of its equation, the equation is turned first: its block is a transform.
"""

import heapq
from typing import NamedTuple

import numpy as np

from dynamics_node.errors import InputError
from dynamics_node.graph.elimination import VANISHES
from dynamics_node.graph.factors import JOINT_ACCELERATION, NATURAL
from dynamics_node.graph.permuted import (
    Permuted,
    ScalarPivot,
    TransformBlock,
    inverse_of_transform,
    scalar_columns,
    scalar_rows,
)

CONSTANT = 1e-12  # spread of an entry over the states, relative to its size
WORTHLESS = 20  # times the products of another plan: a sounder plan that costs more is rejected
SMALL = 1e-9  # relative to the rest of the row: no pivot
WEAK = 0.05  # of a pivot that varies: a last resort
VARIES = 20.0  # products that a constant pivot may cost more than one that varies
WORST = 1e9  # the same of one that vanishes at some state


class TransformPlace(NamedTuple):
    """Six rows with a transform (states, 6, 6) in six columns: see TransformBlock."""

    rows: tuple[int, ...]
    columns: tuple[int, ...]
    X: np.ndarray


class Eliminated(NamedTuple):
    """The result of an elimination: the pivot (states,) and its targets, the rest of its row, entries that
    vanished, and number of new ones."""

    pivot: np.ndarray
    targets: tuple[int, ...]
    rest: tuple[int, ...]
    gone: tuple[tuple[int, int], ...]
    fill: int


class SparseRows:
    """rows {number: {column: (states,)}}; columns {column: numbers of the rows that have it}."""

    def __init__(self, rows):
        self.rows = rows
        self.columns: dict[int, set[int]] = {}
        for number, row in rows.items():
            for column in row:
                self.columns.setdefault(column, set()).add(number)

    def neighbors(self, columns) -> set[int]:
        """The rows that have one of the columns."""
        return set().union(*(self.columns.get(c, ()) for c in columns))

    def eliminate(self, row, column) -> Eliminated:
        """Take a row out, and its column out of all others."""
        own = self.rows.pop(row)
        pivot = own.pop(column)
        for c in (column, *own):
            self.columns[c].discard(row)
        targets = tuple(sorted(self.columns.pop(column)))
        gone: list[tuple[int, int]] = []
        fill = 0
        for target in targets:
            factor = self.rows[target].pop(column) / pivot
            for c, entry in own.items():
                fill += c not in self.rows[target]
                gone += self._changed(target, c, -factor * entry)
        return Eliminated(pivot, targets, tuple(own), tuple(gone), fill)

    def _changed(self, number, column, change):
        """Add to an entry; [(number, column)] if it vanishes."""
        row = self.rows[number]
        before = row.get(column)
        if before is None:
            row[column] = change
            self.columns[column].add(number)
            return []
        row[column] = before + change
        if np.any(np.abs(row[column]) > VANISHES * (np.abs(before) + np.abs(change))):
            return []
        del row[column]
        self.columns[column].discard(number)
        return [(number, column)]

    def is_intact(self, block: TransformPlace):
        """Whether a block is unchanged."""
        zero = np.zeros(1)
        return all(row in self.rows for row in block.rows) and all(
            np.allclose(self.rows[row].get(c, zero), block.X[:, i, k], rtol=0, atol=1e-12)
            for i, row in enumerate(block.rows)
            for k, c in enumerate(block.columns)
        )

    def other_columns(self, block: TransformPlace) -> tuple[int, ...]:
        """The other columns of the rows of a block."""
        columns = dict.fromkeys(c for row in block.rows for c in self.rows[row])
        return tuple(c for c in columns if c not in block.columns)

    def turn(self, block: TransformPlace) -> TransformBlock:
        """Multiply the rows of a block by its inverse."""
        others, old = self.other_columns(block), [self.rows[row] for row in block.rows]
        inverse = np.array(inverse_of_transform(np.moveaxis(block.X, 0, -1)))
        gone, zero = [], np.zeros(len(block.X))
        for c in (*block.columns, *others):
            self.columns[c] -= set(block.rows)
        for k, number in enumerate(block.rows):
            self.rows[number] = {block.columns[k]: np.ones(len(zero))}
            for c in others:
                parts = np.array([inverse[k, i] * old[i].get(c, zero) for i in range(6)])
                value = parts.sum(axis=0)
                if np.any(np.abs(value) > VANISHES * np.abs(parts).sum(axis=0)):
                    self.rows[number][c] = value
                else:
                    gone.append((number, c))
            for c in self.rows[number]:
                self.columns[c].add(number)
        return TransformBlock(block.rows, block.columns, tuple(gone))


def structure(row, states):
    """The entries (states,) of a row {column: (...)} that are larger than rounding of the largest."""
    entries = {c: np.broadcast_to(np.asarray(a, dtype=float), (states,)) for c, a in row.items()}
    size = np.max([np.abs(a) for a in entries.values()], axis=0) if entries else 0.0
    return {c: a for c, a in entries.items() if np.any(np.abs(a) > VANISHES * size)}


def is_constant(entry):
    """Whether (..., states) are the same at all states."""
    return np.ptp(entry, axis=-1) <= CONSTANT * np.abs(entry).max(axis=-1)


class NoPivotError(InputError):
    """Rows that do not determine all columns. open: columns without a pivot."""

    def __init__(self, open_columns):
        self.open = tuple(open_columns)
        super().__init__(f"no equation is left for {', '.join(sorted({str(x) for x, _ in self.open}))}")


def best_plan(factors, selected=None) -> Permuted:
    """The cheapest of some searches with the fewest pivots that vanish somewhere: body by body toward the
    root, as in articulated bodies, or free.

    factors: at several generic states (one leading axis); selected: numbers of rows that may be pivots, by
    default all. Raises NoPivotError.
    """
    best = plan_permuted(factors, selected, inward=True)
    for own in (True, False) if best.fill or best.weak else ():
        most = (WORTHLESS if best.weak else 1) * best.products
        other = plan_permuted(factors, selected, own=own, most=most)
        if (other.weak, other.products) < (best.weak, best.products):
            best = other
    return best


def plan_permuted(factors, selected=None, inward=False, own=True, most=np.inf) -> Permuted:
    """The plan of one search. inward: body by body toward the root; own: a variable with an equation of its
    own, for example an acceleration, is solved from it; most: products at which the search stops, with a plan
    of infinite cost. Other arguments and errors as in `best_plan`."""
    columns = scalar_columns(dict.fromkeys(x for factor in factors for x in factor.blocks))
    rows, _ = scalar_rows(factors, columns)
    states = max((len(f.rhs) for f in factors if f.rhs.ndim > 1), default=1)
    whole = [structure(row, states) for row in rows]
    active = {k: dict(whole[k]) for k in (range(len(rows)) if selected is None else selected)}
    search = PivotSearch(active, columns, inward)
    search.own = _defined_columns(factors, columns) if own else {}
    search.blocks = [b for b in _transforms(factors, columns, states) if active.keys() >= set(b.rows)]
    steps = search.run(most)
    pattern = tuple(tuple(row) for row in whole)
    plan = Permuted(columns, pattern, tuple(steps), search.fill, search.products)
    if search.products > most:
        return plan._replace(products=np.inf)
    pivoted = {pivot.column for pivot in plan.pivots}
    if len(pivoted) < len(columns):
        raise NoPivotError([column for k, column in enumerate(columns) if k not in pivoted])
    return plan


def _defined_columns(factors, columns):
    """{row: column} of the equations that define a variable: (5) of A, (6) of F, (7) of tau."""
    number, top = {column: k for k, column in enumerate(columns)}, 0
    defined: dict[int, int] = {}
    for factor in factors:
        for x in factor.blocks:
            if (
                x.body == factor.body
                and NATURAL.get(x.kind, x.kind) == factor.kind
                and x.kind != JOINT_ACCELERATION
            ):
                defined |= {top + k: number[x, k] for k in range(x.dim)}
        top += factor.rows
    return defined


def _transforms(factors, columns, states):
    """The Blocks of factors."""
    number, top = {column: k for k, column in enumerate(columns)}, 0
    for factor in factors:
        for x, block in factor.blocks.items():
            if x.dim == factor.rows == 6 and _is_transform(block):
                X = np.broadcast_to(block, (states, 6, 6))
                yield TransformPlace(tuple(range(top, top + 6)), tuple(number[x, k] for k in range(6)), X)
        top += factor.rows


def _is_transform(X):
    """Whether (..., 6, 6) is one, and not the identity, which needs no turning."""
    X = X.reshape(-1, 6, 6)
    if np.array_equal(np.abs(X[0]), np.eye(6)):
        return False
    product = np.array(inverse_of_transform(np.moveaxis(X, 0, -1))).transpose(2, 0, 1) @ X
    return bool(np.abs(product - np.eye(6)).max() < 1e-9 * max(1.0, np.abs(X).max()))


class PivotSearch(SparseRows):
    """The remaining rows, and the choice of the next pivot. own, blocks: see above."""

    def __init__(self, rows, columns, inward):
        super().__init__(rows)
        self.fill = self.products = 0
        self.own: dict[int, int] = {}
        self.blocks: list[TransformPlace] = []
        self._variable = [x for x, _ in columns]
        self._rank = [-x.body if inward else 0 for x in self._variable]
        self._grades: dict[int, dict] = {}
        self._version = dict.fromkeys(rows, 0)
        self._heap: list[tuple] = []

    def run(self, most):
        """The steps."""
        steps: list[ScalarPivot | TransformBlock] = []
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

    # --- choice ---------------------------------------------------------------------------------------------

    def _grade(self, number):
        """Store {column: extra products that an equally good pivot may cost} of a row, without entries that
        are no pivots."""
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
        """Put the best pivot of a row in the queue. Free pivots and those determined by rows of their own
        come first, then body by body if requested, and pivots that may vanish last."""
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
        """Whether a row and others have only columns of one variable, and determine it."""
        columns = row.keys()
        if len({self._variable[c] for c in columns}) > 1:
            return False
        within = [n for n in self.neighbors(columns) if self.rows[n].keys() <= columns]
        return len(within) >= len(columns)

    def _turnable(self, row, column, cost):
        """The block to turn before anything else is eliminated; None if the pivot needs no turn."""
        here = [b for b in self.blocks if row in b.rows and column in b.columns and self.is_intact(b)]
        if not here and cost >= WORST:
            here = [b for b in self.blocks if self.is_intact(b)]
        return min(here, key=self._cost_of_turn, default=None)

    def _cost_of_turn(self, block):
        return len(self.other_columns(block)) * sum(len(self.columns[c]) - 1 for c in block.columns)

    # --- changes --------------------------------------------------------------------------------------------

    def _pivot(self, row, column):
        weak = self._grades[row][column] >= WORST
        pivot, targets, rest, gone, fill = self.eliminate(row, column)
        self.fill += fill
        self.products += (len(targets) + 1) * (len(rest) + 1)
        changed = set(targets)
        for target in targets:
            self._grade(target)
            if len({self._variable[c] for c in self.rows[target]}) == 1:
                changed |= self.neighbors(self.rows[target])
        for number in changed | self.neighbors(rest):
            self._offer(number)
        return ScalarPivot(row, column, targets, rest, gone, bool(is_constant(pivot)), weak)

    def _turned(self, block):
        self.blocks.remove(block)
        others = self.other_columns(block)
        step = self.turn(block)
        for number, column in zip(block.rows, block.columns, strict=True):
            self.own[number] = column
            self._grade(number)
        for number in self.neighbors((*block.columns, *others)):
            self._offer(number)
        return step


def _grades(table, size):
    """Grades of entries (n, states) of a row; size (n,): the least of each, relative to the largest entry of
    the row."""
    constant = is_constant(table)
    grade = np.where(constant, 0.0, VARIES)
    grade = np.where(size < WEAK, 10.0 * VARIES, grade)
    changes = (table > 0).any(axis=1) & (table < 0).any(axis=1)
    worst = changes | ((size < WEAK) & ~constant) | (size < WEAK**3)
    relative = np.minimum(size, 1.0).astype(np.float32)  # float32: nearly equal numbers become equal
    return np.where(worst, WORST * (2.0 - relative), grade)
