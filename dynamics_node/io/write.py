"""Chunks of results -> a file, never the whole in memory."""

import contextlib
import shutil
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from dynamics_node.io.names import TableError, columns, require, width
from dynamics_node.io.whole_files import replacing
from dynamics_node.robot.files import file_trouble


@contextlib.contextmanager
def table_writer(path, model, kind, timed) -> Iterator:
    """write(result (k, nv), time (k,) or None) into an .npz, .csv or .parquet file, whole when all went well.

    kind: 'tau' or 'qdd', or several of any names in order: then a result is {kind: array (k, coordinates)},
    of q and what begins with q_ with the coordinates of q, of others with those of qd. timed: whether there
    is a time. Raises TableError for another ending.
    """
    path = Path(path)
    writers = {".npz": _npz, ".csv": _arrow, ".parquet": _arrow}
    if path.suffix not in writers:
        raise TableError(f"{path}: results can be written to {', '.join(writers)}")
    kinds = (kind,) if isinstance(kind, str) else tuple(kind)
    try:
        with (
            replacing(path) as unfinished,
            writers[path.suffix](unfinished, path.suffix, model, kinds, timed) as write,
        ):
            yield (lambda result, time: write({kind: result}, time)) if isinstance(kind, str) else write
    except OSError as error:
        raise TableError(f"cannot write {file_trouble(error)}") from None


@contextlib.contextmanager
def _npz(path, suffix, model, kinds, timed):
    """Rows go to files of their own first: the header of an array tells how many there are."""
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
                shape = (count,) if name == "time" else (count, width(model, name))
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    header = {"descr": "<f8", "fortran_order": False, "shape": shape}
                    np.lib.format.write_array_header_1_0(member, header)
                    shutil.copyfileobj(file, member)


@contextlib.contextmanager
def _arrow(path, suffix, model, kinds, timed):
    pa = require("pyarrow")
    names = [*(["time"] if timed else []), *(name for kind in kinds for name in columns(model, kind))]
    schema = pa.schema([(name, pa.float64()) for name in names])
    make = (
        require("pyarrow.parquet").ParquetWriter if suffix == ".parquet" else require("pyarrow.csv").CSVWriter
    )
    with make(str(path), schema) as writer:

        def write(results, time):
            parts = [column for kind in kinds for column in np.asarray(results[kind], dtype=float).T]
            arrays = [*([time] if timed else []), *parts]
            writer.write_batch(pa.record_batch([pa.array(a) for a in arrays], schema=schema))

        yield write
