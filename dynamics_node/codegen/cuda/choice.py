"""Which kernel of a Program is fastest: measured once on a device, and noted in the compile cache by its name
and the version of its driver.
"""

import hashlib
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from dynamics_node.codegen.cache import read_entry, write_entry
from dynamics_node.codegen.printer import Kernel, Variant
from dynamics_node.errors import CompileError
from dynamics_node.symbolic import Program, depth_first

MOST_MORE = 1.25  # times the operations of the Program: an alternative with more is not tried
MOST_OPERATIONS = 100_000  # beyond, compilation takes many minutes
BLOCKS = (64, 256)  # threads that are tried beside those of the base
LEAST_BLOCKS = (1, 4, 8)  # of a multiprocessor: bounds on registers


def orders_of(
    program: Program,
    reordered: Program | None,
    alternatives: Mapping[str, tuple[Program, Program | None]],
) -> dict[str, Program]:
    """{name: Program} that may be the best: `program`, and alternatives with the same results that do not
    take many more operations; each as traced, limb after limb (None where nothing is gained by that), and
    depth first."""
    candidates: dict[str, Program] = {}
    for name, (one, limbs) in {"own": (program, reordered), **alternatives}.items():
        if len(one.ops) <= MOST_MORE * len(program.ops):
            orders = {"traced": one, "limbs": limbs, "depth first": depth_first(one)}
            candidates |= {f"{name}, {order}": p for order, p in orders.items() if p is not None}
    return candidates


def variations(base: Variant) -> Iterator[Variant]:
    """Other ways to write a kernel: block size, registers, where spills go, rows staged or straight."""
    yield from (base._replace(block=block) for block in BLOCKS)
    yield from (base._replace(least_blocks=least) for least in LEAST_BLOCKS)
    spilling = base._replace(block=base.block // 2, spill_to_shared=True)
    yield from (spilling, spilling._replace(least_blocks=1))
    if base.layout == "rows":
        yield base._replace(shared_memory=0)


def choose(
    orders: Mapping[str, Program],
    write: Callable[[Program, Variant], Kernel],
    base: Variant,
    measure: Callable[[Sequence[Kernel]], Sequence[float]],
    device: str,
) -> Kernel:
    """The fastest kernel; `base` has precision and layout. measure: seconds of each, infinite for one that
    does not run; device: what measurements depend on. Raises CompileError where none runs."""
    first = next(iter(orders.values()))
    if first.length > MOST_OPERATIONS:
        raise CompileError(f"{first.length} operations are too many for a GPU kernel")

    def fastest(candidates):
        seconds = measure([write(orders[order], variant) for order, variant in candidates])
        best = min(range(len(seconds)), key=seconds.__getitem__)
        if math.isinf(seconds[best]):
            raise CompileError(f"none of {len(candidates)} kernels runs on {device}")
        return candidates[best]

    def find():
        best = fastest([(order, base) for order in orders])
        return fastest([best, *((best[0], variant) for variant in variations(base))])

    text = write(first, base).text  # and so all that writes texts
    order, fields = noted(("kernel", list(orders), base, device, text), find)
    return write(orders[order], Variant(*fields))


def noted(key: tuple, find: Callable[[], Any]) -> Any:
    """What `find` returns, as JSON has it; from the cache where it was found before."""
    name = f"{hashlib.sha256(repr(key).encode()).hexdigest()}.measured"
    with suppress(CompileError):  # no folder to be trusted
        if content := read_entry(name):
            return json.loads(content)
    note = find()
    with suppress(CompileError):
        write_entry(name, json.dumps(note).encode())
    return note
