"""What multiprocessors of an architecture hold, and how often their pipes take an instruction. Source: CUDA
Programming Guide, technical specifications and arithmetic throughput per compute capability."""

from typing import NamedTuple

WARP = 32  # threads
QUARTERS = 4  # of a multiprocessor, each with a scheduler
REGISTERS = 65536  # of a multiprocessor
UNIT = 256  # registers of a warp come in such units
RESERVED = 1024  # bytes of shared memory that a block takes besides


class Processor(NamedTuple):
    """A multiprocessor. warps, blocks, shared (bytes): at most; cycles: {pipe: between two instructions of
    warps, in one quarter} (128 lanes of a multiprocessor are 1)."""

    warps: int
    blocks: int
    shared: int
    cycles: dict[str, int]


_CYCLES = {"fma": 1, "heavy": 2, "alu": 2, "fp64": 2, "special": 8, "memory": 4}
_SMALL = {**_CYCLES, "fp64": 64}  # of cards for graphics
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
