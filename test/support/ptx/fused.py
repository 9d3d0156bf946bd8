"""a * b + c rounded once, as every device does, in float32 and float64, for all finite numbers and the
others.

float32: the product is exact in float64; the sum is rounded to odd there before it is rounded to float32
(S. Boldo and G. Melquiond, Emulation of FMA and Correctly Rounded Sums, IEEE Trans. Computers 57, 2008,
theorem 1). float64: their algorithm for FMA, with products split by Dekker; where something might leave the
range in which it is exact, rational numbers.
"""

from fractions import Fraction

import numpy as np


def fma(a, b, c):
    """Arrays of one dtype, float32 or float64, broadcast; the same dtype."""
    if not a.shape == b.shape == c.shape:
        a, b, c = np.broadcast_arrays(a, b, c)
    with np.errstate(all="ignore"):
        return _single(a, b, c) if a.dtype == np.float32 else _double(a, b, c)


def _single(a, b, c):
    product = a.astype(np.float64) * b.astype(np.float64)
    return _odd(*_two_sum(product, c.astype(np.float64))).astype(np.float32)


def _double(a, b, c):
    high, low = _two_product(a, b)
    t, t_low = _two_sum(c, low)
    u, u_low = _two_sum(high, t)
    result = u + _odd(*_two_sum(t_low, u_low))
    size = np.abs(high)
    safe = ((size > 2.0**-900) & (size < 2.0**990)) | (a == 0) | (b == 0)
    safe &= (np.abs(c) < 2.0**990) & (np.abs(a) < 2.0**990) & (np.abs(b) < 2.0**990)
    plain = ~(np.isfinite(a) & np.isfinite(b) & np.isfinite(c)) | (a == 0) | (b == 0)
    c_rules = np.isinf(c) & np.isfinite(a) & np.isfinite(b)  # even where a * b would overflow
    result = np.where(plain, np.where(c_rules, c, a * b + c), result)
    for k in zip(*np.nonzero(~safe & ~plain), strict=True):
        result[k] = _rational(float(a[k]), float(b[k]), float(c[k]))
    return result


def _two_sum(a, b):
    """The rounded sum and its error (Knuth)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def _two_product(a, b):
    """The rounded product and its error (Dekker)."""
    (a_high, a_low), (b_high, b_low) = _split(a), _split(b)
    product = a * b
    return product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


def _split(x):
    scaled = 134217729.0 * x  # 2**27 + 1
    high = scaled - (scaled - x)
    return high, x - high


def _odd(rounded, error):
    """rounded + error rounded to odd: where it is not exact, the neighbour whose last bit is set."""
    bits = np.ascontiguousarray(rounded).view(np.int64)
    change = (error != 0) & (bits & 1 == 0) & np.isfinite(rounded)
    away = (error > 0) == (rounded > 0)
    return np.where(change, (bits + np.where(away, 1, -1)).view(np.float64), rounded)


def _rational(a, b, c):
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if not exact:
        return 0.0  # what cancels, of products that are not zero
    try:
        rounded = exact.numerator / exact.denominator  # Python rounds quotients of integers correctly
    except OverflowError:
        rounded = np.inf
    return np.copysign(rounded, 1 if exact > 0 else -1)
