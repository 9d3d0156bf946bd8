"""PTX by NumPy, instruction by instruction: fused multiply-adds against the C library's, the others against
the manual."""

import ctypes
import ctypes.util

import numpy as np
import ptx
import pytest
from ptx.fused import fma

SINGLE, DOUBLE = np.float32, np.float64
_LIBM = ctypes.CDLL(ctypes.util.find_library("m"))
_TRUE = {
    SINGLE: ctypes.CFUNCTYPE(ctypes.c_float, *[ctypes.c_float] * 3)(("fmaf", _LIBM)),
    DOUBLE: ctypes.CFUNCTYPE(ctypes.c_double, *[ctypes.c_double] * 3)(("fma", _LIBM)),
}
_BITS = {SINGLE: np.uint32, DOUBLE: np.uint64}


def _any_bits(random, dtype, count):
    return random.integers(0, np.iinfo(_BITS[dtype]).max, count, _BITS[dtype], endpoint=True).view(dtype)


def _that_cancel(random, dtype, count):
    """Products of any size, and a third number near them or half a unit in the last place away."""
    far = 60 if dtype is SINGLE else 500
    a, b = (
        (random.standard_normal(count) * 2.0 ** random.integers(-far, far, count)).astype(dtype)
        for _ in range(2)
    )
    c = -(a * b) * (1 + random.integers(-2, 3, count) * np.finfo(dtype).eps)
    return a, b, (c * 2.0 ** random.integers(-3, 60, count)).astype(dtype)


@pytest.mark.parametrize("dtype", [SINGLE, DOUBLE])
def test_fused_arithmetic_is_exact(dtype):
    random = np.random.default_rng(1)
    with np.errstate(all="ignore"):
        cases = [_any_bits(random, dtype, 6000) for _ in range(3)], _that_cancel(random, dtype, 20000)
    special = np.array(
        [0.0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 5e-324, -5e-324, 3e38, 1.7e308], dtype=DOUBLE
    )
    with np.errstate(over="ignore"):
        cases += (np.array(np.meshgrid(*[special.astype(dtype)] * 3)).reshape(3, -1),)
    for a, b, c in cases:
        found = fma(a, b, c)
        true = np.array(
            [_TRUE[dtype](*x) for x in zip(a.tolist(), b.tolist(), c.tolist(), strict=True)], dtype
        )
        nan = np.isnan(true)
        np.testing.assert_array_equal(np.isnan(found), nan)
        np.testing.assert_array_equal(found.view(_BITS[dtype])[~nan], true.view(_BITS[dtype])[~nan])


_KINDS = {"f32": SINGLE, "f64": DOUBLE, "b32": np.uint32, "u32": np.uint32, "s32": np.int32, "b64": np.uint64, "u64": np.uint64, "s64": np.int64}  # fmt: skip
_PREFIX = {"f32": "%f", "f64": "%d", "b32": "%r", "u32": "%r", "s32": "%r", "b64": "%l", "u64": "%l", "s64": "%l", "pred": "%p"}  # fmt: skip
_TEXT = """
.visible .entry one(.param .u64 out) {{
  .reg .pred %p<9>; .reg .f32 %f<9>; .reg .f64 %d<9>; .reg .b32 %r<9>; .reg .b64 %l<9>; .reg .b64 %to;
  ld.param.u64 %to, [out];
  {loads}
  {instruction};
  {result}
  ret;
}}
"""
_PLUS, _MINUS = 0.0, -0.0
CASES = [  # instruction, types of the operands, their values, type of the result, result
    ("min.f32 {0}, {1}, {2}", "f32 f32", (_PLUS, _MINUS), "f32", _MINUS),
    ("max.f32 {0}, {1}, {2}", "f32 f32", (_MINUS, _PLUS), "f32", _PLUS),
    ("max.f64 {0}, {1}, {2}", "f64 f64", (np.nan, 2.0), "f64", 2.0),
    ("min.s32 {0}, {1}, {2}", "s32 s32", (-3, 2), "s32", -3),
    ("div.s32 {0}, {1}, {2}", "s32 s32", (-7, 2), "s32", -3),
    ("rem.s32 {0}, {1}, {2}", "s32 s32", (-7, 2), "s32", -1),
    ("div.rn.f32 {0}, {1}, {2}", "f32 f32", (1, 3), "f32", SINGLE(1) / SINGLE(3)),
    ("sqrt.rn.f64 {0}, {1}", "f64", (2,), "f64", 2**0.5),
    ("shl.b32 {0}, {1}, {2}", "b32 u32", (5, 33), "b32", 0),
    ("shr.s32 {0}, {1}, {2}", "s32 u32", (-5, 40), "s32", -1),
    ("shr.u32 {0}, {1}, {2}", "u32 u32", (0x80000000, 31), "u32", 1),
    ("mul.hi.u32 {0}, {1}, {2}", "u32 u32", (0xFFFFFFFF, 0xFFFFFFFF), "u32", 0xFFFFFFFE),
    ("mul.lo.s32 {0}, {1}, {2}", "s32 s32", (1 << 20, 1 << 13), "s32", 0),
    ("mul.wide.s32 {0}, {1}, {2}", "s32 s32", (-(1 << 20), 1 << 13), "s64", -(1 << 33)),
    ("mad.wide.u32 {0}, {1}, {2}, {3}", "u32 u32 u64", (1 << 20, 1 << 20, 7), "u64", (1 << 40) + 7),
    ("bfi.b32 {0}, {1}, {2}, 4, 8", "b32 b32", (0xFFF, 0), "b32", 0xFF0),
    ("bfi.b64 {0}, {1}, {2}, 32, 32", "b64 b64", (1, 2), "b64", (1 << 32) + 2),
    ("lop3.b32 {0}, {1}, {2}, {3}, 0xCA", "b32 b32 b32", (0xF0, 0xAA, 0x55), "b32", 0xA5),
    ("cvt.rzi.s32.f32 {0}, {1}", "f32", (-2.7,), "s32", -2),
    ("cvt.rni.s32.f64 {0}, {1}", "f64", (2.5,), "s32", 2),
    ("cvt.rzi.s32.f32 {0}, {1}", "f32", (1e20,), "s32", 2**31 - 1),
    ("cvt.rzi.s32.f32 {0}, {1}", "f32", (np.nan,), "s32", 0),
    ("cvt.s64.s32 {0}, {1}", "s32", (-2,), "s64", -2),
    ("cvt.u64.u32 {0}, {1}", "u32", (0xFFFFFFFE,), "u64", 0xFFFFFFFE),
    ("cvt.u32.u64 {0}, {1}", "u64", ((7 << 32) + 9,), "u32", 9),
    ("cvt.rn.f32.f64 {0}, {1}", "f64", (0.1,), "f32", SINGLE(0.1)),
    ("neg.f32 {0}, {1}", "f32", (0.0,), "f32", _MINUS),
    ("mov.b64 {0}, {{{1}, {2}}}", "b32 b32", (1, 2), "b64", (2 << 32) + 1),
    ("mov.b64 {0}, {1}", "f64", (1.0,), "b64", 0x3FF0000000000000),
    ("setp.ltu.f32 {0}, {1}, {2}", "f32 f32", (np.nan, 1), "pred", 1),
    ("setp.lt.f32 {0}, {1}, {2}", "f32 f32", (np.nan, 1), "pred", 0),
    ("setp.ne.f64 {0}, {1}, {2}", "f64 f64", (np.nan, 1), "pred", 0),
    ("setp.neu.f64 {0}, {1}, {2}", "f64 f64", (np.nan, 1), "pred", 1),
    ("setp.lo.u32 {0}, {1}, {2}", "u32 u32", (1, 0xFFFFFFFF), "pred", 1),
    ("setp.lt.s32 {0}, {1}, {2}", "s32 s32", (1, -1), "pred", 0),
    ("rcp.rn.f64 {0}, {1}", "f64", (3,), "f64", 1 / 3),
]  # fmt: skip


