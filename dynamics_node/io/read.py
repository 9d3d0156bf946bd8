"""Files of states -> chunks of states; the whole table is never in memory."""

import contextlib
import csv
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np

from dynamics_node.errors import TableError
from dynamics_node.io.bags import positions_of, read_bag
from dynamics_node.io.complete_states import complete
from dynamics_node.io.differentiate import Usual, Velocities
from dynamics_node.io.tables import (
    Table,
    checked,
    columns,
    joints_option,
    needed,
    read_npz,
    recordings,
    require,
    wanted,
    warn_of_recording,
)
from dynamics_node.io.zarr_tables import read_zarr
from dynamics_node.robot import Problem, Robot
from dynamics_node.robot.joint_names import name_pairs, proposed_pair, renamed
from dynamics_node.text import listed, number

ARRAYS = (".npz", ".zarr")  # their columns have no names
COLUMNS = (".csv", ".parquet")  # files of columns with names
NO_NUMBER = ("", "na", "n/a", "#n/a", "null", "none")  # entries of a .csv file that are NaN
NAME_PADDING = "# \t"  # in the first line of a .csv file written by numpy.savetxt
NAMING = "column names are q.JOINT, qd.JOINT, qdd.JOINT, tau.JOINT and time"
MOST_LISTED = 12


def open_table(
    path,
    robot: Robot,
    problem: Problem,
    chunk=16384,
    topic=None,
    *,
    joints_map: Mapping[str, str] | None = None,
    measured: bool | Sequence[str] = False,
    zero_velocity=False,
    cutoff: float | Usual | None = None,
    velocities: Velocities = "recorded",
    groups: range | None = None,
) -> Table:
    """The states of an .npz, .csv or .parquet file, of a folder NAME.parquet of such files, of a Zarr group
    NAME.zarr, or the JointStates of a recording, in chunks of rows.

    groups: the row groups of a .parquet file, or chunks of q of a Zarr group, default all.
    topic: of the recording, if it has several with JointStates. joints_map: {recorded name: our name} of
    joints with other names in the file, see robot/joint_names.py. measured: torques are required for
    comparison; names of coordinates: only theirs, NaN for the others. Missing velocities raise unless
    zero_velocity is set. With a cutoff (Hz), missing velocities and accelerations are derivatives, see
    differentiate.py; "usual": 10 Hz, or a quarter of the sampling rate if that is lower. velocities: with a
    cutoff, "recorded" ones if available, derivatives of "positions", or the less noisy ones ("better"), with
    a note. Another recording in the table, where time jumps back, is a RecordingWarning while reading.
    Raises TableError, also while reading, and if there are no rows.
    """
    path, pairs = _existing(path), _pairs(joints_map)
    some = None if isinstance(measured, bool) else tuple(measured)
    names = {kind: _named(robot, kind) for kind in wanted(problem, measured)}
    if path.suffix in COLUMNS and some is not None:
        names["tau"] = [f"tau.{name}" for name in some]
    if _is_file(path):
        table = _file(path, names, needed(problem, measured), chunk, pairs, groups)
    else:
        table = read_bag(path, robot, chunk, topic, pairs, zero_velocity, some)
    table = checked(path, table)
    if some is not None:
        table = _with_torques_of(table, robot, some)
    return complete(path, table, robot, problem, bool(measured), zero_velocity, cutoff, velocities)


def _with_torques_of(table, robot, names):
    """The table with torques of some coordinates, NaN for the others."""
    places, chunks = [robot.v_names.index(name) for name in names], table.chunks

    def only(tau):
        torques = np.full((len(tau), robot.nv), np.nan)
        torques[:, places] = tau if tau.shape[1] == len(places) else tau[:, places]
        return torques

    return replace(table, chunks=lambda: (chunk | {"tau": only(chunk["tau"])} for chunk in chunks()))


def position_ranges(
    path, names, topic=None, *, joints_map: Mapping[str, str] | None = None
) -> dict[str, tuple[float, float]]:
    """{joint: lowest and highest position} of those among `names` with positions in a file of columns or a
    recording; those of arrays have no names. Raises TableError."""
    path, pairs = _existing(path), _pairs(joints_map)
    if path.suffix in ARRAYS:
        return {}
    rows = (
        _rows_of_positions(path, names, pairs) if _is_file(path) else positions_of(path, names, topic, pairs)
    )
    ranges: dict[str, tuple[float, float]] = {}
    for name, values in rows:
        if len(values := values[np.isfinite(values)]):
            low, high = ranges.get(name, (np.inf, -np.inf))
            ranges[name] = min(low, float(values.min())), max(high, float(values.max()))
    return ranges


def _rows_of_positions(path, names, pairs):
    """(joint, positions (k,)) of a file of columns, chunk by chunk."""
    with _column_file(path) as (_, recorded, _):
        theirs = _our_columns(path, recorded, pairs)
    there = [name for name in names if f"q.{name}" in theirs]
    if not there:
        return
    for chunk in _column_chunks(path, {"q": [theirs[f"q.{name}"] for name in there]}, 16384):
        yield from zip(there, chunk["q"].T, strict=True)


