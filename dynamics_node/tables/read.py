"""Tables -> chunks of states, never the whole table in memory."""

import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dynamics_node.model import Model
from dynamics_node.problem import Problem
from dynamics_node.tables.bag import read_bag
from dynamics_node.tables.names import TableError, columns, needed, read_by, require, width

ARROW = (".csv", ".parquet")


@dataclass(frozen=True)
class Table:
    """chunks(): iterator of {kind or 'time': array (k, coordinates) or (k,)}; rows: how many, None when
    only reading tells; timed: whether there is a time."""

    rows: int | None
    timed: bool
    chunks: Callable[[], Iterator[dict[str, np.ndarray]]]


def open_table(path, model: Model, problem: Problem, chunk=16384, topic=None) -> Table:
    """The states of an .npz, .csv or .parquet file, or the JointStates of a bag, in chunks of rows.

    topic: of the bag, where it has several topics with JointStates. Raises TableError, also while reading.
    """
    path = Path(path)
    if not path.exists():
        raise TableError(f"{path}: no such file")
    if path.suffix == ".npz":
        return _npz(path, model, problem, chunk)
    if path.suffix in ARROW:
        return _arrow(path, model, problem, chunk)
    return read_bag(path, model, problem, chunk, topic, Table)


# --- NumPy --------------------------------------------------------------------------------------------------


def _npz(path, model, problem, chunk):
    try:
        with zipfile.ZipFile(path) as archive:
            there = {name.removesuffix(".npy") for name in archive.namelist()}
            kinds = _present(path, there, problem)
            headers = {kind: _header(archive, kind) for kind in kinds}
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise TableError(f"{path} is no .npz file of numbers: {error}") from None
    rows = headers["q"][0][0]
    for kind, (shape, dtype) in headers.items():
        wanted = (rows,) if kind == "time" else (rows, width(model, kind))
        if shape != wanted:
            names = "" if kind == "time" else f": {', '.join(columns(model, kind)[:12])}"
            raise TableError(f"{path}: {kind} must have shape {wanted}, not {shape}{names}")
        if dtype.kind not in "fiu":
            raise TableError(f"{path}: {kind} holds no numbers but {dtype}")
    return Table(rows, "time" in headers, lambda: _npz_chunks(path, headers, rows, chunk))


def _present(path, there, problem):
    for kind in needed(problem):
        if kind not in there:
            raise TableError(f"{path} has no {kind}; there are {', '.join(sorted(there)) or 'no arrays'}")
    return [kind for kind in (*read_by(problem), "time") if kind in there]


def _header(archive, kind):
    """Shape and dtype of an array in an .npz file."""
    with archive.open(f"{kind}.npy") as stream:
        return _read_header(stream)


def _read_header(stream):
    version = np.lib.format.read_magic(stream)
    read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    if version not in read:
        raise ValueError(f"array format {version} is not known")
    shape, is_fortran, dtype = read[version](stream)
    if is_fortran and len(shape) > 1:
        raise ValueError("an array lies column by column: save np.ascontiguousarray(...) of it")
    return shape, dtype


def _npz_chunks(path, headers, rows, chunk):
    with zipfile.ZipFile(path) as archive:
        streams = {kind: archive.open(f"{kind}.npy") for kind in headers}
        for stream in streams.values():
            _read_header(stream)
        for start in range(0, rows, chunk):
            count = min(chunk, rows - start)
            yield {kind: _rows(streams[kind], count, *headers[kind]) for kind in headers}


def _rows(stream, count, shape, dtype):
    size = count * dtype.itemsize * int(np.prod(shape[1:]))
    data = stream.read(size)
    if len(data) < size:
        raise TableError(f"{stream.name} ends before its last row")
    return np.frombuffer(data, dtype).reshape(count, *shape[1:]).astype(float)


# --- columns ------------------------------------------------------------------------------------------------


def _arrow(path, model, problem, chunk):
    try:
        rows, names = _parquet_schema(path) if path.suffix == ".parquet" else _csv_schema(path)
    except (OSError, require("pyarrow").ArrowInvalid) as error:
        raise TableError(f"{path}: {_first_line(error)}") from None
    wanted = _columns_there(path, names, model, problem)
    return Table(rows, "time" in wanted, lambda: _arrow_chunks(path, wanted, chunk))


def _parquet_schema(path):
    file = require("pyarrow.parquet").ParquetFile(path)
    return file.metadata.num_rows, file.schema_arrow.names


def _csv_schema(path):
    with require("pyarrow.csv").open_csv(path) as reader:
        return None, reader.schema.names


def _arrow_chunks(path, wanted, chunk):
    flat = [name for names in wanted.values() for name in names]
    batches = _parquet_batches(path, flat, chunk) if path.suffix == ".parquet" else _csv_batches(path)
    try:
        for batch in batches:
            yield {kind: _numbers(path, batch, names) for kind, names in wanted.items()}
    except require("pyarrow").ArrowInvalid as error:
        raise TableError(f"{path}: {_first_line(error)}") from None


def _parquet_batches(path, names, chunk):
    with require("pyarrow.parquet").ParquetFile(path) as file:
        yield from file.iter_batches(chunk, columns=names)


def _csv_batches(path):
    with require("pyarrow.csv").open_csv(path) as reader:
        yield from reader  # of about a megabyte each


def _columns_there(path, names, model, problem):
    """{kind: its columns}. Raises TableError when some of a kind are missing, or a needed kind is."""
    found = {}
    for kind in read_by(problem):
        wanted = columns(model, kind)
        missing = [name for name in wanted if name not in names]
        if not missing:
            found[kind] = wanted
        elif kind in needed(problem) or len(missing) < len(wanted):
            raise TableError(f"{path} has no column {missing[0]!r}; there are {', '.join(names[:12])}")
    return found | ({"time": ["time"]} if "time" in names else {})


def _numbers(path, batch, names):
    """(k, columns), or (k,) of the time."""
    found = []
    for name in names:
        column = batch.column(batch.schema.get_field_index(name))
        try:
            found.append(column.cast("float64").to_numpy(zero_copy_only=False))
        except (ValueError, NotImplementedError):
            raise TableError(f"{path}: column {name!r} holds no numbers but {column.type}") from None
    return found[0] if names == ["time"] else np.stack(found, axis=1) if found else np.zeros((len(batch), 0))


def _first_line(error):
    return str(error).strip().splitlines()[0]
