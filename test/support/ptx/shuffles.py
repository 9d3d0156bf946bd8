"""shfl.sync: registers from other threads of the warp."""

import numpy as np

from .faults import Fault, unknown
from .lanes import WARP

_U4 = np.dtype("u4")


def shuffle(lanes, instruction, mask):
    """`shfl.sync.mode.b32 d|p, a, b, c, members`: every thread that is named must be here."""
    modifiers, operands = instruction.modifiers, instruction.operands
    if len(modifiers) != 3 or modifiers[0] != "sync" or modifiers[2] != "b32" or len(operands) != 5:
        raise unknown(instruction)
    here = np.ones(lanes.count, bool) if mask is None else mask
    value, by, control, members = (lanes.read(x, _U4, instruction).astype(np.int64) for x in operands[1:])
    _all_here(lanes, instruction, here, members)
    source, inside = _sources(modifiers[1], lanes.lane, by, control, instruction)
    at = np.arange(lanes.count) - lanes.lane + source
    there = (source < WARP) & (at < lanes.count)
    at = np.where(there, at, 0)
    there &= here[at] & (lanes.warp[at] == lanes.warp)
    if (here & ~there).any():
        raise lanes.fault(
            here & ~there, np.arange(lanes.count), "a shuffle reads a thread that is not there", instruction
        )
    destination, _, found = operands[0].partition("|")
    lanes.write(destination, value[at].astype(np.uint32), mask, instruction)
    if found:
        lanes.write(found, inside, mask, instruction)


def _all_here(lanes, instruction, here, members):
    present = np.zeros(lanes.warp.max() + 1, np.int64)
    np.bitwise_or.at(present, lanes.warp[here], 1 << lanes.lane[here])
    elsewhere = here & (members & ~present[lanes.warp] != 0)
    absent = here & (members >> lanes.lane & 1 == 0)
    for bad, what in (
        (elsewhere, "names threads that are elsewhere"),
        (absent, "leaves out a thread that executes it"),
    ):
        if bad.any():
            raise Fault(f"a shuffle whose mask {what}, {lanes.who(int(np.argmax(bad)))}: {instruction.text}")


def _sources(mode, lane, by, control, instruction):
    """The lane that each reads, its own where the other is outside of its segment; and whether it was
    inside."""
    clamp, segment = control & 31, control >> 8 & 31
    low = lane & segment
    high = low | clamp & ~segment
    by = by & 31
    wanted = {"up": lane - by, "down": lane + by, "bfly": lane ^ by, "idx": low | by & ~segment}
    if mode not in wanted:
        raise unknown(instruction)
    inside = wanted[mode] >= high if mode == "up" else wanted[mode] <= high
    return np.where(inside, wanted[mode], lane), inside
