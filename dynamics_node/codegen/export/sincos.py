"""Sine and cosine in C99 without a library, for one number."""

from dynamics_node.codegen.export.entry import REAL
from dynamics_node.codegen.export.names import number
from dynamics_node.symbolic.sines import DOUBLE, SINGLE, horner, without

NUMBERS = {"float64": DOUBLE, "float32": SINGLE}
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

    numbers = NUMBERS[precision]
    step = "{c} + z * ({rest})"
    return _TEXT % {
        "name": name,
        "real": REAL[precision],
        "largest": literal(numbers.largest),
        "half": literal(0.5),
        "one": literal(1.0),
        "quarters": literal(numbers.quarters_per_radian),
        "reduced": without(numbers.parts, literal, "({x} - n * {part})"),
        "sine": horner(numbers.sine, literal, step),
        "cosine": horner(numbers.cosine, literal, step),
    }
