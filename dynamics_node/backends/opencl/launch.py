"""A kernel on a device: compiled once, launched over pieces of a batch, of which one is copied while another
is computed."""

from collections import deque
from contextlib import suppress

import numpy as np

from dynamics_node.backends.errors import CompileError, DeviceError
from dynamics_node.backends.opencl.devices import Opened
from dynamics_node.backends.text import Kernel, Variant
from dynamics_node.backends.text.arguments import SHARED_MEMORY

EXACT = "-cl-fp32-correctly-rounded-divide-sqrt"
BLOCK = 128
OF_LOOPS = 16  # threads of a block on a CPU, whose caches hold what so many keep
PIECES = 6  # of a batch that could go in fewer: so that copies overlap
LEAST_STATES = 16384  # of such a piece
RESIDENT = 4  # blocks with memory of their own a compute unit


def fitting_variant(on: Opened, dtype, loops=False) -> Variant:
    """Rows, as NumPy has them: through the memory of a block on a GPU, as they lie on a CPU. loops: of a
    Program that is rolled up."""
    memory = 0 if on.is_cpu else min(SHARED_MEMORY, on.device.local_mem_size)
    block = min(OF_LOOPS if loops and on.is_cpu else BLOCK, on.device.max_work_group_size)
    return Variant("double" if dtype == np.float64 else "float", "rows", block, shared_memory=memory)


class Launch:
    """launch(count, inputs, outputs), both {name: array} of rows, C-contiguous; inputs that are the same in
    all states have one. memory: bytes of the device that a piece may take, of which there are two at a time;
    by default a quarter."""

    def __init__(self, on: Opened, kernel: Kernel, memory=None):
        """Raises CompileError."""
        self._on, self.kernel = on, kernel
        self._memory = memory or on.device.global_mem_size // 4
        exact = on.device.single_fp_config & on.cl.device_fp_config.CORRECTLY_ROUNDED_DIVIDE_SQRT
        options = [EXACT] if exact else []
        try:
            self._program = on.cl.Program(on.context, self.kernel.text).build(options, cache_dir=False)
        except on.cl.Error as error:
            raise CompileError(f"{on.name} did not compile a kernel: {_reason(error)}") from None

    def __call__(self, count, inputs, outputs):
        """Raises DeviceError."""
        cl, queues = self._on.cl, (self._on.queue, self._on.beside)
        try:
            self._in_pieces(queues, count, inputs, outputs)
        except cl.Error as error:
            for queue in queues:  # nothing reads or writes the arrays later
                with suppress(cl.Error):
                    queue.finish()
            raise DeviceError(f"{self._on.name} failed: {str(error).splitlines()[0]}") from None

    def _in_pieces(self, queues, count, inputs, outputs):
        """One queue and the other in turn; the memory of a piece is free when its results are there."""
        each = min(self._most_states(), max(LEAST_STATES, -(-count // PIECES)))
        under_way: deque = deque()
        for k, first in enumerate(range(0, count, each)):
            if len(under_way) == len(queues):
                self._on.cl.wait_for_events(under_way.popleft())
            piece = slice(first, min(first + each, count))
            under_way.append(self._piece(queues[k % len(queues)], piece, inputs, outputs))
        for events in under_way:
            self._on.cl.wait_for_events(events)

    def _most_states(self):
        """Of a piece: what an array, all arrays together, and an index have room for."""
        number = self.kernel.variant.dtype.itemsize
        sizes = [a.size * number for a in self.kernel.arguments if a.kind in ("array", "output")]
        room = min(self._memory // max(1, sum(sizes)), self._on.device.max_mem_alloc_size // max(1, *sizes))
        return max(1, min(room, self.kernel.most_states))

    def _piece(self, queue, states, inputs, outputs):
        """Events after which the results are there."""
        cl, on = self._on.cl, self._on
        count, block = states.stop - states.start, self.kernel.variant.block
        blocks = self._blocks(count)
        given, written = [], []
        for argument in self.kernel.arguments:
            if argument.kind == "count":
                given.append(np.int32(count))
            elif argument.kind == "number":
                given.append(inputs[argument.name].ravel()[argument.position])
            elif argument.kind == "output":
                array = outputs[argument.name][states]
                given.append(cl.Buffer(on.context, cl.mem_flags.WRITE_ONLY, max(1, array.nbytes)))
                written.append((array, given[-1]))
            elif argument.kind == "scratch":
                size = blocks * argument.size * self.kernel.variant.dtype.itemsize
                given.append(cl.Buffer(on.context, cl.mem_flags.READ_WRITE, size))
            else:
                array = inputs[argument.name]
                array = array[states] if argument.kind == "array" else array
                given.append(self._copied(queue, array))
        run = cl.Kernel(self._program, self.kernel.name)  # of this call: its arguments are no other thread's
        done = run(queue, (blocks * block,), (block,), *given)
        copies = [
            cl.enqueue_copy(queue, array, buffer, is_blocking=False)
            for array, buffer in written
            if array.size
        ]
        queue.flush()
        return [done, *copies]

    def _blocks(self, count):
        """As many as states need; of those that keep memory for themselves what is there at a time."""
        blocks, each = self.kernel.blocks(count), self.kernel.scratch * self.kernel.variant.dtype.itemsize
        if not each:
            return blocks
        room = min(self._memory, self._on.device.max_mem_alloc_size) // each
        return max(1, min(blocks, room, RESIDENT * self._on.device.max_compute_units))

    def _copied(self, queue, array):
        """A buffer of what an array holds, when the queue comes to it; of an empty one it has a byte."""
        cl = self._on.cl
        buffer = cl.Buffer(self._on.context, cl.mem_flags.READ_ONLY, max(1, array.nbytes))
        if array.size:
            cl.enqueue_copy(queue, buffer, array, is_blocking=False)
        return buffer


def _reason(error):
    """The line of a compiler's log that says most."""
    lines = str(error).splitlines()
    return next((line.strip() for line in lines if "error:" in line), lines[0])
