"""The threads of some blocks side by side: who they are, their registers, and how operands are read and
written."""

import numpy as np

from .faults import Fault, unknown
from .text import names

WARP = 32


class Lanes:
    """`blocks` blocks of `threads` threads from block `first` of a grid on; one entry of every array is one
    thread.

    thread, warp and block count through the grid, so that marks in global memory tell all of them apart;
    `row` is the block's number among these, and `column` the thread's in its block.
    """

    def __init__(self, kernel, grid, threads, first, blocks):
        self.count, self.blocks, self.threads = blocks * threads, blocks, threads
        self.row, self.column = np.divmod(np.arange(self.count), threads)
        self.block = self.row + first
        self.thread = self.block * threads + self.column
        self.warp = self.block * -(-threads // WARP) + self.column // WARP
        self.lane = self.column % WARP
        self.odd = self.lane % 2 == 1
        self._first_of_warp = np.flatnonzero(np.diff(self.warp, prepend=-1))
        self.kernel = kernel
        self.registers = {name: np.zeros(self.count, kind) for name, kind in kernel.registers.items()}
        self.special = self._special(grid)
        self._same = {}  # what was read of operands that no instruction writes, by operand and dtype

    def warps(self, active):
        """How many warps have an active thread; None: all are."""
        if active is None:
            return len(self._first_of_warp)
        return int(np.count_nonzero(np.logical_or.reduceat(active, self._first_of_warp)))

    def _special(self, grid):
        """tid, ntid, ctaid, nctaid in three directions (of which we use x), laneid."""
        found = {"%laneid": self.lane.astype(np.uint32)}
        for axis, (thread, threads, block, blocks) in {
            "x": (self.column, self.threads, self.block, grid),
            "y": (0, 1, 0, 1),
            "z": (0, 1, 0, 1),
        }.items():
            for name, value in ("tid", thread), ("ntid", threads), ("ctaid", block), ("nctaid", blocks):
                found[f"%{name}.{axis}"] = np.asarray(value, np.uint32)
        return found

    def read(self, operand, dtype, instruction):
        """The value of an operand as dtype, (count,)."""
        value = self.registers.get(operand)
        if value is None:
            value = self._same.get((operand, dtype))
        if value is None:
            value = np.broadcast_to(self._constant(operand, dtype, instruction), (self.count,))
            value = self._same[operand, dtype] = _low_bits(value, dtype, instruction)
        return value if value.dtype == dtype else _low_bits(value, dtype, instruction)

    def _constant(self, operand, dtype, instruction):
        if operand in self.special:
            return self.special[operand]
        if operand[:2] == "0f":
            return np.asarray(int(operand[2:], 16), np.uint32).view(np.float32)
        if operand[:2] == "0d":
            return np.asarray(int(operand[2:], 16), np.uint64).view(np.float64)
        for space in (self.kernel.shared, self.kernel.local):
            if operand in space.places:
                return np.asarray(space.places[operand], dtype)
        try:
            number = int(operand.rstrip("U"), 0)
        except ValueError:
            raise unknown(instruction) from None
        bits = 8 * dtype.itemsize
        return np.asarray(number % (1 << bits), f"u{dtype.itemsize}").view(dtype)

    def write(self, operand, value, mask, instruction):
        """Put a value into a register, of the threads of the mask (None: all)."""
        if operand not in self.registers:
            if operand == "_":
                return
            raise unknown(instruction)
        old = self.registers[operand]
        if value.shape != old.shape:
            value = np.broadcast_to(value, old.shape)
        if value.dtype != old.dtype:
            value = _fitted(value, old.dtype, instruction)
        self.registers[operand] = value if mask is None else np.where(mask, value, old)

    def guard(self, instruction):
        """Which threads execute the instruction by its guard; None: all."""
        if instruction.guard is None:
            return None
        chosen = self.registers[instruction.guard]
        return ~chosen if instruction.negated else chosen

    def pack(self, operand, instruction):
        """`{%r1, %r2}` -> one number of twice the bits, the first lowest."""
        low, high = (
            self.read(name, np.dtype("u4"), instruction).astype(np.uint64) for name in names(operand)
        )
        return low | high << np.uint64(32)

    def unpack(self, operand, value, mask, instruction):
        """The other way."""
        low, high = names(operand)
        self.write(low, (value & np.uint64(0xFFFFFFFF)).astype(np.uint32), mask, instruction)
        self.write(high, (value >> np.uint64(32)).astype(np.uint32), mask, instruction)

    def who(self, lane):
        """A thread in words."""
        return f"thread {self.column[lane]} of block {self.block[lane]}"

    def fault(self, bad, lanes, what, instruction):
        """The Fault of the first of the lanes that is bad."""
        lane = int(np.asarray(lanes)[np.argmax(bad)])
        return Fault(f"{what}, {self.who(lane)}: {instruction.text}")


def _low_bits(value, dtype, instruction):
    """A value, of a wider register too, as another type."""
    if value.dtype == dtype:
        return value
    if value.dtype.itemsize < dtype.itemsize or bool in (value.dtype, dtype):
        raise unknown(instruction)
    if value.dtype.itemsize > dtype.itemsize:
        value = value.view(f"u{value.dtype.itemsize}").astype(f"u{dtype.itemsize}")
    return value.view(dtype)


def _fitted(value, dtype, instruction):
    """A value for a register of the same bits, or of more: signed numbers keep their sign."""
    if bool in (value.dtype, dtype) or value.dtype.itemsize > dtype.itemsize:
        raise unknown(instruction)
    if value.dtype.itemsize == dtype.itemsize:
        return value.view(dtype)
    if value.dtype.kind == "f":
        raise unknown(instruction)
    return value.astype(dtype)
