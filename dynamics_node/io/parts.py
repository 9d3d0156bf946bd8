"""Tables in parts that the workers of a cluster read, compute and write."""

import contextlib
import re
from pathlib import Path
from typing import NamedTuple

from dynamics_node.io.evaluate_tables import Summary, evaluate
from dynamics_node.io.read import open_table, parquet_files, row_groups
from dynamics_node.io.write import table_writer
from dynamics_node.io.zarr_tables import make_zarr, zarr_chunks, zarr_rows


class TablePart(NamedTuple):
    """A file or a recording, or some row groups of a .parquet file or chunks of a Zarr group, from the row
    `first` on."""

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
    """A .parquet file, or every one of a folder, or a Zarr group, in parts of up to `most` rows, or of one
    row group or chunk; anything else as one part."""
    path = Path(path).absolute()
    if path.suffix == ".zarr":
        return _runs_of_chunks(path, most) or [TablePart(path)]
    if path.suffix != ".parquet":
        return [TablePart(path)]
    parts = [part for file in parquet_files(path) for part in _parts_of_file(file, most)]
    return parts or [TablePart(path)]  # without rows


def _runs_of_chunks(path, most):
    rows, size, _ = zarr_chunks(path)
    chunks, step = range(-(-rows // size)), max(1, most // size)
    return [TablePart(path, chunks[k : k + step], k * size) for k in chunks[::step]]


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


def zarr_targets(parts: list[TablePart], folder: Path, solver, robot) -> list[Path]:
    """Make a Zarr group in the folder for results of all parts of another one; the folder for every part.
    solver, robot: as of `evaluate_part`."""
    rows, size, timed = zarr_chunks(parts[0].path)
    make_zarr(folder, robot, [_result(solver)], timed, rows, size)
    return [folder] * len(parts)


def _result(solver):
    return "tau" if solver.problem.kind == "inverse" else "qdd"


def evaluate_part(part_and_target, solver, robot, choices) -> PartSummary:
    """A task: `evaluate` from a TablePart to a file, or to its rows of a folder of `zarr_targets`. solver:
    as of `evaluate`; robot: whose joints are written; choices: of `open_table`."""
    part, target = part_and_target
    columns = [solver.robot.v_names.index(name) for name in robot.v_names]
    table = open_table(part.path, solver.robot, solver.problem, groups=part.groups, **choices)
    with _part_writer(target, part.first, robot, _result(solver), table.timed) as write:
        summary = evaluate(solver, table, lambda values, time: write(values[:, columns], time))
    return PartSummary(part, summary, table.notes, table.cutoff)


@contextlib.contextmanager
def _part_writer(target, first, robot, result, timed):
    if target.is_dir():
        with zarr_rows(target, first) as write:
            yield lambda values, time: write({result: values}, time)
    else:
        with table_writer(target, robot, result, timed) as write:
            yield write