def read_table(
    path,
    robot,
    kinds,
    needed=("time",),
    topic=None,
    *,
    joints_map: Mapping[str, str] | None = None,
    more: Mapping[str, Sequence[str]] | None = None,
) -> dict[str, np.ndarray]:
    """{kind: (rows, coordinates), time: (rows,)} of a whole file or recording, for the available ones of
    `kinds`.

    needed: required kinds. more: {name: names of its columns} of additional data, among arrays one of that
    name. In a table, q may have only the independent joints. Others as in `open_table`, also the
    RecordingWarning. Raises TableError, also if there are no rows.
    """
    rows = _read_table(path, robot, kinds, needed, topic, joints_map, more)
    if not len(next(iter(rows.values()), ())):
        raise TableError(f"{path} has no rows")
    for part in recordings(rows.get("time", ()))[1:]:
        warn_of_recording(path, part.start, rows["time"][part.start] - rows["time"][part.start - 1])
    return rows


def _read_table(path, robot, kinds, needed, topic, joints_map, more):
    path, pairs = _existing(path), _pairs(joints_map)
    if not _is_file(path):
        table = read_bag(path, robot, 16384, topic, pairs)
        if missing := [kind for kind in needed if kind not in table.kinds]:
            raise TableError(f"{path} has no {', '.join(missing)} of all joints")
        return {kind: rows for kind, rows in _whole(table).items() if kind in kinds or kind == "time"}
    names = {kind: _named(robot, kind) for kind in (*kinds, "time")} | {
        k: list(v) for k, v in (more or {}).items()
    }
    independent = [f"q.{name}" for name in robot.v_names]
    choices = [names] if names.get("q", independent) == independent else [names, names | {"q": independent}]
    failures = []
    for choice in choices:
        try:
            return _whole(_file(path, choice, needed, 16384, pairs))
        except TableError as error:
            failures.append(error)
    raise failures[0]


def _whole(table):
    chunks = list(table.chunks())
    return {kind: np.concatenate([chunk[kind] for chunk in chunks]) for kind in table.kinds} if chunks else {}


def _existing(path):
    path = Path(path)
    if not path.exists():
        raise TableError(f"{path}: no such file")
    return path


def _pairs(joints_map):
    try:
        return name_pairs((joints_map or {}).items())
    except ValueError as error:
        raise TableError(f"--joints-map: {error}") from None


def _is_file(path):
    return path.suffix in (*ARRAYS, *COLUMNS)


def _file(path, names, needed, chunk, pairs, groups=None):
    """names: {kind: its columns}"""
    if path.suffix == ".npz":
        return read_npz(path, names, needed, chunk)
    if path.suffix == ".zarr":
        return read_zarr(path, names, needed, chunk, groups)
    return _columns(path, names, needed, chunk, pairs, groups)


def _named(robot, kind):
    return ["time"] if kind == "time" else columns(robot, kind)


# --- columns ------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _column_file(path, groups=None):
    """rows or None, names of columns, and batches(chunk, names) of {name: numbers (k,)}."""
    try:
        with _parquet(path, groups) if path.suffix == ".parquet" else _csv(path) as opened:
            yield opened
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise TableError(f"{path}: {str(error).strip().splitlines()[0]}") from None


@contextlib.contextmanager
def _parquet(path, groups=None):
    files = parquet_files(path)

    def batches(chunk, names):
        for one in files:
            with _parquet_file(one) as file:
                if missing := [name for name in names if name not in file.schema_arrow.names]:
                    raise TableError(f"{one} has no column {missing[0]!r}, which {files[0].name} has")
                for batch in file.iter_batches(chunk, row_groups=groups, columns=names):
                    yield {name: _arrow_numbers(one, batch, name) for name in names}

    with _parquet_file(files[0]) as first:
        names = first.schema_arrow.names
    rows = [count for file in files for count in row_groups(file)]
    yield sum(rows if groups is None else [rows[k] for k in groups]), names, batches


@contextlib.contextmanager
def _parquet_file(path):
    try:
        with require("pyarrow.parquet").ParquetFile(path) as file:
            yield file
    except (OSError, require("pyarrow").ArrowInvalid) as error:
        raise TableError(f"{path}: {str(error).strip().splitlines()[0]}") from None


def row_groups(path) -> list[int]:
    """Rows of the groups of a .parquet file."""
    with _parquet_file(path) as file:
        return [file.metadata.row_group(k).num_rows for k in range(file.num_row_groups)]


