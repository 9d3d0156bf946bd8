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
FAINT = 1e-7  # beside the largest size of a matrix
EQUAL = 1e-6  # beside squares of sizes that count as equal
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


def least_squares(A, b):
    """x (..., n) of A x = b, A (..., m, n) and b (..., m): the shortest of those that miss least, in Newton's
    steps. Nearly zero in directions in which A is less than FAINT of its size."""
    transposed = np.swapaxes(A, -1, -2)
    wide = A.shape[-2] < A.shape[-1]
    normal = product(A, transposed) if wide else product(transposed, A)
    own = range(normal.shape[-1])
    normal[..., own, own] += FAINT**2 * np.trace(normal, axis1=-2, axis2=-1)[..., None] + np.finfo(float).tiny
    inverse = _inverse(normal)
    back = product(transposed, inverse) if wide else product(inverse, transposed)
    x = product(back, b[..., None])
    return (x + product(back, b[..., None] - product(A, x)))[..., 0]


def _inverse(A):
    """Of definite matrices (..., n, n), by Gauss and Jordan's method."""
    A = np.array(A)
    for k in range(A.shape[-1]):
        pivot, column = A[..., k, k, None].copy(), A[..., :, k].copy()
        A[..., k] = 0.0
        A[..., k, k] = 1.0
        row = A[..., k, :] / pivot
        column[..., k] = 0.0
        A -= column[..., :, None] * row[..., None, :]
        A[..., k, :] = row
    return A


def pivoted(rows, most=None):
    """Numbers of rows (m, n), and their sizes, in an order in which each is the one of which most is left
    beside those before it, by Gram and Schmidt's method; of nearly equal ones the first. most: how many."""
    left = np.array(rows, dtype=float)
    order: list[int] = []
    sizes: list[float] = []
    for _ in range(min(left.shape) if most is None else most):
        squares = (left * left).sum(axis=1)
        squares[order] = -1.0
        k = int(np.argmax(squares >= squares.max() * (1.0 - EQUAL)))
        order.append(k)
        sizes.append(math.sqrt(squares[k]))
        if sizes[-1] > 0:
            unit = left[k] / sizes[-1]
            left = left - (left * unit).sum(axis=1)[:, None] * unit
    return order, np.array(sizes)


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
