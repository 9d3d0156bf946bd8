"""Algebra of the floats that become constants of a Program, with the same digits on every machine.

BLAS and LAPACK add in an order that the processor chooses, and sines of C libraries differ in the last digit.
At call time that is fine, but a constant with another last digit is another Program, and two constants that
should be one cost operations. So products here add in the order of the indices, and angles are rounded
correctly.
"""

import math
from functools import lru_cache, reduce

import numpy as np

_BITS = 256  # of fractions
_QUARTER = 0x3243F6A8885A308D313198A2E03707344A4093822299F31D0082EFA98EC4E6C89 // 2  # pi / 2
GOLDEN = 0.6180339887498949
_FAR = 2.0**64  # rad beyond which these bits are too few


def product(*matrices):
    """The product of matrices (..., m, n), of which the last may be a vector (n,)."""
    return reduce(_product, matrices)


def _product(A, B):
    if B.ndim == 1:
        return _product(A, B[:, None])[..., 0]
    return reduce(np.add, (A[..., :, k, None] * B[..., None, k, :] for k in range(B.shape[-2])))


def dot(x, y):
    """The scalar product of two vectors (n,)."""
    return product(x[None, :], y)[0]


def length(x):
    """Of a vector (n,)."""
    return math.sqrt(dot(x, x))


def carried_inertia(X, inertia):
    """X^T I X as `congruence`, symmetric to the last digit: X (..., n, n), I (..., n, n)."""
    found = product(np.swapaxes(X, -1, -2), inertia, X)
    return 0.5 * (found + np.swapaxes(found, -1, -2))


def power_of_two(x):
    """One near positive x: what is nearly the same gives the same one. Between two of them the golden ratio
    decides, on which nothing falls that has been measured, or is a root."""
    mantissa, exponent = np.frexp(x)
    return np.ldexp(1.0, exponent - (mantissa < GOLDEN))


@lru_cache(maxsize=4096)
def sine_cosine(angle: float) -> tuple[float, float]:
    """Sine and cosine of an angle in rad."""
    if not abs(angle) <= _FAR:
        return (math.sin(angle), math.cos(angle)) if math.isfinite(angle) else (math.nan, math.nan)
    sine, cosine = _sine_cosine(_fraction(angle))
    return sine / (1 << _BITS), cosine / (1 << _BITS)


def angle_of(sine: float, cosine: float) -> float:
    """The angle in [-pi, pi] whose sine and cosine have this ratio and these signs: atan2, which one step of
    Newton's method makes exact."""
    first = math.atan2(sine, cosine)
    y, x = _fraction(sine), _fraction(cosine)
    s, c = _sine_cosine(_fraction(first))
    return (_fraction(first) + ((y * c - x * s) << _BITS) // (x * c + y * s)) / (1 << _BITS)


def _fraction(x):
    """A float in units of 2^-_BITS."""
    numerator, denominator = float(x).as_integer_ratio()
    return (numerator << _BITS) // denominator


def _sine_cosine(angle):
    quarters = (2 * angle + _QUARTER) // (2 * _QUARTER)
    rest = angle - quarters * _QUARTER
    square = rest * rest >> _BITS
    s, c = _series(rest, square, 2), _series(1 << _BITS, square, 1)
    return ((s, c), (c, -s), (-s, -c), (-c, s))[quarters % 4]


def _series(term, square, n):
    """term (1 - square / n (n + 1) + square^2 / n (n + 1) (n + 2) (n + 3) - ...)"""
    total = term
    while term:
        term = -(term * square >> _BITS) // (n * (n + 1))
        total, n = total + term, n + 2
    return total
