"""Which kernel of a Program is fastest: told by what NVRTC says of registers and spills, without a device.

A processor hides the latency of its operations behind other warps, as many as its registers and its shared
memory hold; a spilled word costs about as much as some operations. The numbers of this model are fitted to a
simulation of compiled code, cycle by cycle, see docs/gpu.md; they order variants, and are no prediction of
time.
"""

import hashlib
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import NamedTuple

from dynamics_node.backends.cache import read_entry, write_entry
from dynamics_node.backends.cuda.nvrtc import Cubin, Nvrtc, Resources
from dynamics_node.backends.errors import CompileError
from dynamics_node.backends.text import Kernel, Variant
from dynamics_node.program import Program, depth_first, most_alive

WARP = 32  # threads
REGISTERS = 65536  # of a multiprocessor
UNIT = 256  # registers of a warp come in such units
RESERVED = 1024  # bytes of shared memory that a block takes besides
OPERATIONS_A_WORD = 8.0  # what a spilled word costs
HALF_HIDDEN = 1.2  # warps of a multiprocessor at which half of the time is waiting
WORTH_TRYING = 1.3  # times the least number of values that are alive at a time
FEW_WARPS = 16  # of a kernel that another bound on registers may help
SPILLS_TO_SHARED = 13  # from this version of CUDA on
MOST_OPERATIONS = 100_000  # beyond, compilation takes many minutes


class Limits(NamedTuple):
    """What a multiprocessor holds: warps, blocks, bytes of shared memory."""

    warps: int
    blocks: int
    shared: int


_LIMITS = {75: Limits(32, 16, 64), 80: Limits(64, 32, 164), 86: Limits(48, 16, 100), 87: Limits(48, 16, 164)}
_LIMITS |= {
    89: Limits(48, 24, 100),
    90: Limits(64, 32, 228),
    100: Limits(64, 32, 228),
    120: Limits(48, 24, 100),
}


def limits_of(arch: int) -> Limits:
    """Of an architecture; of one that is not listed those of the newest before it. Source: CUDA Programming
    Guide, technical specifications per compute capability."""
    found = _LIMITS[max((known for known in _LIMITS if known <= arch), default=75)]
    return found._replace(shared=found.shared * 1024)


def warps(block: int, taken: Resources, limits: Limits) -> int:
    """How many are on a multiprocessor at a time."""
    of_block = -(-block // WARP)
    registers = -(-taken.registers * WARP // UNIT) * UNIT * of_block
    blocks = min(
        limits.blocks,
        limits.warps // of_block,
        REGISTERS // max(1, registers),
        limits.shared // (taken.shared + RESERVED),
    )
    return blocks * of_block


def cost(operations: int, block: int, taken: Resources, limits: Limits) -> float:
    """Of a state, in operations on a processor that never waits."""
    resident = warps(block, taken, limits)
    if not resident:
        return float("inf")
    spilled = (taken.spill_stores + taken.spill_loads) / 8  # words of 4 bytes, each stored and loaded
    return (operations + OPERATIONS_A_WORD * spilled) * (1 + HALF_HIDDEN / resident)


class Chosen(NamedTuple):
    """kernel: without its text; order: the name of the order of operations."""

    kernel: Kernel
    order: str
    cubin: Cubin


class Orders(NamedTuple):
    """Programs of the same operations by the names of their orders, and how one becomes a Kernel in a
    Variant."""

    programs: dict[str, Program]
    write: Callable[[Program, Variant], Kernel]


def orders_of(program: Program, other: Program | None) -> dict[str, Program]:
    """The orders of a Program's operations that may be the best, by their names: those that keep few values
    alive. other: limb after limb, None where nothing is gained by that."""
    found = {"trace": program, "limbs": other, "depth_first": depth_first(program)}
    alive = {name: most_alive(order) for name, order in found.items() if order is not None}
    few = WORTH_TRYING * min(alive.values())
    return {name: order for name, order in found.items() if order is not None and alive[name] <= few}


def choose(orders: Orders, base: Variant, nvrtc: Nvrtc, arch: int) -> Chosen:
    """The best kernel, compiled; `base` says precision and layout. What is chosen is noted in the cache.
    Raises CompileError."""
    first = next(iter(orders.programs.values()))
    if len(first.ops) > MOST_OPERATIONS:
        raise CompileError(f"{len(first.ops)} operations are too many for a GPU kernel")
    return _noted(orders, base, nvrtc, arch) or _tried(orders, base, nvrtc, arch)


def _tried(orders, base, nvrtc, arch):
    limits = limits_of(arch)

    def of(way):
        order, variant = way
        kernel = orders.write(orders.programs[order], variant)
        chosen = Chosen(kernel, order, nvrtc.cubin(kernel.text, arch))
        taken = chosen.cubin.kernels[kernel.name]
        # the last resort: what many threads spill falls out of caches
        spills = taken.spill_stores + taken.spill_loads > 0
        return (spills, cost(len(orders.programs[order].ops), variant.block, taken, limits)), chosen

    def best(ways):
        with ThreadPoolExecutor(max(1, len(ways))) as pool:  # NVRTC runs without the interpreter's lock
            return min(pool.map(of, ways), key=lambda found: found[0], default=((True, float("inf")), None))

    found = best([(order, base) for order in orders.programs])
    chosen = found[1]
    taken = chosen.cubin.kernels[chosen.kernel.name]
    others = _variations(base, taken, limits, nvrtc.version)
    found = min(found, best([(chosen.order, other) for other in others]), key=lambda each: each[0])
    _note(orders, base, nvrtc, arch, found[1])
    return _without_text(found[1])


def _variations(base, taken, limits, version):
    """What may be better than a kernel that takes so much: with spills, shared memory for them; where
    registers leave few warps, fewer registers."""
    if taken.spill_stores + taken.spill_loads:
        if version[0] >= SPILLS_TO_SHARED:
            yield base._replace(block=base.block // 2, spill_to_shared=True)
    elif (resident := warps(base.block, taken, limits)) <= FEW_WARPS:
        blocks = resident // -(-base.block // WARP)
        yield base._replace(least_blocks=blocks + 1)


def _without_text(chosen):
    return chosen._replace(kernel=chosen.kernel._replace(text=""))


# --- notes in the cache -------------------------------------------------------------------------------------


def _note_name(orders, base, nvrtc, arch):
    """It depends on the text of the first order, and so on all that writes texts."""
    text = orders.write(next(iter(orders.programs.values())), base).text
    parts = repr((list(orders.programs), base, nvrtc.version, arch, __doc__)) + text
    return f"{hashlib.sha256(parts.encode()).hexdigest()}.variant"


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
