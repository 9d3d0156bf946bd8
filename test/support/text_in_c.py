"""The text of a kernel compiled as C and called with NumPy arrays: the reference for other backends."""

import ctypes
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import numpy as np
from compilers import fault

FLAGS = ("-std=gnu99", "-O1", "-Wall", "-Werror", "-ffp-contract=off", "-fPIC", "-shared")
FUSED = "-mfma"  # otherwise a slow library function computes the same result


@cache
def built(kernel, *more):
    """Function of a Kernel: (count, inputs, shapes of the outputs) -> {name: array (count, *shape)}.

    inputs: {name: array (count, *shape), or (*shape) if the same for all states}.
    """
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder) / "states.c", Path(folder) / "states.so"
        source.write_text(kernel.text)
        flags = [*FLAGS, *[FUSED] * (fault("cc", FUSED) is None), *more]
        subprocess.run(["cc", *flags, source, "-o", library, "-lm"], check=True)
        function = ctypes.CDLL(str(library))[kernel.name]
    function.restype = None
    return lambda count, inputs, outputs: _called(function, kernel, count, inputs, outputs)


def _called(function, kernel, count, inputs, outputs):
    dtype, columns = kernel.variant.dtype, kernel.variant.layout == "columns"
    number = ctypes.c_float if dtype == np.float32 else ctypes.c_double
    buffers, written, given = [], {}, []

    def pointer(array):
        buffers.append(array)
        return ctypes.c_void_p(array.ctypes.data)

    for argument in kernel.arguments:
        if argument.kind == "count":
            given.append(ctypes.c_int(count))
        elif argument.kind == "number":
            given.append(number(np.ravel(inputs[argument.name])[argument.position]))
        elif argument.kind == "output":
            shape = (argument.size, count) if columns else (count, argument.size)
            written[argument.name] = np.full(shape, 7.0, dtype)
            given.append(pointer(written[argument.name]))
        elif argument.kind == "scratch":
            given.append(pointer(np.full(argument.size, np.nan, dtype)))
        else:
            array = np.asarray(inputs[argument.name], dtype).reshape(-1, argument.size)
            given.append(pointer(np.ascontiguousarray(array.T if columns else array)))
    function(*given)
    return {
        name: (array.T if columns else array).reshape(count, *outputs[name])
        for name, array in written.items()
    }
