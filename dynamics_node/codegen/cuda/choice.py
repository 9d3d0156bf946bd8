"""Which kernel of a Program is fastest: told by what NVRTC made of it, without a device.

A kernel without spills comes first. Of those that are left the one counts that costs a scheduler the fewest
cycles, by the model of cycles.py; registers and shared memory say how many warps there are to wait for each
other. Spills of so many threads that they fall out of caches cost what memory takes for them.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache, cached_property
from importlib.resources import files
from typing import NamedTuple

from dynamics_node.codegen.cache import read_entry, write_entry
from dynamics_node.codegen.cuda.cycles import cycles_of_a_warp
from dynamics_node.codegen.cuda.nvrtc import Cubin, Nvrtc
from dynamics_node.codegen.cuda.processors import WARP, Processor, processor_of, resident_warps
from dynamics_node.codegen.cuda.sass import instructions
from dynamics_node.codegen.errors import CompileError
from dynamics_node.codegen.printer import Kernel, Variant
from dynamics_node.symbolic import Program, Rolled, depth_first, most_alive

WORTH_TRYING = 1.3  # times the least number of values that are alive at a time
MOST_MORE = 1.25  # times the operations of the Program: a rival with more is not tried
FEW_WARPS = 16  # of a kernel that another bound on registers may help
SPILLS_TO_SHARED = 13  # from this version of CUDA on
MOST_OPERATIONS = 100_000  # beyond, compilation takes many minutes
FIRST_CACHE = 128 << 10  # bytes of a multiprocessor, about, that spilled words may keep
BYTES_A_CYCLE = 3.0  # of memory, for a scheduler: 3.35 TB/s of an H100


class Chosen(NamedTuple):
    """kernel: without its text; order: the name of the order of operations."""

    kernel: Kernel
    order: str
    cubin: Cubin


class Orders(NamedTuple):
    """Programs of the same operations by the names of their orders, and how one becomes a Kernel in a
    Variant."""

    programs: dict[str, Program | Rolled]
    write: Callable[[Program | Rolled, Variant], Kernel]


def orders_of(
    program: Program | Rolled, other: Program | None, rivals: Mapping[str, tuple[Program, Program | None]]
) -> dict[str, Program | Rolled]:
    """Programs that may be the best, by the names of their orders: of `program`, and of `rivals`, other ones
    with the same results, which are named, that do not take many more operations; each with the same
    operations limb after limb, None where nothing is gained by that. What is rolled has one order."""
    if isinstance(program, Rolled):
        return {"rolled": program}
    found, few = _orders(program, other), MOST_MORE * len(program.ops)
    for name, (rival, limbs) in rivals.items():
        if len(rival.ops) <= few:
            found |= {f"{name}, {order}": one for order, one in _orders(rival, limbs).items()}
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
    return "".join(files(__package__).joinpath(name).read_text() for name in ("choice.py", "cycles.py"))


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
