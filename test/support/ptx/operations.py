"""What the instructions between registers compute: arrays in, one array out; with the modifiers that are
known of each.

A value is read as the type of its instruction and has that dtype. Rounding is that of NumPy, to nearest
even, which is `.rn`; without `.ftz` nothing is flushed to zero.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from .faults import unknown
from .fused import fma


class Operation(NamedTuple):
    """result(instruction, odd, *operands), odd: which threads have odd numbers; modifiers: those that are known,
    besides the type."""

    result: Callable
    modifiers: frozenset


def _least(x, y, of_zeros, otherwise):
    return np.where(x == y, of_zeros, otherwise(x, y)) if x.dtype.kind == "f" else otherwise(x, y)


def _minimum(x, y):
    return _least(x, y, np.where(np.signbit(x), x, y) if x.dtype.kind == "f" else x, np.fmin)


def _maximum(x, y):
    return _least(x, y, np.where(np.signbit(x), y, x) if x.dtype.kind == "f" else x, np.fmax)


def _quotient(x, y):
    if x.dtype.kind == "f":
        return x / y
    toward_zero = np.abs(x) // np.abs(y)
    return np.where((x < 0) != (y < 0), -toward_zero, toward_zero).astype(x.dtype)


def _wide(dtype):
    """The type of twice the bits."""
    return np.dtype(f"{dtype.kind}{2 * dtype.itemsize}")


def _product(instruction, x, y):
    if "wide" in instruction.modifiers:
        return x.astype(_wide(x.dtype)) * y.astype(_wide(x.dtype))
    if "hi" in instruction.modifiers:
        if x.dtype.itemsize > 4:
            raise unknown(instruction)
        wide = _wide(x.dtype)
        return ((x.astype(wide) * y.astype(wide)) >> wide.type(8 * x.dtype.itemsize)).astype(x.dtype)
    return x * y


def _shifted(shift, x, count):
    """Shifts by as many bits as there are or more leave nothing, or the sign."""
    bits = 8 * x.dtype.itemsize
    count = count.astype(np.int64)
    beyond = (
        x >> x.dtype.type(bits - 1) if x.dtype.kind == "i" and shift is np.right_shift else x.dtype.type(0)
    )
    return np.where(count >= bits, beyond, shift(x, np.minimum(count, bits - 1).astype(x.dtype)))


def _inserted(field, into, start, length):
    """bfi: the low bits of a field put into another number."""
    bits = 8 * into.dtype.itemsize
    start, length = (np.minimum(x, bits).astype(into.dtype) for x in (start, length))
    ones = _shifted(np.right_shift, ~np.zeros_like(into), bits - length)
    mask = _shifted(np.left_shift, ones, start)
    return into & ~mask | _shifted(np.left_shift, field, start) & mask


def _three_inputs(a, b, c, table):
    """lop3: bit k of the table is the result where a, b, c are the bits of k."""
    result, table = np.zeros_like(a), int(table[0])  # an immediate operand
    for k in range(8):
        if table >> k & 1:
            result = result | (a if k & 4 else ~a) & (b if k & 2 else ~b) & (c if k & 1 else ~c)
    return result


def _flushed(x):
    """Numbers below the normal ones become zeros of their sign."""
    return np.where(np.abs(x) < np.finfo(x.dtype).tiny, np.copysign(x.dtype.type(0), x), x)


def reciprocal(instruction, odd, x):
    """`.rn`: 1/x. `.approx.ftz`: as badly as the manual allows, which says 1 unit in the last place: every
    second thread is that wrong on purpose; of float64 the upper word alone."""
    if "approx" not in instruction.modifiers:
        return 1 / x
    if "ftz" not in instruction.modifiers:
        raise unknown(instruction)
    result = _flushed(1 / _flushed(x))
    if x.dtype == np.float64:
        return (result.view(np.uint64) & np.uint64(0xFFFFFFFF00000000)).view(np.float64)
    wrong = odd & np.isfinite(result) & (result != 0)
    return (result.view(np.uint32) ^ wrong.astype(np.uint32)).view(np.float32)


_ROUNDED = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}


def converted(instruction, x, to):
    """cvt: to whole numbers as the modifier says, saturated as devices do; NaN becomes 0."""
    for modifier, rounded in _ROUNDED.items():
        if modifier in instruction.modifiers:
            x = rounded(x)
    if x.dtype.kind == "f" and to.kind in "iu":
        limits = np.iinfo(to)
        inside = np.clip(np.nan_to_num(x), float(limits.min), np.nextafter(x.dtype.type(limits.max), 0))
        return np.where(x >= limits.max, limits.max, inside.astype(to)).astype(to)
    return x.astype(to)


_COMPARED = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "lo": np.less, "ls": np.less_equal, "hi": np.greater, "hs": np.greater_equal,
}  # fmt: skip


def compared(instruction, x, y):
    """setp: with a `u` behind it (`ltu`, not the unsigned `lo`) also true where either is NaN."""
    name = instruction.modifiers[0]
    nan = np.isnan(x) | np.isnan(y) if x.dtype.kind == "f" else False
    if name in ("num", "nan"):
        return nan if name == "nan" else ~nan
    if name in _COMPARED:
        found = _COMPARED[name](x, y)
        return found & ~nan if name == "ne" and x.dtype.kind == "f" else found
    if name.endswith("u") and name[:-1] in _COMPARED:
        return _COMPARED[name[:-1]](x, y) | nan
    raise unknown(instruction)


def _plain(function, *modifiers):
    """An operation of the operands alone."""
    return Operation(lambda instruction, odd, *operands: function(*operands), frozenset(modifiers))


OPERATIONS = {
    "add": _plain(np.add, "rn"),
    "sub": _plain(np.subtract, "rn"),
    "mul": Operation(lambda i, odd, x, y: _product(i, x, y), frozenset(("rn", "lo", "hi", "wide"))),
    "mad": Operation(lambda i, odd, x, y, z: _product(i, x, y) + z, frozenset(("lo", "wide"))),
    "fma": _plain(fma, "rn"),
    "div": _plain(_quotient, "rn"),
    "rem": _plain(np.fmod),
    "rcp": Operation(reciprocal, frozenset(("rn", "approx", "ftz"))),
    "sqrt": _plain(np.sqrt, "rn"),
    "min": _plain(_minimum),
    "max": _plain(_maximum),
    "neg": _plain(np.negative),
    "abs": _plain(np.abs),
    "and": _plain(np.bitwise_and),
    "or": _plain(np.bitwise_or),
    "xor": _plain(np.bitwise_xor),
    "not": _plain(np.invert),
    "shl": _plain(lambda x, count: _shifted(np.left_shift, x, count)),
    "shr": _plain(lambda x, count: _shifted(np.right_shift, x, count)),
    "bfi": _plain(_inserted),
    "lop3": _plain(_three_inputs),
}
