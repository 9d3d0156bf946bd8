"""Tables of states as .csv and .parquet files, and as Zarr groups."""

import numpy as np
import pytest


def columns_of(arrays, v_names, q_names=None):
    """{column: (rows,)} of {kind: (rows, coordinates), time: (rows,)}; q_names: by default v_names."""
    columns = {}
    for kind, rows in arrays.items():
        names = q_names if kind == "q" and q_names is not None else v_names
        named = {f"{kind}.{name}": rows[:, k] for k, name in enumerate(names)} if kind != "time" else {}
        columns |= named or {kind: rows}
    return columns


def save_columns(path, columns):
    """Write a file by its suffix; Parquet skips without pyarrow."""
    if path.suffix == ".parquet":
        pyarrow = pytest.importorskip("pyarrow", reason="tables: pip install pyarrow")
        pytest.importorskip("pyarrow.parquet").write_table(pyarrow.table(columns), path)
        return path
    rows = np.column_stack(list(columns.values()))
    np.savetxt(path, rows, "%.17g", ",", header=",".join(columns), comments="")
    return path


def save_zarr(path, arrays, rows=100, **choices):
    """Write a group with chunks of so many rows, or of {array: rows}; skips without zarr."""
    zarr = pytest.importorskip("zarr", reason="Zarr groups: pip install zarr")
    group = zarr.create_group(str(path))
    for name, array in arrays.items():
        chunks = (rows[name] if isinstance(rows, dict) else rows, *array.shape[1:])
        group.create_array(name, shape=array.shape, chunks=chunks, dtype=array.dtype, **choices)[:] = array


def load_zarr(path):
    """{array: numbers} of a group."""
    group = pytest.importorskip("zarr").open_group(str(path), mode="r")
    return {name: array[:] for name, array in group.arrays()}
