"""How long compiled code keeps a scheduler busy: a model of one of them, cycle by cycle, on the stalls and
scoreboards that the compiler wrote.

Every instruction is taken to be executed once, in order. Instruction supply is taken as perfect; launches and
ends of grids are left out. It orders kernels, and its figures are to be compared with measured ones.
"""

from collections.abc import Sequence

from dynamics_node.codegen.cuda.processors import QUARTERS, Processor
from dynamics_node.codegen.cuda.sass import NO_BOARD, Instruction

GLOBAL = 800  # cycles until a number from global memory is there, when many ask
OTHERS = 20  # cycles until others are there
NEXT_BLOCK = 200  # cycles from a warp's end to the next one's beginning
_LATENCY = {"LDG": GLOBAL, "LDL": 200, "LDS": 30, "LDC": 40, "MUFU": 24}
_WAVES = 8  # blocks one after the other in every place; the first two are not counted


def cycles_of_a_warp(code: Sequence[Instruction], processor: Processor, resident: int) -> float:
    """Cycles a warp costs one scheduler, of a multiprocessor with so many of them at a time: each instruction
    waits for the scoreboards and stalls that the compiler wrote, and for its pipe; of the warps that are
    ready the last one goes on, else the one that is farthest behind. A warp that ends is followed by another
    one."""
    warps = max(1, resident // QUARTERS)
    states = [_Warp(code, k * len(code) // warps) for k in range(warps)]
    free = dict.fromkeys(processor.cycles, 0) | {"": 0}
    issues, settled = _WAVES * warps * len(code), 2 * warps * len(code)
    time, began, last = 0, 0, states[0]
    for issue in range(issues):
        time = max(time, min(warp.ready(free) for warp in states))
        if last.when > time:
            last = min((warp for warp in states if warp.when <= time), key=lambda warp: warp.place)
        last.issue(time, processor.cycles, free)
        time += 1
        if issue == settled - 1:
            began = time
    return (time - began) / (issues - settled) * len(code)


class _Warp:
    """Where a warp is, when it may go on, and when each of its scoreboards is ready."""

    def __init__(self, code, place):
        self.code, self.place, self.next, self.when, self.boards = code, place, 0, 0, [0] * 6

    def ready(self, free):
        """When its next instruction can be issued."""
        instruction = self.code[self.place]
        when = max(self.next, free[instruction.pipe])
        if instruction.waits:
            when = max(when, *(at for k, at in enumerate(self.boards) if instruction.waits >> k & 1))
        self.when = when
        return when

    def issue(self, now, cycles, free):
        instruction = self.code[self.place]
        if pipe := instruction.pipe:
            free[pipe] = now + cycles[pipe] * instruction.parts
            if pipe in ("fma", "heavy"):  # one half of the lanes serves both
                free["heavy"] = max(free["heavy"], now + cycles["fma"])
        latency = _LATENCY.get(instruction.op, OTHERS)
        if instruction.sets != NO_BOARD:
            self.boards[instruction.sets] = max(self.boards[instruction.sets], now + latency)
        if instruction.reads != NO_BOARD:
            self.boards[instruction.reads] = max(self.boards[instruction.reads], now + min(latency, OTHERS))
        self.next = now + max(1, instruction.stall)
        self.place += 1
        if self.place == len(self.code):
            self.place, self.next, self.boards = 0, now + 1 + NEXT_BLOCK, [0] * 6
