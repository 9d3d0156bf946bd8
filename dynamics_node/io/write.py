"""Results in chunks -> .npz, .csv and .parquet files, and Zarr groups."""

import contextlib
import csv
import shutil
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from dynamics_node.errors import TableError
from dynamics_node.io.tables import columns, require, width
from dynamics_node.io.zarr_tables import zarr_writer
from dynamics_node.output_files import making_new, replacing
from dynamics_node.robot.safe_files import file_trouble

# --- tables -------------------------------------------------------------------------------------------------


def check_table(path):
    """Raise TableError if a table cannot be written to the path: unknown suffix, no pyarrow or zarr,
    or a folder NAME.zarr that exists."""
    suffix = Path(path).suffix
    if suffix not in _WRITERS:
        raise TableError(f"{path}: results are written to {', '.join(_WRITERS)}")
    if suffix == ".parquet":
        require("pyarrow")
    if suffix == ".zarr":
        require("zarr")
        if Path(path).exists():
            raise TableError(f"{path} exists: remove it, or name another folder")


@contextlib.contextmanager
def table_writer(path, robot, kind, timed) -> Iterator:
    """write(result (k, nv), time (k,) or None) to an .npz, .csv or .parquet file, or a new folder
    NAME.zarr, which appears only on success.

    kind: 'tau' or 'qdd', or several arbitrary names in order; then a result is {kind: array (k,
    coordinates)}, with the coordinates of q for q and names that begin with q_, of qd for others. timed:
    whether there is a time. Raises TableError as `check_table`.
    """
    path = Path(path)
    check_table(path)
    kinds = (kind,) if isinstance(kind, str) else tuple(kind)
    appearing = making_new if path.suffix == ".zarr" else replacing
    try:
        with (
            appearing(path) as unfinished,
            _WRITERS[path.suffix](unfinished, path.suffix, robot, kinds, timed) as write,
        ):
            yield (lambda result, time: write({kind: result}, time)) if isinstance(kind, str) else write
    except OSError as error:
        raise TableError(f"cannot write {file_trouble(error)}") from None


@contextlib.contextmanager
def _npz(path, suffix, robot, kinds, timed):
    """Rows are first written to temporary files, because the array header needs their number."""
    with contextlib.ExitStack() as stack:
        names = [*kinds, *(["time"] if timed else [])]
        files = {name: stack.enter_context(tempfile.TemporaryFile()) for name in names}
        count = 0

        def write(results, time):
            nonlocal count
            count += len(results[kinds[0]])
            for name, file in files.items():
                array = time if name == "time" else results[name]
                file.write(np.ascontiguousarray(array, dtype=float).tobytes())

        yield write
        with zipfile.ZipFile(path, "w") as archive:
            for name, file in files.items():
                file.seek(0)
                shape = (count,) if name == "time" else (count, width(robot, name))
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    header = {"descr": "<f8", "fortran_order": False, "shape": shape}
                    np.lib.format.write_array_header_1_0(member, header)
                    shutil.copyfileobj(file, member)


@contextlib.contextmanager
def _parquet(path, suffix, robot, kinds, timed):
    pa = require("pyarrow")
    schema = pa.schema([(name, pa.float64()) for name in _header(robot, kinds, timed)])
    with require("pyarrow.parquet").ParquetWriter(str(path), schema) as writer:

        def write(results, time):
            arrays = _columns(results, kinds, time if timed else None)
            writer.write_batch(pa.record_batch([pa.array(a) for a in arrays], schema=schema))

        yield write


@contextlib.contextmanager
def _csv(path, suffix, robot, kinds, timed):
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(_header(robot, kinds, timed))

        def write(results, time):
            arrays = _columns(results, kinds, time if timed else None)
            writer.writerows(np.stack(arrays, axis=1).tolist())

        yield write


def _header(robot, kinds, timed):
    return [*(["time"] if timed else []), *(name for kind in kinds for name in columns(robot, kind))]


def _columns(results, kinds, time):
    parts = [column for kind in kinds for column in np.asarray(results[kind], dtype=float).T]
    return parts if time is None else [np.asarray(time, dtype=float), *parts]


_WRITERS = {".npz": _npz, ".csv": _csv, ".parquet": _parquet, ".zarr": zarr_writer}
