"""The text of a kernel as PTX, run by NumPy."""

import numpy as np
import ptx

ARCH = 90


def ran(kernel, nvrtc, count, inputs, outputs, blocks=None):
    """({name: array (count, *shape)}, Report). inputs {name: array (count, *shape), or (*shape) where it is
    the same}, outputs {name: shape}; blocks: how many, by default as many as states need."""
    blocks = blocks or -(-count // kernel.variant.block)
    dtype, columns = kernel.variant.dtype, kernel.variant.layout == "columns"
    memory, given, written = ptx.Memory(), [], {}
    for argument in kernel.arguments:
        if argument.kind == "count":
            given.append(count)
        elif argument.kind == "number":
            given.append(np.ravel(inputs[argument.name])[argument.position])
        elif argument.kind == "output":
            written[argument.name] = memory.allocate(count * argument.size * dtype.itemsize)
            given.append(written[argument.name])
        elif argument.kind == "scratch":
            given.append(memory.allocate(blocks * argument.size * dtype.itemsize))
        else:
            array = np.asarray(inputs[argument.name], dtype).reshape(-1, argument.size)
            given.append(memory.put(array.T if columns else array))
    text = nvrtc.ptx(kernel.text, ARCH)
    report = ptx.run(text, kernel.name, blocks, kernel.variant.block, given, memory)
    found = {}
    for name, address in written.items():
        size = int(np.prod(outputs[name]))
        array = memory.get(address, dtype, (size, count) if columns else (count, size))
        found[name] = (array.T if columns else array).reshape(count, *outputs[name])
    return found, report
