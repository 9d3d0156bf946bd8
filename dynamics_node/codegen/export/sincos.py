"""Sine and cosine in C99 without a library: the reduction and the polynomials of codegen/c/sincos_*.c, for
one number."""

from dynamics_node.codegen.export.entry import REAL
from dynamics_node.codegen.export.names import number

LARGEST = {
    "double": 65536.0,
    "single": 4096.0,
}  # rad: up to here multiples of parts of a quarter turn are exact
_QUARTERS_PER_RADIAN = 2 / 3.141592653589793
_QUARTER = {  # of a turn, in parts
    "double": ("0x1.921fb544p0", "0x1.0b4611a6p-34", "0x1.3198a2e037073p-69"),
    "single": ("0x1.92p0", "0x1.fb4p-12", "0x1.444p-24", "0x1.68c234p-39"),
}
_SINE = {  # of z^1, z^2, ..., times r
    "double": (
        *("-0x1.5555555555549p-3", "0x1.111111110f8a6p-7", "-0x1.a01a019c161d5p-13", "0x1.71de357b1fe7dp-19"),
        *("-0x1.ae5e68a2b9cebp-26", "0x1.5d93a5acfd57cp-33"),
    ),
    "single": ("-0x1.555546p-3", "0x1.11072ep-7", "-0x1.993d72p-13"),
}
_COSINE = {  # of z^2, z^3, ...
    "double": (
        *("0x1.555555555554cp-5", "-0x1.6c16c16c15177p-10", "0x1.a01a019cb159p-16", "-0x1.27e4f809c52adp-22"),
        *("0x1.1ee9ebdb4b1c4p-29", "-0x1.8fae9be8838d4p-37"),
    ),
    "single": ("0x1.55554ap-5", "-0x1.6c0c58p-10", "0x1.99f2dep-16"),
}
_TEXT = """/* Sine and cosine without a library. Angles beyond %(largest)s rad give NaN. */
static void %(name)s(%(real)s x, %(real)s *sine, %(real)s *cosine)
{
  if (!(x >= -%(largest)s && x <= %(largest)s)) {
    *sine = *cosine = (x - x) / (x - x);
    return;
  }
  const %(real)s quarters = x * %(quarters)s;
  const long k = (long)(quarters < 0 ? quarters - %(half)s : quarters + %(half)s);
  const %(real)s n = (%(real)s)k;
  const %(real)s r = %(reduced)s;
  const %(real)s z = r * r;
  const %(real)s s = r + r * z * (%(sine)s);
  const %(real)s c = %(one)s - z * %(half)s + z * z * (%(cosine)s);
  const %(real)s a = k & 1 ? c : s, b = k & 1 ? s : c;
  *sine = k & 2 ? -a : a;
  *cosine = (k + 1) & 2 ? -b : b;
}"""


def sincos_text(name: str, precision: str) -> str:
    """The definition of `static void NAME(x, *sine, *cosine)`."""

    def literal(value):
        return number(value, precision)

    def polynomial(first, *rest):
        text = literal(float.fromhex(first))
        return f"{text} + z * ({polynomial(*rest)})" if rest else text

    reduced = "x"
    for part in _QUARTER[precision]:
        reduced = f"({reduced} - n * {literal(float.fromhex(part))})"
    return _TEXT % {
        "name": name,
        "real": REAL[precision],
        "largest": literal(LARGEST[precision]),
        "half": literal(0.5),
        "one": literal(1.0),
        "quarters": literal(_QUARTERS_PER_RADIAN),
        "reduced": reduced[1:-1],
        "sine": polynomial(*_SINE[precision]),
        "cosine": polynomial(*_COSINE[precision]),
    }
