"""A Function over the chunks of dask arrays."""

import re

from dynamics_node.errors import InputError
from dynamics_node.functions.choices import require_known
from dynamics_node.functions.function import ERRORS
from dynamics_node.optional import required


def over_chunks(function, arrays, errors):
    """See Function.dask. arrays: one for every input.

    The function is an entry of the graph, which tasks share: a worker gets it once, again if it is lost. It
    is in a list, since workers send the types of results, and classes of compiled functions are not pickled.
    """
    da, dask = required("dask.array", "function.dask()"), required("dask", "function.dask()")
    require_known("errors", errors, ERRORS)
    inputs, outputs = function.runner.inputs, function.runner.outputs
    lazy = [_shaped(da, name, a, inputs[name]) for name, a in zip(inputs, arrays, strict=True)]
    _require_one_batch(da, inputs, lazy)
    function.compile(batches=True)
    single = len(outputs) == 1
    read = [_axes(f"i{k}", shape) for k, shape in enumerate(inputs.values())]
    written = [_axes(f"o{k}", shape) for k, shape in enumerate(outputs.values())]
    results = da.apply_gufunc(
        _call,
        f"{_signature(read)}->{_signature(written)}",
        *lazy,
        output_dtypes=function.dtype if single else [function.dtype] * len(outputs),
        output_sizes={axis: size for axes in written for axis, size in axes.items()},
        allow_rechunk=True,
        token=re.sub(r"\W", "_", function.signature.name),
        function=dask.delayed([function], traverse=False),
        errors=errors,
    )
    return results if single else tuple.__new__(function.result or tuple, results)


def _call(*arrays, function, errors):
    """A task."""
    return function[0](*arrays, errors=errors)


def _shaped(da, name, value, shape):
    """The dask array (..., *shape), whose last axes are whole."""
    array = da.asarray(value)
    leading = array.ndim - len(shape)
    if array.dtype.kind not in "fiub" or leading < 0 or array.shape[leading:] != shape:
        wanted = ", ".join(map(str, ("...", *shape)))
        raise InputError(f"{name} must be numbers of shape ({wanted}), not {array.dtype} of {array.shape}")
    return array.rechunk({axis: -1 for axis in range(leading, array.ndim) if array.numblocks[axis] > 1})


def _require_one_batch(da, inputs, arrays):
    pairs = zip(inputs.items(), arrays, strict=True)
    leading = {name: array.shape[: array.ndim - len(shape)] for (name, shape), array in pairs}
    try:
        da.core.broadcast_shapes(*leading.values())
    except ValueError:
        listed = ", ".join(f"{name} {shape}" for name, shape in leading.items())
        raise InputError(f"leading axes do not broadcast: {listed}") from None


def _axes(array, shape):
    """{name of an axis in the signature of a gufunc: its size}"""
    return {f"{array}_{axis}": size for axis, size in enumerate(shape)}


def _signature(arrays):
    return ",".join(f"({','.join(axes)})" for axes in arrays)
