"""Zarr groups NAME.zarr, with arrays as in .npz files: read and written in whole chunks of rows."""

import contextlib
import math
import os
import shutil

import numpy as np

from dynamics_node.errors import TableError
from dynamics_node.io.tables import Table, require, same_rows, width

CODECS = ("blosc", "bytes", "bz2", "crc32", "crc32c", "gzip", "lz4", "lzma", "sharding_indexed", "shuffle",
          "transpose", "zlib", "zstd")  # fmt: skip
METADATA = ("zarr.json", ".zarray", ".zattrs", ".zgroup", ".zmetadata")
MOST_METADATA, MOST_CHUNK = 10**6, 2**30  # bytes
ROWS = 16384  # of a chunk that is written

# --- reading ------------------------------------------------------------------------------------------------


def read_zarr(path, names, needed, chunk, groups=None) -> Table:
    """names: {kind: its columns}; groups: a range of chunks of q, default all. Raises TableError for a wrong
    type or shape, a link in the folder, and codecs that are not of numbers."""
    arrays, there = _arrays(path, names)
    rows = same_rows(path, arrays, there, names, needed)
    size = _chunk_rows(arrays)
    part = range(rows) if groups is None else range(groups.start * size, min(groups.stop * size, rows))
    step = size * max(1, chunk // size)

    def chunks():
        for first in range(part.start, part.stop, step):
            run = slice(first, min(first + step, part.stop))
            block = {kind: _numbers(path, kind, array, run) for kind, array in arrays.items()}
            for start in range(0, run.stop - run.start, chunk):
                yield {kind: values[start : start + chunk] for kind, values in block.items()}

    return Table(len(part), tuple(arrays), chunks)


def _numbers(path, kind, array, run):
    with _explained(path, kind):
        return np.array(array[run], dtype=float, order="C")


def zarr_chunks(path) -> tuple[int, int, bool]:
    """Numbers of rows of q, and of those of a chunk; whether there is a time."""
    arrays, there = _arrays(path, ("q", "time"))
    if "q" not in arrays or not arrays["q"].ndim:
        raise TableError(f"{path} has no q; there are {', '.join(there) or 'no arrays'}")
    return arrays["q"].shape[0], _chunk_rows(arrays), "time" in arrays


def _chunk_rows(arrays):
    """Of q, or of another array without it."""
    leading = arrays["q"] if "q" in arrays else next(iter(arrays.values()), None)
    return max(1, leading.chunks[0]) if leading is not None else 1


def _arrays(path, names):
    """{name: zarr.Array} of those that exist, and the names of all folders."""
    zarr = require("zarr")
    with _explained(path):
        _require_plain_files(path)
        store = zarr.storage.LocalStore(path.resolve(), read_only=True)
        group = zarr.open_group(store, mode="r", use_consolidated=False)
        there = sorted(folder.name for folder in path.iterdir() if folder.is_dir())
    arrays = {name: _array(path, name, group) for name in names if name in there}
    return arrays, there


def _array(path, name, group):
    """Raises TableError for a group in place of an array, codecs of objects, and chunks beyond memory."""
    with _explained(path, name):
        array = group[name]
        if not isinstance(array, require("zarr").Array):
            raise TableError(f"{path}: {name} is not an array")
        if wrong := set(_codecs(array)) - set(CODECS):
            raise TableError(f"{path}: {name} has the codec {min(wrong)!r}; choose from {', '.join(CODECS)}")
        columns = map(max, array.chunks[1:], array.shape[1:])
        if (size := math.prod((*array.chunks[:1], *columns)) * max(8, array.dtype.itemsize)) > MOST_CHUNK:
            raise TableError(f"{path}: rows of a chunk of {name} take {size} bytes, more than {MOST_CHUNK}")
    return array


def _require_plain_files(path):
    """Raise TableError for links and devices, by which one reads outside the folder, and for long
    metadata."""
    folders = [path]
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                elif not entry.is_file(follow_symlinks=False):
                    raise TableError(f"{entry.path} is no regular file: a Zarr group may have no links")
                elif entry.name in METADATA and entry.stat().st_size > MOST_METADATA:
                    raise TableError(f"{entry.path} has more than {MOST_METADATA} bytes")


def _codecs(array):
    """Names of codecs, also within shards."""
    if array.metadata.zarr_format == 2:
        both = (*(array.metadata.filters or ()), array.metadata.compressor)
        return [codec.codec_id for codec in both if codec is not None]
    codecs = list(array.metadata.codecs)
    for codec in codecs:  # which grows
        codecs += [*getattr(codec, "codecs", ()), *getattr(codec, "index_codecs", ())]
    return [codec.to_dict()["name"] for codec in codecs]


@contextlib.contextmanager
def _explained(path, name=None):
    """Errors, of an array, as TableErrors: those of zarr and its codecs have no common class."""
    try:
        yield
    except TableError:
        raise
    except Exception as error:
        reason = str(error).partition("\n")[0] or type(error).__name__
        what = "is not a Zarr group" if name is None else f"has an array {name} that cannot be read"
        raise TableError(f"{path} {what}: {reason}") from None


# --- writing ------------------------------------------------------------------------------------------------


def make_zarr(folder, robot, kinds, timed, rows, size):
    """A group with arrays of NaN (rows, coordinates), in chunks of `size` rows; kinds, timed: as of
    `table_writer`."""
    zarr = require("zarr")
    group = zarr.create_group(zarr.storage.LocalStore(folder))
    for name in (*kinds, *(["time"] if timed else [])):
        columns = () if name == "time" else (width(robot, name),)
        group.create_array(
            name, shape=(rows, *columns), chunks=(size, *columns), dtype="<f8", fill_value=np.nan
        )


@contextlib.contextmanager
def zarr_rows(folder, first=0):
    """write(results, time) to the rows of a group of `make_zarr` from `first` on, where a chunk begins. The
    arrays grow as necessary. Chunks are written whole, so that tasks may write others meanwhile. Raises
    TableError if the group is removed, and leaves nothing of it."""
    zarr = require("zarr")
    arrays = dict(zarr.open_group(zarr.storage.LocalStore(folder), mode="r+").arrays())
    waiting = {name: np.zeros((0, *array.shape[1:])) for name, array in arrays.items()}
    size = _chunk_rows(arrays)

    def flush(count):
        nonlocal first
        try:
            for name, array in arrays.items():
                if first + count > array.shape[0]:
                    array.resize((first + count, *array.shape[1:]))
                array[first : first + count] = waiting[name][:count]
                waiting[name] = waiting[name][count:]
            first += count
        finally:
            if not (folder / "zarr.json").exists():  # another task has failed; zarr makes missing folders
                shutil.rmtree(folder, ignore_errors=True)
                raise TableError(f"{folder} has been removed") from None

    def write(results, time):
        for name, rows in waiting.items():
            waiting[name] = np.concatenate([rows, time if name == "time" else results[name]])
        count = len(next(iter(waiting.values())))
        if count >= size:
            flush(count - count % size)

    yield write
    flush(len(next(iter(waiting.values()))))


@contextlib.contextmanager
def zarr_writer(folder, suffix, robot, kinds, timed):
    """A new group. suffix: ignored."""
    make_zarr(folder, robot, kinds, timed, 0, ROWS)
    with zarr_rows(folder) as write:
        yield write
