"""Memory for the results of many states, used again once nothing refers to it.

The first write to a page of new memory takes a microsecond, which for a batch of derivatives is more than the
computation. An array on a block of memory has a _Lease as its base, and so do all its views. When the last
of them ends, the lease ends, and the block is free for the next array.
"""

import math
from contextlib import suppress

import numpy as np

LARGE = 256 << 10  # bytes; smaller arrays come from memory that the process has
ALIGNED = 64  # bytes
MOST_BYTES, MOST_BLOCKS = 64 << 20, 16  # of free blocks
_free: list[np.ndarray] = []  # append and pop are atomic: a block belongs to the thread that has taken it


def _give_back(block, free=_free, most_bytes=MOST_BYTES, most_blocks=MOST_BLOCKS):
    """Add a block to the free ones, which may drop the oldest. Globals are arguments: they may be gone at the
    end of the interpreter."""
    free.append(block)
    with suppress(IndexError):  # another thread may have taken the last one
        while len(free) > most_blocks or sum(block.nbytes for block in tuple(free)) > most_bytes:
            free.pop(0)


class _Lease:
    """The base of an array on a block. To count references to the block would depend on the interpreter:
    Python 3.14 lends references without counting them."""

    def __init__(self, block, shape, dtype):
        self._block = block
        self.__array_interface__ = {
            "version": 3,
            "shape": shape,
            "typestr": np.dtype(dtype).str,
            "data": (block.ctypes.data, False),
        }

    def __del__(self, give_back=_give_back):
        give_back(self._block)


def new_array(shape, dtype=np.float64) -> np.ndarray:
    """An array with undefined content, as of `np.empty`."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    if not LARGE <= size <= MOST_BYTES:
        return np.empty(shape, dtype)
    block = _free_block(size)
    return np.asarray(_Lease(_new_block(size) if block is None else block, shape, dtype))


def _new_block(size):
    """A block that begins at a multiple of ALIGNED, so that whole vectors are stored past the caches."""
    memory = np.empty(size + ALIGNED, np.uint8)
    start = -memory.ctypes.data % ALIGNED
    return memory[start : start + size]


def _free_block(size):
    """A free block of about this size, taken from the list; None if there is none."""
    for _ in range(len(_free)):
        try:
            block = _free.pop(0)
        except IndexError:  # another thread has taken the last one
            return None
        if size <= block.nbytes <= 2 * size:
            return block
        _free.append(block)
    return None
