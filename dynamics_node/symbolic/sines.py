"""Numbers of sine and cosine: every text that computes them, and the portable interpreter, has them from
here.

An angle less n quarter turns is r, |r| <= pi/4; with z = r^2 its sine is r + r z S(z), its cosine
1 - z/2 + z^2 C(z). A quarter turn is a sum of parts (Cody and Waite), so that n times each of them is exact.
"""

from collections.abc import Callable, Iterable
from functools import reduce
from typing import NamedTuple


class SineNumbers(NamedTuple):
    """largest: rad, up to which n times the parts of a quarter turn is exact; parts: of it; fused: of it for
    fused products and sums, which keep all digits; sine, cosine: coefficients of S and C, low powers first.
    """

    largest: float
    quarters_per_radian: float
    parts: tuple[float, ...]
    fused: tuple[float, ...]
    sine: tuple[float, ...]
    cosine: tuple[float, ...]


def _numbers(text):
    return tuple(map(float.fromhex, text.split()))


DOUBLE = SineNumbers(  # the polynomials are those of fdlibm
    2.0**16,
    float.fromhex("0x1.45f306dc9c883p-1"),
    _numbers("0x1.921fb544p0 0x1.0b4611a6p-34 0x1.3198a2e037073p-69"),
    _numbers("0x1.921fb54442d18p0 0x1.1a62633145c07p-54 -0x1.f1976b7ed8fbcp-110"),
    _numbers(
        "-0x1.5555555555549p-3 0x1.111111110f8a6p-7 -0x1.a01a019c161d5p-13"
        " 0x1.71de357b1fe7dp-19 -0x1.ae5e68a2b9cebp-26 0x1.5d93a5acfd57cp-33"
    ),
    _numbers(
        "0x1.555555555554cp-5 -0x1.6c16c16c15177p-10 0x1.a01a019cb159p-16"
        " -0x1.27e4f809c52adp-22 0x1.1ee9ebdb4b1c4p-29 -0x1.8fae9be8838d4p-37"
    ),
)
SINGLE = SineNumbers(  # minimax polynomials
    2.0**12,
    float.fromhex("0x1.45f306p-1"),
    _numbers("0x1.92p0 0x1.fb4p-12 0x1.444p-24 0x1.68c234p-39"),
    _numbers("0x1.921fb6p0 -0x1.777a5cp-25 -0x1.ee59dap-50"),
    _numbers("-0x1.555546p-3 0x1.11072ep-7 -0x1.993d72p-13"),
    _numbers("0x1.55554ap-5 -0x1.6c0c58p-10 0x1.99f2dep-16"),
)


def horner(coefficients: Iterable[float], literal: Callable[[float], str], step: str) -> str:
    """The text of a polynomial in z; step: that of a coefficient {c} plus z times the {rest}."""
    first, *others = map(literal, reversed([*coefficients]))
    return reduce(lambda rest, c: step.format(c=c, rest=rest), others, first)


def without(parts: Iterable[float], literal: Callable[[float], str], step: str) -> str:
    """The text of x without n quarter turns; step: that of {x} without n times a {part}."""
    return reduce(lambda x, part: step.format(x=x, part=part), map(literal, parts), "x")
