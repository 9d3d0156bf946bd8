"""Tables of states as .csv and .parquet files."""

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
