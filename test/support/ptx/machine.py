"""Blocks of threads through the instructions of a kernel, the lowest place in the code first."""

import numpy as np

from .accesses import Accesses
from .barriers import Barriers
from .faults import Fault, unknown
from .lanes import Lanes
from .registers import execute
from .report import Report
from .text import parse

_TOGETHER = 64  # blocks
_MOST_THREADS, _MOST_SHARED = 1024, 232448  # of a block; bytes: cc 9.0


def run(text, name, grid, block, arguments, memory, shared=0):
    """Launch kernel `name` of PTX `text`: `grid` blocks of `block` threads, one argument a parameter: a
    number, or an address of `memory`, a Memory; `shared`: bytes of shared memory beside those that the
    kernel declares. -> Report; Fault where the kernel does what it must not."""
    kernel = _found(parse(text), name)
    kernel.shared.size += shared
    if not grid > 0 or not 0 < block <= min(kernel.most or _MOST_THREADS, _MOST_THREADS):
        raise Fault(
            f"{grid} blocks of {block} threads: {name} takes 1 to {kernel.most or _MOST_THREADS} threads"
        )
    if len(arguments) != len(kernel.parameters):
        raise Fault(f"{len(arguments)} arguments, {name} has {len(kernel.parameters)} parameters")
    if kernel.shared.size > _MOST_SHARED:
        raise Fault(f"{name} has {kernel.shared.size} bytes of shared memory, {_MOST_SHARED} at most")
    report = Report()
    tables = {table: memory.put(np.frombuffer(content, np.uint8)) for table, content in kernel.tables.items()}
    for region in memory.regions:
        region.begin()
    for first in range(0, grid, _TOGETHER):
        lanes = Lanes(kernel, grid, block, first, min(_TOGETHER, grid - first))
        lanes.special |= {table: np.asarray(address, np.uint64) for table, address in tables.items()}
        _Machine(kernel, lanes, Accesses(kernel, lanes, memory, arguments, report), report).run()
    return report


def _found(kernels, name):
    if name not in kernels:
        raise Fault(f"no kernel {name} in this module, but {', '.join(kernels) or 'none at all'}")
    return kernels[name]


class _Machine:
    """`at`: which threads are where in the code; None for all of them."""

    def __init__(self, kernel, lanes, accesses, report):
        self.code, self.labels = kernel.code, kernel.labels
        self.lanes, self.accesses, self.report = lanes, accesses, report
        self.barriers = Barriers(lanes, accesses, report)
        self.at = {0: None}

    def run(self):
        with np.errstate(all="ignore"):
            while self.at:
                place = min(self.at)
                self._step(place, self.at.pop(place))
        self.barriers.end(self.code)

    def _step(self, place, here):
        if place >= len(self.code):
            self.barriers.leave(slice(None) if here is None else here)
            return
        instruction = self.code[place]
        guard = self.lanes.guard(instruction)
        active = here if guard is None else guard if here is None else here & guard
        self.report.issued[instruction.words] += self.lanes.warps(here)
        if instruction.name == "bra":
            self._branch(place, instruction, here, active)
        elif instruction.name in ("ret", "exit"):
            self._go(place + 1, here, active)
            self.barriers.leave(slice(None) if active is None else active)
        elif instruction.name in ("bar", "barrier"):
            if guard is not None:
                raise unknown(instruction)
            everybody = np.ones(self.lanes.count, bool) if here is None else here
            free = self.barriers.arrive(place, instruction, everybody)
            self._join(place + 1, free)
        else:
            if instruction.name in ("ld", "st"):
                self.accesses.run(place, instruction, active)
            else:
                execute(self.lanes, instruction, active)
            self._join(place + 1, here)

    def _branch(self, place, instruction, here, active):
        target = self.labels.get(instruction.operands[0])
        if target is None or not set(instruction.modifiers) <= {"uni"}:
            raise unknown(instruction)
        self._join(target, active)
        self._go(place + 1, here, active)
        if active is not None:
            self.report.divergent += self._split(here, active)

    def _go(self, place, here, gone):
        """Those who are here and do not go elsewhere."""
        if gone is not None:
            self._join(place, ~gone if here is None else here & ~gone)

    def _split(self, here, active):
        """Warps of which some threads take a branch and some do not."""
        warps = self.lanes.warp - self.lanes.warp[0]
        all_here = np.bincount(warps if here is None else warps[here], minlength=warps[-1] + 1)
        taken = np.bincount(warps[active], minlength=warps[-1] + 1)
        return int(((taken > 0) & (taken < all_here)).sum())

    def _join(self, place, threads):
        """Threads come to a place in the code, where others may be already."""
        if threads is not None:
            if place in self.at:
                threads = threads | self.at[place]
            if not threads.any():
                return
            if threads.all():
                threads = None
        self.at[place] = threads
