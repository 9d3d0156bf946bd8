"""The instructions of a cubin, and what the compiler wrote into each for the scheduler.

An instruction has 16 bytes. Which one it is, the low 9 bits say; the fields for the scheduler begin at bit
105. NVIDIA documents neither: tests compare both with its disassembler.
"""

import struct
from typing import NamedTuple

from dynamics_node.codegen.errors import CompileError

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
