"""Arrays of an .npz file, in chunks of rows, whether they lie row by row or column by column."""

import zipfile
from typing import NamedTuple

import numpy as np

from dynamics_node.io.names import TableError
from dynamics_node.io.table import Table

SKIP = 1 << 16  # bytes at a time


class Header(NamedTuple):
    """of an array; by_columns: whether it lies column by column."""

    shape: tuple[int, ...]
    dtype: np.dtype
    by_columns: bool


def read_npz(path, names, needed, chunk) -> Table:
    """names: {kind: its columns}. Raises TableError for what is no array of numbers, or of another shape."""
    try:
        with zipfile.ZipFile(path) as archive:
            there = {name.removesuffix(".npy") for name in archive.namelist()}
            headers = {kind: _header(archive, kind) for kind in names if kind in there}
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise TableError(f"{path} is no .npz file of numbers: {error}") from None
    _require_kinds(path, there, needed)
    rows = next((header.shape[0] for header in headers.values() if header.shape), 0)
    for kind, (shape, dtype, _) in headers.items():
        wanted = (rows,) if kind == "time" else (rows, len(names[kind]))
        if shape != wanted:
            told = "" if kind == "time" else f": {', '.join(names[kind][:12])}"
            raise TableError(f"{path}: {kind} must have shape {wanted}, not {shape}{told}")
        if rows < 0:
            raise TableError(f"{path}: {kind} declares {rows} rows; write the file again with numpy.savez")
        if dtype.kind not in "fiu":
            raise TableError(f"{path}: {kind} holds no numbers but {dtype}")
    return Table(rows, tuple(headers), lambda: _chunks(path, headers, rows, chunk))


def _require_kinds(path, there, needed):
    for kind in needed:
        if kind not in there:
            raise TableError(f"{path} has no {kind}; there are {', '.join(sorted(there)) or 'no arrays'}")


def _header(archive, kind):
    with archive.open(f"{kind}.npy") as stream:
        return _read_header(stream)


def _read_header(stream):
    version = np.lib.format.read_magic(stream)
    read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    if version not in read:
        raise ValueError(f"array format {version} is not known")
    shape, is_fortran, dtype = read[version](stream)
    return Header(shape, dtype, is_fortran and len(shape) > 1)


def _chunks(path, headers, rows, chunk):
    with zipfile.ZipFile(path) as archive:
        parts = {kind: _parts(archive, kind, header) for kind, header in headers.items()}
        for start in range(0, rows, chunk):
            count = min(chunk, rows - start)
            yield {kind: _rows(parts[kind], count, header) for kind, header in headers.items()}


def _parts(archive, kind, header):
    """Streams of what lies together: the array, or each of its columns, read side by side."""
    streams = []
    for column in range(header.shape[1] if header.by_columns else 1):
        stream = archive.open(f"{kind}.npy")
        _read_header(stream)
        _skip(stream, column * header.shape[0] * header.dtype.itemsize)
        streams.append(stream)
    return streams


def _skip(stream, size):
    for start in range(0, size, SKIP):  # seek would read 16 MB at once
        stream.read(min(SKIP, size - start))


def _rows(streams, count, header):
    """(count, ...) of the next rows."""
    if header.by_columns:
        columns = [_numbers(stream, count, header.dtype) for stream in streams]
        return np.stack(columns, axis=1) if columns else np.zeros((count, 0))
    width = int(np.prod(header.shape[1:]))
    return _numbers(streams[0], count * width, header.dtype).reshape(count, *header.shape[1:])


def _numbers(stream, count, dtype):
    data = stream.read(count * dtype.itemsize)
    if len(data) < count * dtype.itemsize:
        raise TableError(f"{stream.name} ends before its last row")
    return np.frombuffer(data, dtype).astype(float)
