"""Tables in parts that the workers of a cluster read, compute and write."""

import re
from pathlib import Path
from typing import NamedTuple

from dynamics_node.io.evaluate_tables import Summary, evaluate
from dynamics_node.io.read import open_table, parquet_files, row_groups
from dynamics_node.io.write import table_writer


class TablePart(NamedTuple):
    """A file or a recording, or some row groups of a .parquet file, from the row `first` on."""

    path: Path
    groups: range | None = None
    first: int = 0


class PartSummary(NamedTuple):
    """Summary of a TablePart; notes: how incomplete quantities were handled; cutoff: of derivatives, Hz."""

    part: TablePart
    summary: Summary
    notes: tuple[str, ...]
    cutoff: float | None


def parts_of(path, most: int) -> list[TablePart]:
    """A .parquet file, or every one of a folder, in parts of up to `most` rows, or of one row group; anything
    else as one part."""
    path = Path(path).absolute()
    if path.suffix != ".parquet":
        return [TablePart(path)]
    parts = [part for file in parquet_files(path) for part in _parts_of_file(file, most)]
    return parts or [TablePart(path)]  # without rows


def _parts_of_file(path, most):
    parts, begin, first, rows = [], 0, 0, 0
    counts = row_groups(path)
    for k, count in enumerate(counts):
        if rows and rows + count > most:
            parts.append(TablePart(path, range(begin, k), first))
            begin, first, rows = k, first + rows, 0
        rows += count
    return [*parts, TablePart(path, range(begin, len(counts)), first)] if rows else parts


def part_names(parts: list[TablePart]) -> list[str]:
    """Names of files for results, whose order is that of the parts."""
    stems = [re.sub(r"[^\w.-]", "_", part.path.stem) for part in parts]
    return [f"{k:0{len(str(len(parts)))}}-{stem}.parquet" for k, stem in enumerate(stems)]


def evaluate_part(part_and_target, solver, robot, choices) -> PartSummary:
    """A task: `evaluate` from a TablePart to a file. solver: as of `evaluate`; robot: whose joints are
    written; choices: of `open_table`."""
    part, target = part_and_target
    columns = [solver.robot.v_names.index(name) for name in robot.v_names]
    result = "tau" if solver.problem.kind == "inverse" else "qdd"
    table = open_table(part.path, solver.robot, solver.problem, groups=part.groups, **choices)
    with table_writer(target, robot, result, table.timed) as write:
        summary = evaluate(solver, table, lambda values, time: write(values[:, columns], time))
    return PartSummary(part, summary, table.notes, table.cutoff)
