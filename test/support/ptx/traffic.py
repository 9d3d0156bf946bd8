"""How many pieces memory moves for one instruction of a warp."""

from functools import lru_cache

import numpy as np

SECTOR, BANKS, WORD = 32, 32, 4


def sectors(warp, addresses):
    """(requests, sectors): different sectors of 32 bytes of global memory that each warp touches. NumPy
    integers, (lanes,)."""
    return len(np.unique(warp)), len(_different(warp, addresses // SECTOR)[0])


def wavefronts(warp, lane, addresses, size):
    """(requests, wavefronts) of shared memory: a request has as many wavefronts as different words fall
    into one of the 32 banks. Lanes with 8 (16) bytes each are served in two (four) parts of a warp, which
    count as requests of their own."""
    row = BANKS * WORD
    moved = addresses - addresses.min() // row * row  # the same banks, and often met before
    return _wavefronts(warp.tobytes(), lane.tobytes(), moved.tobytes(), size)


@lru_cache(maxsize=4096)
def _wavefronts(warp, lane, addresses, size):
    """Arrays of int64 as bytes."""
    warp, lane, addresses = (np.frombuffer(array, np.int64) for array in (warp, lane, addresses))
    lanes = BANKS * WORD // max(size, WORD)
    part = warp * (BANKS // lanes) + lane // lanes
    part, word, _ = _different(part, addresses // WORD)
    part, _, words_each = _different(part, word % BANKS)
    first = np.flatnonzero(np.diff(part, prepend=-1))
    return len(first), int(np.maximum.reduceat(words_each, first).sum())


def _different(a, b):
    """The different pairs of two arrays of integers, in order, as two arrays, and how often each occurs."""
    least = b.min()
    width = b.max() - least + 1
    pairs, times = np.unique(a * width + (b - least), return_counts=True)
    a, b = np.divmod(pairs, width)
    return a, b + least, times
