"""Threads that wait for each other: `bar.sync 0` for those of a block, `bar.warp.sync -1` for those of a
warp."""

import numpy as np

from .faults import Fault, unknown


class Barriers:
    """Which threads wait, and at which instruction."""

    def __init__(self, lanes, accesses, report):
        self.lanes, self.accesses, self.report = lanes, accesses, report
        self.waits_at = np.full(lanes.count, -1)
        self.left = np.zeros(lanes.count, bool)
        self.warps = lanes.warp - lanes.warp[0]

    def kind(self, instruction):
        """The number of the group of every thread, and the count of barriers that it raises."""
        words, operands = instruction.modifiers, instruction.operands
        if words in (("sync",), ("cta", "sync"), ("sync", "aligned")) and operands == ("0",):
            return self.lanes.row, self.accesses.epoch
        if words == ("warp", "sync") and operands in (("-1",), ("0xffffffff",)):
            return self.warps, self.accesses.warp_epoch
        raise unknown(instruction)

    def arrive(self, at, instruction, here):
        """Threads `here` reach the barrier, instruction `at`; those, (count,) of bool, that may go on."""
        group, epoch = self.kind(instruction)
        self.waits_at[here] = at
        waiting = self.waits_at == at
        complete = np.bincount(group[waiting], minlength=group[-1] + 1) == np.bincount(group)
        free = waiting & complete[group]
        self.waits_at[free] = -1
        epoch[free] += 1
        self.report.barriers += int(complete.sum())
        return free

    def leave(self, here):
        """Threads return."""
        self.left[here] = True

    def end(self, code):
        """All that could run has run: nobody may wait."""
        waiting = self.waits_at >= 0
        if not waiting.any():
            return
        lane = int(np.argmax(waiting))
        instruction = code[self.waits_at[lane]]
        group, _ = self.kind(instruction)
        others = group == group[lane]
        why = (
            "that some of them left behind by returning" if self.left[others].any() else "and at another one"
        )
        raise Fault(f"threads wait at a barrier {why}, {self.lanes.who(lane)}: {instruction.text}")
