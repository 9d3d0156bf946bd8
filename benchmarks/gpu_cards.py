"""What the model knows of cards: units, clocks and memory of NVIDIA's data sheets; limits of the CUDA
programming guide."""

import math
from typing import NamedTuple

REGISTERS = 65536  # of a multiprocessor
QUARTERS = 4  # its partitions, each with a scheduler
WARP = 32  # threads
_REGISTER_UNIT = 256  # registers of a warp come in these
_SHARED_OF_SYSTEM = 1024  # bytes that every block takes besides


class Kind(NamedTuple):
    """An architecture. warps, blocks, shared (bytes): of a multiprocessor, at most; cycles: between two
    warp instructions of a pipe in one partition (programming guide, arithmetic throughput: 128 lanes of a
    multiprocessor are 1)."""

    warps: int
    blocks: int
    shared: int
    cycles: dict[str, int]


_CYCLES = {"fma": 1, "heavy": 2, "alu": 2, "fp64": 2, "special": 8, "memory": 4}
KINDS = {
    80: Kind(64, 32, 164 << 10, {**_CYCLES, "fma": 2, "fp64": 4}),
    90: Kind(64, 32, 228 << 10, _CYCLES),
    100: Kind(64, 32, 228 << 10, _CYCLES),
    120: Kind(48, 24, 100 << 10, {**_CYCLES, "fp64": 64}),
}


class Card(NamedTuple):
    """arch: of its cubins; multiprocessors; clock: GHz at most; bandwidth: bytes/s."""

    name: str
    arch: int
    multiprocessors: int
    clock: float
    bandwidth: float

    @property
    def kind(self):
        return KINDS[self.arch]

    @property
    def issues(self):
        """Warp instructions a second, at one a cycle in every partition."""
        return self.multiprocessors * QUARTERS * self.clock * 1e9


CARDS = {
    card.name: card
    for card in (
        Card("A100", 80, 108, 1.41, 2.039e12),
        Card("H100", 90, 132, 1.98, 3.35e12),
        Card("H200", 90, 132, 1.98, 4.8e12),
        Card("B200", 100, 148, 1.965, 8e12),
        Card("RTX 5090", 120, 170, 2.41, 1.792e12),
    )
}


def resident_warps(kind, registers, block, shared=0):
    """Warps of a multiprocessor at a time, of blocks of `block` threads with so many registers each and
    bytes of shared memory."""
    warps = math.ceil(block / WARP)
    of_a_warp = math.ceil(registers * WARP / _REGISTER_UNIT) * _REGISTER_UNIT
    by_registers = REGISTERS // QUARTERS // of_a_warp * QUARTERS // warps
    by_shared = kind.shared // (shared + _SHARED_OF_SYSTEM)
    return min(kind.blocks, kind.warps // warps, by_registers, by_shared) * warps
