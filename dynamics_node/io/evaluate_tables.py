"""A solver over a table, chunk by chunk."""

from typing import NamedTuple

import numpy as np

from dynamics_node.algorithms import close_loops
from dynamics_node.io.names import read_by
from dynamics_node.io.table import Table


class Summary(NamedTuple):
    """Rows in all; bad: rows whose result is NaN; first_bad: the number of the first of them, or None."""

    rows: int
    bad: int
    first_bad: int | None


def _ignore(*values):
    """What is called with what nobody wants."""


def evaluate(solver, table: Table, write=_ignore, advance=_ignore, compare=_ignore) -> Summary:
    """write(result, time) for every chunk of a table, by a solver of inverse or forward dynamics. advance:
    told the number of rows done; compare(measured, result, time): of a table opened with `measured`.

    States that are not finite or have no solution give NaN; loops are closed from where the table has the
    dependent joints, those of a bag are closed already. Memory: some arrays of a chunk.
    """
    rows = bad = 0
    first = None
    for chunk in table.chunks():
        if solver.model.constrained:
            chunk["q"] = close_loops(solver.model, chunk["q"], errors="nan")
        zero = np.zeros((len(chunk["q"]), solver.model.nv))
        arrays = [chunk.get(kind, zero) for kind in read_by(solver.problem)]
        result = solver(*arrays, errors="nan")
        flagged = np.flatnonzero(np.isnan(result).any(axis=1))
        if len(flagged) and first is None:
            first = rows + int(flagged[0])
        write(result, chunk.get("time"))
        compare(chunk.get("tau"), result, chunk.get("time"))
        rows, bad = rows + len(result), bad + len(flagged)
        advance(len(result))
    return Summary(rows, bad, first)
