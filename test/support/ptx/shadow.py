"""Who touched each 4-byte word of a memory, and after which barriers: what races are found by.

Two accesses of one word by two threads, one of them a store, must have a barrier of their block between
them, or one of their warp. Epochs count the barriers that a thread has passed: so what is found does not
depend on the order in which threads ran here.
"""

from typing import NamedTuple

import numpy as np

NOBODY, SEVERAL = -1, -2


class Threads(NamedTuple):
    """Who accesses, (lanes, 1): numbers in the grid, and how many barriers of the block and of the warp are
    behind."""

    thread: np.ndarray
    warp: np.ndarray
    block: np.ndarray
    epoch: np.ndarray
    warp_epoch: np.ndarray


class _Marks:
    """The last accesses of one sort to every word."""

    def __init__(self, words):
        self.thread, self.warp, self.block, self.epoch, self.warp_epoch = np.full(
            (5, words), NOBODY, np.int64
        )

    def _before(self, words, who):
        """A barrier lies between."""
        block = (self.block[words] == who.block) & (self.epoch[words] < who.epoch)
        warp = (self.warp[words] == who.warp) & (self.warp_epoch[words] < who.warp_epoch)
        return block | warp

    def concurrent(self, words, who):
        """Another thread's, with no barrier between."""
        thread = self.thread[words]
        return (thread != NOBODY) & (thread != who.thread) & ~self._before(words, who)

    def put(self, words, who):
        """These accesses in place of earlier ones; whether two threads had one word."""
        for marks, value in zip(
            (self.thread, self.warp, self.block, self.epoch, self.warp_epoch), who, strict=True
        ):
            marks[words] = value
        return self.thread[words] != who.thread

    def add(self, words, who):
        """These accesses beside earlier ones that no barrier of the block separates from them."""
        gone = (self.thread[words] == NOBODY) | (self.block[words] == who.block) & (
            self.epoch[words] < who.epoch
        )
        for marks, value in (self.thread, who.thread), (self.warp, who.warp), (self.block, who.block):
            old = marks[words]
            new = np.where(gone | (old == value), value, SEVERAL)
            marks[words] = new
            marks[words[marks[words] != new]] = SEVERAL  # several lanes of this very instruction
        self.epoch[words] = np.where(gone, who.epoch, np.maximum(self.epoch[words], who.epoch))
        self.warp_epoch[words] = np.where(
            gone, who.warp_epoch, np.maximum(self.warp_epoch[words], who.warp_epoch)
        )


class Shadow:
    """The marks of a memory of so many words; `initialised`: which were ever written (shared with the
    caller)."""

    def __init__(self, words, initialised):
        self.initialised = initialised
        self.writes, self.reads = _Marks(words), _Marks(words)

    def load(self, words, who):
        """Note loads of words (lanes, words of each); what is wrong about which: (text, (lanes,)) or None."""
        fresh = ~self.initialised[words]
        if fresh.any():
            return "reads what nothing was written to", fresh.any(1)
        race = self.writes.concurrent(words, who)
        self.reads.add(words, who)
        return ("race: reads what another thread writes", race.any(1)) if race.any() else None

    def store(self, words, who):
        """Note stores."""
        race = self.writes.concurrent(words, who) | self.reads.concurrent(words, who)
        twice = self.writes.put(words, who)
        self.initialised[words] = True
        if twice.any():
            return "race: two threads write the same number", twice.any(1)
        return ("race: writes what another thread reads or writes", race.any(1)) if race.any() else None

    def written(self, words):
        """Whether a store of this run reached the words, (lanes,)."""
        return (self.writes.thread[words] != NOBODY).any(1)
