"""ld and st: parameters, global, shared and local memory, with every check."""

import numpy as np

from .faults import unknown
from .shadow import Shadow, Threads
from .text import TYPES, names, place
from .traffic import sectors, wavefronts

_SPACES = ("param", "global", "shared", "local")
_WIDTHS = {"v2": 2, "v4": 4}
_HARMLESS = {"nc", "volatile", "relaxed", "L1", "no_allocate", "evict_first", "evict_last"}


class Accesses:
    """The memories of some blocks that run together."""

    def __init__(self, kernel, lanes, memory, arguments, report):
        self.lanes, self.memory, self.report = lanes, memory, report
        self.arguments = dict(zip(kernel.parameters, arguments, strict=True))
        self.parameters = kernel.parameters
        # Blocks lie one behind the other, on whole numbers of 16 bytes
        self.shared_size = kernel.shared.size
        self.shared_each = -(-self.shared_size // 16) * 16
        self.shared = np.zeros(lanes.blocks * self.shared_each, np.uint8)
        words = lanes.blocks * self.shared_each // 4
        self.shadow = Shadow(words, np.zeros(words, bool))
        self.local_size = kernel.local.size
        self.local_each = -(-self.local_size // 16) * 16
        self.local = np.zeros(lanes.count * self.local_each, np.uint8)
        self.local_written = np.zeros(len(self.local) // 4, bool)
        self.epoch = np.zeros(lanes.count, np.int64)
        self.warp_epoch = np.zeros(lanes.count, np.int64)

    def run(self, at, instruction, mask):
        """One ld or st, number `at` of the code, of the threads of the mask (None: all)."""
        space = next((m for m in instruction.modifiers if m in _SPACES), None)
        known = {space, *_WIDTHS, *_HARMLESS, *TYPES}
        if space is None or not set(instruction.modifiers) <= known:
            raise unknown(instruction)
        where, value = instruction.operands if instruction.name == "st" else instruction.operands[::-1]
        base, offset = place(where)
        if space == "param":
            return self._parameter(base, offset, value, mask, instruction)
        idle = mask is not None and not mask.any()
        if idle:
            return None
        lanes = np.arange(self.lanes.count) if mask is None else np.flatnonzero(mask)
        addresses = self._addresses(base, instruction)[lanes] + offset
        bytes_each = instruction.type.itemsize * len(names(value))
        if instruction.type.itemsize < 4:
            raise unknown(instruction)
        return getattr(self, f"_{space}")(at, instruction, lanes, addresses, bytes_each, value, mask)

    def _parameter(self, name, offset, value, mask, instruction):
        if name not in self.arguments or offset or instruction.name != "ld":
            raise unknown(instruction)
        argument = np.asarray(self.arguments[name], self.parameters[name])
        if argument.dtype != instruction.type:
            argument = argument.view(instruction.type)
        self.lanes.write(value, argument, mask, instruction)

    def _addresses(self, base, instruction):
        register = self.lanes.registers.get(base)
        wide = register is None or register.dtype.itemsize == 8
        return self.lanes.read(base, np.dtype("u8" if wide else "u4"), instruction).astype(np.int64)

    def _global(self, at, instruction, lanes, addresses, size, value, mask):
        self.report.count(at, instruction, "global", *sectors(self.lanes.warp[lanes], addresses))
        found = self._new(instruction, value)
        for region, some in self.memory.parts(addresses):
            if region is None:
                raise self.lanes.fault([True], lanes[some], "an address that is no memory", instruction)
            offsets = addresses[some] - region.address
            self._inside(offsets, size, len(region), lanes[some], "the array in global memory", instruction)
            words = _words(offsets, size)
            if "nc" in instruction.modifiers:
                self._judge(
                    ("ld.global.nc reads what this launch writes", region.shadow.written(words)),
                    lanes[some],
                    instruction,
                )
            self._mark(region.shadow, words, lanes[some], instruction)
            self._move(region.view(instruction.type), offsets, lanes[some], instruction, value, found)
        self._loaded(found, value, mask, instruction)

    def _shared(self, at, instruction, lanes, addresses, size, value, mask):
        self._inside(addresses, size, self.shared_size, lanes, "shared memory", instruction)
        warp, lane = self.lanes.warp[lanes], self.lanes.lane[lanes]
        self.report.count(at, instruction, "shared", *wavefronts(warp, lane, addresses, size))
        offsets = addresses + self.lanes.row[lanes] * self.shared_each
        self._mark(self.shadow, _words(offsets, size), lanes, instruction)
        found = self._new(instruction, value)
        self._move(self.shared.view(instruction.type), offsets, lanes, instruction, value, found)
        self._loaded(found, value, mask, instruction)

    def _local(self, at, instruction, lanes, addresses, size, value, mask):
        self._inside(addresses, size, self.local_size, lanes, "local memory", instruction)
        offsets = addresses + lanes * self.local_each
        words = _words(offsets, size)
        if instruction.name == "st":
            self.local_written[words] = True
        fresh = ~self.local_written[words].all(1)
        self._judge(("reads local memory that nothing was written to", fresh), lanes, instruction)
        found = self._new(instruction, value)
        self._move(self.local.view(instruction.type), offsets, lanes, instruction, value, found)
        self._loaded(found, value, mask, instruction)

    def _inside(self, offsets, size, all_bytes, lanes, memory, instruction):
        over = np.maximum(-offsets, offsets + size - all_bytes)
        if (over > 0).any():
            worst = int(over.max())
            what = f"outside of {memory} ({all_bytes} bytes) by {worst}"
            raise self.lanes.fault(over == worst, lanes, what, instruction)
        self._judge((f"misaligned: not a multiple of {size} bytes", offsets % size != 0), lanes, instruction)

    def _mark(self, shadow, words, lanes, instruction):
        of = self.lanes
        numbers = (of.thread, of.warp, of.block, self.epoch, self.warp_epoch)
        who = Threads(*(number[lanes, None] for number in numbers))
        wrong = (shadow.store if instruction.name == "st" else shadow.load)(words, who)
        if wrong:
            self._judge(wrong, lanes, instruction)

    def _judge(self, wrong, lanes, instruction):
        what, bad = wrong
        if bad.any():
            raise self.lanes.fault(bad, lanes, what, instruction)

    def _new(self, instruction, value):
        """Room for what a load finds, one array a register."""
        if instruction.name == "st":
            return None
        return np.zeros((len(names(value)), self.lanes.count), instruction.type)

    def _move(self, memory, offsets, lanes, instruction, value, found):
        first = offsets // instruction.type.itemsize
        for k, name in enumerate(names(value)):
            if found is None:
                memory[first + k] = self.lanes.read(name, instruction.type, instruction)[lanes]
            else:
                found[k, lanes] = memory[first + k]

    def _loaded(self, found, value, mask, instruction):
        for k, name in enumerate(names(value) if found is not None else ()):
            self.lanes.write(name, found[k], mask, instruction)


def _words(offsets, size):
    """The 4-byte words of accesses, (lanes, words of each)."""
    return offsets[:, None] // 4 + np.arange(size // 4)