def _executed(instruction, types, values, kind):
    """The result of one instruction, in one thread."""
    loads = [
        f"mov.b{8 * _KINDS[t]().nbytes} {_PREFIX[t]}{k}, {int(_KINDS[t](v).view(f'u{_KINDS[t]().nbytes}'))};"
        for k, (t, v) in enumerate(zip(types, values, strict=True), 1)
    ]
    into = f"{_PREFIX[kind]}0"
    stored = f"st.global.{kind} [%to], {into};"
    if kind == "pred":
        kind, stored = "u32", f"selp.u32 %r8, 1, 0, {into}; st.global.u32 [%to], %r8;"
    registers = [into, *(f"{_PREFIX[t]}{k}" for k, t in enumerate(types, 1))]
    text = _TEXT.format(loads=" ".join(loads), instruction=instruction.format(*registers), result=stored)
    memory = ptx.Memory()
    address = memory.allocate(8)
    ptx.run(text, "one", 1, 1, [address], memory)
    return memory.get(address, _KINDS[kind], 1)


@pytest.mark.parametrize(("instruction", "types", "values", "kind", "expected"), CASES)
def test_an_instruction_is_as_in_the_manual(instruction, types, values, kind, expected):
    found = _executed(instruction, types.split(), values, kind)
    assert found.tobytes() == found.dtype.type(expected).tobytes()


def test_the_fast_reciprocal_is_as_bad_as_the_manual_allows():
    """Thread 0 has the nearest number, thread 1 one beside it; of float64 the upper half alone."""
    text = """.visible .entry k(.param .u64 out) {
      .reg .b32 %r<3>; .reg .b64 %l<4>; .reg .f32 %f<3>; .reg .f64 %d<3>;
      mov.u32 %r1, %tid.x; mul.wide.u32 %l1, %r1, 16; ld.param.u64 %l2, [out]; add.s64 %l3, %l2, %l1;
      mov.f32 %f1, 0f40400000; rcp.approx.ftz.f32 %f2, %f1; st.global.f32 [%l3], %f2;
      mov.f64 %d1, 0d4008000000000000; rcp.approx.ftz.f64 %d2, %d1; st.global.f64 [%l3+8], %d2; ret;
}"""
    memory = ptx.Memory()
    out = memory.allocate(32)
    ptx.run(text, "k", 1, 2, [out], memory)
    found = memory.get(out, np.uint8, (2, 16))
    single, double = (np.ascontiguousarray(found[:, k : k + w]) for k, w in ((0, 4), (8, 8)))
    ulps = single.view(np.int32).ravel() - (SINGLE(1) / SINGLE(3)).view(np.int32)
    assert ulps[0] == 0 and abs(ulps[1]) == 1
    assert np.all(np.abs(double.view(DOUBLE).ravel() * 3 - 1) < 2.0**-19)
    assert np.all(double.view(np.uint64) & 0xFFFFFFFF == 0)
