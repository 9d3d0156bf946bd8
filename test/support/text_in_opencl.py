"""The text of a kernel on an OpenCL device, with a host part of its own: any layout, any text."""

import numpy as np


def ran(on, kernel, count, inputs, outputs, blocks=None):
    """As `text_in_c.built`'s function, on an `Opened` device: {name: array (count, *shape)}; outputs: their shapes;
    blocks: how many, by default as many as states need."""
    block = kernel.variant.block
    blocks = blocks or -(-count // block)
    cl, dtype, columns = on.cl, kernel.variant.dtype, kernel.variant.layout == "columns"
    program = cl.Program(on.context, kernel.text).build(
        ["-cl-fp32-correctly-rounded-divide-sqrt"], cache_dir=False
    )
    given, written = [], {}
    for argument in kernel.arguments:
        if argument.kind == "count":
            given.append(np.int32(count))
        elif argument.kind == "number":
            given.append(dtype.type(np.ravel(inputs[argument.name])[argument.position]))
        elif argument.kind == "output":
            shape = (argument.size, count) if columns else (count, argument.size)
            host = np.zeros(shape, dtype)
            given.append(cl.Buffer(on.context, cl.mem_flags.WRITE_ONLY, host.nbytes))
            written[argument.name] = host, given[-1]
        elif argument.kind == "scratch":
            size = blocks * argument.size * dtype.itemsize
            given.append(cl.Buffer(on.context, cl.mem_flags.READ_WRITE, size))
        else:
            array = np.asarray(inputs[argument.name], dtype).reshape(-1, argument.size)
            array = np.ascontiguousarray(array.T if columns and argument.kind == "array" else array)
            flags = cl.mem_flags.READ_ONLY | cl.mem_flags.COPY_HOST_PTR
            given.append(cl.Buffer(on.context, flags, hostbuf=array))
    cl.Kernel(program, kernel.name)(on.queue, (blocks * block,), (block,), *given)
    for host, buffer in written.values():
        cl.enqueue_copy(on.queue, host, buffer)
    return {
        name: (host.T if columns else host).reshape(count, *outputs[name])
        for name, (host, _) in written.items()
    }