def parquet_files(path) -> list[Path]:
    """The file, or those of a folder, with numbers in their names in order: part.2 before part.10. Raises
    TableError for a folder without."""
    if not path.is_dir():
        return [path]
    files = [file for file in path.glob("*.parquet") if file.is_file()]
    if not files:
        raise TableError(f"{path} is a folder without .parquet files")
    return sorted(
        files, key=lambda file: [int(w) if w.isdigit() else w for w in re.split(r"(\d+)", file.name)]
    )


def _arrow_numbers(path, batch, name):
    column = batch.column(batch.schema.get_field_index(name))
    try:
        return column.cast("float64").to_numpy(zero_copy_only=False)
    except (ValueError, NotImplementedError):
        raise TableError(f"{path}: column {name!r} must be numeric, not {column.type}") from None


@contextlib.contextmanager
def _csv(path):
    with path.open(newline="", encoding="utf-8-sig") as file:
        first = file.readline()
        if not first.strip():
            raise TableError(f"{path} is empty: its first line must have the names of the columns")
        header = next(csv.reader([first]))

        def batches(chunk, names):
            places = [header.index(name) for name in names]
            while lines := [line for line in islice(file, chunk) if line.strip()]:
                try:
                    rows = np.loadtxt(
                        lines, delimiter=",", quotechar='"', comments=None, usecols=places, ndmin=2
                    )
                except ValueError:
                    rows = _csv_rows(path, header, lines, places)
                yield dict(zip(names, rows.T, strict=True))

        yield None, header, batches


def _csv_rows(path, header, lines, places):
    """Numbers of lines some of whose entries are empty. Raises TableError for other texts."""
    rows = list(csv.reader(lines))
    if wrong := next((row for row in rows if len(row) != len(header)), None):
        raise TableError(
            f"{path}: a row has {len(wrong)} entries instead of {len(header)}: {listed(wrong, 3)}"
        )
    numbers = np.full((len(rows), len(places)), np.nan)
    for k, row in enumerate(rows):
        for column, place in enumerate(places):
            if row[place].strip().lower() not in NO_NUMBER:
                try:
                    numbers[k, column] = number(row[place])
                except ValueError as error:
                    raise TableError(f"{path}: column {header[place]!r} must be numeric: {error}") from None
    return numbers


def _columns(path, names, needed, chunk, pairs, groups):
    with _column_file(path, groups) as (rows, theirs, _):
        present = _select_columns(path, _our_columns(path, theirs, pairs), names, needed)
    return Table(rows, tuple(present), lambda: _column_chunks(path, present, chunk, groups))


def _column_chunks(path, file_columns, chunk, groups=None):
    with _column_file(path, groups) as (_, _, batches):
        for batch in batches(chunk, [name for names in file_columns.values() for name in names]):
            yield {kind: _kind(batch, kind, names) for kind, names in file_columns.items()}


def _kind(batch, kind, names):
    """(k, columns), or (k,) for the time."""
    if kind == "time":
        return batch[names[0]]
    rows = len(next(iter(batch.values())))
    return np.array([batch[name] for name in names]).reshape(len(names), rows).T


def _our_columns(path, names, pairs):
    """{our name of a column: its name in the file}"""
    ours: dict[str, str] = {}
    for name in names:
        kind, dot, joint = name.strip(NAME_PADDING).partition(".")
        our = f"{kind}.{renamed(joint, pairs)}" if dot else kind
        if our in ours:
            raise TableError(f"{path}: columns {ours[our]!r} and {name!r} are both {our!r}")
        ours[our] = name
    return ours


def _select_columns(path, ours, wanted, needed):
    """{kind: its columns in the file}. Raises TableError if a needed kind or a part of a kind is missing."""
    present = {}
    for kind, names in wanted.items():
        missing = [name for name in names if name not in ours]
        if not missing:
            present[kind] = [ours[name] for name in names]
        elif kind in needed or len(missing) < len(names):
            known = {name for names in wanted.values() for name in names}
            raise TableError(f"{path} {_missing_columns(missing, ours, known)}")
    return present


def _missing_columns(missing, ours, known):
    """Message about missing columns, with unknown columns that may be meant."""
    kind = missing[0].partition(".")[0]
    if len(ours) == 1 and (mark := next((mark for mark in ";\t|" if mark in next(iter(ours))), "")):
        return f"separates its columns by {mark!r}; use commas"
    unknown = [name for name in ours if name not in known]
    there = unknown or [name for name in ours if name.startswith(f"{kind}.")] or list(ours)
    message = f"has no column {missing[0]!r}; there are {listed(there, MOST_LISTED)}"
    theirs, present = (
        [name.partition(".")[2] for name in names if name.startswith(f"{kind}.")]
        for names in (unknown, [name for name in ours if name in known])
    )
    if pair := proposed_pair(theirs, [name.partition(".")[2] for name in missing]):
        return f"{message}: --joints-map '{'='.join(pair)}'"
    if present and not theirs:
        return f"{message}; to use only the available joints: {joints_option(present)}"
    return message + (f" ({NAMING})" if unknown else "")
