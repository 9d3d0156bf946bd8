"""How many states a second a kernel can reach, from its instructions: bounds by pipes and by memory, and a
model of one scheduler.

All instructions are taken to be executed once, in order. Instruction supply is taken as perfect, and clocks
as the highest; launches and tails of grids are left out. So these are figures to be compared with measured
ones, not promises.
"""

from collections import Counter

from gpu_cards import QUARTERS, WARP
from gpu_sass import NO_BARRIER

_PIPES = {
    "fma": "FFMA FMUL FADD",
    "heavy": "IMAD",
    "fp64": "DFMA DMUL DADD DSETP",
    "special": "MUFU F2I I2F F2F FRND POPC",
    "alu": "LOP3 ISETP IADD3 VIADD SHF LEA SEL FSEL FSETP FMNMX MOV PRMT PLOP3 VOTE VIMNMX CS2R SGXT IABS",
    "memory": "LDG STG LDS STS LDL STL LDC LD ST SHFL",
}
PIPE = {op: pipe for pipe, ops in _PIPES.items() for op in ops.split()}
GLOBAL = 800  # cycles until a number from global memory is there, when many ask
_LATENCY = {
    "LDG": GLOBAL,
    "LD": GLOBAL,
    "LDL": 200,
    "LDS": 30,
    "LDC": 40,
    "MUFU": 24,
    "F2I": 24,
    "I2F": 24,
    "SHFL": 25,
}
_OTHERS, _OPERANDS_READ, _NEXT_BLOCK = 20, 20, 200  # cycles
_WAVES = 8  # blocks one after the other in every place; the first two are not counted


def cycles_by_pipe(code, kind):
    """Cycles that each pipe of a partition takes for one warp; `issue`: those of the scheduler."""
    found = Counter({"issue": len(code)})
    for instruction in code:
        if pipe := PIPE.get(instruction.op):
            found[pipe] += kind.cycles[pipe] * _parts(instruction)
    return dict(found)


def _parts(instruction):
    """Of accesses of 8 and 16 bytes a thread."""
    wide = {".64": 2, ".128": 4}
    if PIPE.get(instruction.op) != "memory" or instruction.op == "LDC":
        return 1
    return next((parts for suffix, parts in wide.items() if instruction.suffix.endswith(suffix)), 1)


def pipe_bound(code, card):
    """States a second if the busiest pipe never waits; and its name."""
    cycles = cycles_by_pipe(code, card.kind)
    busiest = max(cycles, key=cycles.get)
    return card.issues * WARP / cycles[busiest], busiest


def memory_bound(bytes_of_state, card):
    """States a second that memory carries at the rate of the data sheet."""
    return card.bandwidth / bytes_of_state


def cycles_of_a_warp(code, kind, resident):
    """Cycles a warp costs one scheduler, of a multiprocessor with so many of them at a time: each
    instruction waits for the scoreboards and stalls that the compiler wrote, and for its pipe; of the warps
    that are ready the last one goes on, else the one that is farthest behind. A warp that ends is followed
    by another one."""
    warps = max(1, resident // QUARTERS)
    states = [_Warp(k * len(code) // warps) for k in range(warps)]
    free = dict.fromkeys(kind.cycles, 0)
    issues, settled = _WAVES * warps * len(code), 2 * warps * len(code)
    time, began, last = 0, 0, states[0]
    for issue in range(issues):
        time = max(time, min(warp.ready(code, free) for warp in states))
        if last.when > time:
            last = min((warp for warp in states if warp.when <= time), key=lambda warp: warp.place)
        last.issue(code[last.place], time, kind, free)
        time += 1
        if last.place == len(code):
            last.restart(time)
        if issue == settled - 1:
            began = time
    return (time - began) / (issues - settled) * len(code)


class _Warp:
    """Where a warp is, when it may go on, and when each of its scoreboards is ready."""

    def __init__(self, place):
        self.place, self.next, self.when, self.boards = place, 0, 0, [0] * 6

    def ready(self, code, free):
        """When its next instruction can be issued."""
        instruction = code[self.place]
        when = max(self.next, free.get(PIPE.get(instruction.op), 0))
        if instruction.waits:
            when = max(when, *(at for k, at in enumerate(self.boards) if instruction.waits >> k & 1))
        self.when = when
        return when

    def issue(self, instruction, now, kind, free):
        pipe = PIPE.get(instruction.op)
        if pipe:
            free[pipe] = now + kind.cycles[pipe] * _parts(instruction)
        if pipe in ("fma", "heavy"):  # one half of the lanes serves both
            free["heavy"] = max(free["heavy"], now + kind.cycles["fma"])
        latency = _LATENCY.get(instruction.op, _OTHERS)
        if instruction.sets != NO_BARRIER:
            self.boards[instruction.sets] = max(self.boards[instruction.sets], now + latency)
        if instruction.reads != NO_BARRIER:
            self.boards[instruction.reads] = max(
                self.boards[instruction.reads], now + min(latency, _OPERANDS_READ)
            )
        self.next = now + max(1, instruction.stall)
        self.place += 1

    def restart(self, now):
        self.place, self.next, self.boards = 0, now + _NEXT_BLOCK, [0] * 6
