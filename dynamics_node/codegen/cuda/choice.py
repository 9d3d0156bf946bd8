"""Which kernel of a Program is fastest: predicted from what NVRTC made of it, without a device.

A kernel without spills comes first. Of those that are left the one counts that costs a scheduler the fewest
cycles: a model of one scheduler, cycle by cycle, on the stall counts and scoreboards of the instructions
(SASS). Registers and shared memory say how many warps there are to wait for each other. Spills of so many
threads that they fall out of caches cost what memory takes for them.
"""

import hashlib
import json
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache, cached_property
from importlib.resources import files
from typing import NamedTuple

from dynamics_node.codegen.cache import read_entry, write_entry
from dynamics_node.codegen.cuda.nvrtc import Cubin, Nvrtc
from dynamics_node.codegen.errors import CompileError
from dynamics_node.codegen.printer import Kernel, Variant
from dynamics_node.symbolic import LoopProgram, Program, depth_first, most_alive

WARP = 32  # threads
QUARTERS = 4  # of a multiprocessor, each with a scheduler
REGISTERS = 65536  # of a multiprocessor
UNIT = 256  # registers of a warp come in such units
RESERVED = 1024  # bytes of shared memory that a block takes besides
_CYCLES = {"fma": 1, "heavy": 2, "alu": 2, "fp64": 2, "special": 8, "memory": 4}
_SMALL = {**_CYCLES, "fp64": 64}  # of cards for graphics
NO_BOARD = 7
_SECTIONS = ".text."
OPERATIONS = (  # low bits, name, pipe
    (0x20, "FMUL", "fma"),
    (0x21, "FADD", "fma"),
    (0x23, "FFMA", "fma"),
    (0x24, "IMAD", "heavy"),
    (0x25, "IMAD", "heavy"),
    (0x27, "IMAD", "heavy"),
    (0x28, "DMUL", "fp64"),
    (0x29, "DADD", "fp64"),
    (0x2A, "DSETP", "fp64"),
    (0x2B, "DFMA", "fp64"),
    (0x02, "MOV", "alu"),
    (0x07, "SEL", "alu"),
    (0x08, "FSEL", "alu"),
    (0x0B, "FSETP", "alu"),
    (0x0C, "ISETP", "alu"),
    (0x10, "IADD3", "alu"),
    (0x11, "LEA", "alu"),
    (0x12, "LOP3", "alu"),
    (0x17, "IMNMX", "alu"),
    (0x19, "SHF", "alu"),
    (0x36, "VIADD", "alu"),
    (0x48, "VIMNMX", "alu"),
    (0x108, "MUFU", "special"),
    (0x181, "LDG", "memory"),
    (0x182, "LDC", "memory"),
    (0x183, "LDL", "memory"),
    (0x184, "LDS", "memory"),
    (0x186, "STG", "memory"),
    (0x187, "STL", "memory"),
    (0x188, "STS", "memory"),
)
_KNOWN = {number: (name, pipe) for number, name, pipe in OPERATIONS}
_NOTHING, _BRANCH = 0x118, 0x147
_WIDE = {5: 2, 6: 4}  # of accesses of 8 and 16 bytes a thread
GLOBAL = 800  # cycles until a number from global memory is there, when many ask
OTHERS = 20  # cycles until others are there
NEXT_BLOCK = 200  # cycles from a warp's end to the next one's beginning
_LATENCY = {"LDG": GLOBAL, "LDL": 200, "LDS": 30, "LDC": 40, "MUFU": 24}
_WAVES = 8  # blocks one after the other in every place; the first two are not counted
WORTH_TRYING = 1.3  # times the least number of values that are alive at a time
MOST_MORE = 1.25  # times the operations of the Program: an alternative with more is not tried
FEW_WARPS = 16  # of a kernel that another bound on registers may help
SPILLS_TO_SHARED = 13  # from this version of CUDA on
MOST_OPERATIONS = 100_000  # beyond, compilation takes many minutes
FIRST_CACHE = 128 << 10  # bytes of a multiprocessor, about, that spilled words may keep
BYTES_A_CYCLE = 3.0  # of memory, for a scheduler: 3.35 TB/s of an H100


class Processor(NamedTuple):
    """A multiprocessor. warps, blocks, shared (bytes): at most; cycles: {pipe: between two instructions of
    warps, in one quarter} (128 lanes of a multiprocessor are 1)."""

    warps: int
    blocks: int
    shared: int
    cycles: dict[str, int]


