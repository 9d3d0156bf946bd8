"""Instructions between registers: operands read as their types, the result written."""

import numpy as np

from .faults import unknown
from .operations import OPERATIONS, compared, converted
from .shuffles import shuffle
from .text import TYPES

_U4 = np.dtype("u4")
_COUNTS = {
    "shl": (2,),
    "shr": (2,),
    "bfi": (3, 4),
    "lop3": (4,),
}  # operands that are u32 whatever the type is


def execute(lanes, instruction, mask):
    """One instruction of the threads of the mask (None: all)."""
    _SPECIAL.get(instruction.name, _operate)(lanes, instruction, mask)


def _operate(lanes, instruction, mask):
    operation = OPERATIONS.get(instruction.name)
    if operation is None or not set(instruction.modifiers[:-1]) <= operation.modifiers:
        raise unknown(instruction)
    counts = _COUNTS.get(instruction.name, ())
    operands = []
    for k, operand in enumerate(instruction.operands[1:], 1):
        dtype = _U4 if k in counts else instruction.type
        if k == 3 and "wide" in instruction.modifiers:
            dtype = np.dtype(f"{dtype.kind}{2 * dtype.itemsize}")
        operands.append(lanes.read(operand, dtype, instruction))
    lanes.write(
        instruction.operands[0],
        operation.result(instruction, lanes.odd, *operands),
        mask,
        instruction,
    )


def _move(lanes, instruction, mask):
    into, value = instruction.operands
    if into.startswith("{"):
        lanes.unpack(into, lanes.read(value, np.dtype("u8"), instruction), mask, instruction)
    elif value.startswith("{"):
        lanes.write(into, lanes.pack(value, instruction), mask, instruction)
    else:
        lanes.write(into, lanes.read(value, instruction.type, instruction), mask, instruction)


def _address(lanes, instruction, mask):
    """cvta: addresses of global memory are the same in every space here; the others have no generic ones."""
    if "global" not in instruction.modifiers:
        raise unknown(instruction)
    _move(lanes, instruction, mask)


def _convert(lanes, instruction, mask):
    *rounding, to, of = instruction.modifiers
    if not set(rounding) <= {"rn", "rni", "rzi", "rmi", "rpi"} or not {to, of} <= set(TYPES):
        raise unknown(instruction)
    value = lanes.read(instruction.operands[1], TYPES[of], instruction)
    lanes.write(instruction.operands[0], converted(instruction, value, TYPES[to]), mask, instruction)


def _compare(lanes, instruction, mask):
    if len(instruction.modifiers) != 2 or len(instruction.operands) != 3:
        raise unknown(instruction)
    x, y = (lanes.read(operand, instruction.type, instruction) for operand in instruction.operands[1:])
    lanes.write(instruction.operands[0], compared(instruction, x, y), mask, instruction)


def _select(lanes, instruction, mask):
    into, yes, no, which = instruction.operands
    x, y = (lanes.read(operand, instruction.type, instruction) for operand in (yes, no))
    lanes.write(into, np.where(lanes.registers[which], x, y), mask, instruction)


_SPECIAL = {
    "mov": _move, "cvta": _address, "cvt": _convert, "setp": _compare, "selp": _select, "shfl": shuffle,
}  # fmt: skip
