"""A system of factors as scalar rows and columns, and its LU in a planned order.

Nori, Dynamic computations with permuted sparse LU factorisation, sec. III: the permutations of rows and
columns depend only on the robot and its sensors. They are computed once (graph/pivot_search.py) for the
entries that are nonzero at some state. This module applies them: to numbers over a batch, or to symbols.
"""

from typing import Any, NamedTuple

from dynamics_node.graph.factors import Variable

Column = tuple[Variable, int]  # a component of a variable


class ScalarPivot(NamedTuple):
    """Row and column (numbers); targets: rows from which the column is eliminated; rest: columns of the row
    that are solved for later; gone: (row, column) that vanish at every state after it; safe: the pivot is
    constant; weak: it vanishes at some states, or is small."""

    row: int
    column: int
    targets: tuple[int, ...]
    rest: tuple[int, ...]
    gone: tuple[tuple[int, int], ...]
    safe: bool
    weak: bool


class TransformBlock(NamedTuple):
    """Six rows multiplied by the inverse of their block in six columns, which is a transform X between two
    frames, X^T or minus that: for an orthogonal E its inverse only reorders entries. gone: as in a
    ScalarPivot."""

    rows: tuple[int, ...]
    columns: tuple[int, ...]
    gone: tuple[tuple[int, int], ...]


class Permuted(NamedTuple):
    """A plan. pattern: for every row the columns in which it is nonzero at some state, in `columns`. Rows
    that are never pivots are redundant and not changed. fill: number of new entries; products: cost of
    following it, ones counted."""

    columns: tuple[Column, ...]
    pattern: tuple[tuple[int, ...], ...]
    steps: tuple[ScalarPivot | TransformBlock, ...]
    fill: int
    products: float

    @property
    def pivots(self):
        return tuple(step for step in self.steps if isinstance(step, ScalarPivot))

    @property
    def weak(self):
        """Number of pivots that vanish at some states."""
        return sum(step.weak for step in self.pivots)


class Lu:
    """The factors of a system: `entries` of `scalar_rows`, which are consumed. pivots: {step number: pivot}
    of those that vary."""

    def __init__(self, plan: Permuted, entries):
        self._plan = plan
        self._steps: list[tuple] = []
        self.pivots: dict[int, Any] = {}
        for number, step in enumerate(plan.steps):
            if isinstance(step, TransformBlock):
                self._steps.append(_turned(entries, step))
            else:
                self._steps.append(_eliminated(entries, step))
                if not step.safe:
                    self.pivots[number] = self._steps[-1][0]

    def weakness(self, sizes):
        """{step number: (...)} of the pivots that vary: the squares of the rest of the row and of the pivot's
        usual size, {step number: number}, relative to the square of the pivot."""
        weakness = {}
        for number in self.pivots:
            _, inverse, _, rest, scaled = self._steps[number]
            squares = sum(entry * entry for entry in rest)
            other = sizes[number] ** 2 * (inverse * inverse)
            weakness[number] = squares + other if scaled else squares * (inverse * inverse) + other
        return weakness

    def solve(self, rhs) -> list[Any]:
        """The values of `plan.columns` for right-hand sides, one of every row."""
        b, x = list(rhs), [0.0] * len(self._plan.columns)
        for step, done in zip(self._plan.steps, self._steps, strict=True):
            if isinstance(step, TransformBlock):
                old = [b[row] for row in step.rows]
                for row, line in zip(step.rows, done, strict=True):
                    b[row] = _dot(line, old)
                continue
            _, inverse, multipliers, _, scaled = done
            if scaled:
                b[step.row] = _product(inverse, b[step.row])
            for row, factor in zip(step.targets, multipliers, strict=True):
                b[row] = _less(b[row], _product(factor, b[step.row]))
        for step, done in zip(reversed(self._plan.steps), reversed(self._steps), strict=True):
            if isinstance(step, ScalarPivot):
                _, inverse, _, rest, scaled = done
                value = b[step.row]
                for column, entry in zip(step.rest, rest, strict=True):
                    value = _less(value, _product(entry, x[column]))
                x[step.column] = value if scaled else _product(inverse, value)
        return x


