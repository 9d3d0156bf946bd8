"""Arrays of an .npz file: read whole, handed out in chunks of rows."""

import zipfile
import zlib

import numpy as np

from dynamics_node.io.names import TableError
from dynamics_node.io.table import Table

BROKEN = (OSError, EOFError, ValueError, MemoryError, zlib.error, zipfile.BadZipFile)


def read_npz(path, names, needed, chunk) -> Table:
    """names: {kind: its columns}. Raises TableError for what is no array of numbers, or of another shape."""
    if not zipfile.is_zipfile(path):
        raise TableError(f"{path} is no .npz file of numbers")
    try:
        with np.load(path) as archive:
            there = sorted(archive.files)
            arrays = {kind: archive[kind] for kind in names if kind in there}
    except BROKEN as error:
        raise TableError(f"{path} is no .npz file of numbers: {error}") from None
    for kind in needed:
        if kind not in arrays:
            raise TableError(f"{path} has no {kind}; there are {', '.join(there) or 'no arrays'}")
    rows = next((len(array) for array in arrays.values() if array.ndim), 0)
    for kind, array in arrays.items():
        wanted = (rows,) if kind == "time" else (rows, len(names[kind]))
        if array.shape != wanted:
            columns = "" if kind == "time" else f": {', '.join(names[kind][:12])}"
            raise TableError(f"{path}: {kind} must have shape {wanted}, not {array.shape}{columns}")
        if array.dtype.kind not in "fiu":
            raise TableError(f"{path}: {kind} holds no numbers but {array.dtype}")

    def chunks():
        for start in range(0, rows, chunk):
            part = slice(start, start + chunk)
            yield {kind: np.array(array[part], dtype=float, order="C") for kind, array in arrays.items()}

    return Table(rows, tuple(arrays), chunks)
