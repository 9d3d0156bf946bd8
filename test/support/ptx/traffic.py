"""How many pieces memory moves for one instruction of a warp."""

import numpy as np

SECTOR, BANKS, WORD = 32, 32, 4


def sectors(warp, addresses):
    """(requests, sectors): different sectors of 32 bytes of global memory that each warp touches. NumPy
    integers, (lanes,)."""
    touched = np.unique(np.stack([warp, addresses // SECTOR]), axis=1)
    return len(np.unique(warp)), touched.shape[1]


def wavefronts(warp, lane, addresses, size):
    """(requests, wavefronts) of shared memory: a request has as many wavefronts as different words fall
    into one of the 32 banks. Lanes with 8 (16) bytes each are served in two (four) parts of a warp, which
    count as requests of their own."""
    lanes = BANKS * WORD // max(size, WORD)
    part = warp * (BANKS // lanes) + lane // lanes
    words = np.unique(np.stack([part, addresses // WORD]), axis=1)
    banks, words_each = np.unique(np.stack([words[0], words[1] % BANKS]), axis=1, return_counts=True)
    parts, first = np.unique(banks[0], return_index=True)
    return len(parts), int(np.maximum.reduceat(words_each, first).sum())