def scalar_columns(variables) -> tuple[Column, ...]:
    """All components of the variables."""
    return tuple((x, k) for x in variables for k in range(x.dim))


def scalar_rows(factors, columns, pattern=None):
    """[{column number: entry (...)}] of the rows of factors one after the other, and their right-hand sides
    [(...)]. pattern: of a plan, the entries to list; by default all."""
    number = {column: k for k, column in enumerate(columns)}
    rows: list[dict] = []
    rhs: list = []
    for factor in factors:
        for r in range(factor.rows):
            row = {} if pattern is None else dict.fromkeys(pattern[len(rows)], 0.0)
            for x, block in factor.blocks.items():
                for k in range(x.dim):
                    at = number.get((x, k))
                    if at is not None and (pattern is None or at in row):
                        row[at] = _entry(block[..., r, k])
            rows.append(row)
            rhs.append(_entry(factor.rhs[..., r]))
    return rows, rhs


def _entry(array):
    """A number or symbol if there is no batch."""
    return array.item() if array.ndim == 0 else array


def _eliminated(rows, step: ScalarPivot):
    """(pivot, its inverse, multipliers of the targets, rest of the row, whether row and right-hand side are
    divided by the pivot). The pivot divides the side with fewer products."""
    own = rows[step.row]
    pivot = own[step.column]
    rest = [own[column] for column in step.rest]
    inverse = _inverse(pivot)
    columns = [rows[row].pop(step.column) for row in step.targets]
    scaled = len(step.rest) < len(step.targets)
    line, multipliers = rest, columns
    if scaled:
        line = [_product(inverse, entry) for entry in rest]
    else:
        multipliers = [_product(inverse, entry) for entry in columns]
    for row, factor in zip(step.targets, multipliers, strict=True):
        target = rows[row]
        for column, entry in zip(step.rest, line, strict=True):
            target[column] = _less(target.get(column, 0.0), _product(factor, entry))
    for row, column in step.gone:
        del rows[row][column]
    return pivot, inverse, multipliers, line, scaled


def _turned(rows, step: TransformBlock):
    """The inverse of the block; the rows are multiplied by it."""
    block = [[rows[row].get(column, 0.0) for column in step.columns] for row in step.rows]
    inverse = inverse_of_transform(block)
    old = [rows[row] for row in step.rows]
    others = dict.fromkeys(c for row in old for c in row if c not in step.columns)
    gone = set(step.gone)
    for k, (row, line) in enumerate(zip(step.rows, inverse, strict=True)):
        rows[row] = {step.columns[k]: 1.0}
        for column in others:
            if (row, column) not in gone:
                rows[row][column] = _dot(line, [entries.get(column, 0.0) for entries in old])
    return inverse


def inverse_of_transform(X):
    """The inverse of a 6 x 6 transform, its transpose, or minus one of them: each block of 3 x 3
    transposed."""
    return [[X[i - i % 3 + j % 3][j - j % 3 + i % 3] for j in range(6)] for i in range(6)]


# Numeric zeros and ones cost nothing, also for arrays over a batch.


def _is(value, number):
    return isinstance(value, float) and value == number


def _product(a, b):
    if _is(a, 0.0) or _is(b, 0.0):
        return 0.0
    return b if _is(a, 1.0) else a if _is(b, 1.0) else a * b


def _less(a, b):
    if _is(b, 0.0):
        return a
    return -b if _is(a, 0.0) else a - b


def _dot(line, values):
    total = 0.0
    for entry, value in zip(line, values, strict=True):
        product = _product(entry, value)
        total = product if _is(total, 0.0) else total if _is(product, 0.0) else total + product
    return total


def _inverse(pivot):
    return pivot if _is(pivot, 1.0) or _is(pivot, -1.0) else 1.0 / pivot
