"""Scalar rows at a few generic states, as elimination changes them: which entries there are, how large."""

from typing import NamedTuple

import numpy as np

from dynamics_node.graph.elimination import VANISHES
from dynamics_node.graph.permuted import Turn, inverse_of_transform

CONSTANT = 1e-12  # spread of an entry over the states, beside its size


class Block(NamedTuple):
    """Six rows with a transform (states, 6, 6) in six columns: see Turn."""

    rows: tuple[int, ...]
    columns: tuple[int, ...]
    X: np.ndarray


class Eliminated(NamedTuple):
    """What an elimination did: the pivot (states,) and its targets, what was left of its row, entries that
    vanished, and how many new ones arose."""

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

    def neighbours(self, columns) -> set[int]:
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

    def is_intact(self, block: Block):
        """Whether a block is still what it was."""
        zero = np.zeros(1)
        return all(row in self.rows for row in block.rows) and all(
            np.allclose(self.rows[row].get(c, zero), block.X[:, i, k], rtol=0, atol=1e-12)
            for i, row in enumerate(block.rows)
            for k, c in enumerate(block.columns)
        )

    def beside(self, block: Block) -> tuple[int, ...]:
        """The other columns of the rows of a block."""
        found = dict.fromkeys(c for row in block.rows for c in self.rows[row])
        return tuple(c for c in found if c not in block.columns)

    def turn(self, block: Block) -> Turn:
        """Multiply the rows of a block by its inverse."""
        others, old = self.beside(block), [self.rows[row] for row in block.rows]
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
        return Turn(block.rows, block.columns, tuple(gone))


def structure(row, states):
    """The entries (states,) of a row {column: (...)} that are no rounding beside the largest."""
    entries = {c: np.broadcast_to(np.asarray(a, dtype=float), (states,)) for c, a in row.items()}
    size = np.max([np.abs(a) for a in entries.values()], axis=0) if entries else 0.0
    return {c: a for c, a in entries.items() if np.any(np.abs(a) > VANISHES * size)}


def is_constant(entry):
    """Whether (..., states) are the same at all states."""
    return np.ptp(entry, axis=-1) <= CONSTANT * np.abs(entry).max(axis=-1)
