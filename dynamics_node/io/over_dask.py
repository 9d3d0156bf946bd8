"""Solvers over arrays of dask: chunk by chunk, on this machine or on a cluster."""

import numpy as np

from dynamics_node.functions import RobotFunction
from dynamics_node.io.names import require


def over_dask(solver: RobotFunction, *arrays, errors="nan"):
    """The dask array of solver(*arrays) for inverse or forward dynamics: (..., nv), lazy.

    arrays: dask or NumPy arrays (..., coordinates) that broadcast, those of the call (q, qd, qdd or tau).
    Every task is one batch; a worker opens the compiled code from its cache, or compiles it. errors as in
    the call. Raises TableError without dask, TypeError for a solver with two results.
    """
    da = require("dask.array")
    if solver.problem.kind == "hybrid":
        raise TypeError("over_dask takes inverse and forward dynamics: one result")
    shape = np.broadcast_shapes(*(array.shape[:-1] for array in arrays))
    whole = [
        da.broadcast_to(da.asarray(array), (*shape, array.shape[-1])).rechunk({-1: -1}) for array in arrays
    ]
    axes = tuple(range(len(shape)))
    pairs = [item for k, array in enumerate(whole) for item in (array, (*axes, -1 - k))]
    return da.blockwise(
        _call, (*axes, len(axes)), *pairs, new_axes={len(axes): solver.model.nv}, concatenate=True,
        align_arrays=True, dtype=solver.dtype, solver=solver, errors=errors,
    )  # fmt: skip


def _call(*arrays, solver, errors):
    return solver(*arrays, errors=errors)
