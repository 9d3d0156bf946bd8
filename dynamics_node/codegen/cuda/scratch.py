"""Memory on the device that the blocks of a kernel keep for themselves: one piece for every stream, in which
kernels run one after the other."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from weakref import WeakKeyDictionary

from dynamics_node.codegen.cuda.device import Device
from dynamics_node.codegen.cuda.errors import OUT_OF_MEMORY, CudaError

RESIDENT = 4  # blocks of a multiprocessor: registers of kernels with loops allow about so many
MOST_BYTES = 2**30
STREAMS = 4  # that have memory at a time

_kept: WeakKeyDictionary[Device, dict[int, tuple[int, int]]] = WeakKeyDictionary()
_lock = threading.Lock()


@contextmanager
def scratch(device: Device, each: int, blocks: int, stream: int) -> Iterator[tuple[int, int]]:
    """(address, number of blocks): memory of `each` bytes a block for at most so many, for a kernel that is
    given to the stream inside. Raises CudaError."""
    most = max(1, min(blocks, RESIDENT * device.processors, MOST_BYTES // each))
    with _lock:
        kept = _kept.setdefault(device, {})
        address, size = kept.pop(stream, (0, 0))
        if size < most * each:
            if size:
                device.free("memory", address)
            while len(kept) >= STREAMS:
                device.free("memory", kept.pop(next(iter(kept)))[0])
            address, size = _allocated(device, each, most)
        kept[stream] = address, size
        yield address, min(most, size // each)


def _allocated(device, each, blocks):
    """(address, bytes) for so many blocks, or fewer where memory is short."""
    while True:
        try:
            return device.memory(blocks * each), blocks * each
        except CudaError as error:
            if error.number != OUT_OF_MEMORY or blocks == 1:
                raise
        blocks //= 2