_PROCESSORS = {
    75: Processor(32, 16, 64 << 10, {**_SMALL, "fma": 2}),
    80: Processor(64, 32, 164 << 10, {**_CYCLES, "fma": 2, "fp64": 4}),
    86: Processor(48, 16, 100 << 10, _SMALL),
    87: Processor(48, 16, 164 << 10, _SMALL),
    89: Processor(48, 24, 100 << 10, _SMALL),
    90: Processor(64, 32, 228 << 10, _CYCLES),
    100: Processor(64, 32, 228 << 10, _CYCLES),
    120: Processor(48, 24, 100 << 10, _SMALL),
}


def processor_of(arch: int) -> Processor:
    """Of an architecture; of one that is not listed that of the newest before it."""
    return _PROCESSORS[max((known for known in _PROCESSORS if known <= arch), default=75)]


def resident_warps(processor: Processor, registers: int, block: int, shared=0) -> int:
    """Warps of a multiprocessor at a time, of blocks of `block` threads with so many registers each and bytes
    of shared memory."""
    of_block = -(-block // WARP)
    of_a_warp = -(-max(1, registers) * WARP // UNIT) * UNIT
    by_registers = REGISTERS // QUARTERS // of_a_warp * QUARTERS // of_block
    by_shared = processor.shared // (shared + RESERVED)
    return min(processor.blocks, processor.warps // of_block, by_registers, by_shared) * of_block


class Instruction(NamedTuple):
    """op: its name, '' of one that is not among those with a pipe; parts: in which its pipe takes it.

    stall: cycles until the warp's next instruction; sets: the scoreboard (0..5, or NO_BOARD) that is ready
    with the result; reads: the one that is ready when the operands are read; waits: bits of the scoreboards
    that must be ready before.
    """

    op: str
    pipe: str
    parts: int
    stall: int
    sets: int
    reads: int
    waits: int


def instructions(image: bytes, kernel: str) -> list[Instruction]:
    """Of a kernel in a cubin, in order, without what stands behind its end. Raises CompileError."""
    try:
        code = _section(image, _SECTIONS + kernel)
    except (struct.error, ValueError):
        raise CompileError(f"no instructions of {kernel} in what the compiler of CUDA made") from None
    words = [pair for pair in struct.iter_unpack("<QQ", code) if pair[0] & 0x1FF != _NOTHING]
    if words and words[-1][0] & 0x1FF == _BRANCH:
        words.pop()  # to itself
    return [_read(low, high) for low, high in words]


def _section(image, wanted):
    """Its bytes, of an ELF file of 64 bits."""
    (start,) = struct.unpack_from("<Q", image, 40)
    size, count, names = struct.unpack_from("<HHH", image, 58)
    found = [struct.unpack_from("<IIQQQQ", image, start + k * size) for k in range(count)]
    *_, names_at, _ = found[names]
    for name_at, _, _, _, at, length in found:
        begin = names_at + name_at
        if image[begin : image.index(b"\0", begin)] == wanted.encode():
            return image[at : at + length]
    raise ValueError(wanted)


def _read(low, high):
    op, pipe = _KNOWN.get(low & 0x1FF, ("", ""))
    parts = _WIDE.get(high >> 9 & 7, 1) if pipe == "memory" and op != "LDC" else 1
    return Instruction(op, pipe, parts, high >> 41 & 15, high >> 46 & 7, high >> 49 & 7, high >> 52 & 63)


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


class Chosen(NamedTuple):
    """kernel: without its text; order: the name of the order of operations."""

    kernel: Kernel
    order: str
    cubin: Cubin


class Orders(NamedTuple):
    """Programs of the same operations by the names of their orders, and how one becomes a Kernel in a
    Variant."""

    programs: dict[str, Program | LoopProgram]
    write: Callable[[Program | LoopProgram, Variant], Kernel]


def orders_of(
    program: Program | LoopProgram,
    reordered: Program | None,
    alternatives: Mapping[str, tuple[Program, Program | None]],
) -> dict[str, Program | LoopProgram]:
    """Programs that may be the best, by the names of their orders: of `program`, and of `alternatives`, other
    ones with the same results, which are named, that do not take many more operations; each with the same
    operations limb after limb, None where nothing is gained by that. What is rolled has one order."""
    if isinstance(program, LoopProgram):
        return {"rolled": program}
    found, few = _orders(program, reordered), MOST_MORE * len(program.ops)
    for name, (alternative, limbs) in alternatives.items():
        if len(alternative.ops) <= few:
            found |= {f"{name}, {order}": one for order, one in _orders(alternative, limbs).items()}
    return found


def _orders(program, limbs):
    """Those that keep few values alive."""
    found = {"trace": program, "limbs": limbs, "depth_first": depth_first(program)}
    alive = {name: most_alive(order) for name, order in found.items() if order is not None}
    few = WORTH_TRYING * min(alive.values())
    return {name: order for name, order in found.items() if order is not None and alive[name] <= few}


def choose(orders: Orders, base: Variant, nvrtc: Nvrtc, arch: int) -> Chosen:
    """The best kernel, compiled; `base` says precision and layout. What is chosen is noted in the cache.
    Raises CompileError."""
    first = next(iter(orders.programs.values()))
    if first.length > MOST_OPERATIONS:
        raise CompileError(f"{first.length} operations are too many for a GPU kernel")
    return _noted(orders, base, nvrtc, arch) or _tried(orders, base, nvrtc, arch)


class Trial:
    """A kernel that was compiled for a processor, and what it costs there."""

    def __init__(self, chosen: Chosen, processor: Processor):
        self.chosen, self._processor = chosen, processor
        self.taken = chosen.cubin.kernels[chosen.kernel.name]
        self.block = chosen.kernel.variant.block
        self.warps = resident_warps(processor, self.taken.registers, self.block, self.taken.shared)

    @property
    def spilled(self) -> int:
        """Bytes a thread stores and loads."""
        return self.taken.spill_stores + self.taken.spill_loads

    @cached_property
    def cycles(self) -> float:
        """Of a scheduler for a warp; infinite where not one block fits."""
        if not self.warps:
            return float("inf")
        kernel, cubin = self.chosen.kernel, self.chosen.cubin
        computed = cycles_of_a_warp(instructions(cubin.image, kernel.name), self._processor, self.warps)
        return max(computed, self.moved * WARP / BYTES_A_CYCLE)

    @property
    def moved(self) -> int:
        """Bytes that a thread spills to memory: all or nothing."""
        return self.spilled if self.taken.stack * WARP * self.warps > FIRST_CACHE else 0


def _tried(orders, base, nvrtc, arch):
    processor = processor_of(arch)

    def of(way):
        order, variant = way
        kernel = orders.write(orders.programs[order], variant)
        return Trial(Chosen(kernel, order, nvrtc.cubin(kernel.text, arch)), processor)

    def compiled(ways):
        with ThreadPoolExecutor(max(1, len(ways))) as pool:  # NVRTC runs without the interpreter's lock
            return list(pool.map(of, ways))

    found = best(compiled([(order, base) for order in orders.programs]))
    order, others = found.chosen.order, _variations(found, base, nvrtc.version)
    found = best([found, *compiled([(order, other) for other in others])])
    _note(orders, base, nvrtc, arch, found.chosen)
    return _without_text(found.chosen)


def best(trials: Sequence[Trial]) -> Trial:
    """Of those without spills, if there are any, the one of fewest cycles."""
    kept = [trial for trial in trials if not trial.spilled] or trials
    return kept[0] if len(kept) == 1 else min(kept, key=lambda trial: trial.cycles)


def _variations(trial, base, version) -> Iterator[Variant]:
    """What may be better than a kernel: with spills, shared memory for them, and a bound that asks for no
    second block, with which the compiler spills less; where registers leave few warps, fewer registers."""
    if trial.spilled:
        yield base._replace(least_blocks=1)
        if version[0] >= SPILLS_TO_SHARED:
            half = base._replace(block=base.block // 2, spill_to_shared=True)
            yield from (half, half._replace(least_blocks=1))
    elif trial.warps <= FEW_WARPS:
        yield base._replace(least_blocks=trial.warps // -(-base.block // WARP) + 1)


def _without_text(chosen):
    return chosen._replace(kernel=chosen.kernel._replace(text=""))


# --- notes in the cache -------------------------------------------------------------------------------------


def _note_name(orders, base, nvrtc, arch):
    """It depends on the text of the first order, and so on all that writes texts, and on what chooses."""
    text = orders.write(next(iter(orders.programs.values())), base).text
    parts = repr((list(orders.programs), base, nvrtc.version, arch)) + text + _chooser()
    return f"{hashlib.sha256(parts.encode()).hexdigest()}.variant"


@cache
def _chooser():
    return files(__package__).joinpath("choice.py").read_text()


def _note(orders, base, nvrtc, arch, chosen):
    content = json.dumps([chosen.order, list(chosen.kernel.variant)]).encode()
    with suppress(CompileError):  # no place to keep it: it is tried again next time
        write_entry(_note_name(orders, base, nvrtc, arch), content)


def _noted(orders, base, nvrtc, arch):
    try:
        content = read_entry(_note_name(orders, base, nvrtc, arch))
    except CompileError:
        return None
    if content is None:
        return None
    order, fields = json.loads(content)
    kernel = orders.write(orders.programs[order], Variant(*fields))
    return _without_text(Chosen(kernel, order, nvrtc.cubin(kernel.text, arch)))
