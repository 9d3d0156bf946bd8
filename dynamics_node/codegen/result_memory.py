"""Memory for the results of many states, used again once nothing refers to it.

The first write to a page of new memory takes a microsecond, which for a batch of derivatives is more than the
computation. An array on a block has the block as its `base`, as all views of it have. So the number of
references to a block shows whether results on it are in use.
"""

import math
import sys

import numpy as np

LARGE = 256 << 10  # bytes; smaller arrays come from memory that the process has
MOST_BYTES, MOST_BLOCKS = 64 << 20, 16  # of all blocks, in use or not
ALONE = 2  # references to a block: the variable here, and the argument of getrefcount
_blocks: list[np.ndarray] = []  # append and pop are atomic: a block belongs to the thread that has taken it


def new_array(shape, dtype=np.float64) -> np.ndarray:
    """An array with undefined content, as of `np.empty`."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    if not LARGE <= size <= MOST_BYTES:
        return np.empty(shape, dtype)
    block = _unused(size)
    if block is None:
        block = np.empty(size, np.uint8)
    array = np.ndarray(shape, dtype, block)
    _blocks.append(block)
    while len(_blocks) > MOST_BLOCKS or sum(block.nbytes for block in tuple(_blocks)) > MOST_BYTES:
        _take()
    return array


def _unused(size):
    """A block of about this size without results in use, taken from the list; None if there is none."""
    for _ in range(len(_blocks)):
        block = _take()
        if block is None:
            return None
        if size <= block.nbytes <= 2 * size and sys.getrefcount(block) == ALONE:
            return block
        _blocks.append(block)
    return None


def _take():
    """The oldest block, or None: another thread may have taken the last one."""
    try:
        return _blocks.pop(0)
    except IndexError:
        return None
